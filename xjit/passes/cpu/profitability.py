"""When a rewriting pays on CPUs: what the CPU pipeline lets its passes do. The numbers were measured."""

from __future__ import annotations

import math

from xjit.hlo import HloInstruction, PrimitiveType, Trait
from xjit.hlo.attributes import ConvolutionAttributes, SortAttributes
from xjit.passes.analysis.convolution_phases import num_phases
from xjit.passes.expand.dot_factors import free_dimensions
from xjit.passes.reductions.reduce_parts import reduced_dimensions
from xjit.passes.simplify.descending_order import descending_order

MIN_SUMMED_IMAGES = 2
MIN_USES_OF_ELEMENTS = 64
"""Of the elements of an image, in a gradient by a kernel: for fewer products a transpose costs too much."""

SPLIT_DOT_BLOCKS = 32
"""Blocks of results of dots that CPUs do not cut: as long sums of fewer, operands would be packed again for each."""
FEW_DOT_ROWS = 8
"""With so few, a dot reads its other operand once, at the speed of memory: as attention of one query reads a cache."""
MIN_SPLIT_DOT_STEPS = 1 << 10
MIN_SPLIT_DOT_SIDE = 8
WIDE_DOT_SIDE = 512
"""So many columns of a few rows are shared out as they are."""

MIN_LANES, SHORT_ROW = 4, 32
"""Elements: loops over shorter rows have no lanes along them, and those over longer ones enough."""

MAX_FUSED = 64
"""Instructions: of what is computed from more, it is not asked how it lies."""

_IN_MEMORY = frozenset({"parameter", "get-tuple-element", "dot", "convolution", "fft", "sort", "custom-call", "while"})

MIN_FOLDED_BYTES = 48 << 10
"""Of a right f32 operand that a dot reads transposed. What is smaller is turned, and multiplied without packing."""


def reads_transposed(dot: HloInstruction, number: int) -> bool:
    """Whether a dot is no slower if it reads an operand as it was before a transpose. By a vector it is read once."""
    operand = dot.operand(number).shape
    if min(map(math.prod, _free_sizes(dot))) == 1:
        return True
    return number == 0 or operand.element_type != PrimitiveType.F32 or operand.byte_size >= MIN_FOLDED_BYTES


def sums_over_images(convolution: HloInstruction) -> bool:
    """Whether a convolution has one feature per image, far apart in memory: gradients by kernels have.

    A transpose first costs less than reading features one by one.
    """
    attributes = convolution.attributes_as(ConvolutionAttributes)
    numbers, image, result = attributes.dim_labels, convolution.operand(0).shape, convolution.shape
    if attributes.feature_group_count > 1 or numbers.input_feature_dimension != 0:
        return False
    features = image.dimensions[numbers.input_feature_dimension]
    uses = result.num_elements // max(1, result.dimensions[numbers.output_batch_dimension])
    return features >= MIN_SUMMED_IMAGES and uses >= MIN_USES_OF_ELEMENTS


def gains_by_channels_last(convolution: HloInstruction) -> bool:
    """Whether a convolution is done faster with transposes of its operands and result."""
    return sums_over_images(convolution) or _scatters_phases(convolution)


def _scatters_phases(convolution: HloInstruction) -> bool:
    """Whether a result has its features in front, and comes in phases: each of its elements would be stored alone."""
    attributes = convolution.attributes_as(ConvolutionAttributes)
    numbers, shape = attributes.dim_labels, convolution.shape
    features = shape.dimensions[numbers.output_feature_dimension]
    if attributes.feature_group_count > 1 or num_phases(convolution) == 1 or features < MIN_LANES:
        return False
    return numbers.output_feature_dimension < min(numbers.output_spatial_dimensions)


def has_short_rows(reduce: HloInstruction) -> bool:
    """Whether reduced rows have too few elements for lanes along them, and are read faster as one long row.

    What is read otherwise, as a vector that is added to each row, would be gathered: no worse than rows without lanes.
    """
    array, dims = reduce.operand(0), reduced_dimensions(reduce)
    length = array.shape.dimensions[-1] if array.shape.rank - 1 in dims else SHORT_ROW
    return length < MIN_LANES or (length < SHORT_ROW and _is_read_as_one(array))


def _is_read_as_one(array: HloInstruction) -> bool:
    """Whether all that an array may be computed from in its kernel lies as it does, or is one number."""
    seen, stack = {array}, [array]
    while stack:
        if len(seen) > MAX_FUSED:
            return False
        item = stack.pop()
        if item.op.has(Trait.ELEMENTWISE) or item.opcode in ("bitcast", "reshape"):
            found = [o for o in item.operands if o not in seen]
            seen.update(found)
            stack += found
        elif item.opcode == "broadcast":
            if item.operand(0).shape.num_elements > 1:
                return False
        elif item.shape.num_elements > 1 and item.opcode not in _IN_MEMORY:
            return False
    return True


def gains_by_parts(dot: HloInstruction) -> bool:
    """Whether parts of the sums of a dot are better shared out than its results: not of a few rows times a matrix."""
    if not all(shape.is_row_major for shape in (dot.shape, *(o.shape for o in dot.operands))):
        return False
    sides = list(map(math.prod, _free_sizes(dot)))
    return max(sides) > 1 and (min(sides) >= MIN_SPLIT_DOT_SIDE or max(sides) < WIDE_DOT_SIDE)


def _free_sizes(dot: HloInstruction) -> list[list[int]]:
    """The sizes of the dimensions of each operand that are neither batch nor contracted."""
    pairs = zip(dot.operands, free_dimensions(dot), strict=True)
    return [[operand.shape.dimensions[d] for d in dims] for operand, dims in pairs]


def saves_a_sort(sort: HloInstruction, k: int) -> bool:
    """Whether the first k elements are found faster without all others in order, and are the same ones.

    TopK orders zeros by their sign: a stable sort by a plain GT leaves them as they came.
    """
    attributes = sort.attributes_as(SortAttributes)
    if attributes.is_stable and descending_order(sort.to_apply) != "total":
        return False
    return 2 * k <= sort.operand(0).shape.dimensions[attributes.sort_dimension]
