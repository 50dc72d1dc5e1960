"""Padded windows in parts: the same bits as when they are one part, and the values of the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.emitters.planners.cpu import regions


@pytest.mark.parametrize(
    ("window", "result", "opcode", "init"),
    [
        ("5x4 stride=2x1 pad=3_1x2_2", "5,13", "maximum", "0"),  # inits that padding must not leave out
        ("3x5 pad=1_1x3_1 rhs_dilate=2x1", "7,12", "add", "3"),
        ("2x3 stride=1x2 pad=-1_1x2_3", "8,8", "minimum", "1"),
        ("11x2 pad=6_8x1_0", "13,12", "add", "2"),  # wider than the operand
        ("2x3 pad=1_0x2_1 lhs_dilate=1x2", "9,24", "multiply", "2"),
        ("3x3 pad=2_0x2_2 rhs_reversal=0x1", "9,14", "add", "3"),
    ],
)
@pytest.mark.parametrize("last", ["", "reverse", "multiply"])
def test_values(monkeypatch: pytest.MonkeyPatch, window: str, result: str, opcode: str, init: str, last: str) -> None:
    following = {"": "", "multiply": f"ROOT m = s32[{result}] multiply(w, w)",
                 "reverse": f"ROOT m = s32[{result}] reverse(w), dimensions={{0,1}}"}[last]  # fmt: skip
    text = f"""HloModule m
f {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] {opcode}(a, b) }}
ENTRY e {{ x = s32[9,12] parameter(0)  i = s32[] constant({init})  y = s32[9,12] add(x, x)
  {"" if last else "ROOT "}w = s32[{result}] reduce-window(y, i), window={{size={window}}}, to_apply=f
  {following} }}
"""
    x = np.random.default_rng(0).integers(-4, 5, (9, 12)).astype(np.int32)
    monkeypatch.setattr(regions, "MIN_PADDED_ELEMENTS", 1)
    np.testing.assert_array_equal(xjit.compile(text)(x), xjit.evaluate(text, x))


def test_padding_that_takes_more_away_than_there_is() -> None:
    text = """HloModule m
f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[4,3] parameter(0)  z = f32[] constant(0)
  ROOT w = f32[0,3] reduce-window(x, z), window={size=2x1 pad=-3_-3x0_0}, to_apply=f }
"""
    x = np.ones((4, 3), np.float32)
    assert xjit.evaluate(text, x).shape == xjit.compile(text)(x).shape == (0, 3)
