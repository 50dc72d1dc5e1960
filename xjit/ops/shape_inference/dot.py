"""Shape rules of dot, ragged-dot and scaled-dot.

The result type is free (`preferred_element_type` lives only in the declared shape); it must not be narrower than
integer operands, or the parts of complex ones. Only a dot may have the real parts of complex sums as its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference.common import (
    array_operand,
    check_dimension,
    check_distinct_dimensions,
    dynamic_marks,
    fail,
    higher_precision,
    make_shape,
    show,
    show_dims,
)


def result_type(instruction: HloInstruction, lhs: Shape, rhs: Shape) -> PrimitiveType:
    """Returns the declared element type of a dot or convolution, checked against the operands."""
    natural = higher_precision(lhs.element_type, rhs.element_type)
    if lhs.element_type.is_complex != rhs.element_type.is_complex:
        fail(instruction, f"operands {show(lhs)} and {show(rhs)} mix complex and real types")
    if not instruction.shape.is_array:
        return natural
    declared = instruction.shape.element_type
    if declared is natural:
        return natural
    if natural.is_complex and not declared.is_complex and instruction.opcode != "dot":
        fail(instruction, f"operands of type {natural.text} cannot give a result of type {declared.text}")
    if not natural.is_float and declared.component.bit_width < natural.component.bit_width:
        fail(instruction, f"result type {declared.text} is narrower than the operand type {natural.text}")
    return declared


def free_dimensions(rank: int, *taken: Sequence[int]) -> list[int]:
    """Returns the dimensions that are in none of the lists, ascending."""
    used = {d for dims in taken for d in dims}
    return [d for d in range(rank) if d not in used]


DotLike = at.DotAttributes | at.RaggedDotAttributes


def _check_paired(
    instruction: HloInstruction, lhs: Shape, rhs: Shape, pairs: tuple[Sequence[int], Sequence[int]], what: str
) -> None:
    if len(pairs[0]) != len(pairs[1]):
        fail(instruction, f"lhs_{what}={show_dims(pairs[0])} and rhs_{what}={show_dims(pairs[1])} differ in length")
    for left, right in zip(*pairs, strict=True):
        if lhs.dimensions[left] != rhs.dimensions[right]:
            fail(
                instruction,
                f"{what}: dimension {left} of lhs {show(lhs)} and dimension {right} of rhs {show(rhs)} differ in size",
            )


def _check_dot_dimensions(instruction: HloInstruction, lhs: Shape, rhs: Shape, numbers: DotLike) -> None:
    check_distinct_dimensions(
        instruction, (*numbers.lhs_batch_dims, *numbers.lhs_contracting_dims), lhs.rank, "lhs dims"
    )
    check_distinct_dimensions(
        instruction, (*numbers.rhs_batch_dims, *numbers.rhs_contracting_dims), rhs.rank, "rhs dims"
    )
    _check_paired(instruction, lhs, rhs, (numbers.lhs_batch_dims, numbers.rhs_batch_dims), "batch_dims")
    _check_paired(
        instruction, lhs, rhs, (numbers.lhs_contracting_dims, numbers.rhs_contracting_dims), "contracting_dims"
    )


def _dot_shape(instruction: HloInstruction, lhs: Shape, rhs: Shape, numbers: DotLike, grouped: Sequence[int]) -> Shape:
    """Batch dimensions, then the free ones of lhs, then those of rhs (`grouped` dimensions of rhs left out)."""
    left = [
        *numbers.lhs_batch_dims,
        *free_dimensions(lhs.rank, numbers.lhs_batch_dims, numbers.lhs_contracting_dims),
    ]
    right = free_dimensions(rhs.rank, numbers.rhs_batch_dims, numbers.rhs_contracting_dims, grouped)
    dims = [*(lhs.dimensions[d] for d in left), *(rhs.dimensions[d] for d in right)]
    marks = [*(dynamic_marks(lhs)[d] for d in left), *(dynamic_marks(rhs)[d] for d in right)]
    return make_shape(result_type(instruction, lhs, rhs), dims, marks)


def infer_dot(instruction: HloInstruction) -> Shape:
    """Batch dimensions, then the free dimensions of lhs, then those of rhs."""
    numbers = instruction.attributes_as(at.DotAttributes)
    if instruction.operand_count != 2 and not (numbers.sparsity and instruction.operand_count in (3, 4)):
        fail(instruction, f"takes 2 operands (3 or 4 with sparsity), got {instruction.operand_count}")
    lhs, rhs = array_operand(instruction, 0), array_operand(instruction, 1)
    _check_dot_dimensions(instruction, lhs, rhs, numbers)
    return _dot_shape(instruction, lhs, rhs, numbers, ())


def infer_scaled_dot(instruction: HloInstruction) -> Shape:
    """As dot of operands 0 and 1; operands 2 and 3 scale blocks of them (a scale's size divides the operand's)."""
    numbers = instruction.attributes_as(at.DotAttributes)
    if instruction.operand_count != 4:
        fail(instruction, f"takes lhs, rhs, their scales, got {instruction.operand_count} operands")
    lhs, rhs, lhs_scale, rhs_scale = (array_operand(instruction, i) for i in range(4))
    _check_dot_dimensions(instruction, lhs, rhs, numbers)
    for operand, scale in ((lhs, lhs_scale), (rhs, rhs_scale)):
        if not scale.element_type.is_float:
            fail(instruction, f"a scale must be floating-point, but has shape {show(scale)}")
        if scale.rank == 0:
            continue
        blocks = scale.rank == operand.rank and all(
            s > 0 and d % s == 0 for d, s in zip(operand.dimensions, scale.dimensions, strict=True)
        )
        if not blocks:
            fail(instruction, f"scale {show(scale)} does not divide its operand {show(operand)} into blocks")
    return _dot_shape(instruction, lhs, rhs, numbers, ())


def infer_ragged_dot(instruction: HloInstruction) -> Shape:
    """Dot in groups: rows of a free ragged dimension use their group's rhs, a contracted one gives one result each."""
    numbers = instruction.attributes_as(at.RaggedDotAttributes)
    lhs, rhs, sizes = (array_operand(instruction, i) for i in range(3))
    _check_dot_dimensions(instruction, lhs, rhs, numbers)
    if len(numbers.lhs_ragged_dims) != 1:
        fail(instruction, f"needs one ragged dimension, got lhs_ragged_dims={show_dims(numbers.lhs_ragged_dims)}")
    ragged = numbers.lhs_ragged_dims[0]
    check_dimension(instruction, ragged, lhs.rank, "lhs_ragged_dims")
    free = ragged not in numbers.lhs_batch_dims and ragged not in numbers.lhs_contracting_dims
    groups = _group_sizes(instruction, lhs, sizes, numbers)
    if len(numbers.rhs_group_dims) != int(free):
        expected = "one rhs_group_dims entry" if free else "no rhs_group_dims"
        fail(instruction, f"a {'free' if free else 'batch or contracting'} ragged dimension needs {expected}")
    if free:
        group = numbers.rhs_group_dims[0]
        taken = (*numbers.rhs_batch_dims, *numbers.rhs_contracting_dims, group)
        check_distinct_dimensions(instruction, taken, rhs.rank, "rhs dims")
        if rhs.dimensions[group] != groups:
            fail(instruction, f"rhs {show(rhs)} has {rhs.dimensions[group]} groups, group sizes {show(sizes)}")
    shape = _dot_shape(instruction, lhs, rhs, numbers, numbers.rhs_group_dims)
    if ragged in numbers.lhs_contracting_dims:
        return make_shape(shape.element_type, (groups, *shape.dimensions))
    return shape


def _group_sizes(instruction: HloInstruction, lhs: Shape, sizes: Shape, numbers: at.RaggedDotAttributes) -> int:
    """Checks the group sizes - [groups], or one such row per index before the ragged dimension - and counts groups."""
    if not sizes.element_type.is_integer or sizes.rank == 0:
        fail(instruction, f"the group sizes must be integers of rank at least 1, but have shape {show(sizes)}")
    ragged = numbers.lhs_ragged_dims[0]
    batch, contracting = numbers.lhs_batch_dims, numbers.lhs_contracting_dims
    if ragged in batch:
        prefix = list(batch[: batch.index(ragged)])
    elif ragged in contracting:
        prefix = [*batch, *contracting[: contracting.index(ragged)]]
    else:
        prefix = [*batch, *(d for d in free_dimensions(lhs.rank, batch, contracting) if d < ragged)]
    rows = tuple(lhs.dimensions[d] for d in prefix)
    if sizes.rank > 1 and sizes.dimensions[:-1] != rows:
        fail(instruction, f"the group sizes {show(sizes)} must be [groups] or [{','.join(map(str, rows))},groups]")
    return sizes.dimensions[-1]


RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {"dot": infer_dot, "scaled-dot": infer_scaled_dot, "ragged-dot": infer_ragged_dot}
)
