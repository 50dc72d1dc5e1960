"""Tiles through instructions and fusions: the tile of every operand that a tile of the output needs, symbolically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xjit.affine import IndexingMap, Interval
from xjit.dataclass import dataclass
from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing import SymbolicTile, Tile, propagate_tile
from xjit.indexing.composition import Composer
from xjit.indexing.hlo_indexing import compute_output_to_input_indexing
from xjit.indexing.structure import leaf_shape

__all__ = ["TiledOperands", "propagate_output_tile"]


@dataclass(frozen=True, slots=True)
class TiledOperands:
    """Per operand the symbolic tiles of all its accesses; None if one of them is unknown.

    In a tile d<i> is offset i of the output tile and s<i> its size i.
    """

    operands: tuple[tuple[SymbolicTile, ...] | None, ...]

    def is_valid(self, offsets: Sequence[int], sizes: Sequence[int]) -> bool:
        """Whether every operand's tile is a tile for this output tile: all constraints hold."""
        return all(tiles is not None and all(t.is_valid(offsets, sizes) for t in tiles) for tiles in self.operands)

    def evaluate(self, operand: int, offsets: Sequence[int], sizes: Sequence[int]) -> tuple[Tile, ...]:
        """Returns the distinct tiles of one operand for one output tile; IndexingError if it is not valid."""
        return tuple(dict.fromkeys([t.evaluate(offsets, sizes) for t in self.operands[operand] or ()]))


def propagate_output_tile(
    instruction: HloInstruction,
    output_id: int = 0,
    strides: Sequence[int] | None = None,
    composer: Composer | None = None,
) -> TiledOperands:
    """Returns the tiles of every operand for a tile of output `output_id` with the given strides (1 by default).

    Reduced dimensions are read in full. Fusions are composed first, so that reshapes that cancel do not constrain.
    A map that holds on a part of the output only (of a concatenate, a pad) gives tiles that are not exact: they may
    reach beyond the operand, where nothing is read.
    """
    box = [Interval(0, n - 1) for n in leaf_shape(instruction.shape, output_id).dimensions]
    found: list[tuple[SymbolicTile, ...] | None] = []
    for maps in compute_output_to_input_indexing(instruction, output_id, composer):
        if any(m.is_unknown for m in maps):
            found.append(None)
        else:
            found.append(tuple(dict.fromkeys(_tile(m, box, strides) for m in maps if not m.is_known_empty)))
    return TiledOperands(tuple(found))


def _tile(m: IndexingMap, box: list[Interval], strides: Sequence[int] | None) -> SymbolicTile:
    tile = propagate_tile(m, strides)
    return tile if list(m.dim_bounds) == box else replace(tile, exact=False)
