"""Convolutions over an input that is spread out far, by ones over its elements alone: transposed convolutions whose
stride is that of patches, gradients of patches, and of windows that skip elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import (
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    DimensionsAttributes,
    PadAttributes,
    PaddingDimension,
    Window,
    WindowDimension,
)
from xjit.ops import build
from xjit.passes.analysis.convolution_phases import phased_dimensions
from xjit.passes.expand.convolution_expander import ConvolutionExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion

FEATURES_OF_A_VECTOR = 16


@dataclass(frozen=True, slots=True)
class _Spread:
    """A spatial dimension whose `elements` are `base` apart; outputs come in blocks, which are as far apart.

    Output o sees, of tap w, spread position o + w - padding_low. With fewer taps than gaps, an element e is seen by
    outputs of its own, one for each tap: they are a block, which begins at `base * e + padding_low - size + 1`. Else
    blocks are of `base` outputs, that begin at `base * q`: output `base * q + r` sees element q + u where
    `w = base * u + padding_low - r`, so they see the elements from `q + first_tap` on, `taps` of them.
    """

    window: WindowDimension
    elements: int
    outputs: int

    @property
    def base(self) -> int:
        return self.window.base_dilation

    @property
    def width(self) -> int:
        """Outputs of a block."""
        return min(self.base, self.window.size)

    @property
    def is_sparse(self) -> bool:
        """Whether there are outputs that see no element."""
        return self.window.size < self.base

    @property
    def first_output(self) -> int:
        """Of the first block."""
        return self.window.padding_low - self.window.size + 1 if self.is_sparse else 0

    @property
    def blocks(self) -> int:
        return self.elements if self.is_sparse else -(-self.outputs // self.base)

    @property
    def first_tap(self) -> int:
        return 0 if self.is_sparse else -(self.window.padding_low // self.base)

    @property
    def taps(self) -> int:
        last = (self.window.size - 2 + self.base - self.window.padding_low) // self.base
        return 1 if self.is_sparse else last - self.first_tap + 1

    @property
    def kernel_padding(self) -> tuple[int, int, int]:
        """What makes whole blocks of the kernel, the first of which holds the weights of the first tap."""
        if self.is_sparse:
            return 0, 0, 0
        low = self.base - 1 - self.window.padding_low % self.base
        return low, self.taps * self.base - self.window.size - low, 0

    @property
    def padding(self) -> tuple[int, int, int]:
        """What makes the result of blocks with what is between them; negative: what is cut off."""
        return self.first_output, self.outputs - self.first_output - self.blocks * self.base, 0

    def over_elements(self) -> WindowDimension:
        """The window of the convolution over the elements."""
        low = -self.first_tap
        return WindowDimension(self.taps, 1, low, self.blocks - self.elements + self.taps - 1 - low)


@dataclass
class SpreadConvolutionExpander(ConvolutionExpander):
    """Makes the outputs between two elements of a spread input features of a convolution over the elements.

    These features are moved to where they belong afterwards. That is for inputs that are spread out too far for
    kernels by phases (of patches of 16 x 16, a kernel would multiply one element and 255 zeros; of fewer taps than
    gaps, some phases have none), and for results of few features, as images have, of which those of a phase would fill
    no vector.

    Along a dimension in which the kernel has one tap, nothing but zeros is between the elements: they are spread out
    behind the convolution.
    """

    name = "spread-convolution-expander"

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the same values without products with zeros; None if there are none, or phases leave them out."""
        attributes = instruction.attributes_as(ConvolutionAttributes)
        single = [n for n, w in enumerate(attributes.window.dimensions) if _is_one_tap(w)]
        if single:
            return _spread_behind(Writer(into), instruction, attributes, single)
        if attributes.feature_group_count > 1 or attributes.batch_group_count > 1:
            return None
        spread = _spread_dimensions(instruction, attributes)
        return _expand(Writer(into), instruction, attributes, spread) if spread else None


def _is_one_tap(window: WindowDimension) -> bool:
    return window.size == 1 == window.stride and window.base_dilation > 1


def _spread_behind(
    writer: Writer, old: HloInstruction, attributes: ConvolutionAttributes, single: Sequence[int]
) -> HloInstruction | None:
    """Convolves the elements along the dimensions `single`, and puts the zeros between what comes of them."""
    numbers, windows = attributes.dim_labels, list(attributes.window.dimensions)
    sizes, padding = list(old.shape.dimensions), [(0, 0, 0)] * old.shape.rank
    for n in single:
        elements = old.operand(0).shape.dimensions[numbers.input_spatial_dimensions[n]]
        place, window = numbers.output_spatial_dimensions[n], windows[n]
        if not elements or not sizes[place]:
            return None
        length = window.base_dilation * (elements - 1) + 1
        high = sizes[place] - length - window.padding_low
        padding[place] = (window.padding_low, high, window.base_dilation - 1)
        windows[n], sizes[place] = WindowDimension(), elements
    new = writer.make(
        "convolution",
        *old.operands,
        attributes=replace(attributes, window=Window(tuple(windows))),
        shape=Shape.array(old.shape.element_type, tuple(sizes)),
    )
    zero = writer.constant(0, old.shape.element_type)
    dimensions = tuple(PaddingDimension(*given) for given in padding)
    return writer.into.like_source("pad", [new, zero], PadAttributes(dimensions))


def _spread_dimensions(convolution: HloInstruction, attributes: ConvolutionAttributes) -> dict[int, _Spread]:
    """Returns the spatial dimensions that are spread out, and are not better done by phases, by number."""
    numbers, windows = attributes.dim_labels, attributes.window.dimensions
    outputs = [convolution.shape.dimensions[d] for d in numbers.output_spatial_dimensions]
    elements = [convolution.operand(0).shape.dimensions[d] for d in numbers.input_spatial_dimensions]
    spread = {
        n: _Spread(w, elements[n], outputs[n])
        for n, w in enumerate(windows)
        if min(w.base_dilation, w.size) > 1
        and w.stride == w.window_dilation == 1
        and not w.window_reversal
        and min(elements[n], outputs[n]) > 0
    }
    phased = phased_dimensions(windows, outputs, convolution.shape.dimensions[numbers.output_batch_dimension])
    if not any(phased) or _costs_less(spread, convolution.shape.dimensions[numbers.output_feature_dimension]):
        return spread
    return {n: dimension for n, dimension in spread.items() if not phased[n]}


def _costs_less(spread: dict[int, _Spread], features: int) -> bool:
    """Whether there are no more products than phases have, counting lanes of vectors that features do not fill.

    Blocks of outputs see taps that only some of them have, but their features fill vectors together.
    """
    blocks = math.prod(d.taps for d in spread.values()) * _filled(
        features * math.prod(d.width for d in spread.values())
    )
    return blocks <= math.prod(d.window.size for d in spread.values()) * _filled(features)


def _filled(features: int) -> int:
    return -(-features // FEATURES_OF_A_VECTOR) * FEATURES_OF_A_VECTOR


def _expand(
    writer: Writer, old: HloInstruction, attributes: ConvolutionAttributes, spread: dict[int, _Spread]
) -> HloInstruction:
    numbers, windows = attributes.dim_labels, list(attributes.window.dimensions)
    for n, dimension in spread.items():
        windows[n] = dimension.over_elements()
    rank, shape = len(windows), old.shape
    kernel = _kernel_of_blocks(writer, old.operand(1), numbers, spread)
    spatial = tuple(range(1, rank + 1))
    new_numbers = replace(
        numbers,
        kernel_input_feature_dimension=rank,
        kernel_output_feature_dimension=rank + 1,
        kernel_spatial_dimensions=tuple(range(rank)),
        output_batch_dimension=0,
        output_feature_dimension=rank + 1,
        output_spatial_dimensions=spatial,
    )
    sizes = [shape.dimensions[d] for d in (numbers.output_batch_dimension, *numbers.output_spatial_dimensions)]
    for n, dimension in spread.items():
        sizes[1 + n] = dimension.blocks
    new = writer.make(
        "convolution",
        old.operand(0),
        kernel,
        attributes=replace(attributes, window=Window(tuple(windows)), dim_labels=new_numbers),
        shape=Shape.array(shape.element_type, (*sizes, kernel.shape.dimensions[rank + 1])),
    )
    return _placed(writer, new, old, numbers, spread)


def _kernel_of_blocks(
    writer: Writer, kernel: HloInstruction, numbers: ConvolutionDimensionNumbers, spread: dict[int, _Spread]
) -> HloInstruction:
    """Returns the kernel [taps..., input features, outputs of a block and output features]."""
    order = (*numbers.kernel_spatial_dimensions, numbers.kernel_input_feature_dimension)
    kernel = writer.transpose(kernel, (*order, numbers.kernel_output_feature_dimension))
    rank = len(numbers.kernel_spatial_dimensions)
    padding = [spread[n].kernel_padding if n in spread else (0, 0, 0) for n in range(rank)]
    if any(map(any, padding)):
        zero = writer.constant(0, kernel.shape.element_type)
        kernel = writer.add(build.pad(kernel, zero, [*padding, (0, 0, 0), (0, 0, 0)]))
    sizes: list[int] = []
    taps: list[int] = []
    within: list[int] = []
    for n, size in enumerate(kernel.shape.dimensions[:rank]):
        taps.append(len(sizes))
        if n in spread:
            within.append(len(sizes) + 1)
        sizes += [spread[n].taps, spread[n].width] if n in spread else [size]
    features = kernel.shape.dimensions[rank:]
    kernel = writer.reshape(kernel, (*sizes, *features))
    kernel = writer.make("reverse", kernel, attributes=DimensionsAttributes(tuple(within)))  # w falls as r rises
    kernel = writer.transpose(kernel, (*taps, len(sizes), *within, len(sizes) + 1))
    outputs = math.prod(dimension.width for dimension in spread.values()) * features[1]
    return writer.reshape(kernel, (*(sizes[d] for d in taps), features[0], outputs))


def _placed(
    writer: Writer,
    blocks: HloInstruction,
    old: HloInstruction,
    numbers: ConvolutionDimensionNumbers,
    spread: dict[int, _Spread],
) -> HloInstruction:
    """Moves the outputs of each block, which are features, to where they are in the old result."""
    rank = len(numbers.output_spatial_dimensions)
    features = old.shape.dimensions[numbers.output_feature_dimension]
    sizes = blocks.shape.dimensions[: rank + 1]
    taken = writer.reshape(blocks, (*sizes, *(d.width for d in spread.values()), features))
    within = dict(zip(spread, range(rank + 1, rank + 1 + len(spread))))
    if any(d.is_sparse for d in spread.values()):
        zero = writer.constant(0, old.shape.element_type)
        gaps = {within[n]: (0, d.base - d.width, 0) for n, d in spread.items()}
        taken = writer.add(build.pad(taken, zero, [gaps.get(d, (0, 0, 0)) for d in range(taken.shape.rank)]))
    sources: dict[int, Sequence[int]] = {
        numbers.output_batch_dimension: (0,),
        numbers.output_feature_dimension: (taken.shape.rank - 1,),
    }
    padding = [PaddingDimension()] * (rank + 2)
    for n, d in enumerate(numbers.output_spatial_dimensions):
        sources[d] = (1 + n, within[n]) if n in spread else (1 + n,)
        padding[d] = PaddingDimension(*spread[n].padding) if n in spread else padding[d]
    order = [source for d in range(rank + 2) for source in sources[d]]
    moved = writer.transpose(taken, order)
    whole = [math.prod(taken.shape.dimensions[source] for source in sources[d]) for d in range(rank + 2)]
    if tuple(whole) == old.shape.dimensions and padding == [PaddingDimension()] * (rank + 2):
        return writer.into.like_source("reshape", [moved])
    zero = writer.constant(0, old.shape.element_type)
    return writer.into.like_source("pad", [writer.reshape(moved, whole), zero], PadAttributes(tuple(padding)))
