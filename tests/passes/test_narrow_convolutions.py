"""Convolutions to few features, by taps: the same sums, whatever the order of dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.passes.expand.narrow_convolution_expander import NarrowConvolutionExpander

CASES = {
    "channels last": ("2,6,7,16", "3,3,16,3", "2,6,7,3", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "channels first": ("2,16,6,7", "4,16,3,2", "2,4,4,6", "size=3x2", "bf01_oi01->bf01"),
    "odd labels": ("6,2,17,7", "3,4,2,17", "2,7,6,4", "size=3x2 pad=2_0x1_0", "0bf1_0o1i->b10f"),
    "taps apart": ("1,9,16", "4,16,1", "1,9,1", "size=4 pad=3_6 rhs_dilate=3", "b0f_0io->b0f"),
    "elements cut off": ("1,9,16", "4,16,2", "1,3,2", "size=4 pad=-2_-1", "b0f_0io->b0f"),
    "three dimensions": ("1,4,5,3,16", "2,2,2,16,2", "1,3,5,4,2", "size=2x2x2 pad=0_0x1_0x1_1", "b012f_012io->b012f"),
}
TYPES = {"f32": 0.0, "s32": 0.0, "bf16": 0.01, "f64": 0.0}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, kind: str) -> None:
    image, kernel, result, window, labels = CASES[name]
    text = f"""
ENTRY e {{
  x = {kind}[{image}] parameter(0)
  w = {kind}[{kernel}] parameter(1)
  ROOT c = {kind}[{result}] convolution(x, w), window={{{window}}}, dim_labels={labels}
}}
"""
    module = xjit.parse_hlo(text)
    assert NarrowConvolutionExpander().run(module)
    rng = np.random.default_rng(0)
    given = [
        rng.integers(-4, 5, p.shape.dimensions).astype(p.shape.dtype)
        for p in module.entry_computation.parameter_instructions
    ]
    np.testing.assert_array_equal(xjit.evaluate(module, *given), xjit.evaluate(text, *given))
    check(text, *given, rtol=TYPES[kind])
    assert "convolution(" not in xjit.compile(text).as_text()


def test_complex_products_are_split() -> None:
    text = """
ENTRY e {
  x = c64[2,30,32] parameter(0)
  w = c64[4,32,4] parameter(1)
  ROOT c = c64[2,30,4] convolution(x, w), window={size=4 pad=1_2}, dim_labels=b0f_0io->b0f
}
"""
    assert [kernel.kind for kernel in xjit.compile(text).kernels].count("gemm") == 4
    rng = np.random.default_rng(0)
    given = [
        (rng.integers(-4, 5, shape) + 1j * rng.integers(-4, 5, shape)).astype(np.complex64)
        for shape in ((2, 30, 32), (4, 32, 4))
    ]
    check(text, *given)
