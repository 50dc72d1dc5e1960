"""How far two results of a module are apart, counted in units in the last place (ULPs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.hlo.types.primitive_type import BY_DTYPE
from xjit.tools.leaf_comparison import compare_leaf

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class OutputAgreement:
    """One output against the reference's.

    `max_ulps` and `mean_ulps` are over elements that are finite on both sides, of integers the differences; `equal` is
    the part of elements with the same bits, any NaN like any other; `error` the relative L2 error. `ok`: it is within
    the tolerance of the type, and infinities and NaNs are where the reference has them.
    """

    output: int
    shape: str
    max_ulps: int
    mean_ulps: float
    equal: float
    error: float
    ok: bool


def agreement(actual: Sequence[Array], expected: Sequence[Array]) -> tuple[OutputAgreement, ...]:
    """Returns how each output agrees. Outputs of another number, shape or type do not, at all."""
    if len(actual) != len(expected):
        return (OutputAgreement(0, f"{len(actual)} outputs instead of {len(expected)}", 0, 0.0, 0.0, np.inf, False),)
    return tuple(_output(n, a, e) for n, (a, e) in enumerate(zip(actual, expected, strict=True)))


def _output(number: int, actual: Array, expected: Array) -> OutputAgreement:
    shape = f"{BY_DTYPE[expected.dtype].text}[{','.join(map(str, expected.shape))}]"
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return OutputAgreement(number, shape, 0, 0.0, 0.0, np.inf, False)
    found = compare_leaf(actual, expected)
    apart, same = ulps_apart(actual, expected)
    finite = apart[apart >= 0]
    worst = int(finite.max()) if finite.size else 0
    mean = float(finite.mean(dtype=np.float64)) if finite.size else 0.0
    return OutputAgreement(number, shape, worst, mean, float(same.mean()) if same.size else 1.0, found.error, found.ok)


def ulps_apart(actual: Array, expected: Array) -> tuple[Array, Array]:
    """Returns, flat, how many values of the type lie between two elements, and whether they are the same.

    -1 where either is infinite or no number. Both zeros are one value. Complex numbers are pairs of elements.
    """
    if actual.dtype.kind == "c":
        part = np.float32 if actual.dtype == np.complex64 else np.float64
        actual, expected = (np.ascontiguousarray(x).reshape(-1).view(part) for x in (actual, expected))
    a, b = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    if not BY_DTYPE[a.dtype].is_float:
        far = np.abs(a.astype(np.float64) - b.astype(np.float64))
        return far, a == b
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(wide_a) & np.isfinite(wide_b)
    far = np.where(finite, np.abs(_ordered(a) - _ordered(b)), -1.0)
    return far, (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))


def _ordered(values: Array) -> Array:
    """Counts the values of a floating-point type in their order, as floats: near each other, these are exact."""
    width = values.dtype.itemsize
    magnitude = np.abs(values).view(f"u{width}")  # without the sign, wherever a type has it
    count = magnitude.astype(np.float64 if width < 8 else np.longdouble)  # differences of near numbers are not lost
    return np.where(values.astype(np.float64) < 0, -count, count)
