"""Shape rules of the opcodes that move elements: broadcast, reshape, transpose, slice, pad, concatenate, iota, ..."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference.common import (
    aligned_operands,
    array_operand,
    check_dimension,
    check_distinct_dimensions,
    check_scalar_parameters,
    declared_array,
    dynamic_marks,
    fail,
    higher_precision,
    make_shape,
    same_type,
    scalar_operand,
    show,
    show_dims,
)


def infer_broadcast(instruction: HloInstruction) -> Shape:
    """The declared shape: result dimension `dimensions[i]` has the size of operand dimension i."""
    dims = instruction.attributes_as(at.DimensionsAttributes).dimensions
    operand, result = array_operand(instruction, 0), declared_array(instruction)
    if operand.element_type is not result.element_type:
        fail(instruction, f"the element type must not change, {show(operand)} to {show(result)}")
    if len(dims) != operand.rank:
        fail(instruction, f"dimensions={show_dims(dims)} must have one entry per dimension of operand {show(operand)}")
    check_distinct_dimensions(instruction, dims, result.rank)
    for i, dimension in enumerate(dims):
        if operand.dimensions[i] != result.dimensions[dimension]:
            fail(
                instruction,
                f"operand dimension {i} of size {operand.dimensions[i]} cannot become "
                f"result dimension {dimension} of size {result.dimensions[dimension]}",
            )
    return result


def infer_reshape(instruction: HloInstruction) -> Shape:
    """The declared shape: same type, same number of elements."""
    return _same_elements(instruction)


def _same_elements(instruction: HloInstruction) -> Shape:
    operand, result = array_operand(instruction, 0), declared_array(instruction)
    if operand.element_type is not result.element_type:
        fail(instruction, f"the element type must not change, {show(operand)} to {show(result)}")
    if operand.num_elements != result.num_elements:
        fail(
            instruction,
            f"the operand {show(operand)} has {operand.num_elements} elements, "
            f"the result {show(result)} has {result.num_elements}",
        )
    return result


def infer_dynamic_reshape(instruction: HloInstruction) -> Shape:
    """The declared shape; further operands are its sizes at run time, one s32 scalar per dimension."""
    if instruction.operand_count == 0:
        fail(instruction, "needs an operand")
    result = _same_elements(instruction)
    if instruction.operand_count != result.rank + 1:
        fail(instruction, f"needs one size per result dimension, {result.rank}, got {instruction.operand_count - 1}")
    for i in range(1, instruction.operand_count):
        size = scalar_operand(instruction, i, f"operand {i}")
        if size.element_type is not PrimitiveType.S32:
            fail(instruction, f"operand {i} must be s32[], but has shape {show(size)}")
    return result


def infer_bitcast(instruction: HloInstruction) -> Shape:
    """The declared shape: the same bytes read in another way."""
    operand, result = array_operand(instruction, 0), declared_array(instruction)
    tiled = any(s.layout is not None and s.layout.tiles for s in (operand, result))
    sizes = [physical_byte_size(s) if tiled else s.byte_size for s in (operand, result)]
    if sizes[0] != sizes[1]:
        fail(
            instruction,
            f"the operand {show(operand)} has {sizes[0]} bytes, the result {show(result)} {sizes[1]}",
        )
    return result


def infer_transpose(instruction: HloInstruction) -> Shape:
    """Result dimension i is operand dimension `dimensions[i]`."""
    dims = instruction.attributes_as(at.DimensionsAttributes).dimensions
    operand = array_operand(instruction, 0)
    if sorted(dims) != list(range(operand.rank)):
        fail(instruction, f"dimensions={show_dims(dims)} is not a permutation of the dimensions of {show(operand)}")
    marks = dynamic_marks(operand)
    return make_shape(operand.element_type, [operand.dimensions[d] for d in dims], [marks[d] for d in dims])


def infer_reverse(instruction: HloInstruction) -> Shape:
    """The operand's shape."""
    operand = array_operand(instruction, 0)
    check_distinct_dimensions(instruction, instruction.attributes_as(at.DimensionsAttributes).dimensions, operand.rank)
    return operand


def infer_slice(instruction: HloInstruction) -> Shape:
    """`ceil((limit - start) / stride)` per dimension; slicing one element makes a dynamic dimension static."""
    ranges = instruction.attributes_as(at.SliceAttributes).slice
    operand = array_operand(instruction, 0)
    if len(ranges) != operand.rank:
        fail(instruction, f"has {len(ranges)} ranges, but operand {show(operand)} has rank {operand.rank}")
    sizes: list[int] = []
    for i, (r, size) in enumerate(zip(ranges, operand.dimensions, strict=True)):
        if not 0 <= r.start <= r.limit <= size:
            fail(instruction, f"range [{r.start}:{r.limit}] of dimension {i} does not lie in [0:{size}]")
        if r.stride < 1:
            fail(instruction, f"the stride of dimension {i} must be positive, got {r.stride}")
        sizes.append(-((r.start - r.limit) // r.stride))
    marks = [mark and size != 1 for mark, size in zip(dynamic_marks(operand), sizes, strict=True)]
    return make_shape(operand.element_type, sizes, marks)


def infer_concatenate(instruction: HloInstruction) -> Shape:
    """Sizes add up along one dimension; the others agree."""
    dimension = instruction.attributes_as(at.ConcatenateAttributes).dimension
    if instruction.operand_count == 0:
        fail(instruction, "needs at least one operand")
    first = array_operand(instruction, 0)
    check_dimension(instruction, dimension, first.rank)
    kind, total, marks = first.element_type, 0, list(dynamic_marks(first))
    rest = (first.dimensions[:dimension], first.dimensions[dimension + 1 :])
    for i, operand in enumerate(instruction.operands):
        shape = operand.shape
        if not shape.is_array or not same_type(kind, shape.element_type):
            fail(instruction, f"operand {i} has shape {show(shape)}, expected elements like those of {show(first)}")
        if shape.rank != first.rank or (shape.dimensions[:dimension], shape.dimensions[dimension + 1 :]) != rest:
            fail(
                instruction,
                f"operand {i} has shape {show(shape)}, which differs from {show(first)} outside dimension {dimension}",
            )
        kind = higher_precision(kind, shape.element_type)
        total += shape.dimensions[dimension]
        if shape.dynamic_dimensions:
            marks = [a or b for a, b in zip(marks, shape.dynamic_dimensions, strict=True)]
    return make_shape(kind, (*rest[0], total, *rest[1]), marks)


def infer_pad(instruction: HloInstruction) -> Shape:
    """`size + low + high + (size - 1) * interior` per dimension; negative edges crop."""
    padding = instruction.attributes_as(at.PadAttributes).padding
    operand, value = array_operand(instruction, 0), scalar_operand(instruction, 1, "the padding value")
    if not same_type(operand.element_type, value.element_type):
        fail(instruction, f"operand {show(operand)} and padding value {show(value)} have different element types")
    if len(padding) != operand.rank:
        fail(instruction, f"has padding for {len(padding)} dimensions, but operand {show(operand)} has {operand.rank}")
    dims: list[int] = []
    for i, (p, size) in enumerate(zip(padding, operand.dimensions, strict=True)):
        if p.interior_padding < 0:
            fail(instruction, f"the interior padding of dimension {i} must not be negative, got {p.interior_padding}")
        padded = size + p.edge_padding_low + p.edge_padding_high + max(size - 1, 0) * p.interior_padding
        if padded < 0:
            fail(instruction, f"the padding gives dimension {i} the negative size {padded}")
        dims.append(padded)
    kind = higher_precision(operand.element_type, value.element_type)
    return make_shape(kind, dims, dynamic_marks(operand))


def infer_iota(instruction: HloInstruction) -> Shape:
    """The declared shape, a numeric array of rank at least 1."""
    result = declared_array(instruction)
    if result.element_type is PrimitiveType.PRED:
        fail(instruction, f"the result must be numeric, but has shape {show(result)}")
    if result.rank == 0:
        fail(instruction, "the result must not be a scalar")
    dimension = instruction.attributes_as(at.IotaAttributes).iota_dimension
    check_dimension(instruction, dimension, result.rank, "iota_dimension")
    return result


def infer_map(instruction: HloInstruction) -> Shape:
    """The common dimensions of the operands with the type that the scalar computation returns."""
    dims = instruction.attributes_as(at.DimensionsAttributes).dimensions
    shapes = aligned_operands(instruction)
    if dims and dims != tuple(range(shapes[0].rank)):
        fail(instruction, f"dimensions={show_dims(dims)} must be all dimensions of {show(shapes[0])} in order")
    return _mapped(instruction, shapes)


def _mapped(instruction: HloInstruction, shapes: list[Shape]) -> Shape:
    computation = instruction.to_apply
    check_scalar_parameters(instruction, computation, [s.element_type for s in shapes], "computation")
    result = computation.root_instruction.shape
    if not result.is_scalar:
        fail(instruction, f"computation {computation.name} must return a scalar, but returns {show(result)}")
    return Shape(result.element_type, shapes[0].dimensions, shapes[0].layout, shapes[0].dynamic_dimensions)


RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {
        "broadcast": infer_broadcast,
        "reshape": infer_reshape,
        "dynamic-reshape": infer_dynamic_reshape,
        "bitcast": infer_bitcast,
        "transpose": infer_transpose,
        "reverse": infer_reverse,
        "slice": infer_slice,
        "concatenate": infer_concatenate,
        "pad": infer_pad,
        "iota": infer_iota,
        "map": infer_map,
    }
)
