"""Short rows that are reduced several at a time: the values, and bits, of rows that are reduced one by one."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.verify import ScheduleError, verify_schedule
from xjit.hlo.types.primitive_type import PrimitiveType

COMBINERS = """HloModule m
larger { a = KIND[] parameter(0)  b = KIND[] parameter(1)  ROOT m = KIND[] maximum(a, b) }
sum { a = KIND[] parameter(0)  b = KIND[] parameter(1)  ROOT s = KIND[] add(a, b) }
"""
SUM = """
ENTRY main {
  x = KIND[ROWS,COLUMNS] parameter(0)
  start = KIND[] parameter(1)
  ROOT r = KIND[ROWS] reduce(x, start), dimensions={1}, to_apply=sum
}
"""
MAXIMUM = SUM.replace("to_apply=sum", "to_apply=larger")
EXPONENTIALS = """
ENTRY main {
  x = KIND[ROWS,COLUMNS] parameter(0)
  low = KIND[] constant(-inf)
  top = KIND[ROWS] reduce(x, low), dimensions={1}, to_apply=larger
  tops = KIND[ROWS,COLUMNS] broadcast(top), dimensions={0}
  below = KIND[ROWS,COLUMNS] subtract(x, tops)
  weights = KIND[ROWS,COLUMNS] exponential(below)
  zero = KIND[] constant(0)
  total = KIND[ROWS] reduce(weights, zero), dimensions={1}, to_apply=sum
"""
SOFTMAX = (
    EXPONENTIALS
    + """
  totals = KIND[ROWS,COLUMNS] broadcast(total), dimensions={0}
  ROOT y = KIND[ROWS,COLUMNS] divide(weights, totals)
}
"""
)
LOGSUMEXP = (
    EXPONENTIALS
    + """
  log = KIND[ROWS] log(total)
  ROOT y = KIND[ROWS] add(log, top)
}
"""
)
SIZES = [(67, 4), (64, 7), (67, 8), (70, 16), (130, 17), (64, 33), (65, 100)]


def module(body: str, kind: str, rows: int, columns: int) -> str:
    text = (COMBINERS + body).replace("KIND", kind)
    return text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))


def numbers(kind: str, rows: int, columns: int) -> np.ndarray:
    rng, dtype = np.random.default_rng(rows), PrimitiveType.from_text(kind).dtype
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 100, (rows, columns)).astype(dtype)
    return rng.normal(size=(rows, columns)).astype(dtype)


def is_long(columns: int) -> bool:
    """Whether rows are reduced by lanes; in shorter ones, lanes are rows."""
    return columns > 16


def is_grouped(exe: xjit.Executable) -> bool:
    return "reduce rows" in exe.as_text("schedule")


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "f16", "s32", "u64", "s8", "c64"])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_sums_have_the_bits_of_single_rows(kind: str, rows: int, columns: int) -> None:
    x = numbers(kind, rows, columns)
    start = np.asarray(3, x.dtype)
    exe, single = (xjit.compile(module(SUM, kind, n, columns)) for n in (rows, 3))
    if kind == "f32":
        assert is_grouped(exe) == is_long(columns)
    assert not is_grouped(single)
    for first in range(0, rows - 2, 3):
        np.testing.assert_array_equal(exe(x, start)[first : first + 3], single(x[first : first + 3], start))
    check(module(SUM, kind, rows, columns), x, start, rtol=3e-6, atol=1e-2 if kind in ("bf16", "f16") else 1e-4)


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s32"])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_maxima(kind: str, rows: int, columns: int) -> None:
    """With zeros of both signs, infinities and NaNs."""
    x = numbers(kind, rows, columns)
    if kind != "s32":
        special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -1.0]).astype(x.dtype)
        x = np.random.default_rng(0).choice(special, x.shape, p=[0.1, 0.4, 0.003, 0.003, 0.2, 0.294])
    check(module(MAXIMUM, kind, rows, columns), x, np.asarray(-5, x.dtype))


@pytest.mark.parametrize("body", [SOFTMAX, LOGSUMEXP], ids=["softmax", "logsumexp"])
@pytest.mark.parametrize(("kind", "tolerance"), [("f32", 1e-6), ("f64", 1e-14), ("bf16", 1e-2)])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_reductions_that_need_each_other(body: str, kind: str, tolerance: float, rows: int, columns: int) -> None:
    exe = xjit.compile(module(body, kind, rows, columns))
    if kind == "f32" and is_long(columns):
        assert is_grouped(exe)
        lines = [line for line in exe.as_text("schedule").splitlines() if "reduce rows" in line]
        assert ["%top[" in line for line in lines][:2] == [True, False], "maxima come first"
    check(module(body, kind, rows, columns), numbers(kind, rows, columns), rtol=tolerance, atol=tolerance)


def test_rows_of_several_dimensions() -> None:
    text = module(SUM, "f32", 1, 20).replace("[1,20]", "[5,40,20]").replace("[1]", "[5,40]")
    text = text.replace("dimensions={1}", "dimensions={2}")
    assert is_grouped(xjit.compile(text))
    rng = np.random.default_rng(0)
    check(text, rng.normal(size=(5, 40, 20)).astype(np.float32), np.float32(0), rtol=1e-6, atol=1e-6)


def test_rows_of_an_array_with_the_rows_minor() -> None:
    """They are columns."""
    text = module(SUM, "f32", 80, 20).replace("f32[80,20]", "f32[80,20]{0,1}")
    assert not is_grouped(xjit.compile(text))
    check(text, numbers("f32", 80, 20), np.float32(0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    tile %r over d1 in stack\n", "", "reduce rows of %r: it has no tile"),
        ("tile %r over d1 in stack", "tile %r over d0 in stack", "its tile is not one on the stack over d1"),
        ("tile %r over d1 in stack", "tile %r over d1 in register", "its tile is not one on the stack over d1"),
        ("tree over vector(16) x 1", "tree over vector(8) x 1", "16 rows need as many lanes"),
        ("%r[d0 * 16 + d1] tree", "%r[d0 * 16 + d2] tree", "d2 has no value here"),
    ],
)
def test_groups_that_mean_nothing_are_refused(old: str, new: str, message: str) -> None:
    target = xjit.CompileOptions(cpu_level="avx512")
    schedule = str(xjit.compile(module(SUM, "f32", 64, 20), options=target).as_text("schedule"))
    assert old in schedule
    verify_schedule(parse_schedule(schedule))
    with pytest.raises(ScheduleError) as error:
        verify_schedule(parse_schedule(schedule.replace(old, new)))
    assert message in str(error.value)


@pytest.mark.parametrize(("rows", "columns"), [(63, 20), (640, 200), (640, 4)])
def test_few_rows_long_rows_and_very_short_ones_are_not_grouped(rows: int, columns: int) -> None:
    assert not is_grouped(xjit.compile(module(SUM, "f32", rows, columns)))


SEARCH = """HloModule m
larger {
  a = KIND[] parameter(0)
  i = s32[] parameter(1)
  b = KIND[] parameter(2)
  j = s32[] parameter(3)
  above = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  better = pred[] or(above, nan)
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  first = pred[] and(equal, before)
  takes = pred[] or(better, first)
  value = KIND[] select(better, a, b)
  place = s32[] select(takes, i, j)
  ROOT r = (KIND[], s32[]) tuple(value, place)
}
ENTRY main {
  x = KIND[ROWS,COLUMNS] parameter(0)
  i = s32[ROWS,COLUMNS] iota(), iota_dimension=1
  low = KIND[] constant(LOWEST)
  zero = s32[] constant(0)
  ROOT r = (KIND[ROWS], s32[ROWS]) reduce(x, i, low, zero), dimensions={1}, to_apply=larger
}
"""


def search(kind: str, rows: int, columns: int) -> str:
    element_type = PrimitiveType.from_text(kind)
    lowest = "-inf" if element_type.is_float else str(np.iinfo(element_type.dtype).min)
    text = SEARCH.replace("KIND", kind).replace("ROWS", str(rows))
    return text.replace("COLUMNS", str(columns)).replace("LOWEST", lowest)


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s32", "u8"])
@pytest.mark.parametrize(("rows", "columns"), [(70, 3), (70, 5), (64, 9), (81, 16), (130, 31), (65, 32), (64, 100)])
def test_the_largest_of_short_rows(kind: str, rows: int, columns: int) -> None:
    """With equal elements, zeros of both signs and NaNs, of which the first is found."""
    text, rng = search(kind, rows, columns), np.random.default_rng(columns)
    if kind == "f32":
        assert is_grouped(xjit.compile(text)) == is_long(columns)
    values = [0.0, -0.0, np.nan, 1.0, 2.0, -np.inf] if PrimitiveType.from_text(kind).is_float else [0, 1, 2, 3]
    check(text, rng.choice(values, (rows, columns)).astype(PrimitiveType.from_text(kind).dtype))


SUM_BESIDE = """
  place = s32[80] get-tuple-element(r), index=1
  null = f32[] constant(0)
  s = f32[80] reduce(x, null), dimensions={1}, to_apply=sum
  ROOT t = (s32[80], f32[80]) tuple(place, s)
}
"""


def test_the_largest_of_each_row_beside_its_sum() -> None:
    """The search has fewer lanes than the sum could have."""
    both = search("f32", 80, 31).replace("ROOT r = (f32[80]", "r = (f32[80]").removesuffix("}\n") + SUM_BESIDE
    text = module(both.replace("HloModule m", "").replace("larger", "first"), "f32", 80, 31)
    assert is_grouped(xjit.compile(text))
    check(text, numbers("f32", 80, 31), rtol=1e-6, atol=1e-6)
