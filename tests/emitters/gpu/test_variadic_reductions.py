"""Reductions of several arrays at once on GPUs: searches for extrema and their indices, and independent operations."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.gpu_planning import schedule_lines
from tests.support.gpu_simulation import check_simulated

PICK = """HloModule m
pick {{ a = {k}[] parameter(0)
 i = s32[] parameter(1)
 b = {k}[] parameter(2)
 j = s32[] parameter(3)
 gt = pred[] compare(a, b), direction=GT
 nan = pred[] compare(a, a), direction=NE
 first = pred[] or(gt, nan)
 same = pred[] compare(a, b), direction=EQ
 below = pred[] compare(i, j), direction=LT
 tie = pred[] and(same, below)
 take = pred[] or(first, tie)
 v = {k}[] select(first, a, b)
 n = s32[] select(take, i, j)
 ROOT t = ({k}[], s32[]) tuple(v, n) }}
ENTRY e {{ x = {k}[{s}] parameter(0)
 p = s32[{s}] iota(), iota_dimension={axis}
 lowest = {k}[] constant(-inf)
 zero = s32[] constant(0)
 ROOT r = ({k}[{r}], s32[{r}]) reduce(x, p, lowest, zero), dimensions={{{axis}}}, to_apply=pick }}"""
BOTH = """HloModule m
both {{ a = f32[] parameter(0)
 b = s32[] parameter(1)
 c = f32[] parameter(2)
 d = s32[] parameter(3)
 s = f32[] maximum(a, c)
 t = s32[] add(d, b)
 ROOT r = (f32[], s32[]) tuple(s, t) }}
ENTRY e {{ x = f32[{s}] parameter(0)
 y = s32[{s}] parameter(1)
 l = f32[] constant(-inf)
 z = s32[] constant(7)
 ROOT r = (f32[{r}], s32[{r}]) reduce(x, y, l, z), dimensions={{{axis}}}, to_apply=both }}"""


@pytest.mark.parametrize(
    ("shape", "axis", "role"), [((5, 70), 1, "lane"), ((2, 1100), 1, "thread"), ((100,), 0, "thread"), ((90, 40), 0, "warp")]
)  # fmt: skip
def test_the_largest_and_where_it_is(shape: tuple[int, ...], axis: int, role: str) -> None:
    """Equal elements, and a NaN in front of a larger one: the bits are the evaluator's."""
    text = PICK.format(k="f32", s=_text(shape), r=_text(shape[:axis] + shape[axis + 1 :]), axis=axis)
    x = np.random.default_rng(0).integers(0, 9, shape).astype(np.float32)
    check_simulated(text, x)
    x.reshape(-1)[1::37] = np.nan
    executable = check_simulated(text, x)
    assert f"select over {role}" in executable.as_text("schedule")


def test_narrow_floats() -> None:
    check_simulated(PICK.format(k="bf16", s="3,65", r="3", axis=1))


@pytest.mark.parametrize(
    ("shape", "axis", "role"), [((3, 70), 1, "lane"), ((64, 33), 0, "warp"), ((1500,), 0, "thread")]
)
def test_independent_operations(shape: tuple[int, ...], axis: int, role: str) -> None:
    text = BOTH.format(s=_text(shape), r=_text(shape[:axis] + shape[axis + 1 :]), axis=axis)
    assert f"tree over {role}" in check_simulated(text).as_text("schedule")


@pytest.mark.slow
def test_columns_in_vectors() -> None:
    """So many columns that each thread takes four."""
    text = PICK.format(k="f32", s="33,16384", r="16384", axis=0)
    executable = xjit.compile(text, "cuda-sim")
    assert "lane vector(4)" in executable.as_text("schedule")
    x = np.random.default_rng(0).integers(0, 9, (33, 16384)).astype(np.float32)
    values, places = executable(x)
    assert (values == x.max(0)).all() and (places == x.argmax(0)).all()


def test_what_is_neither_is_done_by_one_thread_for_each_result() -> None:
    text = BOTH.format(s="4,64", r="4", axis=1).replace("maximum(a, c)", "subtract(a, c)")
    assert any("serial" in line for line in schedule_lines(text))


def _text(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))
