"""Estimated times of programs with loops."""

from __future__ import annotations

import pytest

import xjit
from xjit.runtime.program import GIL_RELEASE_US


def loop(trips: int, step: str = "add(i, one)", start: str = "constant(1)") -> str:
    """A loop around a sine of 100 numbers."""
    return f"""HloModule m
    cond {{ p = (s32[], f32[100]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      n = s32[] constant({trips})  ROOT c = pred[] compare(i, n), direction=LT }}
    body {{ p = (s32[], f32[100]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
      j = s32[] {step}  v = f32[100] get-tuple-element(p), index=1  w = f32[100] sine(v)
      ROOT t = (s32[], f32[100]) tuple(j, w) }}
    ENTRY e {{ x = f32[100] parameter(0)  z = s32[] {start}  t = (s32[], f32[100]) tuple(z, x)
      ROOT w = (s32[], f32[100]) while(t), condition=cond, body=body }}"""


def estimated_us(text: str) -> float:
    """Returns the estimate that decides about Python's lock."""
    return xjit.compile(text).program.estimated_us


def test_a_loop_takes_as_long_as_its_trips() -> None:
    short, long = estimated_us(loop(1001)), estimated_us(loop(100_001))
    assert long == pytest.approx(100 * short, rel=0.02)
    assert long > GIL_RELEASE_US  # other threads run meanwhile


def test_a_loop_without_a_counter_takes_as_long_as_its_evaluated_trips() -> None:
    doubling = estimated_us(loop(100_000, "add(i, i)"))
    assert doubling == pytest.approx(estimated_us(loop(1001)) * 17 / 1000, rel=0.02)


def test_a_loop_of_unknown_length_is_taken_for_a_long_one() -> None:
    unknown = estimated_us(loop(100_000, "add(i, i)", "parameter(1)"))
    assert unknown == pytest.approx(estimated_us(loop(1001)) / 10, rel=0.02)
