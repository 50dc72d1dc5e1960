"""Which numbers types and attributes may hold: sizes have 63 bits, and integers those of their type."""

from __future__ import annotations

from collections.abc import Iterable

from xjit.linalg_ext.ir.attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    IntegerAttr,
    StridedLayoutAttr,
    TypeAttr,
)
from xjit.linalg_ext.ir.types import (
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    Shape,
    TensorType,
    Type,
    VectorType,
)

__all__ = ["MAX_SIZE", "integer_range", "number_out_of_range"]

MAX_SIZE = (1 << 63) - 1
"""The largest size of a dimension, as sizes are of type index."""


def integer_range(t: Type) -> range:
    """Returns the integers that a type can hold, signed or unsigned if it does not say which."""
    width = t.width if isinstance(t, IntegerType) else 64
    return range(-(1 << max(width - 1, 0)), 1 << width)


def number_out_of_range(part: Type | Attribute) -> int | None:
    """Returns a number in a type or an attribute that is too large for its place, None if there is none."""
    match part:
        case MemRefType(shape, element, layout):
            return _first_size(shape) or _first([element] if layout is None else [element, layout])
        case TensorType(shape, element) | VectorType(shape, element):
            return _first_size(shape) or number_out_of_range(element)
        case IntegerAttr(value, t):
            return None if value in integer_range(t) else value
        case DenseArrayAttr(element, values) if isinstance(element, IntegerType | IndexType):
            return next((v for v in values if isinstance(v, int) and v not in integer_range(element)), None)
        case StridedLayoutAttr(strides, offset):
            return next((n for n in (*strides, offset) if n is not None and abs(n) > MAX_SIZE), None)
        case ArrayAttr(elements):
            return _first(elements)
        case DictAttr(entries):
            return _first(value for _, value in entries)
        case FunctionType(inputs, results):
            return _first((*inputs, *results))
        case TypeAttr(t) | DenseAttr(type=t):
            return number_out_of_range(t)
        case _:
            return None


def _first_size(shape: Shape) -> int | None:
    return next((size for size in shape if size is not None and size > MAX_SIZE), None)


def _first(parts: Iterable[Type | Attribute]) -> int | None:
    return next((n for n in map(number_out_of_range, parts) if n is not None), None)
