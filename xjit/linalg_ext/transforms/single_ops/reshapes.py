"""Makes `collapse_shape` and `expand_shape`, of tensors and of memrefs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from xjit.linalg_ext.ir.attributes import ArrayAttr, DenseArrayAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import IntegerType, MemRefType, Shape, TensorType, Type
from xjit.linalg_ext.structured.creation import size_of
from xjit.linalg_ext.structured.view import integers_of, shape_of

__all__ = ["Groups", "collapse_shape", "dynamic_sizes", "expand_shape", "groups_of", "is_trivial"]

Groups: TypeAlias = Sequence[Sequence[int]]
"""Which dimensions of the expanded shape each dimension of the collapsed one is made of."""

_DYNAMIC = -(2**63)


def groups_of(op: Operation) -> list[tuple[int, ...]]:
    """Returns the groups of a `collapse_shape` or `expand_shape`."""
    attribute = op.attributes["reassociation"]
    assert isinstance(attribute, ArrayAttr)
    return [integers_of(group) or () for group in attribute.elements]


def is_trivial(groups: Groups) -> bool:
    """Whether each dimension stays what it is."""
    return all(len(group) == 1 for group in groups)


def _attribute(groups: Groups) -> ArrayAttr:
    kind = IntegerType(64)
    return ArrayAttr(tuple(ArrayAttr(tuple(IntegerAttr(i, kind) for i in group)) for group in groups))


def _dialect(value: Value) -> str:
    return "memref" if isinstance(value.type, MemRefType) else "tensor"


def _with_shape(t: Type, shape: Shape) -> Type:
    assert isinstance(t, TensorType | MemRefType)
    return t.with_shape(shape)


def collapse_shape(builder: Builder, value: Value, groups: Groups) -> Value:
    """Returns a tensor or row-major memref with each group of dimensions as one; itself if nothing changes."""
    old = shape_of(value)
    if len(groups) == len(old) and is_trivial(groups):
        return value
    shape = tuple(None if any(old[i] is None for i in group) else prod(old[i] or 0 for i in group) for group in groups)
    name = f"{_dialect(value)}.collapse_shape"
    attributes = {"reassociation": _attribute(groups)}
    return builder.create(name, (value,), (_with_shape(value.type, shape),), attributes).result


def expand_shape(builder: Builder, value: Value, groups: Groups, shape: Shape, sizes: Sequence[Value]) -> Value:
    """Returns a value with each dimension split into a group; `sizes` are those that `shape` does not know."""
    if shape == shape_of(value) and is_trivial(groups):
        return value
    attributes = {
        "reassociation": _attribute(groups),
        "static_output_shape": DenseArrayAttr.i64(_DYNAMIC if n is None else n for n in shape),
    }
    result = _with_shape(value.type, shape)
    return builder.create(f"{_dialect(value)}.expand_shape", (value, *sizes), (result,), attributes).result


def dynamic_sizes(builder: Builder, value: Value) -> list[Value]:
    """Returns the sizes of a value that its type does not know."""
    return [size_of(builder, value, axis) for axis, n in enumerate(shape_of(value)) if n is None]
