"""The attributes of a call of XLA's typed interface: from a dictionary in MLIR's syntax to the structs of C."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Final

import ml_dtypes
import numpy as np

from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.jax_backend.ffi.structs import Array, Attributes, Scalar, Span

_ARRAY, _DICTIONARY, _SCALAR, _STRING = range(1, 5)  # XLA_FFI_AttrType

_TYPES: Final[dict[str, tuple[int, Any]]] = {
    "i1": (1, np.bool_), "i8": (2, np.int8), "i16": (3, np.int16), "i32": (4, np.int32), "i64": (5, np.int64),
    "ui8": (6, np.uint8), "ui16": (7, np.uint16), "ui32": (8, np.uint32), "ui64": (9, np.uint64),
    "f16": (10, np.float16), "f32": (11, np.float32), "f64": (12, np.float64), "bf16": (16, ml_dtypes.bfloat16),
}  # fmt: skip
"""XLA_FFI_DataType and NumPy's type by MLIR's names."""


@functools.cache
def _context() -> Any:
    from jax.interpreters import mlir

    return mlir.make_ir_context()


class AttributeList:
    """The attributes of a call as the C struct; `kept` is what it points to."""

    def __init__(self, text: str) -> None:
        from jaxlib.mlir import ir

        self.kept: list[Any] = []
        try:
            with _context():
                parsed = ir.Attribute.parse(text.strip() or "{}")
                if not isinstance(parsed, ir.DictAttr):
                    raise InvalidArgument(f"the attributes {text!r} of a call of XLA's FFI are no dictionary")
                self.struct = self._dictionary(parsed)
        except ir.MLIRError as error:
            raise InvalidArgument(f"the attributes {text!r} of a call of XLA's FFI: {error}") from None

    def _dictionary(self, attributes: Any) -> Attributes:
        """Names are in order: handlers look for them so."""
        rows = sorted((attribute.name.encode(), *self._value(attribute.attr)) for attribute in attributes)
        count = len(rows)
        names = [self._span(name) for name, _, _ in rows]
        return Attributes(
            size=count,
            types=self._keep((ctypes.c_int * count)(*(kind for _, kind, _ in rows))),
            names=self._keep((ctypes.c_void_p * count)(*names)),
            values=self._keep((ctypes.c_void_p * count)(*(value for _, _, value in rows))),
        )

    def _value(self, attribute: Any) -> tuple[int, int]:
        """The type of an attribute and the address of its struct."""
        from jaxlib.mlir import ir

        if isinstance(attribute, ir.DictAttr):
            return _DICTIONARY, self._keep(self._dictionary(attribute))
        if isinstance(attribute, ir.StringAttr):
            return _STRING, self._span(attribute.value_bytes)
        if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
            dtype, data = self._numbers(str(attribute.type), attribute.value)
            return _SCALAR, self._keep(Scalar(dtype, data))
        if isinstance(attribute, ir.DenseElementsAttr):
            kind = ir.ShapedType(attribute.type)
            elements: Any = attribute
            values = list(elements) if kind.rank == 1 else None
            element_type = str(kind.element_type)
        else:
            element_type, values = _dense_array(attribute)
        if values is None:
            raise Unsupported(f"an attribute {attribute} of a call of XLA's FFI")
        dtype, data = self._numbers(element_type, values)
        return _ARRAY, self._keep(Array(dtype, len(values), data))

    def _numbers(self, element_type: str, values: Any) -> tuple[int, int]:
        """The data type of numbers and their address."""
        if element_type not in _TYPES:
            raise Unsupported(f"an attribute of the type {element_type} of a call of XLA's FFI")
        dtype, kind = _TYPES[element_type]
        array = np.array(values, kind)
        self.kept.append(array)
        return dtype, array.ctypes.data

    def _span(self, text: bytes) -> int:
        return self._keep(Span(self._keep(ctypes.create_string_buffer(text)), len(text)))

    def _keep(self, data: Any) -> int:
        self.kept.append(data)
        return ctypes.addressof(data)


def _dense_array(attribute: Any) -> tuple[str, Any]:
    """The element type and the values of an `array<...>`; no values of anything else."""
    from jaxlib.mlir import ir

    for name, kind in {
        "i1": ir.DenseBoolArrayAttr, "i8": ir.DenseI8ArrayAttr, "i16": ir.DenseI16ArrayAttr,
        "i32": ir.DenseI32ArrayAttr, "i64": ir.DenseI64ArrayAttr, "f32": ir.DenseF32ArrayAttr,
        "f64": ir.DenseF64ArrayAttr,
    }.items():  # fmt: skip
        if isinstance(attribute, kind):
            return name, list(attribute)
    return "", None
