"""The decimal and hexadecimal spellings of floating-point constants, by the rules of MLIR's printer."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["FLOAT_DTYPES", "float_bits", "float_from_bits", "float_text", "round_to"]

FLOAT_DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}
"""The NumPy type of each float type that has one."""

_DIGITS = {"f16": 5, "bf16": 4, "f32": 9, "f64": 17}
"""Significant decimal digits that tell any two values apart."""


def round_to(value: float, name: str) -> float:
    """Returns the nearest value of the float type."""
    dtype = FLOAT_DTYPES.get(name)
    if dtype is None:
        return value
    with np.errstate(all="ignore"):
        return float(np.asarray(value, np.float64).astype(dtype))


def float_bits(value: float, name: str) -> int:
    """Returns the bit pattern of a value of the float type (of f64 for types without a NumPy type)."""
    dtype = FLOAT_DTYPES.get(name)
    if dtype is None:
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    with np.errstate(all="ignore"):
        array = np.asarray(value, np.float64).astype(dtype)
    return int.from_bytes(array.tobytes(), "little")


def float_from_bits(bits: int, name: str) -> float:
    """Returns the value of a bit pattern; OverflowError if there are too many bits."""
    dtype = np.dtype(FLOAT_DTYPES.get(name, np.float64))
    with np.errstate(all="ignore"):
        return float(np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)[0])


def float_text(value: float, name: str) -> str:
    """Returns `1.250000e-01` if six digits tell the value, else all digits it takes, else the bits (`0x7F800000`)."""
    if value != value or value in (float("inf"), float("-inf")):
        return f"0x{float_bits(value, name):X}"
    mantissa, exponent = f"{value:.5e}".split("e")
    short = f"{mantissa}0e{exponent}"
    if float_bits(round_to(float(short), name), name) == float_bits(value, name):
        return short
    return _all_digits(value, _DIGITS.get(name, 17)) or f"0x{float_bits(value, name):X}"


def _all_digits(value: float, precision: int) -> str:
    """Returns at most `precision` digits, scientific if more than three zeros would have to be filled in."""
    sign, digits, exponent = Decimal(f"{value:.{precision - 1}e}").normalize().as_tuple()
    assert isinstance(exponent, int)
    text, prefix = "".join(map(str, digits)), "-" if sign else ""
    leading = exponent + len(text) - 1
    if exponent >= 0:
        if exponent > 3 or len(text) + exponent > precision:
            return f"{prefix}{text[0]}.{text[1:] or '0'}E+{leading}"
        return ""  # an integer would be read back as one
    if leading >= 0:
        return f"{prefix}{text[: leading + 1]}.{text[leading + 1 :]}"
    if -leading > 3:
        return f"{prefix}{text[0]}.{text[1:] or '0'}E-{-leading}"
    return f"{prefix}0.{'0' * (-leading - 1)}{text}"
