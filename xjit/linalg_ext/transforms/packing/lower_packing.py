"""lower_pack, lower_unpack: packing as a pad or a slice, a reshape and a transpose."""

from __future__ import annotations

from math import prod

from xjit.affine import dim
from xjit.linalg_ext.dialects.packing import PACK, UNPACK, Packing, packing_of
from xjit.linalg_ext.dialects.registry import operand_group
from xjit.linalg_ext.ir import (
    Attribute,
    Block,
    Builder,
    DenseArrayAttr,
    IndexType,
    LinalgError,
    Operation,
    Region,
    TensorType,
    Value,
)
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty, extract_tile, insert_tile, static_list
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile, whole_tile
from xjit.linalg_ext.transforms.packing.pack import zero_of
from xjit.linalg_ext.transforms.single_ops.reshapes import collapse_shape, expand_shape

__all__ = ["lower_pack", "lower_unpack"]


def lower_pack(op: Operation) -> tuple[Operation, ...]:
    """Replaces a `pack` by a pad to full tiles, a reshape that splits dimensions into tiles, and a transpose.

    Where each dimension is one tile, the padded tensor is inserted as it is, and only the pad is returned. LinalgError
    for packed shapes that are not known.
    """
    if op.name not in PACK:
        raise LinalgError(f"'{op.name}' op is no pack", op.location)
    how, shape, flat = _shapes(op, op.result)
    source, dest = op.operands[:2]
    index = IndexBuilder(Builder.before(op))
    high = [index.apply(n - dim(0), (index.dim_of(source, axis),)) for axis, n in enumerate(flat)]
    pad = _padded(index, source, flat, high, operand_group(op, "padding_value"))
    if _is_one_tile(how, shape):
        sizes = tuple(n if isinstance(n, int) else 0 for n in (*[1] * len(how.outer), *how.static_tiles))
        whole = Tile((0,) * len(sizes), sizes, (True,) * len(sizes))
        op.replace_all_uses_with([insert_tile(index.builder, pad.result, dest, whole)])
        op.erase()
        return (pad,)
    split = expand_shape(index.builder, pad.result, how.groups, shape, ())
    moved = _transposed(index.builder, split, dest, how.order)
    op.replace_all_uses_with(moved.results)
    op.erase()
    return (pad, _maker(split, pad), moved)


def lower_unpack(op: Operation) -> tuple[Operation, ...]:
    """Replaces an `unpack` by a transpose into an empty tensor, a reshape, a slice and a copy; returns the empty tensor
    and those but for the copy. LinalgError for packed shapes that are not known.
    """
    if op.name not in UNPACK:
        raise LinalgError(f"'{op.name}' op is no unpack", op.location)
    how, shape, _ = _shapes(op, op.operands[0])
    source, dest = op.operands[:2]
    index = IndexBuilder(Builder.before(op))
    kind = source.type
    assert isinstance(kind, TensorType)
    empty = create_empty(index.builder, shape, kind)
    inverse = tuple(how.order.index(i) for i in range(len(shape)))
    moved = _transposed(index.builder, source, empty, inverse)
    joined = collapse_shape(index.builder, moved.result, how.groups)
    part = extract_tile(index.builder, joined, whole_tile(index, dest))
    segments: dict[str, Attribute] = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    copy = index.builder.create("linalg.copy", (part, dest), (dest.type,), segments)
    op.replace_all_uses_with(copy.results)
    op.erase()
    assert empty.defining_op is not None
    return (empty.defining_op, moved, _maker(joined, moved), _maker(part, moved))


def _maker(value: Value, otherwise: Operation) -> Operation:
    """Returns what makes a value; another operation where there was nothing to do."""
    return value.defining_op or otherwise


def _shapes(op: Operation, packed: Value) -> tuple[Packing, tuple[int, ...], tuple[int, ...]]:
    """Returns the packing, the shape with each tile behind its dimension, and the shape that all tiles have."""
    how, kind = packing_of(op), packed.type
    assert isinstance(kind, TensorType)
    sizes = [n for n in kind.shape if n is not None]
    if len(sizes) != kind.rank:
        raise LinalgError(f"'{op.name}' op is lowered only if its packed shape is known, found {kind}", op.location)
    shape = tuple(sizes[how.order.index(i)] for i in range(len(sizes)))
    return how, shape, tuple(prod(shape[i] for i in group) for group in how.groups)


def _is_one_tile(how: Packing, shape: tuple[int, ...]) -> bool:
    """Whether dimensions keep their order and there is one tile along each of them."""
    counts = [shape[group[0]] for group in how.groups]
    cut = len(how.inner) == len(how.outer)
    return cut and all(n == 1 for n in counts) and list(how.inner) == sorted(how.inner)


def _padded(
    index: IndexBuilder, source: Value, shape: tuple[int, ...], high: list[Index], padding: tuple[Value, ...]
) -> Operation:
    kind = source.type
    assert isinstance(kind, TensorType)
    fill = padding[0] if padding else index.builder.constant(zero_of(kind.element), kind.element)
    region = Region([Block([IndexType()] * kind.rank)])
    Builder(region.block).create("tensor.yield", (fill,))
    amounts = [n for n in high if isinstance(n, Value)]
    attributes: dict[str, Attribute] = {
        "static_low": DenseArrayAttr.i64((0,) * kind.rank),
        "static_high": static_list(high),
        "operandSegmentSizes": DenseArrayAttr.i32((1, 0, len(amounts))),
    }
    return index.builder.create("tensor.pad", (source, *amounts), (kind.with_shape(shape),), attributes, (region,))


def _transposed(builder: Builder, value: Value, into: Value, permutation: tuple[int, ...]) -> Operation:
    attributes: dict[str, Attribute] = {"permutation": DenseArrayAttr.i64(permutation)}
    return builder.create("linalg.transpose", (value, into), (into.type,), attributes)
