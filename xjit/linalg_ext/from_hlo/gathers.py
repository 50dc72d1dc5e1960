"""Elements at places that are data: `tensor.extract` in the body of a generic over what it gives."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine.expr import AffineExpr
from xjit.affine.pool import constant, dim
from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.scope import Raised, Rule, Scope, number_attribute
from xjit.linalg_ext.from_hlo.types import has_scalar_code
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType, element_type
from xjit.linalg_ext.structured.scalars import cast

__all__ = ["GATHER_RULES", "loop_index", "taken_along"]

_I64 = IntegerType(64)


def loop_index(builder: Builder, loop: int, sizes: Sequence[int]) -> Value:
    """Returns where the body is along a dimension of the result; those of one element have no loop."""
    if sizes[loop] == 1:
        return builder.constant_index(0)
    number = sum(n != 1 for n in sizes[:loop])
    return builder.create("linalg.index", (), (IndexType(),), {"dim": IntegerAttr(number, _I64)}).result


def _clamped(builder: Builder, value: Value, most: int, signed: bool) -> Value:
    """Returns a start, moved so that what begins there lies inside."""
    wide = cast(builder, value, _I64, signed)
    for name, bound in (("arith.maxsi", 0), ("arith.minsi", most)):
        limit = builder.constant(number_attribute(bound, _I64), _I64)
        wide = builder.create(name, (wide, limit), (_I64,)).result
    return cast(builder, wide, IndexType())


def _gather(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """Each element is one of the operand's: at a start, which is moved inside, and an offset from there."""
    operand, starts = instruction.operands
    a = instruction.attributes_as(at.GatherAttributes)
    sizes = instruction.shape.dimensions
    shapes = (instruction.shape, operand.shape, starts.shape)
    if not all(has_scalar_code(s) for s in shapes) or 0 in (*sizes, *operand.shape.dimensions):
        return None
    batch = [d for d in range(len(sizes)) if d not in a.offset_dims]
    left_out = (*a.collapsed_slice_dims, *a.operand_batching_dims)
    window = [d for d in range(operand.shape.rank) if d not in left_out]
    offsets = dict(zip(window, a.offset_dims, strict=True))
    axes = [d for d in range(starts.shape.rank) if d != a.index_vector_dim]
    batches = {d: batch[axes.index(at_)] for d, at_ in zip(a.operand_batching_dims, a.start_indices_batching_dims)}
    table, numbers = scope.value(operand), scope.value(starts)
    signed = starts.shape.element_type.is_signed
    room = [n - m for n, m in zip(operand.shape.dimensions, a.slice_sizes)]

    def body(builder: Builder, given: Sequence[Value]) -> list[Value]:
        first = {d: _clamped(builder, v, room[d], signed) for d, v in zip(a.start_index_map, given)}
        place: list[Value] = []
        for d in range(operand.shape.rank):
            parts = [first[d]] if d in first else []
            if d in offsets and a.slice_sizes[d] != 1:
                parts.append(loop_index(builder, offsets[d], sizes))
            if d in batches:
                parts.append(loop_index(builder, batches[d], sizes))
            place.append(_sum(builder, parts))
        return [builder.create("tensor.extract", (table, *place), (element_type(table.type),)).result]

    inputs = [(numbers, _start(starts, a.index_vector_dim, k, batch)) for k in range(len(a.start_index_map))]
    return scope.elements(inputs, sizes, element_type(table.type), body)


def _sum(builder: Builder, parts: Sequence[Value]) -> Value:
    if not parts:
        return builder.constant_index(0)
    total = parts[0]
    for part in parts[1:]:
        total = builder.create("arith.addi", (total, part), (IndexType(),)).result
    return total


def _start(starts: HloInstruction, vector: int, component: int, batch: Sequence[int]) -> list[AffineExpr]:
    """Returns the index of a component of the start that an element of the result has."""
    found: list[AffineExpr] = [dim(d) for d in batch]
    if vector < starts.shape.rank:
        found.insert(vector, constant(component))
    return found


def taken_along(scope: Scope, value: Value, places: Value, axis: int, sizes: Sequence[int]) -> Value:
    """Returns the elements of a tensor at places, one per element of the result, along a dimension."""

    def body(builder: Builder, given: Sequence[Value]) -> list[Value]:
        place = [loop_index(builder, d, sizes) for d in range(len(sizes))]
        place[axis] = cast(builder, cast(builder, given[0], _I64), IndexType())
        return [builder.create("tensor.extract", (value, *place), (element_type(value.type),)).result]

    index = [dim(d) for d in range(len(sizes))]
    return scope.elements([(places, index)], sizes, element_type(value.type), body)


GATHER_RULES: dict[str, Rule] = {"gather": _gather}
