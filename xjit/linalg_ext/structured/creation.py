"""Makes `linalg.generic` operations, `linalg.fill` and `tensor.empty`."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap
from xjit.linalg_ext.ir.attributes import AffineMapAttr, ArrayAttr, DenseArrayAttr, EnumAttr, FloatAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, OpResult, Region, Value
from xjit.linalg_ext.ir.types import IndexType, MemRefType, TensorType, Type
from xjit.linalg_ext.structured.table import as_structured
from xjit.linalg_ext.structured.view import shape_of

__all__ = ["create_fill", "create_generic", "empty_like", "is_filled_with", "origin_of_sizes", "size_of"]


def create_generic(
    builder: Builder,
    inputs: Sequence[Value],
    inits: Sequence[Value],
    maps: Sequence[AffineMap],
    iterators: Sequence[str],
    region: Region,
) -> Operation:
    """Inserts a generic with this body; tensors among the inits have results."""
    results: list[Type] = [value.type for value in inits if isinstance(value.type, TensorType)]
    attributes = {
        "indexing_maps": ArrayAttr(tuple(AffineMapAttr(m) for m in maps)),
        "iterator_types": ArrayAttr(tuple(EnumAttr("linalg.iterator_type", kind) for kind in iterators)),
        "operandSegmentSizes": DenseArrayAttr.i32((len(inputs), len(inits))),
    }
    return builder.create("linalg.generic", (*inputs, *inits), results, attributes, (region,))


def create_fill(builder: Builder, scalar: Value, into: Value) -> Value:
    """Returns a tensor of the type of `into` whose elements are all `scalar`."""
    segments = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    return builder.create("linalg.fill", (scalar, into), (into.type,), segments).result


def is_filled_with(value: Value, number: float) -> bool:
    """Whether a value is a `linalg.fill` with a constant float."""
    fill = value.defining_op
    source = fill.operands[0].defining_op if fill is not None and fill.name == "linalg.fill" else None
    found = source.attributes.get("value") if source is not None and source.name == "arith.constant" else None
    return isinstance(found, FloatAttr) and found.value == number


def origin_of_sizes(value: Value) -> Value:
    """Returns a value of the same shape: what the results of structured ops were written into, from op to op."""
    while isinstance(value, OpResult):
        op = as_structured(value.owner)
        if op is None:
            break
        value = op.inits[value.index]
    return value


def size_of(builder: Builder, value: Value, axis: int) -> Value:
    """Returns the size of a dimension of a tensor or memref as a value: a constant, `tensor.dim` or `memref.dim`.

    A result of a structured op has the sizes of its init, and an empty tensor those that it was made with.
    """
    value = origin_of_sizes(value)
    size = shape_of(value)[axis]
    if size is not None:
        return builder.constant_index(size)
    if value.defining_op is not None and value.defining_op.name == "tensor.empty":
        return value.defining_op.operands[shape_of(value)[:axis].count(None)]
    name = "memref.dim" if isinstance(value.type, MemRefType) else "tensor.dim"
    return builder.create(name, (value, builder.constant_index(axis)), (IndexType(),)).result


def empty_like(builder: Builder, value: Value) -> Value:
    """Returns a `tensor.empty` of the type and sizes of a tensor."""
    sizes = [size_of(builder, value, axis) for axis, n in enumerate(shape_of(value)) if n is None]
    return builder.create("tensor.empty", sizes, (value.type,)).result
