"""Indexing of HLO: which elements are read for which, through instructions, fusions and loops.

Built on the maps of `xjit.affine` and the rules of `xjit.ops.indexing`: composition, tiles, utilisation, coalescing.
"""

from __future__ import annotations

from xjit.affine import (
    UNKNOWN,
    AffineExpr,
    AffineMap,
    DimVar,
    IndexingError,
    IndexingMap,
    Interval,
    RangeVar,
    RTVar,
    compose_indexing_maps,
    parse_indexing_map,
    print_indexing_map,
)
from xjit.indexing.hlo_indexing import compute_input_to_output_indexing, compute_output_to_input_indexing
from xjit.indexing.image_size import Utilization, image_size, operand_utilization
from xjit.indexing.symbolic_tile import SymbolicTile, Tile, propagate_tile
from xjit.indexing.warp_access import AccessKind, WarpAccess, classify_warp_access

__all__ = [
    "UNKNOWN",
    "AccessKind",
    "AffineExpr",
    "AffineMap",
    "DimVar",
    "IndexingError",
    "IndexingMap",
    "Interval",
    "RTVar",
    "RangeVar",
    "SymbolicTile",
    "Tile",
    "Utilization",
    "WarpAccess",
    "classify_warp_access",
    "compose_indexing_maps",
    "compute_input_to_output_indexing",
    "compute_output_to_input_indexing",
    "image_size",
    "operand_utilization",
    "parse_indexing_map",
    "print_indexing_map",
    "propagate_tile",
]
