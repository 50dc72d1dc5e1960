"""Tiles the ops of functions, consumers first, and computes their producers in the same loops."""

from __future__ import annotations

from xjit.linalg_ext.automatic.estimate import Estimate, FusionEstimator
from xjit.linalg_ext.automatic.repeated import Choices
from xjit.linalg_ext.ir import Block, Builder, LinalgError, Operation
from xjit.linalg_ext.structured import StructuredOp, as_structured, structured
from xjit.linalg_ext.transforms import fuse_ext
from xjit.linalg_ext.transforms.tilable import as_tilable

__all__ = ["choose_tile_sizes", "tile_and_fuse"]


def tile_and_fuse(module: Operation, cache_bytes: int) -> int:
    """Tiles every structured op whose tiles would not fit in a cache, with its producers; returns how many nests.

    Each nest has what it loads and stores in an iteration, and all that is between, in `cache_bytes`. A producer that
    reduces, and that the tiles of its consumer would have computed more than once, gets a nest of its own.
    """
    return sum(_tile_block(op.body, cache_bytes) for op in module.body.operations if op.regions[0].blocks)


def _tile_block(block: Block, cache_bytes: int) -> int:
    _unshare_destinations(block)
    count, choices = 0, Choices()
    for wanted in (_multiplies_softmax, _is_structured):
        for op in reversed(block.operations):
            if op.block is block and wanted(op) and any(r.has_uses for r in op.results):
                count += _tiled(structured(op), cache_bytes, choices)
    return count


def _unshare_destinations(block: Block) -> None:
    """Gives each op its own tensors to write into: one in the loops must not bring along those of others."""
    for op in reversed(block.operations):
        if op.name in ("tensor.empty", "linalg.fill"):
            for use in op.result.uses[1:]:
                use.set(Builder.before(use.owner).clone(op).result)


def _is_structured(op: Operation) -> bool:
    return as_structured(op) is not None and op.name != "linalg.fill" and bool(op.results)


def _multiplies_softmax(op: Operation) -> bool:
    """Whether it is a product with probabilities: first, as these can be made tile by tile only in its own loops."""
    producer = op.operands[0].defining_op if _is_structured(op) else None
    return producer is not None and producer.name == "linalg_ext.softmax" and bool(structured(op).reduction_loops)


def _tiled(view: StructuredOp, cache_bytes: int, choices: Choices) -> bool:
    """Tiles an op with its producers; whether there was a reason to, and it could be."""
    if not view.num_loops:
        return False
    estimator = FusionEstimator(view)
    choice = choices.find(estimator) or choices.add(estimator, choose_tile_sizes(estimator, cache_bytes))
    tiles = [0 if size == n else size for size, n in zip(choice.sizes, estimator.ranges)]
    if not any(tiles):
        return False
    try:
        fuse_ext(view.operation, tiles, stop=choice.stop)
    except LinalgError:
        return False
    return True


def choose_tile_sizes(estimator: FusionEstimator, cache_bytes: int) -> Estimate:
    """Returns the costs for iterations of a tile in each loop of the root such that the tiles of a fusion fit.

    Starting with whole loops, again and again one is cut to the next lower power of two: one that leaves most producers
    in the nest; of those one that stays long enough for vectors, then one with the least to load and store, and with
    the smallest tiles.
    """
    fixed = as_tilable(estimator.root.operation).fixed_loops
    best = estimator.of(estimator.ranges)
    while best.tile_bytes > cache_bytes:
        sizes, before = best.sizes, best
        for loop, size in enumerate(sizes):
            if size > 1 and loop not in fixed:
                shorter = 1 << ((size - 1).bit_length() - 1)
                cut = estimator.of([*sizes[:loop], shorter, *sizes[loop + 1 :]], None if best is before else best)
                best = cut if best is before or cut.rank < best.rank else best
        if best is before:
            break
    return best
