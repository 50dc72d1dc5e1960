"""Ranges of values: what operations make of their ends, of NaN, of zeros with a sign, and of bounds of scores."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from tests.passes.test_attention_masks import LATER, bounded, finder_of
from xjit.affine import dim
from xjit.hlo import PrimitiveType
from xjit.passes.analysis.attention import ranges
from xjit.passes.analysis.attention.half_planes import HalfPlane
from xjit.passes.analysis.attention.masks import Masked, MaskFinder
from xjit.passes.analysis.attention.places import Place, Space
from xjit.passes.analysis.attention.ranges import ANY, LOGICAL, SCORES, UNDERFLOW, Range, compared

DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
TYPES = {np.float16: "f16", ml_dtypes.bfloat16: "bf16", np.float32: "f32", np.float64: "f64"}


@pytest.mark.parametrize("dtype", TYPES)
def test_exponentials_become_zero(dtype: type) -> None:
    """Where the table says so, whatever is done with numbers below the least normal one; and hardly before that."""
    limit = UNDERFLOW[PrimitiveType.from_text(TYPES[dtype])]
    below, above = (np.exp(np.float64(-x)).astype(dtype) for x in (limit, limit - 4))
    assert below == 0 and above > 0
    kind = PrimitiveType.from_text(TYPES[dtype])
    assert ranges.exponential(Range(-math.inf, -limit - 1), kind) == Range(0.0, 0.0)
    assert ranges.exponential(Range(-math.inf, -limit + 1), kind).high > 0
    assert ranges.exponential(Range(-math.inf, -limit - 1, may_be_nan=True), kind).value is None
    assert ranges.exponential(Range(-math.inf, -limit - 1, 1.0), kind).value is None


def test_exponentials_of_types_without_a_row() -> None:
    assert ranges.exponential(Range(-9e9, -8e9), PrimitiveType.from_text("f8e5m2")).value is None


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("is_total_order", [False, True])
def test_comparisons(direction: str, is_total_order: bool) -> None:
    """What is known holds for all values of two ranges, zeros of both signs among them; what is not may differ."""
    ends = (-1.0, 0.0, 2.0)
    for a, b in itertools.product([Range(x, y) for x in ends for y in ends if x <= y], repeat=2):
        samples = [[x for x in (-1.0, -0.0, 0.0, 1.0, 2.0) if r.low <= x <= r.high] for r in (a, b)]
        results = {_compare(x, y, direction, is_total_order) for x in samples[0] for y in samples[1]}
        known = compared(a, b, direction, is_total_order)
        assert known == LOGICAL or results == {bool(known.value)}
    assert compared(Range(1.0, 1.0), ANY, direction, is_total_order) == LOGICAL
    assert compared(Range(1.0, 1.0), Range(2.0, 2.0, may_be_nan=True), direction, is_total_order) == LOGICAL
    assert compared(Range(1.0, 1.0), Range(2.0, 2.0), direction, is_total_order) != LOGICAL


def _compare(x: float, y: float, direction: str, is_total_order: bool) -> bool:
    def key(v: float) -> tuple[float, float]:
        return v, math.copysign(1.0, v) if is_total_order else 0.0

    a, b = key(x), key(y)
    return {"EQ": a == b, "NE": a != b, "GE": a >= b, "GT": a > b, "LE": a <= b, "LT": a < b}[direction]


@pytest.mark.parametrize(
    ("lines", "planes"),
    [
        ("s = f32[8,9] select(c, x, lows)\n  ROOT r = f32[8,9] minimum(s, x)", []),  # NaN where x is
        ("s = f32[8,9] select(c, x, lows)\n  ROOT r = f32[8,9] minimum(s, zeros)", [LATER]),
        (
            "s = f32[8,9] select(c, zeros, lows)\n  ROOT r = f32[8,9] maximum(s, lows)",
            [HalfPlane(-1, 1, 0), HalfPlane(1, -1, 0)],
        ),
        ("t = f32[8,9] select(c, zeros, lows)\n  ROOT r = f32[8,9] add(x, t)", []),
    ],
)
def test_what_may_be_nan_has_no_bound(lines: str, planes: list[HalfPlane]) -> None:
    assert sorted(bounded(f"  {lines}").planes, key=str) == sorted(planes, key=str)


@pytest.mark.parametrize(("kind", "found"), [("", True), (", type=FLOAT", True), (", type=TOTALORDER", False)])
def test_comparisons_of_zeros_in_total_order(kind: str, found: bool) -> None:
    """-0 is below 0: what is selected where a mask of zeros is at least zero is not known."""
    lines = f"""  one = f32[] constant(1)
  ones = f32[8,9] broadcast(one), dimensions={{}}
  f = f32[8,9] select(c, ones, zeros)
  t = pred[8,9] compare(f, zeros), direction=GT{kind}
  u = pred[8,9] compare(zeros, f), direction=GE{kind}
  a = f32[8,9] select(u, lows, x)
  ROOT r = f32[8,9] select(t, x, a)"""
    assert bool(bounded(lines).planes) == found


PRODUCT = """  p = f32[8,9] parameter(3)
  w = f32[8,9] select(c, zeros, lows)
"""


def added(lines: str, root: str) -> Masked:
    """What is masked where the parameter p is a product."""
    place = finder_of(f"{PRODUCT}{lines}\n  ROOT r = f32[8,9] {root}")[1]
    parent = place.instruction.parent
    assert parent is not None
    product = next(i for i in parent.instructions if i.name == "p")
    finder = MaskFinder(Space(product.shape.dimensions), dim(0), dim(1), [Place(product, place.index)])
    return finder.zero([place]) if place.opcode == "exponential" else finder.bounded(place)


@pytest.mark.parametrize(
    ("lines", "root", "bound", "slope"),
    [
        ("", "add(p, w)", -1e9, 1),
        ("", "subtract(w, p)", -1e9, 1),
        ("  s = f32[8,9] multiply(p, low2)", "add(s, w)", -1e9, 0.125),
        ("  s = f32[8,9] add(p, w)", "multiply(s, low2)", -1.25e8, 0.125),
        ("  n = bf16[8,9] convert(p)\n  f = f32[8,9] convert(n)", "add(f, w)", -1e9, 1),
    ],
)
def test_what_is_added_to_products(lines: str, root: str, bound: float, slope: float) -> None:
    """The bound is above what is added, up to a multiple of the products': both with room for what is rounded."""
    eighths = "  e8 = f32[] constant(0.125)\n  low2 = f32[8,9] broadcast(e8), dimensions={}\n"
    masked = added(eighths + lines, root)
    assert masked.planes == (LATER,) and masked.needs_score_bound
    assert bound <= masked.bound <= bound * 0.97
    assert slope < masked.slope < 1.1 * slope


def test_weights_of_what_is_added_to_products() -> None:
    lines = "  s = f32[8,9] add(p, w)\n  bb = f32[8,9] broadcast(b), dimensions={0}\n  d = f32[8,9] subtract(s, bb)"
    condition = added(lines, "exponential(d)").condition
    assert condition is not None
    assert condition.place.instruction.name == "b" and condition.slope > 1 and -1e9 < condition.least < -9e8


@pytest.mark.parametrize(
    ("lines", "root"),
    [
        ("  s = f32[8,9] multiply(p, lows)", "select(c, x, s)"),  # as large as products are
        ("  s = f32[8,9] multiply(p, p)", "add(s, w)"),  # not linear
        ("  n = f16[8,9] convert(p)\n  f = f32[8,9] convert(n)", "add(f, w)"),  # infinite above 65504
        ("  s = f32[8,9] add(x, p)", "add(s, w)"),  # x has no bound
        ("  t = f32[8,9] tanh(p)", "add(t, w)"),  # no rule
        ("  s = f32[8,9] add(p, w)", "negate(s)"),  # high where it was low
        ("  z = f32[8,9] select(c, lows, lows)", "add(p, zeros)"),  # no mask
    ],
)
def test_products_that_no_mask_bounds(lines: str, root: str) -> None:
    assert not added(lines, root).planes


def test_scores_that_a_type_cannot_hold() -> None:
    assert ranges.rounded(SCORES, PrimitiveType.F16, np.dtype(np.float16)) == ANY
