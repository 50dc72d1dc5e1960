"""Reductions along rows, and what they keep of the rows, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check
from tests.support.reductions import reduce_text, special_floats

SIZES = [0, 1, 2, 3, 5, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200, 1000]


@pytest.mark.parametrize("columns", SIZES)
def test_sizes(columns: int) -> None:
    check(reduce_text("f32", (5, columns), (1,)), rtol=1e-5, atol=1e-5)
    check(reduce_text("s32", (3, columns), (1,), init="5"))


@pytest.mark.parametrize("kind", ["f64", "bf16", "f16", "s32", "u8", "s64", "c64"])
@pytest.mark.parametrize("opcode", ["add", "multiply"])
def test_types(kind: str, opcode: str) -> None:
    tolerance = {"f64": 1e-12, "bf16": 2e-2, "f16": 4e-3, "c64": 1e-4}.get(kind, 0.0)
    check(reduce_text(kind, (4, 150), (1,), opcode), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["f8e5m2", "f8e4m3fn", "f8e4m3fnuz", "f8e3m4", "bf16"])
@pytest.mark.parametrize("dimension", [0, 1])
def test_narrow_sums_are_rounded_once(kind: str, dimension: int) -> None:
    """Whole numbers and halves, so the sum in f32 is exact: the result is its rounding, as in the evaluator."""
    text = reduce_text(kind, (40, 41), (dimension,))
    dtype = xjit.parse_hlo(text).entry_computation.root_instruction.shape.dtype
    x = (np.random.default_rng(0).integers(-6, 7, (40, 41)) / 2).astype(dtype)
    want = x.astype(np.float32).sum(dimension).astype(dtype).astype(np.float32)
    for got in (xjit.compile(text)(x), xjit.evaluate(text, x)):
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), want)


@pytest.mark.parametrize("opcode", ["and", "or"])
def test_predicates(opcode: str) -> None:
    check(reduce_text("pred", (40, 70), (1,), opcode))


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_special_values(opcode: str) -> None:
    check(reduce_text("f32", (60, 150), (1,), opcode), special_floats((60, 150), 1))
    check(reduce_text("f32", (60, 3), (1,), opcode), special_floats((60, 3), 2))


@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0}", "{0,2,1}"])
@pytest.mark.parametrize("reduced", [(0,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_dimensions_and_layouts(layout: str, reduced: tuple[int, ...]) -> None:
    check(reduce_text("s32", (6, 7, 70), reduced, layout=layout), options=LAYOUTS)


@pytest.mark.parametrize("columns", [2, 3, 4, 7, 8, 9, 12])
@pytest.mark.parametrize("rows", [1, 17, 100])
def test_many_short_rows(rows: int, columns: int) -> None:
    check(reduce_text("s32", (rows, columns), (1,), "maximum", "-100"))
    check(reduce_text("f32", (3, rows, columns), (2,), producer="tanh(x)"), rtol=1e-5, atol=1e-5)
    check(softmax("f32", rows, columns), rtol=1e-5, atol=1e-5)


def test_many_accumulators_keep_an_initial_value() -> None:
    check(reduce_text("s32", (3, 1000), (1,), "maximum", "2000000"))
    check(reduce_text("s32", (3, 1000), (1,), "add", "-7"))


SOFTMAX = """HloModule m
larger {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] maximum(a, b)
}}
plus {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] add(a, b)
}}
ENTRY e {{
  x = {kind}[{rows},{columns}] parameter(0)
  low = {kind}[] constant(-inf)
  zero = {kind}[] constant(0)
  top = {kind}[{rows}] reduce(x, low), dimensions={{1}}, to_apply=larger
  tops = {kind}[{rows},{columns}] broadcast(top), dimensions={{0}}
  s = {kind}[{rows},{columns}] subtract(x, tops)
  p = {kind}[{rows},{columns}] exponential(s)
  sum = {kind}[{rows}] reduce(p, zero), dimensions={{1}}, to_apply=plus
  sums = {kind}[{rows},{columns}] broadcast(sum), dimensions={{0}}
  q = {kind}[{rows},{columns}] divide(p, sums)
  {last}
}}
"""
ENTROPY = """l = {kind}[{rows},{columns}] log(q)
  h = {kind}[{rows},{columns}] multiply(l, q)
  ROOT t = {kind}[{rows}] reduce(h, zero), dimensions={{1}}, to_apply=plus"""
SCALED = """n = {kind}[{rows}] reduce(q, low), dimensions={{1}}, to_apply=larger
  ns = {kind}[{rows},{columns}] broadcast(n), dimensions={{0}}
  ROOT t = {kind}[{rows},{columns}] divide(q, ns)"""


def softmax(kind: str, rows: int, columns: int, last: str = "ROOT r = {kind}[{rows},{columns}] copy(q)") -> str:
    names = {"kind": kind, "rows": rows, "columns": columns}
    return SOFTMAX.format(last=last.format(**names), **names)


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("columns", [2, 5, 16, 17, 100, 1000])
@pytest.mark.parametrize("last", ["softmax", "entropy", "scaled"])
def test_rows_that_are_needed_again(kind: str, columns: int, last: str) -> None:
    tail = {"entropy": [ENTROPY], "scaled": [SCALED]}.get(last, [])
    tolerance = {"f32": 1e-5, "f64": 1e-12, "bf16": 4e-2}[kind]
    check(softmax(kind, 7, columns, *tail), rtol=tolerance, atol=tolerance)


LIKELIHOOD = """v = {kind}[{rows},{columns}] parameter(0)
  m = {kind}[{rows},{columns}] multiply(v, v)
  w = {kind}[{rows},{columns}] log(m)
  top = {kind}[{rows}] reduce(w, low), dimensions={{1}}, to_apply=larger
  tops = {kind}[{rows},{columns}] broadcast(top), dimensions={{0}}
  s = {kind}[{rows},{columns}] subtract(w, tops)
  p = {kind}[{rows},{columns}] exponential(s)
  sum = {kind}[{rows}] reduce(p, zero), dimensions={{1}}, to_apply=plus
  l = {kind}[{rows}] log(sum)
  n = {kind}[{rows}] add({terms})
  ns = {kind}[{rows},{columns}] broadcast(n), dimensions={{0}}
  d = {kind}[{rows},{columns}] subtract(w, ns)
  e = {kind}[{rows},{columns}] exponential(d)
  h = {kind}[{rows},{columns}] multiply(e, v)
  ROOT t = {kind}[{rows}] reduce(h, zero), dimensions={{1}}, to_apply=plus"""


@pytest.mark.parametrize("terms", ["l, top", "top, l"])
def test_what_a_sum_needs_comes_first_though_others_need_it_too(terms: str) -> None:
    """Rows are written down by the first reduction: another one that it needed wrote them down once more, elsewhere."""
    names = {"kind": "f32", "rows": 3, "columns": 38}
    head = SOFTMAX.split("  x = ")[0].format(**names)
    lines = "low = f32[] constant(-inf)\n  zero = f32[] constant(0)\n  "
    check(f"{head}  {lines}{LIKELIHOOD.format(terms=terms, **names)}\n}}\n", rtol=1e-5, atol=1e-5)


def test_exponentials_are_computed_once() -> None:
    """The kernel keeps them in a row on the stack."""
    once = xjit.compile(softmax("f32", 64, 256)).as_text("llvm")
    assert "%row." in once
    longer = xjit.compile(softmax("f32", 8, 40_000)).as_text("llvm")
    assert "%row." not in longer, "a row that leaves the cache is not kept"


def test_what_is_the_same_for_the_whole_row_is_not_kept() -> None:
    uniform = softmax("f32", 4, 100).replace("exponential(s)", "exponential(tops)")
    check(uniform, rtol=1e-5, atol=1e-5)
    zeros = "broadcast(zero), dimensions={}"
    constant = softmax("f32", 4, 100).replace("subtract(x, tops)", zeros)
    check(constant, rtol=1e-5, atol=1e-5)


def test_a_row_of_nans_stays_in_its_row() -> None:
    x = np.random.default_rng(0).standard_normal((6, 50)).astype(np.float32)
    x[2, 7] = np.nan
    result = np.asarray(xjit.compile(softmax("f32", 6, 50))(x))
    assert np.isnan(result[2]).all() and np.isfinite(np.delete(result, 2, 0)).all()


ARGMAX = """HloModule m
best {{
  a = {kind}[] parameter(0)
  i = {index}[] parameter(1)
  b = {kind}[] parameter(2)
  j = {index}[] parameter(3)
  beats = pred[] compare(a, b), direction={direction}
  nan = pred[] compare(a, a), direction=NE
  keep = pred[] or(beats, nan)
  value = {kind}[] select(keep, a, b)
  tie = pred[] compare(a, b), direction=EQ
  lower = pred[] compare(i, j), direction=LT
  first = pred[] and(tie, lower)
  stay = pred[] or(keep, first)
  index = {index}[] select(stay, i, j)
  ROOT r = ({kind}[], {index}[]) tuple(value, index)
}}
ENTRY e {{
  x = {kind}[{rows},{columns}] parameter(0)
  n = {index}[{rows},{columns}] iota(), iota_dimension=1
  v = {kind}[] constant({init})
  z = {index}[] constant(0)
  w = ({kind}[{rows}], {index}[{rows}]) reduce(x, n, v, z), dimensions={{1}}, to_apply=best
  ROOT at = {index}[{rows}] get-tuple-element(w), index=1
}}
"""


def argmax(kind: str, columns: int, direction: str = "GT", init: str = "-inf", index: str = "s32") -> str:
    return ARGMAX.format(kind=kind, index=index, rows=9, columns=columns, direction=direction, init=init)


@pytest.mark.parametrize("columns", [1, 15, 32, 33, 100, 127, 1000])
@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_where_the_extremum_is(columns: int, direction: str) -> None:
    """NumPy, too, finds the first NaN, or else the first of equal elements."""
    x = special_floats((9, columns), 3)
    expected = x.argmax(1) if direction == "GT" else x.argmin(1)
    init = "-inf" if direction == "GT" else "inf"
    for index in ("s32", "u32", "s64"):
        result = xjit.compile(argmax("f32", columns, direction, init, index))(x)
        np.testing.assert_array_equal(result, expected)


def test_where_the_extremum_of_other_types_is() -> None:
    rng = np.random.default_rng(0)
    for kind, dtype, init in (("s32", np.int32, "-9"), ("f64", np.float64, "-inf"), ("u8", np.uint8, "0")):
        x = rng.integers(0, 5, (9, 333)).astype(dtype)
        np.testing.assert_array_equal(xjit.compile(argmax(kind, 333, init=init))(x), x.argmax(1))


@pytest.mark.parametrize(("direction", "init"), [("GT", "false"), ("LT", "true")])
def test_the_first_truth_is_found_by_lanes(direction: str, init: str) -> None:
    x = np.random.default_rng(0).random((9, 333)) > 0.99
    executable = xjit.compile(argmax("pred", 333, direction, init))
    np.testing.assert_array_equal(executable(x), x.argmax(1) if direction == "GT" else x.argmin(1))
    assert "select over vector" in executable.as_text("schedule")


@pytest.mark.parametrize("kind", ["s32", "u8"])
def test_extrema_of_integers_and_their_indices_by_lanes(kind: str) -> None:
    """Whose simplified reducers have a maximum where those of floats have a select."""
    dtype = np.dtype({"s32": np.int32, "u8": np.uint8}[kind])
    x = np.random.default_rng(2).integers(0, 9, (9, 333)).astype(dtype)
    text = argmax(kind, 333, init=str(np.iinfo(dtype).min)).replace("select(keep, a, b)", "maximum(a, b)")
    for level in ("sse2", "avx2"):
        executable = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))
        np.testing.assert_array_equal(executable(x), x.argmax(1))
        assert "select over vector" in executable.as_text("schedule")


def test_lanes_search_side_by_side() -> None:
    assert "<16 x float>" in vectors(argmax("f32", 333)) or "<8 x float>" in vectors(argmax("f32", 333))
    last = argmax("f32", 333).replace("compare(i, j), direction=LT", "compare(i, j), direction=GT")
    assert " x float>" not in vectors(last), "ties go to the later one here: not known to be the same in any order"


def vectors(text: str) -> str:
    return xjit.compile(text).as_text("llvm")


@pytest.mark.parametrize("window", ["size=17 stride=3 pad=3_-2", "size=4", "size=9 rhs_dilate=2 pad=8_8"])
def test_windows_of_two_arrays(window: str) -> None:
    """Their reducer does not search for an extremum and its index, though it has as many operands."""
    count = {"size=17 stride=3 pad=3_-2": 1, "size=4": 14, "size=9 rhs_dilate=2 pad=8_8": 17}[window]
    check(f"""HloModule m
f {{ a = s64[] parameter(0)
  b = s32[] parameter(1)
  c = s64[] parameter(2)
  d = s32[] parameter(3)
  larger = s64[] maximum(a, c)
  smaller = s32[] minimum(d, b)
  ROOT t = (s64[], s32[]) tuple(larger, smaller) }}
ENTRY e {{
  x = s64[17] parameter(0)
  y = s32[17] parameter(1)
  i = s64[] constant(2)
  j = s32[] constant(3)
  ROOT w = (s64[{count}], s32[{count}]) reduce-window(x, y, i, j), window={{{window}}}, to_apply=f }}""")
