"""Convolution calls get the symmetric padding that the library asks for; the rest becomes pads and slices."""

from __future__ import annotations

from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import Window, WindowDimension
from xjit.ops import build
from xjit.ops.library_calls.convolution import conv_parts
from xjit.ops.library_calls.targets import CONV_BACKWARD_FILTER, CONV_BACKWARD_INPUT, call_target
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion
from xjit.passes.gpu.conv_calls import (
    has_scratch,
    is_conv_call,
    replaced_conv_call,
    result_shape,
    with_empty_scratch,
    zero_pad,
)


@dataclass
class GpuConvPaddingLegalization(OpExpander):
    """Takes asymmetric and negative padding and dilations off the windows of convolution calls.

    Forward: the input is padded, sliced and spread, the kernel spread. Gradient of a filter: the activations get the
    padding that one side has more. Gradient of an input: the result gets it, and is sliced. Gradients with negative
    padding stay, and calls that an algorithm has been chosen for.
    """

    name = "gpu-conv-padding-legalization"
    opcodes = frozenset({"custom-call"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the call that replaces one, or a tuple like its value."""
        if not is_conv_call(instruction) or has_scratch(instruction) or has_control_dependencies(instruction):
            return None
        target = call_target(instruction)
        if target == CONV_BACKWARD_FILTER:
            return _filter_gradient(instruction, into)
        return _input_gradient(instruction, into) if target == CONV_BACKWARD_INPUT else _forward(instruction, into)


def _forward(call: HloInstruction, into: Expansion) -> HloInstruction | None:
    window, labels = conv_parts(call)
    if all(_is_legal(d) for d in window.dimensions):
        return None
    x, w, *others = call.operands
    padding, starts, limits = [(0, 0, 0)] * x.shape.rank, [0] * x.shape.rank, list(x.shape.dimensions)
    spread = [(0, 0, 0)] * w.shape.rank
    for d, axis, kernel in zip(
        window.dimensions, labels.input_spatial_dimensions, labels.kernel_spatial_dimensions, strict=True
    ):
        padding[axis] = (max(d.padding_low, 0), max(d.padding_high, 0), d.base_dilation - 1)
        limits[axis] = (limits[axis] - 1) * d.base_dilation + 1 + padding[axis][0] + padding[axis][1]
        limits[axis] -= max(-d.padding_high, 0)
        starts[axis] = max(-d.padding_low, 0)
        spread[kernel] = (0, 0, d.window_dilation - 1)
    if any(start >= limit for start, limit in zip(starts, limits, strict=True)):
        return None
    x = zero_pad(into, x, padding)
    if any(starts) or tuple(limits) != x.shape.dimensions:
        x = into.add(build.slice_(x, starts, limits))
    w = zero_pad(into, w, spread)
    dims = [
        WindowDimension((d.size - 1) * d.window_dilation + 1, d.stride, window_reversal=d.window_reversal)
        for d in window.dimensions
    ]
    return into.add(replaced_conv_call(call, result_shape(call), [x, w, *others], window=Window(tuple(dims))))


def _is_legal(d: WindowDimension) -> bool:
    return d.padding_low == d.padding_high >= 0 and d.window_dilation == d.base_dilation == 1


def _excess(window: Window) -> list[tuple[int, int]] | None:
    """What the padding of either side is more than that of the other; None if nothing is, or one is negative."""
    if any(min(d.padding_low, d.padding_high) < 0 for d in window.dimensions):
        return None
    found = [
        (d.padding_low - least, d.padding_high - least)
        for d in window.dimensions
        for least in (min(d.padding_low, d.padding_high),)
    ]
    return found if any(any(e) for e in found) else None


def _symmetric(window: Window) -> Window:
    least = [min(d.padding_low, d.padding_high) for d in window.dimensions]
    dims = [replace(d, padding_low=n, padding_high=n) for d, n in zip(window.dimensions, least, strict=True)]
    return Window(tuple(dims))


def _filter_gradient(call: HloInstruction, into: Expansion) -> HloInstruction | None:
    window, labels = conv_parts(call)
    excess = _excess(window)
    if excess is None:
        return None
    x, gradients = call.operands
    padding = [(0, 0, 0)] * x.shape.rank
    for (low, high), axis in zip(excess, labels.input_spatial_dimensions, strict=True):
        padding[axis] = (low, high, 0)
    operands = [zero_pad(into, x, padding), gradients]
    return into.add(replaced_conv_call(call, result_shape(call), operands, window=_symmetric(window)))


def _input_gradient(call: HloInstruction, into: Expansion) -> HloInstruction | None:
    window, labels = conv_parts(call)
    excess = _excess(window)
    if excess is None:
        return None
    shape = result_shape(call)
    sizes, starts = list(shape.dimensions), [0] * shape.rank
    for (low, high), axis in zip(excess, labels.input_spatial_dimensions, strict=True):
        sizes[axis] += low + high
        starts[axis] = low
    larger = replaced_conv_call(call, shape.with_dimensions(sizes), call.operands, window=_symmetric(window))
    limits = [start + size for start, size in zip(starts, shape.dimensions, strict=True)]
    return with_empty_scratch(into, into.add(build.slice_(into.element(into.add(larger), 0), starts, limits)))
