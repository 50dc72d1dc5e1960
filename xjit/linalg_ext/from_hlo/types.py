"""Types of HLO in MLIR. Integers lose their sign, as in `arith`: what is unsigned is said by operations."""

from __future__ import annotations

from xjit.hlo import PrimitiveType, Shape
from xjit.hlo.types.shape import UNBOUNDED_SIZE
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.float_text import FLOAT_DTYPES
from xjit.linalg_ext.ir.types import DialectType, FloatType, IntegerType, TensorType, Type

__all__ = ["has_scalar_code", "raised_element", "raised_type"]

_FLOATS = {name.lower(): name for name in FLOAT_DTYPES}


def raised_element(kind: PrimitiveType) -> Type:
    """Returns the type of elements: pred is i1, u8 is i8."""
    if kind is PrimitiveType.PRED:
        return IntegerType(1)
    if kind.is_integer:
        return IntegerType(kind.bit_width)
    if kind.is_complex:
        return DialectType(f"complex<{kind.component.text}>")
    return FloatType(_FLOATS.get(kind.text, kind.text))


def raised_type(shape: Shape) -> Type:
    """Returns the type of an array; a token is a type of its own. LinalgError for a size without a bound."""
    if not shape.is_array:
        return DialectType(f"!hlo.{shape.element_type.text}")
    if UNBOUNDED_SIZE in shape.dimensions:
        raise LinalgError(f"no structured form of {shape}: a dimension has no bound")
    return TensorType(shape.dimensions, raised_element(shape.element_type))


def has_scalar_code(shape: Shape) -> bool:
    """Whether `arith` and `math` compute with the elements of a static array."""
    kind = shape.element_type
    if not shape.is_static_array:
        return False
    if kind.is_float:
        return kind.text in _FLOATS
    return kind is PrimitiveType.PRED or (kind.is_integer and kind.bit_width >= 8)
