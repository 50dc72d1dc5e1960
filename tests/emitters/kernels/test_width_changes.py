"""bitcast-convert between widths, and the other conversions, against the evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check
from xjit.text.parser import parse_hlo


def text(source: str, target: str, layout: str = "") -> str:
    return f"""HloModule m
ENTRY e {{
  x = {source} parameter(0)
  ROOT r = {target} bitcast-convert(x)
}}
"""


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32[5,7]", "u8[5,7,4]"),
        ("u8[5,7,4]", "f32[5,7]"),
        ("f64[19]", "s32[19,2]"),
        ("s32[3,19,2]", "f64[3,19]"),
        ("u64[]", "bf16[4]"),
        ("bf16[4]", "u64[]"),
        ("u8[9]", "s4[9,2]"),
        ("s4[9,2]", "u8[9]"),
        ("u2[33,4]", "s8[33]"),
        ("s32[6]", "u4[6,8]"),
        ("f32[0]", "u8[0,4]"),
        ("s32[7]", "f4e2m1fn[7,8]"),
        ("f4e2m1fn[7,8]", "s32[7]"),
        ("s4[16]", "f4e2m1fn[16]"),
        ("f4e2m1fn[16]", "s4[16]"),
    ],
)
def test_widths(source: str, target: str) -> None:
    check(text(source, target))


def test_bytes_hold_one_f4() -> None:
    """What lies above the four bits of an element is cut off, by the evaluator, too."""
    for source, shape in (("u8", "[256,2]"), ("s4", "[256]")):
        x = np.arange(256).astype(np.uint8 if source == "u8" else ml_dtypes.int4)
        program = text(f"{source}[256]", f"f4e2m1fn{shape}")
        (result,) = check(program, x)
        assert result.view(np.uint8).max() == xjit.evaluate(parse_hlo(program), x).view(np.uint8).max() == 15


@pytest.mark.parametrize(
    ("repeated", "dimensions", "target"),
    [
        ("u8[2,4]", "1", "u32[2]"),
        ("u16[4,2]", "0", "f32[4]"),
        ("u32[4,3]", "0", "u8[4,3,4]"),
        ("u8[4,4]", "1", "s8[4,4]"),
    ],
)
def test_of_broadcasts(repeated: str, dimensions: str, target: str) -> None:
    """What is repeated is cast before only where no dimension comes or goes."""
    check(f"""HloModule m
ENTRY e {{
  x = {repeated.split("[")[0]}[4] parameter(0)
  b = {repeated} broadcast(x), dimensions={{{dimensions}}}
  ROOT r = {target} bitcast-convert(b)
}}
""")


def test_layouts_and_neighbours() -> None:
    check(text("f32[5,7]{0,1}", "u8[5,7,4]{0,2,1}"), options=LAYOUTS)
    check(
        """HloModule m
ENTRY e {
  x = f32[40] parameter(0)
  y = f32[40] negate(x)
  b = u16[40,2] bitcast-convert(y)
  t = u16[2,40] transpose(b), dimensions={1,0}
  s = u16[2,40] add(t, t)
  u = u16[40,2] transpose(s), dimensions={1,0}
  ROOT r = f32[40] bitcast-convert(u)
}
"""
    )


def test_computed_before_and_after() -> None:
    """Neither the loop before nor the one behind takes a bitcast to another type in."""
    check(
        """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY e {
  x = u32[6,50] parameter(0)
  one = u32[] constant(1)
  ones = u32[6,50] broadcast(one), dimensions={}
  y = u32[6,50] add(x, ones)
  b = u8[6,50,4] bitcast-convert(y)
  f = f32[6,50,4] convert(b)
  zero = f32[] constant(0)
  s = f32[6,50] reduce(f, zero), dimensions={2}, to_apply=add
  w = f32[6,50,4] broadcast(s), dimensions={0,1}
  q = f32[6,50,4] subtract(f, w)
  k = u8[6,50,4] convert(b)
  z = u32[6,50] bitcast-convert(k)
  ROOT t = (f32[6,50,4], u32[6,50]) tuple(q, z)
}
"""
    )


@pytest.mark.parametrize(
    ("source", "target"), [("s4", "f32"), ("f32", "u4"), ("u2", "s64"), ("s8", "s4"), ("f64", "f8e5m2")]
)
def test_convert_of_narrow_types(source: str, target: str) -> None:
    check(f"HloModule m\nENTRY e {{\n  x = {source}[37] parameter(0)\n  ROOT r = {target}[37] convert(x)\n}}\n")


def test_reduce_precision_and_stochastic_convert() -> None:
    check("""HloModule m
ENTRY e {
  x = f32[100] parameter(0)
  ROOT r = f32[100] reduce-precision(x), exponent_bits=5, mantissa_bits=10
}
""")
    x = (np.random.default_rng(0).standard_normal(100) * 300).astype(np.float32)
    random = np.random.default_rng(1).integers(0, 2**32, 100, dtype=np.uint32)
    check(
        """HloModule m
ENTRY e {
  x = f32[100] parameter(0)
  n = u32[100] parameter(1)
  ROOT r = s8[100] stochastic-convert(x, n)
}
""",
        x,
        random,
    )
