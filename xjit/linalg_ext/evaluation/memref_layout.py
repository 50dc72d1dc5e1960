"""Where the elements of memrefs lie: their base, offset and strides, and other memrefs of the same elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xjit.linalg_ext.evaluation.slicing import slices_of
from xjit.linalg_ext.evaluation.values import Array, Runtime
from xjit.linalg_ext.ir.attributes import StridedLayoutAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import MemRefType

if TYPE_CHECKING:
    from xjit.linalg_ext.evaluation.interpreter import Interpreter

__all__ = ["extract_strided_metadata", "reinterpret_cast"]


def _buffer(x: Any) -> Any:
    """The elements that an array is a view of, row by row."""
    owner = x if x.base is None or not isinstance(x.base, np.ndarray) or x.base.dtype != x.dtype else x.base
    return owner.reshape(-1)


def _base(op: Operation, value: Value, array: Array) -> tuple[int, int]:
    """Returns where the base of a memref is among the elements of its buffer, and how far behind that it starts.

    Its type says the latter if it is known; else the base is the first element of the buffer.
    """
    buffer, x = _buffer(array.data), array.data
    start = (x.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]) // x.itemsize
    layout = value.type.layout if isinstance(value.type, MemRefType) else None
    offset = layout.offset if isinstance(layout, StridedLayoutAttr) else 0
    offset = start if offset is None else offset
    if not buffer.size or not np.shares_memory(buffer, _owner(x)) or start < offset:
        raise LinalgError(f"'{op.name}': nothing is known of {offset} elements before this memref", op.location)
    return start - offset, offset


def _owner(x: Any) -> Any:
    return x if x.base is None else x.base


def _viewed(op: Operation, array: Array, position: int, sizes: list[int], strides: list[int]) -> Array:
    """Other elements of an array's buffer; LinalgError if they are not all in it."""
    last = position + sum((n - 1) * s for n, s in zip(sizes, strides))
    if 0 not in sizes and not 0 <= position <= last < _buffer(array.data).size:
        raise LinalgError(f"'{op.name}' takes elements {position} to {last} of {_buffer(array.data).size}", op.location)

    def of(x: Any) -> Any:
        buffer = _buffer(x)
        bits = buffer.view(f"u{x.itemsize}")
        view = np.ndarray(tuple(sizes), bits.dtype, bits, position * x.itemsize, [s * x.itemsize for s in strides])
        return view.view(x.dtype)

    if array.undefined is not None and _buffer(array.undefined).size != _buffer(array.data).size:
        raise LinalgError(f"'{op.name}': it is not known which elements are written", op.location)
    return array.view(of)


def extract_strided_metadata(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """The base as a memref of one element, the offset, the sizes and the strides, in elements."""
    array: Array = operands[0]
    position, offset = _base(op, op.operands[0], array)
    strides = [stride // array.data.itemsize for stride in array.data.strides]
    return [_viewed(op, array, position, [], []), offset, *array.shape, *strides]


def reinterpret_cast(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """Elements at an offset from the base of a memref, wherever that itself starts."""
    array: Array = operands[0]
    offsets, sizes, strides = slices_of(op, operands[1:])
    position, _ = _base(op, op.operands[0], array)
    return [_viewed(op, array, position + offsets[0], sizes, strides)]
