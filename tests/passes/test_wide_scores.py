"""Scores of bf16 are computed in f32 inside of attention's fusions, but for what is compared."""

from __future__ import annotations

import numpy as np

from xjit.hlo import PrimitiveType
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes.fusion.wide_scores import keep_rows_wide, widen_scores
from xjit.text.parser import parse_hlo

CHAIN = """HloModule m
ENTRY e {
  q = bf16[4,8] parameter(0)
  k = bf16[6,8] parameter(1)
  v = bf16[6,8] parameter(2)
  s = bf16[4,6] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  third = bf16[] constant(0.3)
  thirds = bf16[4,6] broadcast(third), dimensions={}
  x = bf16[4,6] multiply(s, thirds)
  t = bf16[4,6] tanh(x)
  is_large = pred[4,6] compare(t, thirds), direction=GT
  wide = f32[4,6] convert(t)
  more = f32[4,6] multiply(wide, wide)
  narrow = bf16[4,6] convert(more)
  y = bf16[4,6] select(is_large, narrow, x)
  ROOT r = bf16[4,8] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_steps_between_products() -> None:
    module = parse_hlo(CHAIN)
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=size).astype(PrimitiveType.BF16.dtype) for size in ((4, 8), (6, 8), (6, 8))]
    q, k, v = (a.astype(np.float64) for a in arguments)
    before = np.asarray(evaluate(module, *arguments), np.float64)
    entry = module.entry_computation
    widen_scores(entry)
    verify_module(module)
    assert [i.shape.element_type for i in entry.instructions if i.opcode == "tanh"] == [PrimitiveType.F32]
    # what is compared is rounded as it was
    [comparison] = [i for i in entry.instructions if i.opcode == "compare"]
    assert [o.shape.element_type for o in comparison.operands] == [PrimitiveType.BF16] * 2
    x = q @ k.T * float(PrimitiveType.BF16.dtype.type(0.3))
    t = np.tanh(x)
    wanted = np.where(t.astype(PrimitiveType.BF16.dtype) > PrimitiveType.BF16.dtype.type(0.3), t * t, x) @ v
    after = np.asarray(evaluate(module, *arguments), np.float64)
    np.testing.assert_allclose(after, wanted, rtol=2.0**-8)
    assert np.abs(after - wanted).max() < np.abs(before - wanted).max()


def test_products_alone_stay() -> None:
    """A result is of the type that it is, and so is what follows the last product."""
    module = parse_hlo("""HloModule m
ENTRY e {
  q = bf16[4,8] parameter(0)
  k = bf16[6,8] parameter(1)
  s = bf16[4,6] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT t = bf16[4,6] tanh(s)
}
""")
    before = str(module)
    widen_scores(module.entry_computation)
    assert str(module) == before


def test_rows_are_not_rounded_on_their_way() -> None:
    module = parse_hlo("""HloModule m
ENTRY e {
  p = bf16[4,6] parameter(0)
  rows = f32[4] parameter(1)
  narrow = bf16[4] convert(rows)
  moved = bf16[2,2] reshape(narrow)
  again = bf16[4] reshape(moved)
  wide = f32[4] convert(again)
  apart = bf16[4] negate(narrow)
  all = bf16[4,6] broadcast(again), dimensions={0}
  quotient = bf16[4,6] divide(p, all)
  ROOT r = (bf16[4,6], f32[4], bf16[4], bf16[4]) tuple(quotient, wide, narrow, apart)
}
""")
    entry = module.entry_computation
    rows = entry.instructions[1]
    assert keep_rows_wide(entry, [rows])
    assert not keep_rows_wide(entry, [rows])
    verify_module(module)
    numbers = np.array([1.001, 2.003, 3.005, 4.007], np.float32)
    p = np.ones((4, 6), PrimitiveType.BF16.dtype)
    quotient, wide, narrow, apart = evaluate(module, p, numbers)
    np.testing.assert_array_equal(wide, numbers)
    np.testing.assert_array_equal(narrow, numbers.astype(PrimitiveType.BF16.dtype))
    np.testing.assert_array_equal(quotient[:, 0], p[:, 0] / numbers.astype(PrimitiveType.BF16.dtype))
    np.testing.assert_array_equal(apart, -narrow)
    assert [i.shape.element_type for i in entry.instructions if i.opcode == "negate"] == [PrimitiveType.BF16]
