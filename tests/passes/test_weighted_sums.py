"""Sums of weights are one more column of their product, or those of the softmax; values stay."""

from __future__ import annotations

import numpy as np
import pytest

from xjit.hlo import HloModule
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes.fusion.weighted_sums import take_sums_from_product
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
larger {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }}
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[2,3,5] parameter(0)
  mask = f32[2,3,5] parameter(1)
  v = f32[2,5,4] parameter(2)
  rows = f32[2,3] parameter(3)
  least = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[2,3] reduce(x, least), dimensions={{2}}, to_apply=larger
  tops = f32[2,3,5] broadcast(top), dimensions={{0,1}}
  y = f32[2,3,5] subtract(x, tops)
  e = f32[2,3,5] exponential(y)
  total = f32[2,3] reduce(e, zero), dimensions={{2}}, to_apply=sum
  totals = f32[2,3,5] broadcast(total), dimensions={{0,1}}
  factor = f32[2,3,5] broadcast(rows), dimensions={{0,1}}
  weights = f32[2,3,5] multiply(e, {mask})
  shares = f32[2,3,5] divide(weights, totals)
  {summed}
  sums = f32[2,3] reduce(s, zero), dimensions={{2}}, to_apply=sum
  p = {dot}
  ROOT r = (f32[2,3], f32[2,3], f32[{sizes}]) tuple(total, sums, p)
}}
"""
FORWARD = "f32[2,3,4] dot(weights, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
TURNED = "f32[2,4,3] dot(v, weights), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}"


def run(mask: str, summed: str, dot: str = FORWARD) -> tuple[HloModule, bool]:
    sizes = "2,4,3" if dot is TURNED else "2,3,4"
    module = parse_hlo(TEXT.format(mask=mask, summed=summed, dot=dot, sizes=sizes))
    rng = np.random.default_rng(0)
    arguments = [rng.uniform(0.5, 1, s).astype(np.float32) for s in ((2, 3, 5), (2, 3, 5), (2, 5, 4), (2, 3))]
    before = evaluate(module, *arguments)
    entry = module.entry_computation
    [product] = [i for i in entry.instructions if i.opcode == "dot"]
    changed = take_sums_from_product(entry, product)
    verify_module(module)
    for got, want in zip(evaluate(module, *arguments), before, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    return module, changed


def opcodes(module: HloModule) -> list[str]:
    return [i.opcode for i in module.entry_computation.instructions]


@pytest.mark.parametrize("dot", [FORWARD, TURNED], ids=["forward", "turned"])
@pytest.mark.parametrize(
    "summed",
    [
        "s = f32[2,3,5] copy(shares)",
        "s = f32[2,3,5] multiply(shares, factor)",
        "s = f32[2,3,5] multiply(factor, weights)",
        "n = f32[2,3,5] negate(weights)  s = f32[2,3,5] divide(n, factor)",
    ],
    ids=["shares", "times-rows", "rows-times", "negative"],
)
def test_one_more_column(summed: str, dot: str) -> None:
    module, changed = run("mask", summed, dot)
    assert changed and opcodes(module).count("reduce") == 2 and opcodes(module).count("concatenate") == 1


def test_sums_of_the_softmax() -> None:
    module, changed = run("mask", "o = f32[2,3,5] divide(e, totals)  s = f32[2,3,5] multiply(o, factor)")
    assert changed and opcodes(module).count("reduce") == 2 and "concatenate" not in opcodes(module)


@pytest.mark.parametrize(
    "summed",
    [
        "s = f32[2,3,5] multiply(weights, mask)",
        "s = f32[2,3,5] multiply(weights, x)",
        "s = f32[2,3,5] add(weights, factor)",
        "s = f32[2,3,5] multiply(mask, factor)",
    ],
    ids=["mask-twice", "other-mask", "added", "no-weights"],
)
def test_others_stay(summed: str) -> None:
    assert not run("mask", summed)[1]
