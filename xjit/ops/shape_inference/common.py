"""What all shape rules share: errors at the instruction's place, operand checks, element types, signatures.

Rules compare without layouts; a shape that a rule builds is row-major, a shape that it passes through keeps its layout.
Floating types of different precision agree with each other, as in XLA; the verifier decides whether to allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import ml_dtypes

from xjit.hlo.diagnostics import HloVerifyError
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape

ARRAY_TYPES = frozenset(t for t in PrimitiveType if t.is_array)
FLOAT_TYPES = frozenset(t for t in PrimitiveType if t.is_float)
COMPLEX_TYPES = frozenset(t for t in PrimitiveType if t.is_complex)
INTEGER_TYPES = frozenset(t for t in PrimitiveType if t.is_integer)
SIGNED_TYPES = frozenset(t for t in PrimitiveType if t.is_signed)
PRED_SCALAR = Shape.array(PrimitiveType.PRED)
S32_SCALAR = Shape.array(PrimitiveType.S32)
U32_SCALAR = Shape.array(PrimitiveType.U32)
TOKEN = Shape.token()


def fail(instruction: HloInstruction, message: str, *notes: str) -> NoReturn:
    """Raises HloVerifyError `opcode: message` at the instruction's place in the text."""
    raise HloVerifyError(f"{instruction.opcode}: {message}", instruction.span, *notes)


def show(shape: Shape) -> str:
    """Returns a shape for a message: without layouts."""
    return shape.to_string(layout=False)


def show_dims(dims: Sequence[int]) -> str:
    """Returns a list of dimension numbers as HLO writes it."""
    return "{" + ",".join(map(str, dims)) + "}"


def array_operand(instruction: HloInstruction, i: int) -> Shape:
    """Returns the shape of operand `i`, which must be an array."""
    shape = instruction.operand(i).shape
    if not shape.is_array:
        fail(instruction, f"operand {i} must be an array, but has shape {show(shape)}")
    return shape


def array_operands(instruction: HloInstruction) -> list[Shape]:
    """Returns the shapes of all operands, which must be arrays."""
    return [array_operand(instruction, i) for i in range(instruction.operand_count)]


def aligned_operands(instruction: HloInstruction) -> list[Shape]:
    """Returns the shapes of all operands: at least one, all arrays of the same dimensions."""
    shapes = array_operands(instruction)
    if not shapes:
        fail(instruction, "needs at least one operand")
    for i, shape in enumerate(shapes):
        if shape.dimensions != shapes[0].dimensions:
            fail(instruction, f"operand {i} has shape {show(shape)}, operand 0 has {show(shapes[0])}")
    return shapes


def scalar_operand(instruction: HloInstruction, i: int, what: str) -> Shape:
    """Returns the shape of operand `i`, which must be an array of rank 0."""
    shape = instruction.operand(i).shape
    if not shape.is_scalar:
        fail(instruction, f"{what} must be a scalar, but has shape {show(shape)}")
    return shape


def token_operand(instruction: HloInstruction, i: int) -> None:
    """Checks that operand `i` is a token."""
    shape = instruction.operand(i).shape
    if not shape.is_token:
        fail(instruction, f"operand {i} must be a token, but has shape {show(shape)}")


def declared_array(instruction: HloInstruction) -> Shape:
    """Returns the instruction's own shape, which must be an array."""
    shape = instruction.shape
    if not shape.is_array:
        fail(instruction, f"the result must be an array, but has shape {show(shape)}")
    return shape


def same_type(a: PrimitiveType, b: PrimitiveType) -> bool:
    """Whether the types agree up to floating-point precision."""
    return a is b or (a.is_float and b.is_float)


def compatible_up_to_precision(a: Shape, b: Shape) -> bool:
    """Whether shapes agree in dimensions and, up to floating-point precision, in types."""
    if a is b or (a.element_type is b.element_type and not a.tuple_shapes and a.dimensions == b.dimensions):
        return len(a.tuple_shapes) == len(b.tuple_shapes)
    if len(a.tuple_shapes) != len(b.tuple_shapes) or a.dimensions != b.dimensions:
        return False
    if not same_type(a.element_type, b.element_type):
        return False
    return all(compatible_up_to_precision(x, y) for x, y in zip(a.tuple_shapes, b.tuple_shapes, strict=True))


def higher_precision(a: PrimitiveType, b: PrimitiveType) -> PrimitiveType:
    """Returns the wider of two floating types, of equally wide ones that with more range; else the first type."""
    if a is b or not (a.is_float and b.is_float):
        return a
    return max(a, b, key=lambda kind: (kind.bit_width, float(ml_dtypes.finfo(kind.dtype).max)))


def make_shape(kind: PrimitiveType, dims: Sequence[int], dynamic: Sequence[bool] = ()) -> Shape:
    """Returns a row-major array shape; `dynamic` marks bounded dimensions."""
    dims = tuple(dims)
    marks = tuple(bool(d) for d in dynamic)
    return Shape(kind, dims, Layout.row_major(len(dims)), marks if any(marks) else ())


def dynamic_marks(shape: Shape) -> tuple[bool, ...]:
    """Returns one mark per dimension, also for static shapes."""
    return shape.dynamic_dimensions or (False,) * shape.rank


def with_dimension(shape: Shape, dimension: int, size: int) -> Shape:
    """Returns the shape with one dimension resized; layout and dynamic marks are kept."""
    dims = (*shape.dimensions[:dimension], size, *shape.dimensions[dimension + 1 :])
    return Shape(shape.element_type, dims, shape.layout, shape.dynamic_dimensions)


def check_dimension(instruction: HloInstruction, dimension: int, rank: int, what: str = "dimension") -> None:
    """Checks that a dimension number is in range."""
    if not 0 <= dimension < rank:
        fail(instruction, f"{what} {dimension} is out of range for rank {rank}")


def check_distinct_dimensions(
    instruction: HloInstruction, dims: Sequence[int], rank: int, what: str = "dimensions", ascending: bool = False
) -> None:
    """Checks that dimension numbers are in range and distinct, optionally also ascending."""
    for dimension in dims:
        if not 0 <= dimension < rank:
            fail(instruction, f"dimension {dimension} of {what}={show_dims(dims)} is out of range for rank {rank}")
    if len(set(dims)) != len(dims):
        fail(instruction, f"{what}={show_dims(dims)} names a dimension twice")
    if ascending and list(dims) != sorted(dims):
        fail(instruction, f"{what}={show_dims(dims)} must be ascending")


def check_signature(
    instruction: HloInstruction, computation: HloComputation, arguments: Sequence[Shape], role: str
) -> None:
    """Checks that a computation takes exactly those arguments (types and dimensions equal)."""
    _check_parameter_count(instruction, computation, len(arguments), role)
    for i, argument in enumerate(arguments):
        parameter = computation.parameter_instruction(i).shape
        if parameter is not argument and not parameter.compatible(argument):
            fail(
                instruction,
                f"parameter {i} of {role} {computation.name} has shape {show(parameter)}, "
                f"but its argument has shape {show(argument)}",
            )


def _check_parameter_count(instruction: HloInstruction, computation: HloComputation, count: int, role: str) -> None:
    found = computation.num_parameters
    if found != count:
        fail(instruction, f"{role} {computation.name} takes {found} parameters, expected {count}")


def check_predicate_result(instruction: HloInstruction, computation: HloComputation, role: str) -> None:
    """Checks that a computation returns a `pred[]`."""
    result = computation.root_instruction.shape
    if not result.compatible(PRED_SCALAR):
        fail(instruction, f"{role} {computation.name} must return pred[], but returns {show(result)}")


def check_scalar_parameters(
    instruction: HloInstruction, computation: HloComputation, types: Sequence[PrimitiveType], role: str
) -> None:
    """Checks that the parameters are scalars of those types, up to floating-point precision."""
    _check_parameter_count(instruction, computation, len(types), role)
    for i, kind in enumerate(types):
        shape = computation.parameter_instruction(i).shape
        if not shape.is_scalar or not same_type(shape.element_type, kind):
            fail(
                instruction,
                f"parameter {i} of {role} {computation.name} has shape {show(shape)}, expected {kind.text}[]",
            )


def check_reducer(
    instruction: HloInstruction,
    computation: HloComputation,
    init_types: Sequence[PrimitiveType],
    input_types: Sequence[PrimitiveType],
    role: str = "reducer",
) -> tuple[PrimitiveType, ...]:
    """Checks (accumulators..., inputs...) -> accumulators, all scalars; returns the accumulator types."""
    count = len(input_types)
    result = computation.root_instruction.shape
    accumulators = result.tuple_shapes if result.is_tuple else (result,)
    if len(accumulators) != count or not all(a.is_scalar for a in accumulators):
        expected = "a scalar" if count == 1 else f"a tuple of {count} scalars"
        fail(instruction, f"{role} {computation.name} must return {expected}, but returns {show(result)}")
    check_scalar_parameters(instruction, computation, [*(a.element_type for a in accumulators), *input_types], role)
    for i, accumulator in enumerate(accumulators):
        parameter = computation.parameter_instruction(i).shape
        if parameter.element_type is not accumulator.element_type:
            fail(
                instruction,
                f"parameter {i} of {role} {computation.name} has shape {show(parameter)}, "
                f"but the result has shape {show(accumulator)}",
            )
        for kind, what in ((init_types[i], "the init value"), (input_types[i], "the input")):
            if not same_type(accumulator.element_type, kind):
                fail(
                    instruction,
                    f"{role} {computation.name} accumulates {show(accumulator)}, but {what} {i} has type {kind.text}",
                )
    return tuple(a.element_type for a in accumulators)


def check_start(instruction: HloInstruction) -> None:
    """Checks that the operand of `x-done` is an `x-start`."""
    start, operand = instruction.opcode.replace("-done", "-start"), instruction.operand(0)
    if operand.opcode != start:
        fail(instruction, f"the operand must be {start}, but {operand.name} is {operand.opcode}")


def tuple_or_single(shapes: Sequence[Shape]) -> Shape:
    """Returns the only shape, or the tuple of several."""
    return shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)
