"""split: an operation as two that do the first iterations of a loop, and the others."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import dim
from xjit.linalg_ext.ir import Builder, Operation, Value
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.rollback import taking_back
from xjit.linalg_ext.transforms.building_blocks.slices import extract_tile, insert_tile
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.tilable import Tilable, as_tilable
from xjit.linalg_ext.transforms.tiling.tile import destination_of

__all__ = ["split"]


def split(op: Operation, loop: int, point: Index) -> list[Operation]:
    """Splits loop number `loop` behind `point` iterations; returns the two operations.

    Of a loop that is known to end before, the one operation stays as it is. LinalgError, with the operation's place,
    if there is no such loop, or if it cannot be cut; then nothing has changed.
    """
    root = as_tilable(op)
    if not 0 <= loop < len(root.iterator_types):
        raise root.error(f"has {len(root.iterator_types)} loops, found dimension {loop}")
    if loop in root.fixed_loops:
        raise root.error(f"cannot be split along loop {loop}: {root.fixed_loops[loop]}")
    if isinstance(point, int) and point < 0:
        raise root.error(f"cannot be split behind {point} iterations")
    index = IndexBuilder(Builder.before(op))
    extents = root.extents(index)
    first = index.minimum((dim(0), dim(1)), (point, extents[loop]))
    if first is extents[loop] or first in (0, extents[loop]):
        index.discard_unused()
        return [op]
    sides = ((0, first, True), (first, index.apply(dim(0) - dim(1), (extents[loop], first)), True))
    domains = [Tile.of(side if i == loop else (0, n, True) for i, n in enumerate(extents)) for side in sides]
    with taking_back(index, ()):
        for domain in domains:  # what cannot be cut is found out before anything is replaced
            root.operand_tiles(index, domain)
    results = [destination_of(root, result, index) for result in op.results]
    parts: list[Operation] = []
    for domain in domains:
        part, results = _emit_part(root, index, domain, results)
        parts.append(part)
    op.replace_all_uses_with(results)
    op.erase()
    return parts


def _emit_part(
    root: Tilable, index: IndexBuilder, domain: Tile, results: Sequence[Value]
) -> tuple[Operation, list[Value]]:
    """Computes a part of the results, and puts it into them; returns what computes it, too."""
    sources = list(root.op.operands)
    for result, value in zip(root.op.results, results):
        init = root.init_of(result)
        if init is not None:
            sources[init] = value
    tiles = root.operand_tiles(index, domain)
    places = [root.result_tile(index, number, domain) for number in range(len(results))]
    operands = [v if t is None else extract_tile(index.builder, v, t) for v, t in zip(sources, tiles)]
    values = root.emit(index, domain, operands)
    block = root.op.block
    assert block is not None
    part = block.operations[block.position(root.op) - 1]
    if values and values[0].defining_op is not None:
        part = values[0].defining_op
    return part, [insert_tile(index.builder, v, r, t) for v, r, t in zip(values, results, places)]
