"""Numbers of f8e5m2 are rounded once: every pair of operands, and every number of bf16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xjit

E5M2 = np.dtype(ml_dtypes.float8_e5m2)
BF16 = np.dtype(ml_dtypes.bfloat16)
CODES = np.arange(256, dtype=np.uint8).view(E5M2)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """The same bits, but for NaNs."""
    is_nan = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), is_nan)
    np.testing.assert_array_equal(found.view(np.uint8)[~is_nan], wanted.view(np.uint8)[~is_nan])


@pytest.mark.parametrize("opcode", ["add", "subtract", "multiply", "divide", "maximum"])
def test_all_pairs(opcode: str) -> None:
    x, y = np.repeat(CODES, 256), np.tile(CODES, 256)
    shape = "f8e5m2[65536]"
    program = xjit.compile(
        f"ENTRY e {{ x = {shape} parameter(0) y = {shape} parameter(1) ROOT r = {shape} {opcode}(x, y) }}"
    )
    with np.errstate(all="ignore"):
        exact = getattr(np, opcode)(x.astype(np.float64), y.astype(np.float64))
        wanted = exact.astype(E5M2)
    found = program(x, y)
    if opcode == "maximum":  # either zero
        found, wanted = (np.where(v.astype(np.float32) == 0, CODES[0], v) for v in (found, wanted))
    same(found, wanted)


def test_square_roots() -> None:
    program = xjit.compile("ENTRY e { x = f8e5m2[256] parameter(0) ROOT r = f8e5m2[256] sqrt(x) }")
    with np.errstate(all="ignore"):
        wanted = np.sqrt(CODES.astype(np.float64)).astype(E5M2)
    same(program(CODES), wanted)


def test_all_of_bf16() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(BF16)
    program = xjit.compile("ENTRY e { x = bf16[65536] parameter(0) ROOT r = f8e5m2[65536] convert(x) }")
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float64).astype(E5M2)
    same(program(x), wanted)


def test_what_is_computed_in_f32_is_not_rounded_twice() -> None:
    """Halfway between two numbers of f8e5m2, and a bit more than f16 can see."""
    x = np.array([1.125, 1.125 + 2.0**-20, 2.0**-17, 2.0**-17 * (1 + 2.0**-20)], np.float32)
    program = xjit.compile("ENTRY e { x = f32[4] parameter(0) ROOT r = f8e5m2[4] convert(x) }")
    np.testing.assert_array_equal(program(x).astype(np.float32), np.array([1.0, 1.25, 0.0, 2.0**-16], np.float32))
