"""pack_greedily: the innermost loops of a product of matrices, in an order of choice, packed."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExprKind, dim
from xjit.linalg_ext.ir import Builder, LinalgError, Operation
from xjit.linalg_ext.structured import StructuredOp, as_structured
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.packing.pack import PackedOp, pack, packable
from xjit.linalg_ext.transforms.single_ops.generalize import generalize
from xjit.linalg_ext.transforms.single_ops.interchange import interchange

__all__ = ["pack_greedily"]


def pack_greedily(
    operation: Operation, sizes: Sequence[Index], order: Sequence[int] = (0, 1, 2), multiples: Sequence[int] = ()
) -> PackedOp:
    """Packs the last loops over rows, columns and products (m, n, k) of a contraction in tiles of `sizes`.

    They become the innermost loops, m at place `order[0]` among the three, n at `order[1]`, k at `order[2]`. Where
    `multiples` has a number other than 0, the tile is the whole loop, rounded up to a multiple of that. LinalgError,
    with the operation's place, for an op that has no such loops; then nothing has changed.
    """
    op = as_structured(operation)
    if len(sizes) != 3 or sorted(order) != [0, 1, 2] or len(multiples) not in (0, 3):
        raise LinalgError(f"expected three sizes, and an order of three loops, found {list(order)}", operation.location)
    roles = None if op is None else _last_roles(op)
    if op is None or roles is None:
        raise LinalgError(f"'{operation.name}' op is no contraction with loops m, n and k", operation.location)
    extents = [op.loop_sources[loop] for loop in roles]
    index = IndexBuilder(Builder.before(operation))
    tiles = list(sizes)
    for i, multiple in enumerate(multiples):
        if multiple:
            operand, axis = extents[i]
            extent = index.dim_of(op.operands[operand], axis)
            tiles[i] = index.apply(dim(0).ceildiv(multiple) * multiple, (extent,))
    by_role = dict(zip(roles, tiles))
    packable(operation, [by_role.get(loop, 0) for loop in range(op.num_loops)])
    first = op.num_loops - 3
    places = {first + place: loop for place, loop in zip(order, roles)}
    others = iter(loop for loop in range(op.num_loops) if loop not in roles)
    permutation = [places[i] if i in places else next(others) for i in range(op.num_loops)]
    packed: list[Index] = [0] * op.num_loops
    for place, tile in zip(order, tiles):
        packed[first + place] = tile
    generic = interchange(generalize(operation), permutation)
    return pack(generic, packed)


def _last_roles(op: StructuredOp) -> tuple[int, int, int] | None:
    """Returns the last loops that only the left input and the result have, only the right one, and only both inputs."""
    if len(op.inputs) != 2 or len(op.inits) != 1 or not op.row.pointwise or op.has_index_semantics:
        return None
    sets: list[set[int]] = []
    for m in op.indexing_maps:
        if any(e.kind is not AffineExprKind.DIM for e in m.results):
            return None
        sets.append({e.position for e in m.results})
    left, right, result = sets
    groups = ((left & result) - right, (right & result) - left, (left & right) - result)
    return (max(groups[0]), max(groups[1]), max(groups[2])) if all(groups) else None
