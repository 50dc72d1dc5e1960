"""Convolutions that sum over whole images are dots, as those are that give the gradients of 1x1 kernels and patches."""

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
from xjit.passes.analysis.planar_convolutions import MAX_FEATURES
from xjit.passes.expand.convolution_expander import ConvolutionExpander
from xjit.passes.expand.narrow_dot_expander import MAX_SMALL
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion


@dataclass
class ConvolutionToDot(ConvolutionExpander):
    """Makes a dot of a convolution without groups whose window is the image, or an element.

    Along some dimension every tap has an element of its own for each output: that dimension is summed over, as the
    input features are, and the outputs are the elements of a patch. Along the others the kernel has one tap, and leaves
    all positions where they are. Of convolutions that sum over features alone, those are made dots that have few
    features, behind the pixels.
    """

    name = "convolution-to-dot"

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the dot, in the shape of the convolution; None if it is none."""
        attributes = instruction.attributes_as(ConvolutionAttributes)
        if attributes.feature_group_count > 1 or attributes.batch_group_count > 1:
            return None
        summed = _summed_dimensions(instruction, attributes)
        if summed or (summed is not None and _is_narrow(instruction, attributes)):
            return _dot(Writer(into), instruction, attributes, summed)
        return None


def _is_narrow(convolution: HloInstruction, attributes: ConvolutionAttributes) -> bool:
    """Whether a pointwise convolution makes few features, which lie behind the pixels. Of integers, there are few, too,
    that each is made of: other products of theirs have no blocks.
    """
    numbers = attributes.dim_labels
    features = convolution.shape.dimensions[numbers.output_feature_dimension]
    behind = all(
        feature > max(spatial, default=-1)
        for feature, spatial in (
            (numbers.input_feature_dimension, numbers.input_spatial_dimensions),
            (numbers.output_feature_dimension, numbers.output_spatial_dimensions),
        )
    )
    given = convolution.operand(0).shape.dimensions[numbers.input_feature_dimension]
    is_made = convolution.shape.element_type.is_float or given * features <= MAX_SMALL["terms"]
    return features <= MAX_FEATURES and behind and is_made


def _summed_dimensions(convolution: HloInstruction, attributes: ConvolutionAttributes) -> list[int] | None:
    """Returns the spatial dimensions that are summed over, by number; None if another one is no dot's."""
    numbers, found = attributes.dim_labels, list[int]()
    for n, window in enumerate(attributes.window.dimensions):
        elements = convolution.operand(0).shape.dimensions[numbers.input_spatial_dimensions[n]]
        outputs = convolution.shape.dimensions[numbers.output_spatial_dimensions[n]]
        if window.base_dilation > 1 or window.window_reversal or not elements:
            return None
        if window.size > 1 and _is_apart(window, outputs, elements):
            found.append(n)
        elif window.size > 1 or window.stride > 1 or window.padding_low or outputs != elements:
            return None
    return found


def _is_apart(window: WindowDimension, outputs: int, elements: int) -> bool:
    """Whether every tap of every output is on another element; of several outputs, on one of whole patches."""
    if outputs == 1:
        last = (window.size - 1) * window.window_dilation - window.padding_low
        return window.padding_low <= 0 and last < elements
    patches = window.size * window.window_dilation <= elements
    return 1 < outputs <= window.window_dilation and window.stride == 1 and not window.padding_low and patches


@dataclass(slots=True)
class _Image:
    """What taps see of an image: dimensions that are summed, with those of the kernel, and what is left.

    `kept` are dimensions with their places in the result.
    """

    value: HloInstruction
    summed: list[tuple[int, int]]
    kept: list[tuple[int, int]]


def _dot(
    writer: Writer, old: HloInstruction, attributes: ConvolutionAttributes, summed: Sequence[int]
) -> HloInstruction:
    numbers = attributes.dim_labels
    image = _seen(writer, old, attributes, summed)
    left = [d for d in range(old.operand(1).shape.rank) if d not in _single_taps(old, attributes, summed)]
    kernel = writer.reshape(old.operand(1), [old.operand(1).shape.dimensions[d] for d in left])
    over_image = tuple(i for i, _ in image.summed)
    over_kernel = tuple(left.index(k) for _, k in image.summed)
    places, feature = [place for _, place in image.kept], numbers.output_feature_dimension
    value, sizes = image.value, old.shape.dimensions
    if len(image.summed) + len(image.kept) > old.shape.rank:  # patches: they are one dimension
        value, over_image = _flat(writer, image), tuple(range(len(over_image)))
    is_swapped = all(feature < place for place in places)  # the result is as it should lie
    given = [(value, over_image), (kernel, over_kernel)]
    precision = attributes.operand_precision
    if is_swapped:
        given.reverse()
        precision = tuple(reversed(precision))
    (lhs, over_lhs), (rhs, over_rhs) = given
    order = [feature, *places] if is_swapped else [*places, feature]
    free = [o.shape.dimensions[d] for o, over in given for d in range(o.shape.rank) if d not in over]
    dot = writer.make(
        "dot",
        lhs,
        rhs,
        attributes=DotAttributes(
            lhs_contracting_dims=over_lhs, rhs_contracting_dims=over_rhs, operand_precision=precision
        ),
        shape=Shape.array(old.shape.element_type, tuple(free)),
    )
    result = writer.reshape(dot, [sizes[place] for place in order])
    moved = writer.transpose(result, sorted(range(len(order)), key=order.__getitem__))
    return writer.into.like_source("reshape", [moved])


def _single_taps(old: HloInstruction, attributes: ConvolutionAttributes, summed: Sequence[int]) -> list[int]:
    """The spatial dimensions of the kernel that are not summed over."""
    return [attributes.dim_labels.kernel_spatial_dimensions[n] for n in range(old.shape.rank - 2) if n not in summed]


def _seen(writer: Writer, old: HloInstruction, attributes: ConvolutionAttributes, summed: Sequence[int]) -> _Image:
    """The elements of an image that taps are on. A dimension with several outputs is (tap, output)."""
    numbers, image = attributes.dim_labels, old.operand(0)
    roles = {d: n for n, d in enumerate(numbers.input_spatial_dimensions)}
    parts: list[SliceDimension] = []
    split: list[int] = []
    found = _Image(image, [], [])
    for d, size in enumerate(image.shape.dimensions):
        n = roles.get(d)
        here = len(split)
        split.append(size)
        parts.append(SliceDimension(0, size))
        if n is None:
            if d == numbers.input_feature_dimension:
                found.summed.append((here, numbers.kernel_input_feature_dimension))
            else:
                found.kept.append((here, numbers.output_batch_dimension))
            continue
        place, window = numbers.output_spatial_dimensions[n], attributes.window.dimensions[n]
        if n not in summed:
            found.kept.append((here, place))
            continue
        found.summed.append((here, numbers.kernel_spatial_dimensions[n]))
        split[here], step = window.size, window.window_dilation
        start, outputs = -window.padding_low, old.shape.dimensions[place]
        if outputs > 1:
            parts[d] = SliceDimension(0, window.size * step)
            split.append(step)
            found.kept.append((here + 1, place))
        else:
            parts[d] = SliceDimension(start, start + (window.size - 1) * step + 1, step)
    found.value = writer.reshape(_cut(writer, image, parts), split)
    for here, place in found.kept:
        split[here] = old.shape.dimensions[place]
    found.value = _cut(writer, found.value, [SliceDimension(0, size) for size in split])
    return found


def _cut(writer: Writer, operand: HloInstruction, parts: Sequence[SliceDimension]) -> HloInstruction:
    """A slice; the operand itself if that is all of it."""
    if all((p.start, p.limit, p.stride) == (0, size, 1) for p, size in zip(parts, operand.shape.dimensions)):
        return operand
    return writer.make("slice", operand, attributes=SliceAttributes(tuple(parts)))


def _flat(writer: Writer, image: _Image) -> HloInstruction:
    """An image with what is summed first, and all that is kept as one dimension."""
    order = [d for d, _ in (*image.summed, *image.kept)]
    moved, count = writer.transpose(image.value, order), len(image.summed)
    sizes = moved.shape.dimensions
    return writer.reshape(moved, [*sizes[:count], math.prod(sizes[count:])])
