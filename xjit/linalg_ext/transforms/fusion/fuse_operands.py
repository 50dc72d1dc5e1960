"""fuse_operands: tiles all operands of an operation, often of the return, in the same loops, with their producers."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import dim
from xjit.linalg_ext.ir import Builder, LinalgError, Operation, TensorType
from xjit.linalg_ext.structured import REDUCTION
from xjit.linalg_ext.transforms.building_blocks.collectives import all_reduced
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.fusion.emit import FusionResult, emit_fusion
from xjit.linalg_ext.transforms.fusion.plan import FusionPlan, Planned
from xjit.linalg_ext.transforms.tilable import Tilable, as_tilable
from xjit.linalg_ext.transforms.tiling.forall import share_of
from xjit.linalg_ext.transforms.tiling.loop_nest import LoopNest

__all__ = ["fuse_operands"]

_MAY_STAY = frozenset(("arith.constant", "tensor.empty", "tensor.dim"))
"""Producers that need not be in the loops when everything else must be."""


def fuse_operands(
    op: Operation,
    tile_nums: Sequence[int],
    tile_interchange: Sequence[int] = (),
    use_distributed: Sequence[int] = (),
    expect_whole_graph_fusion: bool = False,
) -> FusionResult:
    """Tiles the producers of all operands of `op` in one nest before it, and fuses their producers.

    Loop i of the nest has `tile_nums[i]` iterations; numbers up to 1 give no loop. It cuts dimension
    `tile_interchange[i]`, or i, of every root into as many tiles. Where `use_distributed` is 1, iterations stand for
    the members of a group, and a root that reduces along that loop is followed by `ccl.all_reduce`.
    LinalgError if a root cannot be tiled, or `expect_whole_graph_fusion` and anything else than constants is left.
    """
    roots = _roots(op)
    rank = max(len(root.iterator_types) for root in roots)
    if len(tile_nums) > rank:
        raise _error(op, f"tiling and fusion fails: {len(tile_nums)} numbers of tiles for {rank} loops")
    order = [*tile_interchange, *range(len(tile_interchange), len(tile_nums))]
    if sorted(order) != list(range(len(tile_nums))):
        raise _error(op, f"tiling and fusion fails: {list(tile_interchange)} is no interchange of the loops")
    loops = [(number, axis) for number, axis in zip(tile_nums, order) if number > 1]
    if not loops:
        return FusionResult((op,), ())
    outer = IndexBuilder(Builder.before(op))
    nest = LoopNest(op, [(_count(outer, roots, number, axis), 1) for number, axis in loops], outer)
    with nest.guarded():
        plan = FusionPlan(nest.index)
        domains = [_domain(nest, root, loops) for root in roots]
        planned = plan.add_roots(list(zip(roots, domains)))
        _check_all_fused(op, plan, expect_whole_graph_fusion)
        distributed = [nest.ivs[i] for i, (_, axis) in enumerate(loops) if _at(use_distributed, axis)]
        result = emit_fusion(plan, nest, planned)
    for root, tiled in zip(planned, result.tiled_ops):
        if _is_distributed(root, distributed):
            all_reduced(tiled)
    return result


def _error(op: Operation, message: str) -> LinalgError:
    return LinalgError(f"'{op.name}' op {message}", op.location)


def _at(numbers: Sequence[int], position: int) -> int:
    return numbers[position] if position < len(numbers) else 0


def _roots(op: Operation) -> list[Tilable]:
    """The producers of the operands that no other one needs; LinalgError if one cannot be tiled."""
    producers = list(dict.fromkeys(v.defining_op for v in op.operands if isinstance(v.type, TensorType)))
    if not producers or None in producers:
        raise _error(op, "tiling and fusion fails: expected operands that are results of operations on tensors")
    found = [p for p in producers if p is not None]
    needed: set[Operation] = set()
    for producer in found:
        if producer.block is not op.block:
            raise _error(op, "tiling and fusion fails: an operand is made in another block")
        needed |= _cone(producer)
    return [as_tilable(p) for p in found if p not in needed]


def _cone(op: Operation) -> set[Operation]:
    """All operations of the block that an operation needs, without itself."""
    found: set[Operation] = set()
    stack = [op]
    while stack:
        for value in stack.pop().operands:
            producer = value.defining_op
            if producer is not None and producer.block is op.block and producer not in found:
                found.add(producer)
                stack.append(producer)
    return found


def _count(outer: IndexBuilder, roots: Sequence[Tilable], number: int, axis: int) -> int:
    """The number of shares that have elements in one of the roots at least."""
    counts: list[int] = []
    for root in roots:
        extents = root.extents(outer)
        extent = extents[axis] if axis < len(extents) else 0
        share = -(-extent // number) if isinstance(extent, int) else 0
        counts.append(-(-extent // share) if isinstance(extent, int) and share else number)
    return min(number, max(counts))


def _domain(nest: LoopNest, root: Tilable, loops: Sequence[tuple[int, int]]) -> Tile:
    """Each loop has a share of the dimension that it cuts; the last shares may be less, or nothing."""
    dimensions: list[tuple[Index, Index, bool]] = [(0, n, True) for n in root.extents(nest.outer)]
    for iv, (number, axis) in zip(nest.ivs, loops):
        if axis >= len(dimensions):
            raise root.error(f"tiling and fusion fails: it has no loop {axis}")
        if axis in root.fixed_loops:
            raise root.error(f"tiling and fusion fails: {root.fixed_loops[axis]}")
        extent = dimensions[axis][1]
        step = nest.outer.apply(dim(0).ceildiv(number), (extent,))
        offset, size = share_of(nest.index, iv, step, extent, number)
        dimensions[axis] = offset, size, True
    return Tile.of(dimensions)


def _check_all_fused(op: Operation, plan: FusionPlan, everything: bool) -> None:
    """All tensors that `op` takes, and with `everything` all that they are made of, come from the loops."""
    for value in op.operands:
        producer = value.defining_op
        if isinstance(value.type, TensorType) and producer is not None and everything and producer not in plan.planned:
            raise _error(producer, "tiling and fusion fails: it is not fused")
    if not everything:
        return
    for planned in list(plan.planned.values()):
        for value in planned.op.operands:
            producer = value.defining_op
            if producer is None or producer in plan.planned or producer.name in _MAY_STAY:
                continue
            raise _error(producer, "tiling and fusion fails: it is not fused")


def _is_distributed(root: Planned, ivs: Sequence[object]) -> bool:
    """Whether a member of the group reduces a part only."""
    kinds = root.tilable.iterator_types
    for kind, offset in zip(kinds, root.domain.offsets):
        source = offset if isinstance(offset, int) else offset.defining_op
        operands = source.operands if isinstance(source, Operation) else (offset,)
        if kind == REDUCTION and any(iv is value for iv in ivs for value in operands):
            return True
    return False
