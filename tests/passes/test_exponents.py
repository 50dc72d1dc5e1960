"""Exponents that are multiples of something less its maximum become those of a softmax, with their value."""

from __future__ import annotations

import numpy as np
import pytest

from xjit.affine import dim
from xjit.hlo import HloModule
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes.analysis.attention.places import Space
from xjit.passes.analysis.attention.weights import softmax_of
from xjit.passes.fusion.exponents import state_exponents
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
larger {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }}
smaller {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] minimum(a, b) }}
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{
  p = f32[3,5] parameter(0)
  q = f32[3,5] parameter(1)
  two = f32[] constant(2)
  factor = f32[3,5] broadcast(two), dimensions={{}}
  scaled = f32[3,5] multiply(p, factor)
  x = f32[3,5] add(scaled, q)
  least = f32[] constant(-inf)
  most = f32[] constant(inf)
  zero = f32[] constant(0)
  top = f32[3] reduce(x, least), dimensions={{1}}, to_apply=larger
  bottom = f32[3] reduce(x, most), dimensions={{1}}, to_apply=smaller
  tops = f32[3,5] broadcast(top), dimensions={{0}}
  bottoms = f32[3,5] broadcast(bottom), dimensions={{0}}
  {lines}
  total = f32[3] reduce(e, zero), dimensions={{1}}, to_apply=sum
  ROOT r = (f32[3,5], f32[3], f32[3]) tuple(e, total, top)
}}
"""
LESS = "y = f32[3,5] subtract(x, tops)"
STATED = {
    "power": f"{LESS}  e = f32[3,5] power(factor, y)",
    "scaled": f"{LESS}  z = f32[3,5] multiply(factor, y)  e = f32[3,5] exponential(z)",
    "divided": f"{LESS}  z = f32[3,5] divide(y, factor)  e = f32[3,5] exponential(z)",
    "turned": "y = f32[3,5] subtract(tops, x)  z = f32[3,5] negate(y)  e = f32[3,5] exponential(z)",
    "added": "y = f32[3,5] negate(tops)  z = f32[3,5] add(y, x)  e = f32[3,5] exponential(z)",
    "minimum": "y = f32[3,5] subtract(bottoms, x)  e = f32[3,5] exponential(y)",
    "apart": (
        "y = f32[3,5] multiply(x, factor)  rows = f32[3] broadcast(two), dimensions={}  t = f32[3] multiply(top, rows)"
        "  z = f32[3,5] broadcast(t), dimensions={0}  w = f32[3,5] subtract(y, z)  e = f32[3,5] exponential(w)"
    ),
    "by-terms": (
        "y = f32[3,5] add(p, p)  z = f32[3,5] add(q, y)  w = f32[3,5] subtract(tops, z)  v = f32[3,5] negate(w)"
        "  e = f32[3,5] exponential(v)"
    ),
}
KEPT = {
    "softmax": f"{LESS}  e = f32[3,5] exponential(y)",
    "minimum": "y = f32[3,5] subtract(x, bottoms)  e = f32[3,5] exponential(y)",
    "downwards": f"{LESS}  z = f32[3,5] negate(y)  e = f32[3,5] exponential(z)",
    "other-factor": "y = f32[3,5] multiply(x, factor)  z = f32[3,5] subtract(y, tops)  e = f32[3,5] exponential(z)",
    "other-terms": "y = f32[3,5] subtract(scaled, tops)  e = f32[3,5] exponential(y)",
    "more-terms": f"{LESS}  z = f32[3,5] add(y, q)  e = f32[3,5] exponential(z)",
}


def stated(lines: str, keep_factors: bool = False) -> tuple[HloModule, bool]:
    """Runs the rewrite on a text and compares values before and behind it."""
    module = parse_hlo(TEXT.format(lines=lines))
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=(3, 5)).astype(np.float32) for _ in range(2)]
    before = evaluate(module, *arguments)
    entry = module.entry_computation
    powers = [i for i in entry.instructions if i.opcode in ("exponential", "power")]
    changed = state_exponents(entry, powers, keep_factors)
    verify_module(module)
    for got, want in zip(evaluate(module, *arguments), before, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6)
    return module, changed


@pytest.mark.parametrize("form", STATED)
def test_stated(form: str) -> None:
    module, changed = stated(STATED[form])
    assert changed
    [exponential] = [i for i in module.entry_computation.instructions if i.opcode == "exponential"]
    space = Space(exponential.shape.dimensions)
    assert softmax_of(space, space.identity(exponential), dim(1)) is not None


@pytest.mark.parametrize("form", STATED)
def test_stated_with_factors(form: str) -> None:
    """Differences come first; what is so already stays."""
    module, changed = stated(STATED[form], keep_factors=True)
    assert changed
    entry = module.entry_computation
    [exponential] = [i for i in entry.instructions if i.opcode == "exponential"]
    space = Space(exponential.shape.dimensions)
    softmax = softmax_of(space, space.identity(exponential), dim(1))
    factor = {"power": np.log(2), "scaled": 2.0, "divided": 0.5, "apart": 2.0}.get(form, 1.0)
    assert softmax is not None
    assert softmax.factor == np.float32(factor)
    assert not state_exponents(entry, [exponential], keep_factors=True)


@pytest.mark.parametrize("form", KEPT)
def test_kept(form: str) -> None:
    assert not stated(KEPT[form])[1]


@pytest.mark.parametrize("form", ["scaled", "turned", "minimum"])
def test_rows_of_the_least_number_stay(form: str) -> None:
    """All of them is masked: exponentials are 1, of differences of 0; of which -inf would make NaN."""
    module = parse_hlo(TEXT.format(lines=STATED[form]))
    entry = module.entry_computation
    least = np.finfo(np.float32).max * (1 if form == "minimum" else -1)
    x = np.array([[least], [1.0], [0.0]], np.float32) * np.ones(5, np.float32)
    x[1, 2] = least
    arguments = [np.zeros((3, 5), np.float32), x]
    before = evaluate(module, *arguments)
    assert state_exponents(entry, [i for i in entry.instructions if i.opcode == "exponential"])
    for got, want in zip(evaluate(module, *arguments), before, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_maxima_that_are_looked_for_stay() -> None:
    """As gradients of maxima do: a quotient that is rounded is no element of x."""
    looked_for = "is_top = pred[3,5] compare(x, tops), direction=EQ  c = f32[3,5] convert(is_top)"
    module, changed = stated(f"{LESS}  {looked_for}  z = f32[3,5] power(factor, y)  e = f32[3,5] multiply(z, c)")
    assert changed
    [comparison] = [i for i in module.entry_computation.instructions if i.opcode == "compare"]
    assert comparison.operand(1).operand(0).name == "top"


@pytest.mark.parametrize("test", ["is-finite", "compare"])
def test_guards_stay(test: str) -> None:
    """Rows of -inf have exponentials of 0, and no NaN."""
    zeros = "zeros = f32[3] broadcast(zero), dimensions={}"
    if test == "is-finite":
        guard = f"{zeros}  ok = pred[3] is-finite(top)  t = f32[3] select(ok, top, zeros)"
    else:
        guard = (
            f"{zeros}  leasts = f32[3] broadcast(least), dimensions={{}}  none = pred[3] compare(top, leasts),"
            " direction=EQ  t = f32[3] select(none, zeros, top)"
        )
    lines = f"{guard}  u = f32[3,5] broadcast(t), dimensions={{0}}  y = f32[3,5] subtract(x, u)"
    module = parse_hlo(TEXT.format(lines=f"{lines}  e = f32[3,5] power(factor, y)"))
    entry = module.entry_computation
    arguments = [np.ones((3, 5), np.float32), np.array([[0.0], [-np.inf], [1.0]], np.float32) * np.ones(5, np.float32)]
    before = evaluate(module, *arguments)
    assert state_exponents(entry, [i for i in entry.instructions if i.opcode == "power"])
    for got, want in zip(evaluate(module, *arguments), before, strict=True):
        np.testing.assert_array_equal(got, want)
