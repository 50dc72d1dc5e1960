"""Operands in the space of loops: an array with one dimension per loop, made of an operand by its indexing map."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import GatherAttributes
from xjit.linalg_ext.structured import Access
from xjit.linalg_ext.to_hlo.affine_ops import affine_value
from xjit.linalg_ext.to_hlo.scope import Lowered
from xjit.linalg_ext.to_hlo.writer import FunctionWriter

__all__ = ["elements_at", "loop_of", "over_loops", "plain_loops"]


def loop_of(e: AffineExpr | None) -> int | None:
    """Returns the loop that an index is, None if it is another expression."""
    return e.position if e is not None and e.kind is AffineExprKind.DIM else None


def plain_loops(access: Access) -> list[int] | None:
    """Returns the loops of an access whose indices are loops, each once, or constants; None for others."""
    loops: list[int] = []
    for e in access:
        loop = loop_of(e)
        if loop is not None:
            loops.append(loop)
        elif e is None or not e.is_constant:
            return None
    return loops if len(set(loops)) == len(loops) else None


def over_loops(writer: FunctionWriter, array: HloInstruction, access: Access, sizes: Sequence[int]) -> HloInstruction:
    """Returns the element of `array` that each iteration reads, of shape `sizes`; a scalar stays one."""
    if not access:
        return array
    loops = plain_loops(access)
    if loops is None:
        loops = sorted({i for e in access if e is not None for i in e.dims})
        part = _gathered(writer, array, access, loops, sizes)
    else:
        part = _sliced(writer, array, access, loops, sizes)
    order = sorted(range(len(loops)), key=lambda i: loops[i])
    part = writer.transpose(part, order)
    if len(loops) == len(sizes):
        return part
    return writer.broadcast(part, sizes, sorted(loops))


def _sliced(
    writer: FunctionWriter, array: HloInstruction, access: Access, loops: list[int], sizes: Sequence[int]
) -> HloInstruction:
    """Constant indices are slices of one element, and no dimension of the result."""
    starts, limits = [], []
    for e in access:
        loop = loop_of(e)
        start = e.value if loop is None and e is not None else 0
        starts.append(start)
        limits.append(start + (1 if loop is None else sizes[loop]))
    if array.shape.dimensions != tuple(limits) or any(starts):
        array = writer.slice(array, starts, limits)
    return writer.reshape(array, [sizes[loop] for loop in loops])


def _gathered(
    writer: FunctionWriter, array: HloInstruction, access: Access, loops: list[int], sizes: Sequence[int]
) -> HloInstruction:
    """Indices are computed from the loops that the map uses."""
    shape = [sizes[loop] for loop in loops]
    if 0 in shape:
        return writer.broadcast(writer.constant(0, array.shape.element_type), shape)
    variables: list[Lowered] = [0] * len(sizes)
    for axis, loop in enumerate(loops):
        variables[loop] = writer.iota(PrimitiveType.S64, shape, axis)
    columns = []
    for e in access:
        assert e is not None
        index = affine_value(writer, e, variables)
        if isinstance(index, int):
            index = writer.broadcast(writer.constant(index, PrimitiveType.S64), shape)
        columns.append(writer.reshape(index, [*shape, 1]))
    return elements_at(writer, array, columns, shape)


def elements_at(
    writer: FunctionWriter, array: HloInstruction, columns: Sequence[HloInstruction], shape: Sequence[int]
) -> HloInstruction:
    """Returns the elements of `array` at places, an array of shape `shape` + [1] with the indices of each dimension."""
    rank = len(columns)
    attributes = GatherAttributes(
        offset_dims=(),
        collapsed_slice_dims=tuple(range(rank)),
        start_index_map=tuple(range(rank)),
        index_vector_dim=len(shape),
        slice_sizes=(1,) * rank,
    )
    return writer.make("gather", array, writer.concatenate(columns, len(shape)), attributes=attributes)
