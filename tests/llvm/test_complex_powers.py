"""Complex powers of special values: compiled and evaluated, they are what XLA:CPU gives."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo.types.primitive_type import PrimitiveType as P
from xjit.ops.evaluation import complex_math

NAN, INFINITY = float("nan"), float("inf")
UNDEFINED = complex(NAN, NAN)
POWERS = [
    (complex(NAN, 0), 0, 1), (INFINITY, 0, 1), (complex(0, INFINITY), -0.0, 1), (0, 0, 1), (-0.0, complex(0, -0.0), 1),
    (1, INFINITY, 1), (1, complex(NAN, 0), 1), (0, 2, 0), (0, 0.5, 0), (0, -1, UNDEFINED), (0, 1j, UNDEFINED),
    (0, 1 + 1j, UNDEFINED), (INFINITY, 1, INFINITY), (INFINITY, 0.5, INFINITY), (INFINITY, -1, 0),
    (INFINITY, 1j, UNDEFINED), (-INFINITY, 2, UNDEFINED), (complex(NAN, 0), 1, UNDEFINED), (2, 2, 4), (1j, 2, -1),
    (1j, complex(0, INFINITY), UNDEFINED), (0.5j, complex(INFINITY, 0.5), UNDEFINED), (complex(2, -INFINITY), -1, UNDEFINED),
    (complex(-INFINITY, 2), complex(-3.5, -3.5), UNDEFINED), (2 - 1j, complex(-INFINITY, 1), UNDEFINED),
]  # fmt: skip
"""Base, exponent, and what XLA:CPU gives."""


@pytest.mark.parametrize("kind", [P.C64, P.C128], ids=["c64", "c128"])
def test_powers_of_special_values(kind: P) -> None:
    a, b, want = (np.array(column, kind.dtype) for column in zip(*POWERS, strict=True))
    with np.errstate(all="ignore"):
        evaluated = complex_math.power(a, b)
    shape = f"{kind.text}[{len(a)}]"
    text = f"ENTRY e {{ a = {shape} parameter(0) b = {shape} parameter(1) ROOT r = {shape} power(a, b) }}"
    compiled = xjit.compile(text)(a, b)
    for got in (compiled, evaluated):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6, equal_nan=True)


def test_powers_of_large_numbers() -> None:
    """The size of a power is a power of the size, not e to a product, whose error grows with it."""
    a = np.array([1e200 + 1j, 3e-180j, -2e150 + 1e149j, 1e100 - 1e100j])
    b = np.array([-1, 1, 2, -3], np.complex128)
    want = a.astype(np.clongdouble) ** b.real.astype(int)
    shape = f"c128[{len(a)}]"
    text = f"ENTRY e {{ a = {shape} parameter(0) b = {shape} parameter(1) ROOT r = {shape} power(a, b) }}"
    for got in (xjit.compile(text)(a, b), complex_math.power(a, b)):
        assert np.all(np.abs(got - want) < 2e-15 * np.abs(want))
