"""Types and constants of StableHLO as shapes and literals."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from xjit.dataclass import dataclass
from xjit.frontends.stablehlo_reader.declined import Declined
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.primitive_type import BY_TEXT, PrimitiveType
from xjit.hlo.types.shape import Shape

_KINDS: Final = {
    "i1": "pred", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64",
    "ui8": "u8", "ui16": "u16", "ui32": "u32", "ui64": "u64",
    "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "complex<f32>": "c64", "complex<f64>": "c128",
}  # fmt: skip
"""Element types by MLIR's names; the converter reads the narrow ones."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that each computation that uses it makes for itself: a literal, or one of a number that is repeated."""

    literal: Literal
    shape: Shape

    @property
    def is_splat(self) -> bool:
        """Whether one number is repeated."""
        return self.literal.shape.is_scalar


class Types:
    """Shapes by type, of one context."""

    def __init__(self) -> None:
        self._known: dict[Any, Shape] = {}

    def shape(self, kind: Any) -> Shape:
        """Returns the shape of a tensor. Errors: Declined for another type, and for sizes that are not known."""
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = _shape_of(kind)
        return found


def _shape_of(kind: Any) -> Shape:
    from jaxlib.mlir import ir

    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape or kind.encoding is not None:
        raise Declined(f"type {kind}")
    element = _KINDS.get(str(kind.element_type))
    if element is None:
        raise Declined(f"element type {kind.element_type}")
    return Shape.array(BY_TEXT[element], kind.shape)


def constant_of(value: Any, shape: Shape) -> Constant:
    """The value of a constant: of one that is repeated, one number. Errors: Declined."""
    kind = shape.element_type
    if shape.num_elements == 0:
        raise Declined("an empty constant")
    if kind is PrimitiveType.BF16:
        if not value.is_splat:
            raise Declined("an array of bf16")
        number = value.get_splat_value().value
        if math.isnan(number):
            raise Declined("a NaN of bf16")
        array = np.asarray(number, dtype=np.float64).astype(shape.dtype)
    else:
        array = np.asarray(value)
        if array.dtype != shape.dtype or array.shape != shape.dimensions:
            raise Declined(f"a constant that NumPy reads as {array.dtype}{array.shape}")
        if value.is_splat:
            array = array[(0,) * array.ndim] if array.ndim else array
        array = np.array(array)
    if value.is_splat:
        return Constant(Literal(Shape.array(kind), array.reshape(())), shape)
    return Constant(Literal(shape, array), shape)


def is_set(attributes: Any, name: str) -> bool:
    """Whether an operation has a flag, and it is true."""
    return name in attributes and attributes[name].value


def precisions_of(attributes: Any) -> tuple[str, ...]:
    """The precisions of an operation's operands; none if all are the default."""
    from jaxlib.mlir.dialects import stablehlo

    precisions = tuple(stablehlo.PrecisionAttr(p).value.lower() for p in attributes.get("precision_config", ()))
    return precisions if set(precisions) - {"default"} else ()
