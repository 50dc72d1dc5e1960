"""Rewrites that scripts name as sets of patterns: joined tensors as insertions, small buffers on the stack."""

from __future__ import annotations

from xjit.affine import dim
from xjit.linalg_ext.ir import Builder, IntegerAttr, LinalgError, MemRefType, Operation, TensorType, Value
from xjit.linalg_ext.structured import shape_of
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty, insert_tile
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile

__all__ = ["alloc_to_alloca", "decompose_concat"]


def decompose_concat(op: Operation) -> Value:
    """Replaces a `tensor.concat` by insertions of its inputs, side by side, into an empty tensor; returns the last one.

    LinalgError for other operations.
    """
    axis = op.attributes.get("dim")
    if op.name != "tensor.concat" or not isinstance(axis, IntegerAttr):
        raise LinalgError(f"'{op.name}' op is no tensor.concat", op.location)
    kind = op.result.type
    assert isinstance(kind, TensorType)
    index = IndexBuilder(Builder.before(op))
    offset: Index = 0
    places: list[Tile] = []
    for value in op.operands:
        sizes = [index.dim_of(value, d) for d in range(kind.rank)]
        offsets = [offset if d == axis.value else 0 for d in range(kind.rank)]
        places.append(Tile(tuple(offsets), tuple(sizes), (False,) * kind.rank))
        offset = index.apply(dim(0) + dim(1), (offset, sizes[axis.value]))
    sizes = [offset if d == axis.value else index.dim_of(op.operands[0], d) for d in range(kind.rank)]
    sizes = [size if n is None else n for size, n in zip(sizes, kind.shape)]
    whole = create_empty(index.builder, sizes, kind)
    for value, place in zip(op.operands, places):
        whole = insert_tile(index.builder, value, whole, place)
    if whole.type != kind:
        whole = index.builder.create("tensor.cast", (whole,), (kind,)).result
    op.replace_all_uses_with([whole])
    op.erase()
    return whole


def alloc_to_alloca(op: Operation) -> Operation:
    """Makes a buffer of known size, which is freed in the block it is made in, one of the function's; returns that.

    LinalgError for other operations, and for buffers that are not freed so.
    """
    kind = op.results[0].type if op.results else None
    if op.name != "memref.alloc" or not isinstance(kind, MemRefType) or None in shape_of(op.result):
        raise LinalgError(f"'{op.name}' op is no memref.alloc of known size", op.location)
    frees = [user for user in op.result.users if user.name == "memref.dealloc"]
    if len(frees) != 1 or frees[0].block is not op.block:
        raise LinalgError(f"'{op.name}' op is not freed where it is made", op.location)
    new = Builder.before(op).create("memref.alloca", op.operands, op.result_types, op.attributes)
    frees[0].erase()
    op.replace_all_uses_with(new.results)
    op.erase()
    return new
