"""Transposed reads in registers.

Where the innermost loop v walks across rows of an operand and another loop u walks along them, W x W elements are
loaded as W contiguous vectors along u and turned by shuffles into W vectors along v. The body runs once for each of the
W values of u; the first one that needs an operand loads its tile, the others find it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, dim, linear_combination
from xjit.emitters.loops.loop_levels import TransposeTile
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.loops.variables import factor_of
from xjit.llvm.builder import IRBuilder
from xjit.llvm.transpose import transpose_blocks
from xjit.llvm.types import I64, LLVMType, vector
from xjit.llvm.values import Value, const_int


def load_from_tile(
    nest: LoopNest, tile: TransposeTile, pointer: Value, kind: LLVMType, offset: AffineExpr, pattern: Sequence[int]
) -> Value | None:
    """Returns the vector along v of this step's u, if the access suits the tile; None if not.

    `pattern` says where the elements of the lanes lie, from that of the first one on.
    """
    lanes = nest.vector
    if lanes is None or lanes.mask is not None or lanes.width != tile.width or factor_of(offset, tile.position) != 1:
        return None
    base = linear_combination([t for t in offset.terms if t[0] is not dim(tile.position)], offset.constant_term)
    if nest.depth_of(base) > tile.depth:
        return None
    level = nest.levels[tile.depth]
    key = ("tile", pointer.text, kind, base)
    columns = level.cache.get(key)
    if columns is None:
        columns = level.cache[key] = _load_tile(nest, level.builder, pointer, kind, base, pattern)
    return columns[tile.step]


def _load_tile(
    nest: LoopNest, builder: IRBuilder, pointer: Value, kind: LLVMType, base: AffineExpr, pattern: Sequence[int]
) -> list[Value]:
    start = builder.gep(kind, pointer, nest.index_value(base))
    wide = vector(kind, len(pattern))
    rows = [
        builder.load(wide, builder.gep(kind, start, const_int(I64, place)), align=kind.bits // 8) for place in pattern
    ]
    return transpose_blocks(builder, rows)
