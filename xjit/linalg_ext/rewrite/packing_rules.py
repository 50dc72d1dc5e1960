"""Rules of `pack` and `unpack`: one undoes the other, and padding that no tile needs goes."""

from __future__ import annotations

from xjit.linalg_ext.dialects.definition import SEGMENTS
from xjit.linalg_ext.dialects.packing import PACK, UNPACK, packing_of
from xjit.linalg_ext.dialects.registry import operand_group
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import TensorType
from xjit.linalg_ext.rewrite.rule import Rule, replace

__all__ = ["PACKING_RULES"]


def _is_padded(op: Operation) -> bool:
    return op.name in PACK and bool(operand_group(op, "padding_value"))


def inverse(op: Operation) -> bool:
    """What is packed and unpacked again, or the other way round, in the same tiles, is what it was."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name not in (PACK if op.name in UNPACK else UNPACK):
        return False
    if packing_of(op) != packing_of(inner) or _is_padded(op) or _is_padded(inner):
        return False
    source = inner.operands[0]
    return source.type == op.result.type and replace(op, [source])


def needless_padding(op: Operation) -> bool:
    """Tiles that the source fills have no padding."""
    source = op.operands[0].type
    if not _is_padded(op) or not isinstance(source, TensorType):
        return False
    how = packing_of(op)
    sizes = [(source.shape[d], n) for d, n in zip(how.inner, how.static_tiles)]
    if any(size is None or n is None or size % n for size, n in sizes):
        return False
    if source.shape != _filled(op):
        return False
    attributes = {**op.attributes, SEGMENTS: DenseArrayAttr.i32((1, 1, 0, 0))}
    new = Builder.before(op).create(op.name, op.operands[:2], op.result_types, attributes)
    return replace(op, [new.result])


def _filled(op: Operation) -> tuple[int | None, ...]:
    """Returns the shape of the tensor that fills all tiles."""
    how, packed = packing_of(op), op.result.type
    assert isinstance(packed, TensorType)
    counts = [packed.shape[how.outer.index(d)] for d in range(len(how.outer))]
    tiles = [how.tile_of(d) for d in range(len(how.outer))]
    return tuple(n * t if n is not None and isinstance(t, int) else None for n, t in zip(counts, tiles))


PACKING_RULES = (Rule((*PACK, *UNPACK), inverse), Rule(PACK, needless_padding))
