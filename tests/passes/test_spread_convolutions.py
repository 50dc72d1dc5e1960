"""Convolutions over inputs that are spread out far: the same values from products with elements alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.hlo import HloModule
from xjit.passes.expand.spread_convolution_expander import SpreadConvolutionExpander


def convolution(
    sizes: Sequence[int], kernel: Sequence[int], window: str, labels: str, result: str, more: str = ""
) -> str:
    x, w = (",".join(map(str, dims)) for dims in (sizes, kernel))
    return f"""
ENTRY e {{
  x = f32[{x}] parameter(0)
  w = f32[{w}] parameter(1)
  ROOT c = f32[{result}] convolution(x, w), window={{{window}}}, dim_labels={labels}{more}
}}
"""


CASES = {
    "patches": convolution((2, 3, 4, 5), (6, 6, 3, 5), "size=6x6 pad=5_5x5_5 lhs_dilate=6x6", "b01f_01oi->b01f", "2,18,24,3"),
    "overlap": convolution((1, 4, 3, 2), (7, 9, 2, 3), "size=7x9 pad=6_4x3_8 lhs_dilate=5x5", "b01f_01io->b01f", "1,20,14,3"),
    "one dimension": convolution((2, 5, 3), (20, 3, 4), "size=20 pad=3_19 lhs_dilate=17", "b0f_0io->b0f", "2,72,4"),
    "negative padding": convolution((2, 5, 3), (20, 3, 4), "size=20 pad=-5_-7 lhs_dilate=18", "b0f_0io->b0f", "2,42,4"),
    "much padding": convolution((2, 5, 3), (20, 3, 4), "size=20 pad=50_41 lhs_dilate=18", "b0f_0io->b0f", "2,145,4"),
    "channels first": convolution((2, 5, 3, 4), (3, 5, 6, 5), "size=6x5 pad=5_5x4_4 lhs_dilate=5x5", "bf01_oi01->bf01", "2,3,16,20"),
    "odd labels": convolution((3, 2, 4, 5), (3, 6, 5, 7), "size=6x7 pad=2_5x4_4 lhs_dilate=5x6", "0b1f_o0i1->f1b0", "3,21,2,13"),
    "few features": convolution((1, 4, 4, 2), (4, 4, 2, 3), "size=4x4 lhs_dilate=4x4", "b01f_01io->b01f", "1,10,10,3"),
    "few that overlap": convolution((2, 5, 6, 4), (7, 7, 4, 3), "size=7x7 pad=3_4x4_3 lhs_dilate=2x2", "b01f_01io->b01f", "2,10,12,3"),
    "fewer taps than gaps": convolution((2, 5, 3), (9, 3, 4), "size=9 lhs_dilate=18", "b0f_0io->b0f", "2,65,4"),
    "gaps, and padding": convolution((2, 5, 4, 3), (2, 4, 3, 4), "size=2x4 pad=7_2x0_-3 lhs_dilate=3x5", "b01f_01io->b01f", "2,21,10,4"),
    "no overlap": convolution((2, 5, 3), (2, 3, 32), "size=2 pad=1_1 lhs_dilate=2", "b0f_0io->b0f", "2,10,32"),
    "one tap in one dimension": convolution((2, 5, 4, 3), (1, 3, 3, 4), "size=1x3 pad=1_2x2_2 lhs_dilate=3x2", "b01f_01io->b01f", "2,16,9,4"),
    "beside a stride": convolution((2, 5, 9, 3), (18, 2, 3, 4), "size=18x2 stride=1x2 pad=17_17x0_1 lhs_dilate=18x1", "b01f_01io->b01f", "2,90,5,4"),
}  # fmt: skip


def expanded(text: str) -> HloModule:
    module = xjit.parse_hlo(text)
    assert SpreadConvolutionExpander().run(module)
    return module


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    module, arrays = expanded(CASES[name]), []
    rng = np.random.default_rng(0)
    for parameter in module.entry_computation.parameter_instructions:
        arrays.append(rng.integers(-4, 5, parameter.shape.dimensions).astype(np.float32))
    np.testing.assert_array_equal(xjit.evaluate(module, *arrays), xjit.evaluate(CASES[name], *arrays))
    check(CASES[name], *arrays)
    assert "lhs_dilate" not in str(module)


@pytest.mark.parametrize(
    "text",
    [
        CASES["patches"].replace("lhs_dilate=6x6", "lhs_dilate=6x6 rhs_reversal=1x1"),
        convolution(
            (2, 5, 3), (20, 1, 3), "size=20 lhs_dilate=18", "b0f_0io->b0f", "2,54,3", ", feature_group_count=3"
        ),
        convolution((1, 4, 4, 2), (3, 3, 2, 32), "size=3x3 lhs_dilate=2x2", "b01f_01io->b01f", "1,5,5,32"),
    ],
    ids=["reversed", "groups", "few phases"],
)
def test_what_stays(text: str) -> None:
    assert not SpreadConvolutionExpander().run(xjit.parse_hlo(text))
