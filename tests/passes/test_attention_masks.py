"""Where scores are masked, by the ranges of values on half-planes of rows and columns."""

from __future__ import annotations

import pytest

from xjit.affine import dim
from xjit.passes.analysis.attention.half_planes import HalfPlane
from xjit.passes.analysis.attention.masks import Masked, MaskFinder
from xjit.passes.analysis.attention.places import Place, Space
from xjit.text.parser import parse_hlo

LATER = HalfPlane(-1, 1, -1)
"""Columns behind the row."""


def finder_of(lines: str) -> tuple[MaskFinder, Place]:
    text = f"""HloModule m
ENTRY e {{
  x = f32[8,9] parameter(0)
  m = pred[8,9] parameter(1)
  b = f32[8] parameter(2)
  i = s32[8,9] iota(), iota_dimension=0
  j = s32[8,9] iota(), iota_dimension=1
  zero = f32[] constant(0)
  zeros = f32[8,9] broadcast(zero), dimensions={{}}
  low = f32[] constant(-1e9)
  lows = f32[8,9] broadcast(low), dimensions={{}}
  c = pred[8,9] compare(i, j), direction=GE
{lines}
}}
"""
    root = parse_hlo(text).entry_computation.root_instruction
    space = Space(root.shape.dimensions)
    return MaskFinder(space, dim(0), dim(1)), space.identity(root)


def test_exponentials_of_multiples() -> None:
    """A difference that is halved must be twice as large."""
    text = """  bb = f32[8,9] broadcast(b), dimensions={0}
  s = f32[8,9] select(c, x, lows)
  d = f32[8,9] subtract(s, bb)
  h = f32[] constant(0.5)
  hs = f32[8,9] broadcast(h), dimensions={}
"""
    whole = zero(f"{text}  ROOT e = f32[8,9] exponential(d)").condition
    half = zero(f"{text}  t = f32[8,9] multiply(d, hs)\n  ROOT e = f32[8,9] exponential(t)").condition
    assert whole is not None
    assert half is not None
    assert half.least + 1e9 == 2 * (whole.least + 1e9)


def bounded(lines: str) -> Masked:
    finder, place = finder_of(lines)
    return finder.bounded(place)


def zero(lines: str) -> Masked:
    finder, place = finder_of(lines)
    return finder.zero([place])


@pytest.mark.parametrize(
    ("lines", "planes"),
    [
        ("ROOT r = f32[8,9] select(c, x, lows)", [LATER]),
        ("g = pred[8,9] compare(j, i), direction=GT\n  ROOT r = f32[8,9] select(g, lows, x)", [LATER]),
        ("g = pred[8,9] compare(i, j), direction=GT\n  ROOT r = f32[8,9] select(g, x, lows)", [HalfPlane(-1, 1, 0)]),
        ("g = pred[8,9] compare(i, j), direction=LE\n  ROOT r = f32[8,9] select(g, x, lows)", [HalfPlane(1, -1, -1)]),
        ("n = pred[8,9] not(c)\n  ROOT r = f32[8,9] select(n, lows, x)", [LATER]),
        ("a = pred[8,9] and(m, c)\n  ROOT r = f32[8,9] select(a, x, lows)", [LATER]),
        (
            "s = s32[] constant(3)\n  ss = s32[8,9] broadcast(s), dimensions={}\n  k = s32[8,9] add(j, ss)"
            "\n  w = pred[8,9] compare(k, i), direction=GT\n  a = pred[8,9] and(w, c)"
            "\n  ROOT r = f32[8,9] select(a, x, lows)",
            [LATER, HalfPlane(1, -1, -3)],
        ),
        (
            "f = f32[8,9] convert(c)\n  t = pred[8,9] compare(f, zeros), direction=NE"
            "\n  ROOT r = f32[8,9] select(t, x, lows)",
            [LATER],
        ),
    ],
)  # fmt: skip
def test_masks(lines: str, planes: list[HalfPlane]) -> None:
    """Every way to write a mask of positions has the half-planes that it leaves out."""
    found = bounded(f"  {lines}")
    assert sorted(found.planes, key=str) == sorted(planes, key=str)
    assert found.bound == pytest.approx(-1e9)


@pytest.mark.parametrize(
    ("tail", "bound"),
    [
        ("ROOT r = f32[8,9] multiply(s, halves)", -5e8),
        ("ROOT r = f32[8,9] divide(s, halves)", -2e9),
        ("ROOT r = f32[8,9] subtract(s, halves)", -1e9),
        ("ROOT r = f32[8,9] select(m, s, lows)", -1e9),
    ],
)
def test_what_is_made_of_masked_scores(tail: str, bound: float) -> None:
    lines = f"""  half = f32[] constant(0.5)
  halves = f32[8,9] broadcast(half), dimensions={{}}
  s = f32[8,9] select(c, x, lows)
  {tail}"""
    found = bounded(lines)
    assert found.planes == (LATER,)
    assert found.bound == pytest.approx(bound)


@pytest.mark.parametrize(
    "lines",
    [
        "ROOT r = f32[8,9] select(m, x, lows)",  # not known before
        "e = pred[8,9] compare(i, j), direction=EQ\n  ROOT r = f32[8,9] select(e, lows, x)",  # no half-plane
        "o = pred[8,9] or(m, c)\n  ROOT r = f32[8,9] select(o, x, lows)",  # only where m is false, too
        "w = f32[8,9] select(c, zeros, lows)\n  ROOT r = f32[8,9] add(x, w)",  # x may be larger than that is low
        "p = s32[8,9] multiply(i, j)\n  g = pred[8,9] compare(p, i), direction=GE\n  ROOT r = f32[8,9] select(g, x, lows)",
        "p = s8[8,9] convert(i)\n  q = s8[8,9] convert(j)\n  o = s8[] constant(125)"
        "\n  os = s8[8,9] broadcast(o), dimensions={}\n  t = s8[8,9] add(q, os)\n  g = pred[8,9] compare(p, t), direction=GE"
        "\n  ROOT r = f32[8,9] select(g, x, lows)",  # could wrap around
        "a = s32[] constant(2147483647)\n  ms = s32[8,9] broadcast(a), dimensions={}\n  k = s32[8,9] add(i, ms)"
        "\n  g = pred[8,9] compare(k, j), direction=GE\n  ROOT r = f32[8,9] select(g, lows, x)",  # wraps in row 1
        "u = u8[8,9] convert(c)\n  o = u8[] constant(1)\n  os = u8[8,9] broadcast(o), dimensions={}"
        "\n  d = u8[8,9] subtract(u, os)\n  f = f32[8,9] convert(d)\n  g = pred[8,9] compare(f, zeros), direction=LT"
        "\n  ROOT r = f32[8,9] select(g, lows, x)",  # 0 - 1 is 255
        "one = s32[] constant(1)\n  ones = s32[8,9] broadcast(one), dimensions={}\n  two = s32[] constant(2)"
        "\n  twos = s32[8,9] broadcast(two), dimensions={}\n  t = s32[8,9] select(c, ones, twos)"
        "\n  d = s32[8,9] divide(ones, t)\n  o = s32[8,9] subtract(d, d)"
        "\n  g = pred[8,9] compare(d, o), direction=GT\n  ROOT r = f32[8,9] select(g, lows, x)",  # quotients are whole
        "f = f32[8,9] convert(c)\n  h = f32[8,9] add(f, lows)\n  g = pred[8,9] compare(h, lows), direction=GT"
        "\n  ROOT r = f32[8,9] select(g, lows, x)",  # 1 - 1e9 is -1e9
        "two = pred[8,9] add(c, c)\n  n = pred[8,9] not(two)\n  one = pred[8,9] compare(two, c), direction=NE"
        "\n  o = pred[8,9] or(n, one)\n  a = pred[8,9] and(o, c)\n  ROOT r = f32[8,9] select(a, lows, x)",  # 1 + 1 is 1
        "ks = s64[] constant(9007199254740992)\n  k = s64[8,9] broadcast(ks), dimensions={}"
        "\n  ls = s64[] constant(9007199254740993)\n  l = s64[8,9] broadcast(ls), dimensions={}"
        "\n  s = s64[8,9] select(c, k, l)\n  g = pred[8,9] compare(s, l), direction=EQ\n  a = pred[8,9] and(g, c)"
        "\n  ROOT r = f32[8,9] select(a, lows, x)",  # as floats they are equal
        "ls = s64[] constant(9007199254740993)\n  l = s64[8,9] broadcast(ls), dimensions={}\n  p = s64[8,9] convert(i)"
        "\n  q = s64[8,9] convert(j)\n  t = s64[8,9] add(p, l)\n  g = pred[8,9] compare(t, q), direction=LT"
        "\n  ROOT r = f32[8,9] select(g, lows, x)",  # no float is the constant
        "k = s32[] constant(-1082130432)\n  ks = s32[8,9] broadcast(k), dimensions={}\n  h = s32[8,9] bitcast(x)"
        "\n  t = s32[8,9] select(c, h, ks)\n  ROOT r = f32[8,9] bitcast(t)",  # the bits of -1.0
        "f = f32[8,9] convert(m)\n  inf = f32[] constant(-inf)\n  infs = f32[8,9] broadcast(inf), dimensions={}"
        "\n  p = f32[8,9] multiply(f, infs)\n  ROOT r = f32[8,9] select(c, x, p)",  # NaN where m is false
    ],
)  # fmt: skip
def test_what_is_no_mask_of_positions(lines: str) -> None:
    assert not bounded(f"  {lines}").planes


def test_narrow_positions() -> None:
    """That fit their type."""
    found = bounded(
        "  p = s8[8,9] convert(i)\n  q = s8[8,9] convert(j)\n  g = pred[8,9] compare(p, q), direction=GE"
        "\n  ROOT r = f32[8,9] select(g, x, lows)"
    )
    assert found.planes == (LATER,)


def test_long_chains_are_not_followed() -> None:
    """Nor are operands that many have in common followed from each of them."""
    links = "\n".join(f"  a{n + 1} = f32[8,9] negate(a{n})" for n in range(390))
    assert not bounded(f"  a0 = f32[8,9] select(c, x, lows)\n{links}\n  ROOT r = f32[8,9] negate(a390)").planes
    links = "\n".join(f"  k{n + 1} = s32[8,9] add(k{n}, k{n})" for n in range(25))
    compare = "  g = pred[8,9] compare(k25, j), direction=GE\n  ROOT r = f32[8,9] select(g, x, lows)"
    assert bounded(f"  k0 = s32[8,9] add(i, i)\n{links}\n{compare}").planes == (HalfPlane(-(1 << 26), 1, -1),)


def test_weights_are_zero_where_rows_have_larger_scores() -> None:
    """On a condition for the maximum that is subtracted, which is that of a row."""
    weights = """  s = f32[8,9] select(c, x, lows)
  bb = f32[8,9] broadcast(b), dimensions={0}
  d = f32[8,9] subtract(s, bb)
  e = f32[8,9] exponential(d)
"""
    found = zero(weights + "  ROOT r = f32[8,9] multiply(e, x)")
    assert found.planes == (LATER,)
    assert found.condition is not None
    assert found.condition.place.instruction.name == "b"
    assert found.condition.least == pytest.approx(-1e9 + 104, abs=64)
    assert not zero(weights + "  ROOT r = f32[8,9] add(e, x)").planes


def test_zeros_that_are_selected_need_no_condition() -> None:
    found = zero("  ROOT r = f32[8,9] select(c, x, zeros)")
    assert found == Masked((LATER,), 0.0)
    assert not zero("  ROOT r = f32[8,9] select(c, x, lows)").planes


def test_what_differs_in_rows_and_columns_is_no_condition() -> None:
    assert not zero(
        "  s = f32[8,9] select(c, x, lows)\n  d = f32[8,9] subtract(s, x)\n  ROOT r = f32[8,9] exponential(d)"
    ).planes
