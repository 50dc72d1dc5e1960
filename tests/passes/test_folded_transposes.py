"""Transposes in front of dots in compilations for CPUs: which are read through, and that products stay what they are."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo.types.primitive_type import PrimitiveType


def product(kind: str, m: int, k: int, n: int, *, left: bool, right: bool) -> str:
    lhs, rhs = f"{k},{m}" if left else f"{m},{k}", f"{n},{k}" if right else f"{k},{n}"
    return f"""
ENTRY e {{
  x = {kind}[{lhs}] parameter(0)
  y = {kind}[{rhs}] parameter(1)
  a = {kind}[{m},{k}] {"transpose(x), dimensions={1,0}" if left else "copy(x)"}
  b = {kind}[{k},{n}] {"transpose(y), dimensions={1,0}" if right else "copy(y)"}
  ROOT d = {kind}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


@pytest.mark.parametrize(
    ("kind", "sizes", "left", "right", "stays"),
    [
        ("f32", (200, 300, 1), True, False, False),
        ("f32", (1, 200, 300), False, True, False),
        ("f32", (20, 30, 40), True, False, False),
        ("f32", (20, 30, 40), False, True, True),  # turned faster than packed
        ("f32", (33, 130, 120), True, True, False),
        ("bf16", (20, 30, 40), False, True, False),
        ("f64", (20, 30, 40), True, True, False),
        ("s8", (20, 30, 40), True, True, False),
    ],
)
def test_folded(kind: str, sizes: tuple[int, int, int], left: bool, right: bool, stays: bool) -> None:
    text = product(kind, *sizes, left=left, right=right)
    rng, dtype = np.random.default_rng(0), PrimitiveType.from_text(kind).dtype
    x, y = (
        rng.integers(-3, 4, p.shape.dimensions).astype(dtype)
        for p in xjit.parse_hlo(text).entry_computation.parameter_instructions
    )
    compiled = xjit.compile(text)
    assert (" transpose(" in compiled.as_text()) is stays
    np.testing.assert_array_equal(compiled(x, y), xjit.evaluate(text, x, y))  # sums of small integers are exact
