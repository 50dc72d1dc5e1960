"""select-and-scatter against the evaluator: overlapping windows, padding, dilation, layouts, types, ties."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support.kernels import LAYOUTS, check, check_units
from xjit.llvm.target import LEVELS, Target
from xjit.runtime.machine_code.jit import missing_features


def text(kind: str, operand: str, source: str, window: str, layout: str = "", select: str = "GE") -> str:
    return f"""HloModule m
select {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = pred[] compare(a, b), direction={select}
}}
scatter {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] add(a, b)
}}
ENTRY e {{
  x = {kind}[{operand}]{layout} parameter(0)
  s = {kind}[{source}]{layout} parameter(1)
  i = {kind}[] parameter(2)
  ROOT r = {kind}[{operand}]{layout} select-and-scatter(x, s, i), window={{{window}}}, select=select, scatter=scatter
}}
"""


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s32", "u8"])
def test_overlapping_windows(kind: str) -> None:
    for operand, source, window in (
        ("2,7,9,5", "2,3,4,5", "size=1x3x3x1 stride=1x2x2x1"),
        ("7,9", "4,5", "size=3x3 stride=2x2 pad=1_1x1_1"),
        ("2,6,6,40", "2,6,6,40", "size=1x3x3x1 pad=0_0x1_1x1_1x0_0"),
    ):
        check(text(kind, operand, source, window), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("select", ["GE", "GT", "LE", "EQ"])
def test_ties(select: str) -> None:
    check(text("s8", "3,8,8", "3,7,7", "size=1x2x2", select=select))


def test_one_dimension_and_scalars() -> None:
    check(text("f32", "9", "3", "size=3 stride=3"), rtol=1e-6)
    check(text("f32", "1", "1", "size=1"), rtol=1e-6)
    check(text("f32", "9", "0", "size=10"), rtol=1e-6)


def test_layouts_and_units() -> None:
    module = text("f32", "5,9,9,3", "5,4,4,3", "size=1x3x3x1 stride=1x2x2x1", "{0,1,2,3}")
    check(module, rtol=1e-6, atol=1e-6, options=LAYOUTS)
    assert check_units(module, rtol=1e-6, atol=1e-6) == 3


@pytest.mark.parametrize("lanes", [5, 9, 17])
def test_one_lane_is_left_over(lanes: int) -> None:
    """The place in a window differs from lane to lane: its value for the last lane alone was not found."""
    module = text("f32", f"{lanes},9,9,3", f"{lanes},4,4,3", "size=1x3x3x1 stride=1x2x2x1", "{0,1,2,3}")
    for level in (level for level in LEVELS if not missing_features(Target.for_features(level).features)):
        check(module, rtol=1e-6, atol=1e-6, options=dataclasses.replace(LAYOUTS, cpu_level=level))
