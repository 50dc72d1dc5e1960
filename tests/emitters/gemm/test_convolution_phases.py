"""Convolutions over spread inputs, taken apart: the parts' sizes by hand, their sums against the evaluator."""

from __future__ import annotations

from dataclasses import replace

import pytest

import xjit
from tests.support.kernels import check
from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionShape, SpatialDimension
from xjit.emitters.gemm.convolution.phases import convolution_phases
from xjit.passes.analysis.convolution_phases import MAX_PHASES, MIN_PIXELS_OF_TAPS

DIMENSION = SpatialDimension(14, 3, 28, 20, 7, 5, padding_low=1, base_dilation=2)
SHAPE = ConvolutionShape(1, 4, 5, (DIMENSION,), 280, 1, 5, 1, 140, 1)


def test_each_phase_has_its_taps_alone() -> None:
    even, odd = convolution_phases(SHAPE)
    assert even.shape.spatial == (SpatialDimension(14, 1, 14, 20, 14, 10, padding_low=0),)
    assert odd.shape.spatial == (SpatialDimension(14, 2, 14, 20, 14, 10, padding_low=0),)
    assert (even.kernel_start, even.result_start) == (7, 0)
    assert (odd.kernel_start, odd.result_start) == (0, 5)
    assert sum(phase.shape.flops for phase in (even, odd)) == SHAPE.flops // 2


def test_spread_taps_see_every_second_element() -> None:
    """Output o and tap k see element o + 2 k - 1: even outputs the odd ones, from one before the first on."""
    taps = SpatialDimension(15, 7, 3, 20, 7, 5, padding_low=1, window_dilation=2)
    even, odd = convolution_phases(replace(SHAPE, batch=MIN_PIXELS_OF_TAPS // 3 + 1, spatial=(taps,)))
    assert even.shape.spatial == (SpatialDimension(7, 7, 2, 40, 7, 10, padding_low=1),)
    assert odd.shape.spatial == (SpatialDimension(8, 7, 1, 40, 7, 10, padding_low=0),)
    assert [(p.input_start, p.kernel_start, p.result_start) for p in (even, odd)] == [(20, 0, 0), (0, 0, 5)]


@pytest.mark.parametrize(
    "change",
    [{"kernel": 3}, {"output": 1}, {"window_stride": 2}, {"base_dilation": 2}, {"window_dilation": MAX_PHASES + 1}],
    ids=str,
)
def test_spread_taps_that_stay(change: dict[str, int]) -> None:
    """They are few, or phases would have no place or gaps of their own."""
    taps = SpatialDimension(15, 7, 3, 20, 7, 5, padding_low=1, window_dilation=2)
    shape = replace(SHAPE, batch=MIN_PIXELS_OF_TAPS, spatial=(replace(taps, **change),))
    (phase,) = convolution_phases(shape)
    assert phase.shape is shape


@pytest.mark.parametrize(("images", "phases"), [(MIN_PIXELS_OF_TAPS // 9, 2), (MIN_PIXELS_OF_TAPS // 9 + 1, 4)])
def test_rows_of_few_pixels_stay(images: int, phases: int) -> None:
    """Their taps would be packed for few; within rows there are phases in any case."""
    taps = SpatialDimension(15, 7, 3, 20, 7, 5, padding_low=1, window_dilation=2)
    shape = replace(SHAPE, batch=images, spatial=(taps, taps))
    assert len(convolution_phases(shape)) == phases


@pytest.mark.parametrize(("low", "high", "dilation", "taps"), [(1, 2, 2, 7), (0, 0, 3, 4), (-1, 3, 2, 6), (3, 1, 3, 5)])
@pytest.mark.parametrize("reversal", [0, 1])
def test_values_of_spread_taps(low: int, high: int, dilation: int, taps: int, reversal: int) -> None:
    """As in gradients of strided convolutions, whose taps are more than their results; one dimension stays whole."""
    size = dilation * (taps - 1) + 4 - low - high
    window = f"size={taps}x2 pad={low}_{high}x0_1 rhs_dilate={dilation}x1 rhs_reversal={reversal}x0"
    check(f"""HloModule m
ENTRY e {{
  x = f32[16,{size},9,3] parameter(0)
  w = f32[3,{taps},2,20] parameter(1)
  ROOT c = f32[4,9,16,20] convolution(x, w), window={{{window}}}, dim_labels=b01f_i01o->01bf
}}""", rtol=1e-5, atol=1e-5)  # fmt: skip


def test_of_a_reversed_kernel_the_other_end_counts() -> None:
    phases = convolution_phases(replace(SHAPE, spatial=(replace(DIMENSION, kernel=4, reversed=True),)))
    assert [phase.kernel_start for phase in phases] == [0, 7]


@pytest.mark.parametrize(
    "change",
    [
        {"base_dilation": 1},
        {"base_dilation": 4},  # phases without a tap
        {"window_stride": 2},
        {"window_dilation": 2},
        {"output": 1},
        {"base_dilation": MAX_PHASES + 1, "kernel": 40},
    ],
    ids=str,
)
def test_others_stay_whole(change: dict[str, int]) -> None:
    shape = replace(SHAPE, spatial=(replace(DIMENSION, **change),))
    (phase,) = convolution_phases(shape)
    assert phase.shape is shape


@pytest.mark.parametrize("kind", ["f32", "bf16", "f64"])
@pytest.mark.parametrize(
    ("dims", "groups"),
    [
        (((3, 1, 2, 2, 1, 0), (3, 1, 2, 2, 1, 0)), 1),
        (((4, -1, 3, 2, 1, 0), (3, 2, 2, 3, 1, 0)), 1),
        (((5, 0, 0, 3, 1, 1), (2, 3, -2, 1, 1, 0)), 1),
        (((4, 2, 2, 2, 1, 1), (4, 2, 2, 2, 1, 1)), 2),
        (((3, 1, 1, 2, 1, 0), (3, 1, 1, 2, 1, 0)), 4),
        (((3, 1, 1, 2, 1, 0), (3, 1, 1, 2, 3, 0)), 1),
    ],
    ids=str,
)
def test_values(kind: str, dims: tuple[tuple[int, ...], ...], groups: int) -> None:
    """Dimensions are (taps, low padding, high padding, base dilation, stride, reversal)."""
    taps, low, high, base, stride, reversal = zip(*dims, strict=True)
    out = [(4 * b + 1 + lo + hi - k) // s + 1 for k, lo, hi, b, s, _ in dims]
    pads = "x".join(f"{lo}_{hi}" for lo, hi in zip(low, high, strict=True))
    window = f"size={_by(taps)} stride={_by(stride)} pad={pads} lhs_dilate={_by(base)} rhs_reversal={_by(reversal)}"
    result = f"{kind}[2,{out[0]},{out[1]},12]"
    text = f"""HloModule m
ENTRY e {{
  x = {kind}[2,5,5,4] parameter(0)
  w = {kind}[{taps[0]},{taps[1]},{4 // groups},12] parameter(1)
  c = {result} convolution(x, w), window={{{window}}}, dim_labels=b01f_01io->b01f, feature_group_count={groups}
  zero = {kind}[] constant(0)
  zeros = {result} broadcast(zero), dimensions={{}}
  ROOT r = {result} maximum(c, zeros)
}}"""
    tolerance = {"f32": 1e-5, "bf16": 2e-2, "f64": 1e-12}[kind]
    check(text, rtol=tolerance, atol=tolerance)


def _by(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))


SPREAD = """HloModule m
ENTRY e {{
  x = {kind}[2,5,6,4] parameter(0)
  w = {kind}[3,3,4,12] parameter(1)
  b = {kind}[12] parameter(2)
  residual = {kind}[2,9,11,12] parameter(3)
  c = {kind}[2,9,11,12] convolution(x, w), window={{size=3x3 pad=1_1x1_1 lhs_dilate={dilation}}}, dim_labels={labels}
  bs = {kind}[2,9,11,12] broadcast(b), dimensions={{3}}
  s = {kind}[2,9,11,12] add(c, bs)
  r = {kind}[2,9,11,12] add(s, residual)
  half = f32[] constant(0.5)
  halves = f32[2,9,11,12] broadcast(half), dimensions={{}}
  wide = f32[2,9,11,12] convert(s)
  t = f32[2,9,11,12] multiply(wide, halves)
  ROOT both = ({kind}[2,9,11,12], f32[2,9,11,12]) tuple(r, t)
}}"""


@pytest.mark.parametrize("kind", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("level", ["sse2", ""])
def test_each_phase_has_the_epilogue(kind: str, level: str) -> None:
    """The result's odd sizes make phases of different sizes; sums of bf16 have no place in a result."""
    text = SPREAD.format(kind=kind, dilation="2x2", labels="b01f_01io->b01f")
    tolerance = {"f32": 1e-5, "bf16": 4e-2, "f64": 1e-12}[kind]
    options = xjit.CompileOptions(cpu_level=level)
    check(text, rtol=tolerance, atol=tolerance, options=options)
    schedule = xjit.compile(text, options=options).as_text("schedule")
    assert schedule.count("convolution %") == 1 and "phases: 4" in schedule and "epilogue: on" in schedule
    assert "loop" not in schedule


def test_other_layouts_of_the_result() -> None:
    """Batch innermost: places of pixels are far from each other."""
    layouts = "entry_computation_layout={(f32[3,5,6,4]{0,3,2,1}, f32[3,3,4,12])->f32[3,9,11,12]{0,3,2,1}}"
    text = f"""HloModule m, {layouts}
ENTRY e {{
  x = f32[3,5,6,4]{{0,3,2,1}} parameter(0)
  w = f32[3,3,4,12] parameter(1)
  c = f32[3,9,11,12]{{0,3,2,1}} convolution(x, w), window={{size=3x3 pad=1_1x1_1 lhs_dilate=2x2}}, dim_labels=b01f_01io->b01f
  ROOT r = f32[3,9,11,12]{{0,3,2,1}} negate(c)
}}"""
    options = xjit.CompileOptions(keep_intermediate_layouts=True)
    check(text, rtol=1e-5, atol=1e-5, options=options)
    schedule = xjit.compile(text, options=options).as_text("schedule")
    assert "phases: 4" in schedule and "epilogue: none" in schedule  # which would write pixel by pixel
