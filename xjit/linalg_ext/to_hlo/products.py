"""Sums of products over loops as `dot` or `convolution`."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import DotAttributes
from xjit.linalg_ext.ir.operation import BlockArgument, OpResult, Value
from xjit.linalg_ext.ir.types import IntegerType
from xjit.linalg_ext.structured import Access, StructuredOp
from xjit.linalg_ext.to_hlo.accesses import loop_of
from xjit.linalg_ext.to_hlo.convolutions import convolution_over_loops
from xjit.linalg_ext.to_hlo.writer import FunctionWriter, primitive_type

__all__ = ["product_over_loops"]

_PRODUCTS = frozenset({"arith.mulf", "arith.muli"})
_CASTS = frozenset({"arith.extf", "arith.truncf", "arith.sitofp", "arith.extsi"})


@dataclass(frozen=True, slots=True)
class _Factor:
    """An input of the op, as it is or converted."""

    array: HloInstruction
    access: Access

    @property
    def loops(self) -> list[int] | None:
        """The loops of its dimensions, if each is one of its own."""
        found = [loop for e in self.access if (loop := loop_of(e)) is not None]
        return found if len(found) == len(self.access) == len(set(found)) else None


def product_over_loops(
    writer: FunctionWriter,
    op: StructuredOp,
    arrays: Sequence[HloInstruction],
    sizes: Sequence[int],
    term: Value,
    result: Sequence[int],
) -> HloInstruction | None:
    """Returns the sum of `term` over the loops that are not in `result`, whose order the dimensions have.

    None if the term is no product of two inputs, or if their indices are neither those of a dot nor of a convolution.
    """
    if not isinstance(term, OpResult) or term.owner.name not in _PRODUCTS:
        return None
    factors = [_factor(writer, op, arrays, value) for value in term.owner.operands]
    left, right = factors
    if left is None or right is None:
        return None
    kind = primitive_type(term.type)
    for image, kernel in ((left, right), (right, left)):
        found = convolution_over_loops(
            writer, (image.array, image.access), (kernel.array, kernel.access), sizes, result, kind
        )
        if found is not None:
            return found
    return _dot(writer, left, right, sizes, result, kind)


def _dot(
    writer: FunctionWriter,
    left: _Factor,
    right: _Factor,
    sizes: Sequence[int],
    result: Sequence[int],
    kind: PrimitiveType,
) -> HloInstruction | None:
    left_loops, right_loops = left.loops, right.loops
    if left_loops is None or right_loops is None:
        return None
    both = [loop for loop in left_loops if loop in right_loops]
    summed = [loop for loop in range(len(sizes)) if loop not in result]
    if not set(summed) <= set(both) or set(left_loops) | set(right_loops) != set(range(len(sizes))):
        return None
    if [sizes[i] for i in left_loops] != list(left.array.shape.dimensions):
        return None
    if [sizes[i] for i in right_loops] != list(right.array.shape.dimensions):
        return None
    batch = [loop for loop in both if loop not in summed]
    attributes = DotAttributes(
        lhs_batch_dims=tuple(left_loops.index(loop) for loop in batch),
        lhs_contracting_dims=tuple(left_loops.index(loop) for loop in summed),
        rhs_batch_dims=tuple(right_loops.index(loop) for loop in batch),
        rhs_contracting_dims=tuple(right_loops.index(loop) for loop in summed),
    )
    free = [[loop for loop in loops if loop not in both] for loops in (left_loops, right_loops)]
    order = [*batch, *free[0], *free[1]]
    shape = Shape.array(kind, tuple(sizes[loop] for loop in order))
    dot = writer.make("dot", left.array, right.array, attributes=attributes, shape=shape)
    return writer.transpose(dot, [order.index(loop) for loop in result])


def _factor(writer: FunctionWriter, op: StructuredOp, arrays: Sequence[HloInstruction], value: Value) -> _Factor | None:
    target = primitive_type(value.type)
    while isinstance(value, OpResult) and value.owner.name in _CASTS:
        value = value.owner.operands[0]
    if not isinstance(value, BlockArgument) or value.block is not op.body or value.type == IntegerType(1):
        return None
    if value.index >= len(op.inputs):
        return None
    return _Factor(writer.convert(arrays[value.index], target), op.accesses[value.index])
