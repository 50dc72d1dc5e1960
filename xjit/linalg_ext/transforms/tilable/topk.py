"""topk cut along its dimension: a tile must know where its elements stand, so that it needs an operand of indices."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap, dim
from xjit.linalg_ext.ir import (
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    Block,
    Builder,
    DenseArrayAttr,
    EnumAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Region,
    TensorType,
    Value,
    element_type,
)
from xjit.linalg_ext.structured import StructuredOp, shape_of
from xjit.linalg_ext.structured.extension import axis_of
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile

__all__ = ["with_indices"]


def with_indices(
    index: IndexBuilder, op: StructuredOp, domain: Tile, operands: Sequence[Value]
) -> tuple[list[Value], dict[str, Attribute]]:
    """Returns operands and attributes of the tiled topk, with the positions along its dimension as second input."""
    axis = axis_of(op)
    attributes = dict(op.operation.attributes)
    is_whole = domain.offsets[axis] == 0 and domain.sizes[axis] == shape_of(op.inputs[0])[axis]
    if len(op.inputs) == 2 or is_whole:
        return list(operands), attributes
    if not isinstance(operands[0].type, TensorType):
        raise op.error("without indices is cut along its dimension on tensors only")
    positions = _positions(index, domain, axis, element_type(op.inits[1].type))
    attributes["operandSegmentSizes"] = DenseArrayAttr.i32((2, 2))
    return [operands[0], positions, *operands[1:]], attributes


def _positions(index: IndexBuilder, domain: Tile, axis: int, kind: object) -> Value:
    """A tensor of the domain's sizes whose elements are the positions along `axis` in the whole input."""
    assert isinstance(kind, IntegerType | IndexType)
    builder, rank = index.builder, len(domain.sizes)
    empty = create_empty(builder, domain.sizes, TensorType((), kind))
    block = Block([kind])
    inner = Builder(block, location=builder.location)
    attributes: dict[str, Attribute] = {"dim": IntegerAttr(axis, IntegerType(64))}
    local = inner.create("linalg.index", (), (IndexType(),), attributes).result
    position: Index = IndexBuilder(inner).apply(dim(0) + dim(1), (local, domain.offsets[axis]))
    assert isinstance(position, Value)
    if not isinstance(kind, IndexType):
        position = inner.create("arith.index_cast", (position,), (kind,)).result
    inner.create("linalg.yield", (position,))
    maps = ArrayAttr((AffineMapAttr(AffineMap.identity(rank)),))
    iterators = ArrayAttr((EnumAttr("linalg.iterator_type", "parallel"),) * rank)
    segments = DenseArrayAttr.i32((0, 1))
    attributes = {"indexing_maps": maps, "iterator_types": iterators, "operandSegmentSizes": segments}
    return builder.create("linalg.generic", (empty,), (empty.type,), attributes, [Region([block])]).result
