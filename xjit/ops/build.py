"""Constructors of free instructions that infer their shape; passes and tests build HLO with these.

Result layouts: elementwise opcodes and those that pass an operand's shape on keep its layout, the rest is row-major.
Errors: HloVerifyError if operands and attributes do not fit, InvalidArgument if a shape is needed and not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES
from xjit.hlo.diagnostics import HloError, HloVerifyError, InvalidArgument
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.shape_inference import infer_shape
from xjit.ops.shape_inference.common import compatible_up_to_precision, show

# Opcodes whose result the operands do not decide.
NEEDS_SHAPE = frozenset({
    "parameter", "iota", "broadcast", "reshape", "dynamic-reshape", "bitcast", "convert", "bitcast-convert", "rng",
    "stochastic-convert", "rng-bit-generator", "custom-call", "infeed", "recv",
})  # fmt: skip
_UNKNOWN = Shape(PrimitiveType.OPAQUE)


def make(
    opcode: str,
    *operands: HloInstruction,
    attributes: at.Attributes | None = None,
    called: Sequence[HloComputation] = (),
    shape: Shape | None = None,
    name: str = "",
) -> HloInstruction:
    """Returns a free instruction. Without `shape` it is inferred; with it, it is checked and kept with its layout.

    A given shape may also choose the element type of a dot or convolution and the precision of floating results.
    """
    if opcode not in OPCODES:
        raise InvalidArgument(f"unknown opcode '{opcode}'")
    if shape is None and opcode in NEEDS_SHAPE:
        raise InvalidArgument(f"make: {opcode} needs a shape")
    declared = _UNKNOWN if shape is None else shape.with_default_layouts()
    instruction = HloInstruction.create(opcode, declared, operands, attributes, called, name)
    try:
        inferred = infer_shape(instruction)
        if shape is not None and not compatible_up_to_precision(declared, inferred):
            raise HloVerifyError(f"{opcode}: the given shape is {show(declared)}, the operands give {show(inferred)}")
    except HloError:
        instruction.detach_from_operands()
        raise
    if shape is None:
        instruction.shape = inferred.with_default_layouts()
    return instruction


def make_constant(value: Any, element_type: PrimitiveType | str | None = None, name: str = "") -> HloInstruction:
    """Returns a constant of a Python number, nested sequence or NumPy array, converted to the element type if given.

    Python floats are f32 and ints s32 by default; NumPy values keep their type.
    """
    if isinstance(element_type, str):
        element_type = PrimitiveType.from_text(element_type)
    array = np.asarray(value)
    if element_type is not None:
        array = array.astype(element_type.dtype)
    elif not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype({"f": np.float32, "i": np.int32, "c": np.complex64}.get(array.dtype.kind, array.dtype))
    return HloInstruction.create_constant(Literal.from_array(array), name)


def constant_like(like: HloInstruction | Shape, value: Any) -> HloInstruction:
    """Returns a constant with the shape and layout of an array, every element equal to `value` (stored once)."""
    shape = like if isinstance(like, Shape) else like.shape
    return HloInstruction.create_constant(Literal.full(shape.with_default_layouts(), value))


def scalar_constant_like(like: HloInstruction | Shape, value: Any) -> HloInstruction:
    """Returns a scalar constant of the element type of an array."""
    shape = like if isinstance(like, Shape) else like.shape
    return make_constant(value, shape.element_type)


def broadcast_scalar(scalar: HloInstruction, shape: Shape) -> HloInstruction:
    """Returns the broadcast of a scalar to the dimensions and layout of `shape`; its type stays the scalar's."""
    return make("broadcast", scalar, shape=shape.with_element_type(scalar.shape.element_type))


def broadcast(operand: HloInstruction, shape: Shape, dimensions: Sequence[int]) -> HloInstruction:
    """Returns a broadcast: operand dimension i becomes result dimension `dimensions[i]`."""
    return make("broadcast", operand, attributes=at.DimensionsAttributes(tuple(dimensions)), shape=shape)


def unary(opcode: str, operand: HloInstruction) -> HloInstruction:
    """Returns an elementwise instruction of one operand."""
    return make(opcode, operand)


def binary(opcode: str, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction:
    """Returns an elementwise instruction of two operands of the same shape."""
    return make(opcode, lhs, rhs)


def compare(direction: str, lhs: HloInstruction, rhs: HloInstruction, comparison_type: str = "") -> HloInstruction:
    """Returns the elementwise comparison EQ, NE, GE, GT, LE or LT."""
    return make("compare", lhs, rhs, attributes=at.CompareAttributes(direction, comparison_type))


def select(pred: HloInstruction, on_true: HloInstruction, on_false: HloInstruction) -> HloInstruction:
    """Returns the elementwise choice between two arrays."""
    return make("select", pred, on_true, on_false)


def convert(operand: HloInstruction, element_type: PrimitiveType | str) -> HloInstruction:
    """Returns the conversion to another element type."""
    if isinstance(element_type, str):
        element_type = PrimitiveType.from_text(element_type)
    return make("convert", operand, shape=operand.shape.with_element_type(element_type))


def reshape(operand: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
    """Returns the row-major reshape to other dimensions of the same number of elements."""
    return make("reshape", operand, shape=operand.shape.with_dimensions(dimensions))


def transpose(operand: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
    """Returns the transpose whose dimension i is operand dimension `dimensions[i]`."""
    return make("transpose", operand, attributes=at.DimensionsAttributes(tuple(dimensions)))


def slice_(
    operand: HloInstruction, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
) -> HloInstruction:
    """Returns the slice `[start:limit:stride]` in every dimension."""
    steps = [1] * len(starts) if strides is None else strides
    ranges = tuple(at.SliceDimension(*r) for r in zip(starts, limits, steps, strict=True))
    return make("slice", operand, attributes=at.SliceAttributes(ranges))


def pad(operand: HloInstruction, value: HloInstruction, padding: Sequence[tuple[int, int, int]]) -> HloInstruction:
    """Returns the operand padded by (low, high, interior) elements per dimension."""
    return make("pad", operand, value, attributes=at.PadAttributes(tuple(at.PaddingDimension(*p) for p in padding)))


def concatenate(operands: Sequence[HloInstruction], dimension: int) -> HloInstruction:
    """Returns the operands one after the other along a dimension."""
    return make("concatenate", *operands, attributes=at.ConcatenateAttributes(dimension))


def make_reduce(
    inputs: HloInstruction | Sequence[HloInstruction],
    inits: HloInstruction | Sequence[HloInstruction],
    dimensions: Sequence[int],
    reducer: HloComputation,
) -> HloInstruction:
    """Returns the reduction of one array, or of several together, over some dimensions."""
    arrays = [inputs] if isinstance(inputs, HloInstruction) else list(inputs)
    scalars = [inits] if isinstance(inits, HloInstruction) else list(inits)
    return make("reduce", *arrays, *scalars, attributes=at.DimensionsAttributes(tuple(dimensions)), called=[reducer])


def make_binary_computation(opcode: str, element_type: PrimitiveType | str, name: str = "") -> HloComputation:
    """Returns the computation (a, b) -> opcode(a, b) on scalars: the usual reducer. Add it to the module."""
    scalar = Shape.array(element_type)
    builder = HloComputation.Builder(name or f"{opcode}_{scalar.element_type.text}")
    lhs = builder.add_instruction(HloInstruction.create_parameter(0, scalar, "lhs"))
    rhs = builder.add_instruction(HloInstruction.create_parameter(1, scalar, "rhs"))
    builder.add_instruction(make(opcode, lhs, rhs))
    return builder.build()


def make_dot(
    lhs: HloInstruction, rhs: HloInstruction, attributes: at.DotAttributes, element_type: PrimitiveType | None = None
) -> HloInstruction:
    """Returns a dot; `element_type` is the preferred result type, the operands' by default."""
    dot = make("dot", lhs, rhs, attributes=attributes)
    if element_type is None or dot.shape.element_type is element_type:
        return dot
    shape = dot.shape.with_element_type(element_type)
    dot.detach_from_operands()
    return make("dot", lhs, rhs, attributes=attributes, shape=shape)
