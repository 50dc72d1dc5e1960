"""Gradients of convolutions on CPUs: those of 1x1 kernels are dots, long sums come in parts, zeros are put in last."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.hlo import HloModule
from xjit.passes.cpu.profitability import gains_by_channels_last
from xjit.passes.expand.conv_canonicalization import ConvCanonicalization
from xjit.passes.expand.convolution_to_dot import ConvolutionToDot


def convolution(image: str, kernel: str, result: str, window: str, labels: str) -> str:
    return f"""
ENTRY e {{
  x = f32[{image}] parameter(0)
  w = f32[{kernel}] parameter(1)
  ROOT c = f32[{result}] convolution(x, w), window={{{window}}}, dim_labels={labels}
}}
"""


DOTS = {
    "kernel of 1x1": convolution("4,5,6,3", "4,5,6,2", "1,1,3,2", "size=5x6", "f01b_i01o->01bf"),
    "strided": convolution("2,7,6,3", "2,4,3,2", "1,1,3,2", "size=4x3 pad=0_0x0_-1 rhs_dilate=2x2", "f01b_i01o->01bf"),
    "from the second": convolution("2,9,3", "2,3,2", "1,3,2", "size=3 pad=-1_-3 rhs_dilate=2", "f0b_i0o->0bf"),
    "whole image": convolution("4,5,6,3", "5,6,3,7", "4,1,1,7", "size=5x6", "b01f_01io->b01f"),
    "patches": convolution("2,8,12,3", "2,2,4,5", "4,3,3,5", "size=2x4 rhs_dilate=4x3", "f01b_i01o->01bf"),
    "patches of channels first": convolution(
        "2,3,8,12", "2,5,2,4", "3,5,4,3", "size=2x4 rhs_dilate=4x3", "fb01_io01->bf01"
    ),
    "parts of patches": convolution("2,9,3", "2,3,5", "3,2,5", "size=3 pad=0_-1 rhs_dilate=3", "f0b_i0o->b0f"),
    "patches in one dimension": convolution(
        "2,8,5,3", "2,2,5,4", "4,1,3,4", "size=2x5 rhs_dilate=4x1", "f01b_i01o->01bf"
    ),
    "features first": convolution("3,5,4,6", "7,1,5,6", "1,7,3,4", "size=6x1", "bf10_o1i0->0fb1"),
}


def arguments(module: HloModule) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(-4, 5, p.shape.dimensions).astype(np.float32)
        for p in module.entry_computation.parameter_instructions
    ]


@pytest.mark.parametrize("name", DOTS)
def test_values(name: str) -> None:
    module = xjit.parse_hlo(DOTS[name])
    assert ConvolutionToDot().run(module)
    assert "convolution(" not in str(module)
    given = arguments(module)
    np.testing.assert_array_equal(xjit.evaluate(module, *given), xjit.evaluate(DOTS[name], *given))
    check(DOTS[name], *given)
    assert "convolution(" not in xjit.compile(DOTS[name]).as_text()


LONG = """
ENTRY e {{
  x = f32[{0}] parameter(0)
  y = f32[{1}] parameter(1)
  ROOT d = f32[{2}] dot(x, y), lhs_contracting_dims={{{3}}}, rhs_contracting_dims={{0}}
}}
"""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (LONG.format("8192,64", "8192,64", "64,64", 0), 8),
        (LONG.format("64,4096", "4096,256", "64,256", 1), 4),
        (LONG.format("4,8192", "8192,64", "4,64", 1), 8),
        (LONG.format("2048", "2048", "", 0), 1),
        (LONG.format("2,8192", "8192,512", "2,512", 1), 1),
        (LONG.format("1024,64", "1024,64", "64,64", 0), 1),
        (LONG.format("4096,512", "4096,512", "512,512", 0), 1),
    ],
    ids=["few results", "until there are enough", "few rows", "one sum", "wide rows", "short sums", "many results"],
)
def test_long_sums_of_few_results_come_in_parts(text: str, parts: int) -> None:
    optimized = xjit.compile(text).as_text()
    assert (f"f32[{parts}," in optimized and "dot(" in optimized) == (parts > 1)
    given = arguments(xjit.parse_hlo(text))
    np.testing.assert_array_equal(xjit.compile(text)(*given), xjit.evaluate(text, *given))  # sums of integers


GRADIENT = convolution("8,6,6,4", "8,6,6,16", "3,3,4,16", "size=6x6 pad=1_1x1_1", "f01b_i01o->01bf")


def test_gradients_by_kernels_read_images_side_by_side() -> None:
    assert "dim_labels=b01f_01io->b01f" in xjit.compile(GRADIENT).as_text()
    check(GRADIENT, *arguments(xjit.parse_hlo(GRADIENT)))
    bf16 = GRADIENT.replace("f32", "bf16")
    assert "dim_labels=b01f_01io->b01f" in xjit.compile(bf16).as_text()
    single = GRADIENT.replace("[8,", "[1,")
    assert "dim_labels=f01b_i01o->01bf" in xjit.compile(single).as_text()


def test_canonicalization_of_called_computations_is_an_option() -> None:
    text = f"""
{GRADIENT.replace("ENTRY e", "called")}
ENTRY main {{
  x = f32[8,6,6,4] parameter(0)
  w = f32[8,6,6,16] parameter(1)
  ROOT c = f32[3,3,4,16] call(x, w), to_apply=called
}}
"""
    assert not ConvCanonicalization().run(xjit.parse_hlo(text))
    assert ConvCanonicalization(entry_only=False).run(xjit.parse_hlo(text))
    narrow = text.replace("f32", "bf16")
    assert not ConvCanonicalization(entry_only=False).run(xjit.parse_hlo(narrow))
    assert ConvCanonicalization(entry_only=False, any_float=True).run(xjit.parse_hlo(narrow))


def test_phases_of_images_with_channels_first_are_made_with_channels_last() -> None:
    text = """
ENTRY e {
  x = f32[1,6,8,8] parameter(0)
  w = f32[8,6,3,3] parameter(1)
  ROOT c = f32[1,8,16,16] convolution(x, w), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2}, dim_labels=bf01_oi01->bf01
}
"""
    few = text.replace("f32[8,6,3,3]", "f32[2,6,3,3]").replace("f32[1,8,16,16]", "f32[1,2,16,16]")
    dense = text.replace(" lhs_dilate=2x2", "").replace("f32[1,8,16,16]", "f32[1,8,9,9]")
    gains = [gains_by_channels_last(xjit.parse_hlo(t).entry_computation.root_instruction) for t in (text, few, dense)]
    assert gains == [True, False, False]
    assert "->b01f" in str(xjit.compile(text).as_text("optimized-hlo"))
    rng = np.random.default_rng(0)
    check(text, *(rng.integers(-4, 5, s).astype(np.float32) for s in ((1, 6, 8, 8), (8, 6, 3, 3))))
