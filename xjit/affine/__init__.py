"""Index expressions and maps: the one mechanism for index arithmetic. Pure integer maths."""

from __future__ import annotations

from xjit.affine.affine_map import AffineMap
from xjit.affine.errors import IndexingBudgetError, IndexingError
from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.expr_text import parse_affine_expr
from xjit.affine.indexing_map import UNKNOWN, DimVar, IndexingMap, RangeVar, RTVar
from xjit.affine.interval import EMPTY_INTERVAL, INT64_MAX, INT64_MIN, UNBOUNDED, Interval
from xjit.affine.layout_maps import (
    linear_index,
    linear_index_with_tile,
    logical_map,
    physical_map,
    tile_array,
    tiled_shape,
    untile_array,
    validate_layout,
)
from xjit.affine.map_composition import compose_indexing_maps
from xjit.affine.map_simplify import ranges_from_zero
from xjit.affine.map_text import print_indexing_map
from xjit.affine.pool import constant, dim, symbol
from xjit.affine.reshape import delinearize, linearize, reshape_map
from xjit.affine.rules import ceildiv, floordiv, from_terms, linear_combination, mod
from xjit.affine.simplify import RangeContext, range_context, simplify_expr
from xjit.affine.walks import evaluate, interval_of, nodes_of, substitute, substitute_all

parse_indexing_map = IndexingMap.parse

__all__ = [
    "EMPTY_INTERVAL",
    "INT64_MAX",
    "INT64_MIN",
    "UNBOUNDED",
    "UNKNOWN",
    "AffineExpr",
    "AffineExprKind",
    "AffineMap",
    "DimVar",
    "IndexingBudgetError",
    "IndexingError",
    "IndexingMap",
    "Interval",
    "RTVar",
    "RangeContext",
    "RangeVar",
    "ceildiv",
    "compose_indexing_maps",
    "constant",
    "delinearize",
    "dim",
    "evaluate",
    "floordiv",
    "from_terms",
    "interval_of",
    "linear_combination",
    "linear_index",
    "linear_index_with_tile",
    "linearize",
    "logical_map",
    "mod",
    "nodes_of",
    "parse_affine_expr",
    "parse_indexing_map",
    "physical_map",
    "print_indexing_map",
    "range_context",
    "ranges_from_zero",
    "reshape_map",
    "simplify_expr",
    "substitute",
    "substitute_all",
    "symbol",
    "tile_array",
    "tiled_shape",
    "untile_array",
    "validate_layout",
]
