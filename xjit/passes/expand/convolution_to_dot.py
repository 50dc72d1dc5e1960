"""Convolutions that sum over whole images are dots, as those are that give the gradient of a 1x1 kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import (
    ConvolutionAttributes,
    DotAttributes,
    SliceAttributes,
    SliceDimension,
    WindowDimension,
)
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion


@dataclass
class ConvolutionToDot(OpExpander):
    """Makes a dot of a convolution without groups whose window is the image, or an element.

    Along some dimension there is one output, and every tap has an element of its own: that dimension is summed over,
    as the input features are. Along the others the kernel has one tap, and leaves all positions where they are.
    """

    name = "convolution-to-dot"
    opcodes = frozenset({"convolution"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the dot, in the shape of the convolution; None if it is none."""
        attributes = instruction.attributes_as(ConvolutionAttributes)
        if not all(s.is_static_array for s in (instruction.shape, *(o.shape for o in instruction.operands))):
            return None
        if attributes.feature_group_count > 1 or attributes.batch_group_count > 1 or attributes.sparsity_config:
            return None
        summed = _summed_dimensions(instruction, attributes)
        return _dot(Writer(into), instruction, attributes, summed) if summed else None


def _summed_dimensions(convolution: HloInstruction, attributes: ConvolutionAttributes) -> list[int] | None:
    """Returns the spatial dimensions that are summed over, by number; None if another one is no dot's."""
    numbers, found = attributes.dim_labels, list[int]()
    for n, window in enumerate(attributes.window.dimensions):
        elements = convolution.operand(0).shape.dimensions[numbers.input_spatial_dimensions[n]]
        outputs = convolution.shape.dimensions[numbers.output_spatial_dimensions[n]]
        if window.base_dilation > 1 or window.window_reversal or not elements:
            return None
        if outputs == 1 and window.size > 1 and _is_inside(window, elements):
            found.append(n)
        elif window.size > 1 or window.stride > 1 or window.padding_low or outputs != elements:
            return None
    return found


def _is_inside(window: WindowDimension, elements: int) -> bool:
    """Whether every tap of the only output is on an element."""
    last = (window.size - 1) * window.window_dilation - window.padding_low
    return window.padding_low <= 0 and last < elements


def _dot(
    writer: Writer, old: HloInstruction, attributes: ConvolutionAttributes, summed: Sequence[int]
) -> HloInstruction:
    numbers = attributes.dim_labels
    image = _seen(writer, old.operand(0), attributes, summed)
    kernel, left = _without(writer, old.operand(1), [numbers.kernel_spatial_dimensions[n] for n in _rest(old, summed)])
    pairs = [(numbers.input_spatial_dimensions[n], numbers.kernel_spatial_dimensions[n]) for n in summed]
    pairs.append((numbers.input_feature_dimension, numbers.kernel_input_feature_dimension))
    pairs.sort()  # dimensions that follow one another in memory are summed as one
    over_image, over_kernel = tuple(i for i, _ in pairs), tuple(left.index(k) for _, k in pairs)
    places = {numbers.input_batch_dimension: numbers.output_batch_dimension}
    for n in _rest(old, summed):
        places[numbers.input_spatial_dimensions[n]] = numbers.output_spatial_dimensions[n]
    kept = [places[d] for d in range(image.shape.rank) if d not in over_image]
    feature = numbers.output_feature_dimension
    given = [(image, over_image, kept), (kernel, over_kernel, [feature])]
    if all(feature < place for place in kept):  # the result is as it should lie
        given.reverse()
    (lhs, over_lhs, first), (rhs, over_rhs, second) = given
    order = [*first, *second]
    sizes = old.shape.dimensions
    dot = writer.make(
        "dot",
        lhs,
        rhs,
        attributes=DotAttributes(
            lhs_contracting_dims=over_lhs,
            rhs_contracting_dims=over_rhs,
            operand_precision=_precision(attributes, lhs is kernel),
        ),
        shape=Shape.array(old.shape.element_type, tuple(sizes[place] for place in order)),
    )
    moved = writer.transpose(dot, sorted(range(len(order)), key=order.__getitem__))
    return writer.into.like_source("reshape", [moved])


def _rest(old: HloInstruction, summed: Sequence[int]) -> list[int]:
    """The spatial dimensions that are not summed over."""
    return [n for n in range(old.shape.rank - 2) if n not in summed]


def _seen(
    writer: Writer, image: HloInstruction, attributes: ConvolutionAttributes, summed: Sequence[int]
) -> HloInstruction:
    """The elements of an image that taps are on."""
    parts = [SliceDimension(0, size) for size in image.shape.dimensions]
    for n in summed:
        window = attributes.window.dimensions[n]
        start, step = -window.padding_low, window.window_dilation
        parts[attributes.dim_labels.input_spatial_dimensions[n]] = SliceDimension(
            start, start + (window.size - 1) * step + 1, step
        )
    if all((p.start, p.limit, p.stride) == (0, size, 1) for p, size in zip(parts, image.shape.dimensions)):
        return image
    return writer.make("slice", image, attributes=SliceAttributes(tuple(parts)))


def _without(writer: Writer, kernel: HloInstruction, dimensions: Sequence[int]) -> tuple[HloInstruction, list[int]]:
    """A kernel without some dimensions of size one, and which are left."""
    left = [d for d in range(kernel.shape.rank) if d not in dimensions]
    sizes = kernel.shape.dimensions
    assert math.prod(sizes[d] for d in dimensions) == 1
    return writer.reshape(kernel, [sizes[d] for d in left]), left


def _precision(attributes: ConvolutionAttributes, is_swapped: bool) -> tuple[str, ...]:
    precision = attributes.operand_precision
    return tuple(reversed(precision)) if is_swapped else precision
