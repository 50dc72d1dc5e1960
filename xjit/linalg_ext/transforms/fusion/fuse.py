"""fuse and fuse_ext: tile an operation and compute its producers in the same loops, tile by tile."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms.building_blocks.index_values import Index
from xjit.linalg_ext.transforms.fusion.emit import FusionResult, Keep, emit_fusion
from xjit.linalg_ext.transforms.fusion.online_softmax import accepts_online_softmax
from xjit.linalg_ext.transforms.fusion.plan import FusionPlan
from xjit.linalg_ext.transforms.tilable import as_tilable
from xjit.linalg_ext.transforms.tiling.loop_nest import cut_by_sizes

__all__ = ["fuse", "fuse_ext"]


def fuse_ext(
    root: Operation,
    tile_sizes: Sequence[Index],
    tile_interchange: Sequence[int] = (),
    stop: Collection[Operation] = (),
    keep: Keep = Keep.USED,
) -> FusionResult:
    """Tiles `root`, an op of tensors, and fuses its producers, and theirs, but those in `stop`.

    What a reduction accumulates starts once, outside the loops. An intermediate with users behind `root` becomes a
    result of the loops; `keep` may name more. An op that several others in the loops need is computed once
    per iteration, with the least tile that serves them all. LinalgError, with its place, if `root` cannot be
    tiled; a producer that cannot be fused stays outside.
    """
    return _fuse(root, tile_sizes, tile_interchange, stop, keep)


def fuse(root: Operation, tile_sizes: Sequence[Index], tile_interchange: Sequence[int] = ()) -> FusionResult:
    """Tiles `root` and fuses its producers; one with users behind `root` is computed once more, outside the loops.

    As in MLIR, what is empty stays outside, and tiles are written into slices of it.
    """
    empty = [op for op in root.block.operations if op.name == "tensor.empty"] if root.block is not None else []
    return _fuse(root, tile_sizes, tile_interchange, empty, Keep.NONE)


def _fuse(
    root: Operation,
    tile_sizes: Sequence[Index],
    tile_interchange: Sequence[int],
    stop: Collection[Operation],
    keep: Keep,
) -> FusionResult:
    if not root.results:
        raise LinalgError(
            f"only TilingInterface ops are supported, on tensors: '{root.name}' op has no results", root.location
        )
    tilable = as_tilable(root)
    if root in stop:
        return FusionResult((root,), ())
    cut = cut_by_sizes(tilable, root, tile_sizes, tile_interchange)
    if cut is None:
        return FusionResult((root,), ())
    nest, domain = cut
    with nest.guarded():
        plan = FusionPlan(nest.index, stop, accepts_online_softmax(nest))
        roots = plan.add_roots([(tilable, domain)])
        result = emit_fusion(plan, nest, roots, keep)
    for op in (root, *result.fused):
        if not any(r.has_uses for r in op.results):
            op.erase()
    return result
