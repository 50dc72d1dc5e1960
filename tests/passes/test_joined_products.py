"""Products of the same weights become one, and others do not."""

from __future__ import annotations

import numpy as np
import pytest

from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes.fusion.joined_products import join_products
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
larger {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }}
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[2,3,5] parameter(0)
  v = f32[2,5,4] parameter(1)
  w = f32[5,2,2,3] parameter(2)
  least = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[2,3] reduce(x, least), dimensions={{2}}, to_apply=larger
  tops = f32[2,3,5] broadcast(top), dimensions={{0,1}}
  y = f32[2,3,5] subtract(x, tops)
  e = f32[2,3,5] exponential(y)
  total = f32[2,3] reduce(e, zero), dimensions={{2}}, to_apply=sum
  totals = f32[2,3,5] broadcast(total), dimensions={{0,1}}
  p = f32[2,3,5] divide(e, totals)
  {lines}
}}
"""
V = "f32[2,3,4] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
W = "f32[2,3,2,3] dot(p, w), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}"
V_TURNED = (
    "f32[2,4,3] dot(v, p), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}"
)
W_TURNED = (
    "f32[2,2,3,3] dot(w, p), lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_contracting_dims={2}"
)
JOINED = {
    "forward": f"a = {V}\n  b = {W}\n  ROOT r = (f32[2,3,4], f32[2,3,2,3]) tuple(a, b)",
    "sides": f"a = {V}\n  b = {W_TURNED}\n  ROOT r = (f32[2,3,4], f32[2,2,3,3]) tuple(a, b)",
    "turned": f"a = {V_TURNED}\n  b = {W_TURNED}\n  ROOT r = (f32[2,4,3], f32[2,2,3,3]) tuple(a, b)",
}
APART = {
    "alone": f"ROOT a = {V}",
    "read": f"a = {V}\n  b = {W}\n  ROOT r = (f32[2,3,4], f32[2,3,2,3], f32[2,3,5]) tuple(a, b, p)",
    "precision": f"a = {V}, operand_precision={{highest,highest}}\n  b = {W}\n"
    "  ROOT r = (f32[2,3,4], f32[2,3,2,3]) tuple(a, b)",
    "one-of-another": f"a = {V}\n  c = f32[2,3,4] exponential(a)\n  d = f32[2,5,4] pad(c, zero), padding=0_0x0_2x0_0\n"
    f"  b = {V.replace('v)', 'd)')}\n  ROOT r = (f32[2,3,4], f32[2,3,4]) tuple(a, b)",
    "other-column": f"a = {V.replace('f32[2,3,4]', 'f32[2,5,4]').replace('lhs_contracting_dims={2}', 'lhs_contracting_dims={1}').replace('v)', 'u)')}\n"
    f"  b = {V.replace('f32[2,3,4]', 'f32[2,5,4]').replace('lhs_contracting_dims={2}', 'lhs_contracting_dims={1}').replace('v)', 'u)')}\n"
    "  ROOT r = (f32[2,5,4], f32[2,5,4]) tuple(a, b)",
}


def run(lines: str) -> tuple[bool, int]:
    """Joins what reads the weights; whether there was anything, and how many dots there are."""
    if "u)" in lines:
        lines = "u = f32[2,3,4] slice(v), slice={[0:2], [0:3], [0:4]}\n  " + lines
    module = parse_hlo(TEXT.format(lines=lines))
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=s).astype(np.float32) for s in ((2, 3, 5), (2, 5, 4), (5, 2, 2, 3))]
    before = evaluate(module, *arguments)
    entry = module.entry_computation
    [weights] = [i for i in entry.instructions if i.opcode == "divide"]
    changed = join_products(entry, weights)
    verify_module(module)
    after = evaluate(module, *arguments)
    for got, want in zip(*(r if isinstance(r, tuple | list) else [r] for r in (after, before)), strict=True):
        np.testing.assert_array_equal(got, want)
    return changed, [i.opcode for i in entry.instructions].count("dot")


@pytest.mark.parametrize("form", JOINED)
def test_joined(form: str) -> None:
    assert run(JOINED[form]) == (True, 1)


@pytest.mark.parametrize("form", APART)
def test_apart(form: str) -> None:
    assert run(APART[form]) == (False, APART[form].count(" dot("))
