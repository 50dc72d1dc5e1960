"""What `cost_analysis()` says of a program has the names and numbers of XLA's."""

from __future__ import annotations

import pytest

from tests.support import xla
from xjit.jax_backend.analyses import cost_properties
from xjit.text.parser import parse_hlo

FUSED = """
HloModule m

inner {
  p = f32[16,32] parameter(0)
  one = f32[] constant(1)
  ones = f32[16,32] broadcast(one), dimensions={}
  q = f32[16,32] multiply(p, p)
  less = pred[16,32] compare(q, ones), direction=LT
  ROOT r = f32[16,32] select(less, q, ones)
}

pair {
  a = f32[16,32] parameter(0)
  b = f32[16,32] parameter(1)
  ROOT s = f32[16,32] subtract(a, b)
}
"""
PROGRAMS = {
    "one operand": "x = f32[16,32] parameter(0)  ROOT r = f32[16,32] fusion(x), kind=kLoop, calls=inner",
    "two": """x = f32[16,32] parameter(0)  y = f32[16,32] fusion(x), kind=kLoop, calls=inner
        ROOT r = f32[16,32] fusion(x, y), kind=kLoop, calls=pair""",
    "none fused": "x = f32[16,32] parameter(0)  n = f32[16,32] negate(x)  ROOT r = f32[16,32] add(x, n)",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_within_fusions(name: str) -> None:
    text = f"{FUSED}\nENTRY e {{ {PROGRAMS[name]} }}"
    theirs = {key: value for key, value in xla.cost_analysis(text).items() if value and key != "optimal_seconds"}
    assert cost_properties(parse_hlo(text)) == theirs
