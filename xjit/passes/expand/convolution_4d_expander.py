"""Convolutions of four spatial dimensions lose those that are trivial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ConvolutionAttributes, ConvolutionDimensionNumbers, Window
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class Convolution4DExpander(OpExpander):
    """Removes spatial dimensions whose input has size 1 and no padding by reshapes of operands and result.

    The window and the result have size 1 there, too: a wider window leaves no results, and stays. Only convolutions of
    exactly four spatial dimensions are changed.
    """

    name = "convolution-4d-expander"
    opcodes = frozenset({"convolution"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the reshaped result, or None if no dimension is trivial."""
        attributes = instruction.attributes_as(ConvolutionAttributes)
        numbers, window = attributes.dim_labels, attributes.window.dimensions
        sizes = instruction.operand(0).shape.dimensions
        trivial = [
            i
            for i, d in enumerate(numbers.input_spatial_dimensions)
            if sizes[d] == window[i].size == 1 and not window[i].padding_low and not window[i].padding_high
        ]
        if len(window) != 4 or not trivial:
            return None
        kept = [i for i in range(4) if i not in trivial]
        operands = [
            _without(into, instruction.operand(0), [numbers.input_spatial_dimensions[i] for i in trivial]),
            _without(into, instruction.operand(1), [numbers.kernel_spatial_dimensions[i] for i in trivial]),
        ]
        gone = [numbers.output_spatial_dimensions[i] for i in trivial]
        dimensions = [size for d, size in enumerate(instruction.shape.dimensions) if d not in gone]
        smaller = replace(attributes, dim_labels=_labels(numbers, kept), window=Window(tuple(window[i] for i in kept)))
        shape = instruction.shape.with_dimensions(dimensions)
        convolution = into.make("convolution", *operands, attributes=smaller, shape=shape)
        return into.like_source("reshape", [convolution])


def _without(into: Expansion, operand: HloInstruction, gone: Sequence[int]) -> HloInstruction:
    return into.add(build.reshape(operand, [size for d, size in enumerate(operand.shape.dimensions) if d not in gone]))


def _labels(numbers: ConvolutionDimensionNumbers, kept: Sequence[int]) -> ConvolutionDimensionNumbers:
    """Returns the dimension numbers of the spatial dimensions that are kept."""

    def positions(spatial: tuple[int, ...], others: tuple[int, int]) -> tuple[tuple[int, ...], tuple[int, int]]:
        stay = [spatial[i] for i in kept]
        order = sorted([*stay, *others])
        return tuple(order.index(d) for d in stay), (order.index(others[0]), order.index(others[1]))

    inputs, (batch, feature) = positions(
        numbers.input_spatial_dimensions, (numbers.input_batch_dimension, numbers.input_feature_dimension)
    )
    kernel, (kernel_in, kernel_out) = positions(
        numbers.kernel_spatial_dimensions,
        (numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension),
    )
    output, (output_batch, output_feature) = positions(
        numbers.output_spatial_dimensions, (numbers.output_batch_dimension, numbers.output_feature_dimension)
    )
    return ConvolutionDimensionNumbers(
        batch, feature, inputs, kernel_in, kernel_out, kernel, output_batch, output_feature, output
    )
