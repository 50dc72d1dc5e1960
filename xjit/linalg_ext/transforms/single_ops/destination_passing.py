"""Single tensor operations written into tensors that are there: pads, elements one by one, slices as copies."""

from __future__ import annotations

from itertools import product

from xjit.affine import AffineMap, dim
from xjit.linalg_ext.ir import Builder, DenseArrayAttr, IntegerAttr, LinalgError, Operation, Region, TensorType, Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType
from xjit.linalg_ext.structured import PARALLEL
from xjit.linalg_ext.structured.creation import create_fill, create_generic
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import (
    create_empty,
    extract_tile,
    insert_tile,
    mixed,
    slice_lists,
)
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile, whole_tile

__all__ = ["insert_slice_to_copy", "rewrite_in_destination_passing_style"]


def rewrite_in_destination_passing_style(op: Operation) -> Operation:
    """Replaces `tensor.pad`, `tensor.generate` or `tensor.from_elements` by what fills an empty tensor; returns that.

    LinalgError for other operations.
    """
    rewrite = _REWRITES.get(op.name)
    if rewrite is None:
        raise LinalgError(f"'{op.name}' op has no destination passing style", op.location)
    value = rewrite(op, IndexBuilder(Builder.before(op)))
    op.replace_all_uses_with([value])
    op.erase()
    assert value.defining_op is not None
    return value.defining_op


def _tensor_of(op: Operation) -> TensorType:
    kind = op.result.type
    assert isinstance(kind, TensorType)
    return kind


def _pad(op: Operation, index: IndexBuilder) -> Value:
    """The source, put into a tensor that holds what the pad's body gives."""
    low, high = op.attributes["static_low"], op.attributes["static_high"]
    assert isinstance(low, DenseArrayAttr) and isinstance(high, DenseArrayAttr)
    before, rest = mixed(low.ints, op.operands[1:])
    after, _ = mixed(high.ints, rest)
    source, kind = op.operands[0], _tensor_of(op)
    place = whole_tile(index, source)
    sizes = [
        index.apply(dim(0) + dim(1) + dim(2), (before[i], place.sizes[i], after[i])) if n is None else n
        for i, n in enumerate(kind.shape)
    ]
    empty = create_empty(index.builder, sizes, kind)
    yielded = op.body.terminator.operands[0]
    constant = yielded.parent_block is not op.body
    filled = create_fill(index.builder, yielded, empty) if constant else _generated(index.builder, op, empty)
    return insert_tile(index.builder, source, filled, Tile(tuple(before), place.sizes, place.covers))


def _generated(builder: Builder, op: Operation, into: Value) -> Value:
    """A generic whose elements are what the body of an operation gives at their indices."""
    kind = _tensor_of(op)
    region = Region()
    body = op.regions[0].clone({}).blocks[0]
    assert body.region is not None
    body.region.blocks.remove(body)
    body.region = None
    region.add_block(body)
    inside = Builder(body, body.first)
    for axis, argument in enumerate(body.arguments):
        at = inside.create("linalg.index", (), (IndexType(),), {"dim": IntegerAttr(axis, IntegerType(64))})
        argument.replace_all_uses_with(at.result)
    body.arguments.clear()
    body.add_argument(kind.element)
    terminator = body.terminator
    Builder.at_end(body).create("linalg.yield", terminator.operands)
    terminator.erase()
    maps = [AffineMap.identity(kind.rank)]
    return create_generic(builder, (), (into,), maps, [PARALLEL] * kind.rank, region).result


def _generate(op: Operation, index: IndexBuilder) -> Value:
    kind, sizes = _tensor_of(op), iter(op.operands)
    empty = create_empty(index.builder, [next(sizes) if n is None else n for n in kind.shape], kind)
    return _generated(index.builder, op, empty)


def _from_elements(op: Operation, index: IndexBuilder) -> Value:
    """Insertions in row-major order."""
    kind = _tensor_of(op)
    sizes = [n or 0 for n in kind.shape]
    value = create_empty(index.builder, sizes, kind)
    for element, place in zip(op.operands, product(*map(range, sizes))):
        operands = (element, value, *map(index.value, place))
        value = index.builder.create("tensor.insert", operands, (kind,)).result
    return value


_REWRITES = {"tensor.pad": _pad, "tensor.generate": _generate, "tensor.from_elements": _from_elements}


def insert_slice_to_copy(op: Operation) -> Operation:
    """Makes the copy that an insertion does a `linalg.copy` in front of it; returns the copy, also one that was there.

    LinalgError for operations that are no `tensor.insert_slice` with steps of one and a source of the same rank.
    """
    if op.name != "tensor.insert_slice":
        raise LinalgError(f"'{op.name}' op is no tensor.insert_slice", op.location)
    source, into = op.operands[0], op.operands[1]
    if source.defining_op is not None and source.defining_op.name == "linalg.copy":
        return source.defining_op
    offsets, sizes, strides = slice_lists(op, 2)
    if any(step != 1 for step in strides):
        raise LinalgError(f"'{op.name}' op has steps that are not one", op.location)
    builder = Builder.before(op)
    assert isinstance(source.type, TensorType)
    there = extract_tile(builder, into, Tile(tuple(offsets), tuple(sizes), (True,) * len(sizes)), source.type)
    segments = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    copy = builder.create("linalg.copy", (source, there), (source.type,), segments)
    op.set_operand(0, copy.result)
    return copy
