"""Gradients of depthwise convolutions by their kernels: image by image, with channels in vectors."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.passes.expand.depthwise_gradient_expander import DepthwiseGradientExpander

CASES = {
    "channels last": ("3,6,7,4", "3,6,7,4", "3,3,1,4", "size=6x7 pad=1_1x1_1", "f01b_i01o->01bf", 4),
    "strided": ("2,9,8,5", "2,4,4,5", "3,3,1,5", "size=4x4 pad=0_0x0_1 rhs_dilate=2x2", "f01b_i01o->01bf", 5),
    "channels first": ("3,4,6,7", "3,4,6,7", "1,4,3,5", "size=6x7 pad=1_1x2_2", "fb01_io01->bf01", 4),
    "features first": ("5,8,3", "8,5,3", "3,5,1", "size=8 pad=1_1", "b0f_0oi->0fb", 5),
    "three dimensions": ("2,3,4,5,6", "2,3,4,5,6", "1,3,1,1,6", "size=3x4x5 pad=0_0x1_1x0_0", "f012b_i012o->012bf", 6),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    image, kernel, result, window, labels, groups = CASES[name]
    text = f"""
ENTRY e {{
  x = f32[{image}] parameter(0)
  w = f32[{kernel}] parameter(1)
  ROOT c = f32[{result}] convolution(x, w), window={{{window}}}, dim_labels={labels}, batch_group_count={groups}
}}
"""
    module = xjit.parse_hlo(text)
    assert DepthwiseGradientExpander().run(module)
    rng = np.random.default_rng(0)
    given = [
        rng.integers(-4, 5, p.shape.dimensions).astype(np.float32)
        for p in module.entry_computation.parameter_instructions
    ]
    np.testing.assert_array_equal(xjit.evaluate(module, *given), xjit.evaluate(text, *given))
    check(text, *given)
    assert "batch_group_count" not in xjit.compile(text).as_text()
