"""Convolutions to few features, whose pixels are lanes: the same sums, whatever the order of dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.passes.analysis import planar_convolutions
from xjit.passes.expand.planar_convolution_rewriter import PlanarConvolutionRewriter

CASES = {
    "one channel": ("2,6,37,1", "3,5,1,1", "2,6,37,1", "size=3x5 pad=1_1x2_2", "b01f_01io->b01f", ""),
    "channels last": ("2,6,37,3", "3,3,3,2", "2,6,37,2", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
    "channels first": ("2,3,6,64", "4,3,3,2", "2,4,4,63", "size=3x2", "bf01_oi01->bf01", ""),
    "a channel each": ("1,40,6,33", "40,1,3,3", "1,40,6,33", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01", "40"),
    "groups": ("1,6,5,20", "4,3,2,2", "1,4,4,19", "size=2x2", "bf01_oi01->bf01", "2"),
    "groups, channels last": ("1,5,20,6", "2,2,3,4", "1,4,19,4", "size=2x2", "b01f_01io->b01f", "2"),
    "odd labels": ("6,2,1,37", "3,4,2,1", "2,36,6,4", "size=3x2 pad=2_0x0_0", "0bf1_0o1i->b10f", ""),
    "taps apart, strides": ("1,19,40,1", "4,3,1,1", "1,7,36,1", "size=4x3 stride=2x1 rhs_dilate=2x2",
                            "b01f_01io->b01f", ""),
    "reversed": ("1,7,20,1", "3,3,1,2", "1,7,20,2", "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01io->b01f", ""),
    "elements cut off": ("1,30,1", "4,1,2", "1,24,2", "size=4 pad=-2_-1", "b0f_0io->b0f", ""),
    "a long filter": ("1,1,300", "1,1,31", "1,1,300", "size=31 pad=15_15", "bf0_oi0->bf0", ""),
    "three dimensions": ("1,4,5,16,1", "2,2,2,1,2", "1,3,5,17,2", "size=2x2x2 pad=0_0x1_0x1_1", "b012f_012io->b012f",
                         ""),
}  # fmt: skip
TYPES = ("f32", "f64", "bf16", "f16", "s32", "s8", "u8", "s64")


def text_of(name: str, kind: str) -> str:
    image, kernel, result, window, labels, groups = CASES[name]
    more = f", feature_group_count={groups}" if groups else ""
    return f"""
ENTRY e {{
  x = {kind}[{image}] parameter(0)
  w = {kind}[{kernel}] parameter(1)
  ROOT c = {kind}[{result}] convolution(x, w), window={{{window}}}, dim_labels={labels}{more}
}}
"""


@pytest.fixture(autouse=True)
def _small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planar_convolutions, "MIN_PRODUCTS", 1)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, kind: str) -> None:
    text = text_of(name, kind)
    module = xjit.parse_hlo(text)
    assert PlanarConvolutionRewriter().run(module) or CASES[name][4] == "bf01_oi01->bf01"
    rng = np.random.default_rng(0)
    most = 120 if kind in ("s8", "u8") else 4  # sums of bytes wrap around
    given = [  # no zeros: whether a sum of zeros with a sign has one is left open
        rng.choice([n for n in range(0 if kind == "u8" else -most, most) if n], p.shape.dimensions).astype(
            p.shape.dtype
        )
        for p in module.entry_computation.parameter_instructions
    ]
    np.testing.assert_array_equal(xjit.evaluate(module, *given), xjit.evaluate(text, *given))
    check(text, *given)


@pytest.mark.parametrize("name", CASES)
def test_pixels_are_lanes(name: str) -> None:
    """What is left are loops: none of them asks for padding, and taps are written out."""
    schedule = str(xjit.compile(text_of(name, "f32")).as_text("schedule"))
    assert "written by hand" not in schedule
    (sums,) = (line for line in schedule.splitlines() if line.lstrip().startswith("reduce "))
    assert sums.count("(") > 2 or name in ("a long filter", "one channel")


def test_what_is_computed_from_it_stays_in_its_loops() -> None:
    text = text_of("one channel", "f32").replace("ROOT c", "c").removesuffix("}\n")
    text += "  zero = f32[] constant(0)\n  zeros = f32[2,6,37,1] broadcast(zero), dimensions={}\n"
    text += "  ROOT r = f32[2,6,37,1] maximum(c, zeros)\n}\n"
    assert len(xjit.compile(text).kernels) == 2  # with the padding
    rng = np.random.default_rng(0)
    check(text, *(rng.integers(-4, 5, s).astype(np.float32) for s in ((2, 6, 37, 1), (3, 5, 1, 1))))
