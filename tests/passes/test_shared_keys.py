"""Gradients of heads that share keys: sums over heads and queries are taken apart, or left as they were."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjit
from tests.support.attention_text import REDUCERS
from xjit.affine import constant, dim
from xjit.passes.analysis.attention.digits import Digit, digits_of, in_terms_of
from xjit.passes.analysis.attention.places import Place
from xjit.passes.fusion.attention_fusion import AttentionFusion
from xjit.text.parser import parse_hlo

TEXT = (
    REDUCERS.replace("KIND", "f32")
    + """ENTRY e {
  q = f32[2,3,20,8] parameter(0)
  k = f32[2,24,8] parameter(1)
  v = f32[2,24,8] parameter(2)
  g = f32[2,3,20,8] parameter(3)
  s = f32[2,3,20,24] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
  zero = f32[] constant(0)
  ninf = f32[] constant(-inf)
  mx = f32[2,3,20] reduce(s, ninf), dimensions={3}, to_apply=max
  mb = f32[2,3,20,24] broadcast(mx), dimensions={0,1,2}
  y = f32[2,3,20,24] subtract(s, mb)
  e = f32[2,3,20,24] exponential(y)
  l = f32[2,3,20] reduce(e, zero), dimensions={3}, to_apply=add
  lb = f32[2,3,20,24] broadcast(l), dimensions={0,1,2}
  p = f32[2,3,20,24] divide(e, lb)
  dp = f32[2,3,20,24] dot(g, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
  pd = f32[2,3,20,24] multiply(p, dp)
  rs = f32[2,3,20] reduce(pd, zero), dimensions={3}, to_apply=add
  rb = f32[2,3,20,24] broadcast(rs), dimensions={0,1,2}
  dc = f32[2,3,20,24] subtract(dp, rb)
  ds = f32[2,3,20,24] multiply(p, dc)
  dq = f32[2,3,20,8] dot(ds, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
  dk = f32[2,24,8] dot(ds, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1,2}, rhs_contracting_dims={1,2}
  dv = f32[2,24,8] dot(p, g), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1,2}, rhs_contracting_dims={1,2}
  ROOT t = (f32[2,3,20,8], f32[2,24,8], f32[2,24,8]) tuple(dq, dk, dv)
}
"""
)
ALWAYS = {"min_rows": 1, "scores_per_element": 0, "gradient_bytes": 0, "joint_batches": 1}


def test_sums_are_taken_apart() -> None:
    module = parse_hlo(TEXT)
    assert AttentionFusion(**ALWAYS).run(module)
    instructions = module.entry_computation.instructions
    assert [i.name.split("_fus")[0] for i in instructions if i.opcode == "fusion"] == ["attention_gradient"]
    sums = [i for i in instructions if i.opcode == "reduce" and i.operand(0).shape.dimensions[:2] == (2, 3)]
    assert sum(i.shape.dimensions == (2, 24, 8) for i in sums) == 2


@pytest.mark.parametrize(
    ("change", "limits"),
    [
        (lambda text: text, {"min_rows": 21}),
        (lambda text: text, {"max_depth": 7}),
        (lambda text: text.replace("add(a, b)", "maximum(a, b)"), {}),  # no softmax
        (lambda text: text.replace("multiply(p, dc)", "sort(p, dc), dimensions={3}, to_apply=x"), {}),
        (lambda text: text.replace("reduce(e, zero), dimensions={3}", "reduce(e, ninf), dimensions={3}"), {}),
        (lambda text: text.replace("tuple(dq, dk, dv)", "tuple(dq, dk, dv), control-predecessors={dk}"), {}),
    ],
)
def test_what_does_not_become_a_gradient_is_as_it_was(change: object, limits: dict[str, int]) -> None:
    text = change(TEXT)  # type: ignore[operator]
    text = re.sub(r"sort\(p, dc\).*", 'custom-call(p, dc), custom_call_target="f"', text)
    module = parse_hlo(text)
    before = str(module)
    assert not AttentionFusion(**{**ALWAYS, **limits}).run(module)
    assert str(module) == before


def test_gradients_of_values_alone_are_as_they_were() -> None:
    """They need no sums of rows: scores are kept as they are, and so are the sums that were taken apart to look."""
    lines = [line for line in TEXT.splitlines() if not re.match(r"  (dp|pd|rs|rb|dc|ds|dq|dk) = ", line)]
    text = "\n".join([*lines[:-2], "  ROOT t = (f32[2,24,8]) tuple(dv)", "}"])
    module = parse_hlo(text)
    before = str(module)
    assert not AttentionFusion(**ALWAYS).run(module)
    assert str(module) == before


def test_sums_are_those_of_the_program() -> None:
    """By the evaluator, which sums in another order."""
    module, fused = parse_hlo(TEXT), parse_hlo(TEXT)
    AttentionFusion(**ALWAYS).run(fused)
    rng = np.random.default_rng(0)
    inputs = [
        rng.normal(size=p.shape.dimensions).astype(np.float32) for p in module.entry_computation.parameter_instructions
    ]
    for got, want in zip(xjit.evaluate(fused, *inputs), xjit.evaluate(module, *inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def place(sizes: str, *index: object) -> Place:
    text = f"HloModule m\nENTRY e {{\n  ROOT p = f32[{sizes}] parameter(0)\n}}\n"
    return Place(parse_hlo(text).entry_computation.root_instruction, index)  # type: ignore[arg-type]


def test_variables_as_digits() -> None:
    """Of an index that numbers two variables through, one is the quotient and one the remainder."""
    known = in_terms_of(place("12,5", dim(1) * 4 + dim(2), dim(0)), (5, 3, 4))
    assert known == {0: dim(1), 1: dim(0).floordiv(4), 2: dim(0) % 4}
    assert in_terms_of(place("15,5", dim(1) * 5 + dim(2), dim(0)), (5, 3, 4)) is None
    assert in_terms_of(place("3,3", dim(1), dim(1)), (5, 3)) is None
    assert in_terms_of(place("3,5", dim(1) + 1, dim(0)), (5, 3)) is None
    assert in_terms_of(place("3", dim(0).floordiv(2)), (6,)) is None


def test_parts_of_arrays_do_not_tell_all_elements_apart() -> None:
    assert in_terms_of(place("3,1,5", dim(1), constant(0), dim(0)), (5, 3)) == {0: dim(2), 1: dim(0)}
    assert in_terms_of(place("4,5", dim(1), dim(0)), (5, 3)) is None
    assert in_terms_of(place("3,2,5", dim(1), constant(0), dim(0)), (5, 3)) is None
    assert in_terms_of(place("16,5", dim(1) * 4 + dim(2), dim(0)), (5, 3, 4)) is None
    assert digits_of(place("4", dim(1)), (5, 3)) is None


def test_digits_of_places() -> None:
    found = digits_of(place("3,1,5,4", dim(0).floordiv(4), dim(2), dim(1), dim(0) % 4), (12, 5, 7))
    assert found == [Digit(0, 4, 0), Digit(0, 1, 3), Digit(1, 1, 2)]
    assert digits_of(place("3", dim(0).floordiv(4)), (12,)) == [Digit(0, 4, 0)]
    assert digits_of(place("3", dim(0).floordiv(5)), (12,)) is None
    assert digits_of(place("12", dim(0) + dim(1)), (6, 7)) is None
    assert digits_of(place("12", dim(0) * 2), (6,)) is None
