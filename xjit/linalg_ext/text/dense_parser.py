"""Parser of `dense<...>`: nested lists, one value for all elements, or the elements' bytes as a string."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xjit.linalg_ext.ir.attributes import DenseAttr
from xjit.linalg_ext.ir.float_text import FLOAT_DTYPES
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, TensorType, Type, VectorType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.attribute_parser import AttributeParser

__all__ = ["parse_dense"]

_MAX_ELEMENTS = 1 << 26


def parse_dense(parser: AttributeParser, type: Type | None) -> DenseAttr:
    """Parses `<values>`, and `: type` if the type is not given. The type stands behind the values: they come twice."""
    start = parser.token.start
    if not parser.at("<"):
        parser.fail(f"expected '<', found {parser.describe()}")
    parser.balanced()
    if type is None:
        parser.expect(":")
        type = parser.type()
    if not isinstance(type, TensorType | VectorType) or None in type.shape:
        parser.fail(f"dense<> needs a tensor or vector type with static sizes, found {type}")
    finish = parser.token.start
    parser.seek(start)
    parser.expect("<")
    values: list[bool | int | float | complex] = []
    shape = _elements(parser, type, values)
    parser.expect(">")
    sizes = tuple(size for size in type.shape if size is not None)
    if shape is not None and shape != sizes and not (0 in sizes and not values):
        parser.fail(f"the values have shape {list(shape)}, the type is {type}", parser.span(start))
    parser.seek(finish)
    if shape is not None and len(values) > 1 and len({(v, str(v)) for v in values}) == 1:
        values = values[:1]  # all the same: the attribute is unique, whatever the spelling
    return DenseAttr(tuple(values), type)


def _elements(
    parser: AttributeParser, type: TensorType | VectorType, values: list[bool | int | float | complex]
) -> tuple[int, ...] | None:
    """Appends the elements; returns the shape of the list, None for a splat or bytes."""
    if parser.at(">"):
        return (0,)
    if parser.token.kind == "string":
        values.extend(_from_bytes(parser, type))
        return None
    if not parser.at("["):
        values.append(parser.scalar(type.element))
        return None
    return _nested(parser, type.element, values)


def _nested(parser: AttributeParser, element: Type, values: list[bool | int | float | complex]) -> tuple[int, ...]:
    with parser.nested():
        if not parser.at("["):
            values.append(parser.scalar(element))
            return ()
        place = parser.here()
        shapes = parser.comma_list("[", "]", lambda: _nested(parser, element, values))
        if any(shape != shapes[0] for shape in shapes):
            parser.fail("lists on one level differ in shape", place)
        return (len(shapes), *(shapes[0] if shapes else ()))


def _from_bytes(parser: AttributeParser, type: TensorType | VectorType) -> list[bool | int | float | complex]:
    place = parser.here()
    text = parser.string()
    try:
        raw = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        parser.fail("expected hex digits", place)
    count = 1
    for size in type.shape:
        count *= size or 0
    dtype = _dtype(type.element)
    if dtype is None or count > _MAX_ELEMENTS:
        parser.fail(f"elements of {type} cannot be given as bytes", place)
    if len(raw) not in (dtype.itemsize, dtype.itemsize * count):
        parser.fail(f"found {len(raw)} bytes, expected {dtype.itemsize * count}", place)
    array = np.frombuffer(raw, dtype)
    return [float(v) for v in array] if isinstance(type.element, FloatType) else [int(v) for v in array]


def _dtype(element: Type) -> np.dtype | None:
    if isinstance(element, FloatType) and element.name in FLOAT_DTYPES:
        return np.dtype(FLOAT_DTYPES[element.name])
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    if isinstance(element, IntegerType) and element.width in (8, 16, 32, 64):
        return np.dtype(f"{'u' if element.signedness == 'u' else ''}int{element.width}")
    return None
