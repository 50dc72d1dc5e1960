"""`tensor.extract_slice`, `tensor.insert_slice` and `memref.subview` of steps of one, from tiles."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.ir import (
    Attribute,
    Builder,
    DenseArrayAttr,
    MemRefType,
    Operation,
    StridedLayoutAttr,
    TensorType,
    Value,
)
from xjit.linalg_ext.transforms.building_blocks.index_values import Index
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile, is_whole

__all__ = [
    "DYNAMIC",
    "create_empty",
    "create_view",
    "extract_tile",
    "insert_tile",
    "insert_tile_in_parallel",
    "mixed",
    "slice_lists",
    "static_list",
]

DYNAMIC = -(2**63)
"""What stands in a list of static numbers where an operand has the number."""


def static_list(indices: Sequence[Index]) -> DenseArrayAttr:
    """Returns the numbers of some indices, `DYNAMIC` for values."""
    return DenseArrayAttr.i64(i if isinstance(i, int) else DYNAMIC for i in indices)


def _values(indices: Sequence[Index]) -> list[Value]:
    return [i for i in indices if isinstance(i, Value)]


def mixed(static: Sequence[int], values: Sequence[Value]) -> tuple[list[Index], list[Value]]:
    """Returns static numbers with the values filled in, and the values that are left."""
    rest = list(values)
    return [rest.pop(0) if n == DYNAMIC else n for n in static], rest


def slice_lists(op: Operation, leading: int) -> tuple[list[Index], list[Index], list[Index]]:
    """Returns offsets, sizes and strides of a slicing op whose first `leading` operands are tensors."""
    rest: Sequence[Value] = op.operands[leading:]
    lists: list[list[Index]] = []
    for name in ("static_offsets", "static_sizes", "static_strides"):
        attribute = op.attributes[name]
        assert isinstance(attribute, DenseArrayAttr)
        indices, rest = mixed(attribute.ints, rest)
        lists.append(indices)
    return lists[0], lists[1], lists[2]


def _slice_attributes(tile: Tile, leading: int) -> dict[str, Attribute]:
    rank = len(tile.sizes)
    segments = [1] * leading + [len(_values(tile.offsets)), len(_values(tile.sizes)), 0]
    return {
        "operandSegmentSizes": DenseArrayAttr.i32(segments),
        "static_offsets": static_list(tile.offsets),
        "static_sizes": static_list(tile.sizes),
        "static_strides": DenseArrayAttr.i64((1,) * rank),
    }


def extract_tile(builder: Builder, value: Value, tile: Tile, reduced: TensorType | None = None) -> Value:
    """Returns a tile of a tensor or memref; the value itself if the tile is all of it, or if it is a scalar.

    `reduced` is the type of the result if dimensions of size one are dropped.
    """
    kind = value.type
    if not isinstance(kind, TensorType | MemRefType) or (reduced is None and is_whole(tile, value)):
        return value
    operands = [value, *_values(tile.offsets), *_values(tile.sizes)]
    if isinstance(kind, TensorType):
        name, result = "tensor.extract_slice", reduced or TensorType(tile.static_sizes, kind.element)
    else:
        return create_view(builder, value, tile)
    return builder.create(name, operands, (result,), _slice_attributes(tile, 1)).result


def create_view(builder: Builder, value: Value, tile: Tile) -> Value:
    """Returns a `memref.subview` of a tile, even if that is all of the memref."""
    assert isinstance(value.type, MemRefType)
    operands = [value, *_values(tile.offsets), *_values(tile.sizes)]
    return builder.create(
        "memref.subview", operands, (_subview_type(value.type, tile),), _slice_attributes(tile, 1)
    ).result


def _subview_type(kind: MemRefType, tile: Tile) -> MemRefType:
    """The layout of a view: the strides stay, the offset moves; as in MLIR, also by no steps of an unknown stride."""
    strides, offset = _layout(kind)
    for stride, index in zip(strides, tile.offsets):
        known = isinstance(index, int) and stride is not None and offset is not None
        offset = offset + index * stride if known else None  # type: ignore[operator]
    layout = StridedLayoutAttr(strides, offset)
    return MemRefType(tile.static_sizes, kind.element, layout, kind.memory_space)


def _layout(kind: MemRefType) -> tuple[tuple[int | None, ...], int | None]:
    if isinstance(kind.layout, StridedLayoutAttr):
        return kind.layout.strides, kind.layout.offset
    strides: list[int | None] = []
    step: int | None = 1
    for size in reversed(kind.shape):
        strides.append(step)
        step = None if step is None or size is None else step * size
    return tuple(reversed(strides)), 0


def insert_tile(builder: Builder, tile_value: Value, into: Value, tile: Tile) -> Value:
    """Returns `into` with a tile replaced; the tile itself if it is all of it."""
    if is_whole(tile, into) and tile_value.type == into.type:
        return tile_value
    operands = [tile_value, into, *_values(tile.offsets), *_values(tile.sizes)]
    return builder.create("tensor.insert_slice", operands, (into.type,), _slice_attributes(tile, 2)).result


def insert_tile_in_parallel(builder: Builder, tile_value: Value, into: Value, tile: Tile) -> Operation:
    """Emits the insertion of a tile into a shared output, for the end of a `scf.forall`; ranks may differ by ones."""
    operands = [tile_value, into, *_values(tile.offsets), *_values(tile.sizes)]
    return builder.create("tensor.parallel_insert_slice", operands, (), _slice_attributes(tile, 2))


def create_empty(builder: Builder, sizes: Sequence[Index], kind: TensorType) -> Value:
    """Returns a `tensor.empty` of some sizes with the elements of `kind`."""
    shape = tuple(s if isinstance(s, int) else None for s in sizes)
    return builder.create("tensor.empty", _values(sizes), (TensorType(shape, kind.element),)).result
