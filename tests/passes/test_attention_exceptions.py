"""Attention with steps that are not those of a softmax: whatever `attention-fusion` makes of it, results are the same."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.attention_text import REDUCERS
from xjit.passes.fusion.attention_fusion import AttentionFusion
from xjit.text.parser import parse_hlo

FURTHER_REDUCERS = """
squares {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  bb = f32[] multiply(b, b)
  ROOT r = f32[] add(a, bb)
}
"""
HEADER = (
    REDUCERS.replace("KIND", "f32")
    + FURTHER_REDUCERS
    + """ENTRY e {
  q = f32[6,4] parameter(0)
  k = f32[5,4] parameter(1)
  v = f32[5,3] parameter(2)
  s = f32[6,5] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  zero = f32[] constant(0)
  ninf = f32[] constant(-inf)
"""
)
SOFTMAX = """
  mx = f32[6] reduce(s, ninf), dimensions={1}, to_apply=max
  mb = f32[6,5] broadcast(mx), dimensions={0}
  y = f32[6,5] subtract(s, mb)
  e = f32[6,5] exponential(y)
"""
MASKED = """
  n = s32[6,5] iota(), iota_dimension=0
  two = s32[] constant(2)
  twos = s32[6,5] broadcast(two), dimensions={}
  is_kept = pred[6,5] compare(n, twos), direction=GE
  ninfs = f32[6,5] broadcast(ninf), dimensions={}
  w = f32[6,5] select(is_kept, s, ninfs)
  mx = f32[6] reduce(w, ninf), dimensions={1}, to_apply=max
"""
QUOTIENT = """
  lb = f32[6,5] broadcast(l), dimensions={0}
  p = f32[6,5] divide(e, lb)
  ROOT r = f32[6,3] dot(p, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
JOINED = """
  sink = f32[6,2] slice(q), slice={[0:6], [0:2]}
  j = f32[6,7] concatenate(s, sink), dimensions={1}
  x = f32[6,7] exponential(j)
"""
PART = """
  jb = f32[6,7] broadcast(l), dimensions={0}
  jp = f32[6,7] divide(x, jb)
  p = f32[6,5] slice(jp), slice={[0:6], [0:5]}
  ROOT r = f32[6,3] dot(p, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
PROGRAMS = {
    "masked twice, rows without any": MASKED
    + """  mb = f32[6,5] broadcast(mx), dimensions={0}
  y = f32[6,5] subtract(w, mb)
  e = f32[6,5] exponential(y)
  l = f32[6] reduce(e, zero), dimensions={1}, to_apply=add
  lb = f32[6,5] broadcast(l), dimensions={0}
  quotient = f32[6,5] divide(e, lb)
  zeros = f32[6,5] broadcast(zero), dimensions={}
  p = f32[6,5] select(is_kept, quotient, zeros)
  ROOT r = f32[6,3] dot(p, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
    "sum of squares": SOFTMAX + "  l = f32[6] reduce(e, zero), dimensions={1}, to_apply=squares\n" + QUOTIENT,
    "sum of squares, no maximum": """
  e = f32[6,5] exponential(s)
  l = f32[6] reduce(e, zero), dimensions={1}, to_apply=squares
"""
    + QUOTIENT,
    "joined with more, sum of squares": JOINED
    + "  l = f32[6] reduce(x, zero), dimensions={1}, to_apply=squares\n"
    + PART,
    "joined with more, sum from 5": JOINED
    + "  five = f32[] constant(5)\n  l = f32[6] reduce(x, five), dimensions={1}, to_apply=add\n"
    + PART,
    "joined with more, at least 100": JOINED
    + "  least = f32[] constant(100)\n  l = f32[6] reduce(x, least), dimensions={1}, to_apply=max\n"
    + PART,
    "joined with nothing": """
  nothing = f32[6,0] slice(q), slice={[0:6], [0:0]}
  sink = f32[6,2] slice(q), slice={[0:6], [0:2]}
  j = f32[6,7] concatenate(nothing, s, sink), dimensions={1}
  x = f32[6,7] exponential(j)
  l = f32[6] reduce(x, zero), dimensions={1}, to_apply=add
"""
    + PART,
    "added along two dimensions": """
  sink = f32[6,1] slice(q), slice={[0:6], [0:1]}
  j = f32[6,6] concatenate(s, sink), dimensions={1}
  bias = f32[6,6] dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  once = f32[6,6] iota(), iota_dimension=0
  more = f32[6,6] add(bias, once)
  z = f32[6,6] add(j, more)
  x = f32[6,6] exponential(z)
  l = f32[6] reduce(x, zero), dimensions={1}, to_apply=add
  t = f32[6,6] transpose(x), dimensions={1,0}
  turned = f32[6,6] multiply(t, more)
  other = f32[6] reduce(turned, zero), dimensions={0}, to_apply=add
  both = f32[6] add(l, other)
  jb = f32[6,6] broadcast(both), dimensions={0}
  jp = f32[6,6] divide(x, jb)
  p = f32[6,5] slice(jp), slice={[0:6], [0:5]}
  ROOT r = f32[6,3] dot(p, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
    "a long chain": """
  sink = f32[6,2] slice(q), slice={[0:6], [0:2]}
  j = f32[6,7] concatenate(s, sink), dimensions={1}
  c0 = f32[6,7] iota(), iota_dimension=1
"""
    + "".join(f"  c{n} = f32[6,7] negate(c{n - 1})\n" for n in range(1, 1200))
    + """
  z = f32[6,7] add(j, c1199)
  x = f32[6,7] exponential(z)
  l = f32[6] reduce(x, zero), dimensions={1}, to_apply=add
"""
    + PART,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_result_is_the_same(name: str) -> None:
    text = HEADER + PROGRAMS[name]
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in ((6, 4), (5, 4), (5, 3))]
    expected = np.asarray(xjit.evaluate(text, *inputs))
    module = parse_hlo(text)
    AttentionFusion(min_rows=1, scores_per_element=0, gradient_bytes=0).run(module)
    np.testing.assert_allclose(np.asarray(xjit.evaluate(module, *inputs)), expected, rtol=1e-5, atol=1e-6)


GRADIENT = (
    SOFTMAX
    + """
  bias = f32[6,5] parameter(3)
  weights = f32[6,5] multiply(e, bias)
  signed = f32[6,5] SIGN(weights)
  l = f32[6] reduce(e, zero), dimensions={1}, to_apply=add
  o = f32[6,3] dot(signed, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  lo = f32[6,3] broadcast(l), dimensions={0}
  r = f32[6,3] divide(o, lo)
  g = f32[6,3] cosine(r)
  lb = f32[6,5] broadcast(l), dimensions={0}
  p = f32[6,5] divide(signed, lb)
  dv = f32[5,3] dot(p, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT t = (f32[6,3], f32[5,3]) tuple(r, dv)
}
"""
)


@pytest.mark.parametrize("sign", ["copy", "negate"])
@pytest.mark.parametrize("weighs", [False, True])
def test_products_of_weights(sign: str, weighs: bool) -> None:
    """Kernels that know softmaxes alone get no product of exponentials times something, of gradients either."""
    module = parse_hlo(HEADER + GRADIENT.replace("SIGN", sign))
    AttentionFusion(min_rows=1, scores_per_element=0, gradient_bytes=0, weighs=weighs).run(module)
    fusions = [i for i in module.entry_computation.instructions if i.opcode == "fusion"]
    assert bool(fusions) == weighs


TWICE = (
    MASKED
    + """  finite = pred[6] is-finite(mx)
  zeros = f32[6] broadcast(zero), dimensions={}
  guarded = f32[6] select(finite, mx, zeros)
  b1 = f32[6,5] broadcast(FIRST), dimensions={0}
  y1 = f32[6,5] subtract(w, b1)
  e1 = f32[6,5] exponential(y1)
  l1 = f32[6] reduce(e1, zero), dimensions={1}, to_apply=add
  lb1 = f32[6,5] broadcast(l1), dimensions={0}
  p1 = f32[6,5] divide(e1, lb1)
  b2 = f32[6,5] broadcast(SECOND), dimensions={0}
  y2 = f32[6,5] subtract(w, b2)
  e2 = f32[6,5] exponential(y2)
  l2 = f32[6] reduce(e2, zero), dimensions={1}, to_apply=add
  lb2 = f32[6,5] broadcast(l2), dimensions={0}
  p2 = f32[6,5] divide(e2, lb2)
  c = f32[6,5] cosine(s)
  e3 = f32[6,5] multiply(e1, c)
  r1 = f32[6,3] dot(p1, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r2 = f32[6,3] dot(p2, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r3 = f32[6,3] dot(e3, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[6,3], f32[6,3], f32[6,3]) tuple(r1, r2, r3)
}
"""
)


@pytest.mark.parametrize(("first", "second"), [("guarded", "mx"), ("mx", "guarded")])
def test_exponentials_that_are_not_only_divided_are_not_shared(first: str, second: str) -> None:
    """In rows of -inf alone one of them is 0, the other NaN."""
    text = HEADER + TWICE.replace("FIRST", first).replace("SECOND", second)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in ((6, 4), (5, 4), (5, 3))]
    expected = xjit.evaluate(text, *inputs)
    module = parse_hlo(text)
    AttentionFusion(min_rows=1, scores_per_element=0, gradient_bytes=0).run(module)
    for got, want in zip(xjit.evaluate(module, *inputs), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
