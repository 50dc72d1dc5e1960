"""Rows that are joined of pieces and reduced: reductions that are always needed are done once, and lanes of a piece are
loaded as they lie.
"""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.affine import dim
from xjit.emitters.access.access_analysis import AccessAnalysis, MapCache
from xjit.emitters.loops.variables import VariableTable

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
LEVELS = ("sse2", "avx2", "")


def standardized(rows: int, left: int, right: int) -> str:
    """Joined rows, less their means and over their variances."""
    n, shape = left + right, f"f32[{rows},{left + right}]"
    return f"""HloModule standardized
{SUM}
ENTRY main {{
  x = f32[{rows},{left}] parameter(0)
  y = f32[{rows},{right}] parameter(1)
  minus = f32[{rows},{right}] negate(y)
  joined = {shape} concatenate(x, minus), dimensions={{1}}
  zero = f32[] constant(0)
  count = f32[] constant({n})
  counts = f32[{rows}] broadcast(count), dimensions={{}}
  total = f32[{rows}] reduce(joined, zero), dimensions={{1}}, to_apply=sum
  mean = f32[{rows}] divide(total, counts)
  means = {shape} broadcast(mean), dimensions={{0}}
  distance = {shape} subtract(joined, means)
  square = {shape} multiply(distance, distance)
  squares = f32[{rows}] reduce(square, zero), dimensions={{1}}, to_apply=sum
  variance = f32[{rows}] divide(squares, counts)
  variances = {shape} broadcast(variance), dimensions={{0}}
  ROOT r = {shape} divide(distance, variances)
}}"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("rows", "left", "right"), [(7, 33, 33), (40, 100, 28), (5, 256, 100), (30, 64, 64), (9, 5, 3)]
)
def test_values(rows: int, left: int, right: int, level: str) -> None:
    text = standardized(rows, left, right)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((rows, n), np.float32) for n in (left, right))
    got = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))(x, y)
    np.testing.assert_allclose(got, xjit.evaluate(text, x, y), rtol=1e-5, atol=1e-5)


def test_each_row_is_reduced_once() -> None:
    schedule = xjit.compile(standardized(40, 100, 28)).as_text("schedule")
    assert "where needed" not in schedule and schedule.count("reduce %") == 2, schedule


def test_no_division_tells_where_a_piece_is_read() -> None:
    text = xjit.compile(standardized(40, 100, 28), options=xjit.CompileOptions(cpu_level="avx512")).as_text("llvm")
    kernel = text.split("define ")[1]
    assert "urem" not in kernel and "masked.gather" not in kernel


def test_reductions_of_a_piece_are_only_sure_where_the_piece_is() -> None:
    module = xjit.parse_hlo(f"""HloModule m
{SUM}
ENTRY main {{
  x = f32[4,8] parameter(0)
  y = f32[6,8] parameter(1)
  zero = f32[] constant(0)
  first = f32[4] reduce(x, zero), dimensions={{1}}, to_apply=sum
  second = f32[6] reduce(y, zero), dimensions={{1}}, to_apply=sum
  joined = f32[10] concatenate(first, second), dimensions={{0}}
  all = f32[] reduce(joined, zero), dimensions={{0}}, to_apply=sum
  whole = f32[10] broadcast(all), dimensions={{}}
  ROOT r = f32[10] subtract(joined, whole)
}}""")
    root = module.entry_computation.root_instruction
    leaves = {i: i.shape for i in module.entry_computation.instructions if i.opcode in ("parameter", "constant")}
    table = VariableTable()
    accesses = AccessAnalysis(table, leaves, MapCache()).collect(root, (dim(table.new_variable(10)),))
    assert {i.name for i, _ in accesses.reductions} == {"first", "second", "all"}
    assert {i.name for i, _ in accesses.sure} == {"all"}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sizes", [(4, 16), (3, 30, 7), (17, 17), (64, 33), (1, 100), (5, 5, 5, 5)])
def test_short_rows_of_pieces_without_a_reduction(sizes: tuple[int, ...], level: str) -> None:
    total = sum(sizes)
    pieces = "\n".join(f"  x{n} = f32[50,{size}] parameter({n})" for n, size in enumerate(sizes))
    names = ", ".join(f"x{n}" for n in range(len(sizes)))
    text = f"HloModule m\nENTRY e {{\n{pieces}\n  ROOT r = f32[50,{total}] concatenate({names}), dimensions={{1}}\n}}"
    rng = np.random.default_rng(2)
    given = [rng.standard_normal((50, size), np.float32) for size in sizes]
    exe = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))
    assert np.array_equal(exe(*given), np.concatenate(given, 1))
    if level == "avx2" and total <= 64 and 1 < len(sizes) < 4:
        assert exe.as_text("schedule").count("part {") == 1, "ends are lanes under a mask"
