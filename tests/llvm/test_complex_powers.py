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
