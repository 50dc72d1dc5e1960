"""Reductions that keep the minor dimensions, against the evaluator; threads and strips must not show."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check, check_units, view_of
from tests.support.reductions import reduce_text, special_floats
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.planners.cpu.columns import plan_reduce
from xjit.emitters.planners.cpu.planning import PlanContext
from xjit.llvm.target import Target
from xjit.text.parser import parse_hlo


def kind_of(text: str) -> str:
    """Which kind of schedule the root of a module gets."""
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    return plan_reduce(PlanContext(Target.host(), MapCache()), view)[0].kind


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 100, 257, 2048, 2500])
@pytest.mark.parametrize("rows", [0, 1, 7, 16, 33])
def test_sizes(rows: int, columns: int) -> None:
    check(reduce_text("f32", (rows, columns), (0,)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["f64", "bf16", "f16", "s32", "u8", "s64", "c64"])
@pytest.mark.parametrize("opcode", ["add", "multiply"])
def test_types(kind: str, opcode: str) -> None:
    tolerance = {"f64": 1e-12, "bf16": 1e-2, "f16": 2e-3, "c64": 1e-5}.get(kind, 0.0)
    check(reduce_text(kind, (19, 70), (0,), opcode), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("opcode", ["and", "or"])
def test_predicates(opcode: str) -> None:
    check(reduce_text("pred", (18, 100), (0,), opcode))


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_special_values(opcode: str) -> None:
    check(reduce_text("f32", (40, 130), (0,), opcode), special_floats((40, 130), 1))


def test_an_initial_value_counts_once() -> None:
    check(reduce_text("s32", (50, 64), (0,), "add", "7"))


@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0}", "{0,2,1}"])
@pytest.mark.parametrize("reduced", [(0,), (1,), (0, 1), (0, 2), (1, 2)])
def test_dimensions_and_layouts(layout: str, reduced: tuple[int, ...]) -> None:
    check(reduce_text("s32", (20, 21, 22), reduced, layout=layout), options=LAYOUTS)


def test_fused_producers() -> None:
    check(reduce_text("f32", (40, 300), (0,), producer="exponential(x)"), rtol=1e-5, atol=1e-5)
    check(reduce_text("f32", (40, 300), (0,), producer="reverse(x), dimensions={1}"), rtol=1e-5, atol=1e-5)


ARGMAX = """HloModule m
f {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  greater = pred[] compare(a, b), direction=GT
  value = f32[] select(greater, a, b)
  index = s32[] select(greater, i, j)
  ROOT r = (f32[], s32[]) tuple(value, index)
}}
ENTRY e {{
  x = f32[{rows},{columns}] parameter(0)
  n = s32[{rows},{columns}] iota(), iota_dimension=0
  v = f32[] constant(-inf)
  z = s32[] constant(0)
  ROOT w = (f32[{columns}], s32[{columns}]) reduce(x, n, v, z), dimensions={{0}}, to_apply=f
}}
"""


def test_any_reducer_runs_in_order() -> None:
    """This one is not commutative: of equal values the last one wins."""
    x = np.nan_to_num(special_floats((37, 131), 2), nan=1.0)
    values, indices = xjit.compile(ARGMAX.format(rows=37, columns=131))(x)
    np.testing.assert_array_equal(values, x.max(0))
    np.testing.assert_array_equal(indices, 36 - x[::-1].argmax(0))


@pytest.mark.parametrize("dims", [(100, 900), (64, 2049), (3, 40, 300)])
def test_bits_do_not_depend_on_the_partition(dims: tuple[int, ...]) -> None:
    text = reduce_text("f32", dims, (len(dims) - 2,)).replace("i = f32[] constant(0)", "i = f32[] parameter(1)")
    inputs = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    assert check_units(text, inputs, np.float32(0), rtol=1e-5, atol=1e-5) > 1


@pytest.mark.parametrize(
    ("dims", "reduced", "columns"), [((64, 64), (0,), True), ((64, 64), (1,), False), ((64, 3), (0,), False)]
)
def test_where_it_applies(dims: tuple[int, ...], reduced: tuple[int, ...], columns: bool) -> None:
    text = reduce_text("f32", dims, reduced).replace("i = f32[] constant(0)", "i = f32[] parameter(1)")
    assert (kind_of(text) == "column-reduction") is columns


TWO = """HloModule m
add {{ a = {0}[] parameter(0)  b = {0}[] parameter(1)  ROOT s = {0}[] add(a, b) }}
max {{ a = {0}[] parameter(0)  b = {0}[] parameter(1)  ROOT s = {0}[] maximum(a, b) }}
fused {{
  x = {0}[{1}] parameter(0)
  y = {0}[{1}] parameter(1)
  z = {0}[] constant(0)
  product = {0}[{1}] multiply(x, y)
  a = {0}[{2}] reduce(x, z), dimensions={{{3}}}, to_apply=add
  b = {0}[{2}] reduce(product, z), dimensions={{{3}}}, to_apply=max
  c = {0}[{2}] reduce(y, z), dimensions={{{3}}}, to_apply=add
  ROOT t = ({0}[{2}], {0}[{2}], {0}[{2}]) tuple(a, b, c)
}}
ENTRY e {{
  x = {0}[{1}] parameter(0)
  y = {0}[{1}] parameter(1)
  ROOT f = ({0}[{2}], {0}[{2}], {0}[{2}]) fusion(x, y), kind=kInput, calls=fused
}}
"""


@pytest.mark.parametrize(
    ("dims", "result", "reduced"),
    [("33,100", "100", "0"), ("17,2500", "2500", "0"), ("3,40,300", "3,300", "1"), ("5,6,7,64", "64", "0,1,2")],
)
@pytest.mark.parametrize("kind", ["s32", "f32", "bf16"])
def test_several_reductions_of_the_same_rows(kind: str, dims: str, result: str, reduced: str) -> None:
    text = TWO.format(kind, dims, result, reduced)
    assert kind_of(text) == "column-reduction"
    tolerance = {"s32": 0.0, "f32": 1e-5, "bf16": 1e-2}[kind]
    check(text, rtol=tolerance, atol=tolerance)


def test_reductions_of_other_rows_keep_loops_of_their_own() -> None:
    text = TWO.format("s32", "32,32", "32", "0").replace("dimensions={0}, to_apply=max", "dimensions={1}, to_apply=max")
    assert kind_of(text) == "loop"
    check(text)
