"""DLPack, version 0: arrays of other libraries in, ours out, without a copy.

Source: dlpack.h of github.com/dmlc/dlpack.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.capsules import capsule_pointer, new_capsule, rename_capsule

CPU, CUDA = 1, 2
_NAME, _USED_NAME = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # in elements; null for C order
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _ManagedTensor(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", _Deleter))


_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
_NAMED: dict[int, np.dtype[Any]] = {
    code: np.dtype(kind)
    for code, kind in (
        (4, ml_dtypes.bfloat16),
        (7, ml_dtypes.float8_e3m4),
        (8, ml_dtypes.float8_e4m3),
        (9, ml_dtypes.float8_e4m3b11fnuz),
        (10, ml_dtypes.float8_e4m3fn),
        (11, ml_dtypes.float8_e4m3fnuz),
        (12, ml_dtypes.float8_e5m2),
        (13, ml_dtypes.float8_e5m2fnuz),
        (14, ml_dtypes.float8_e8m0fnu),
    )
}
"""DLPack's codes of whole kinds of NumPy, and those of single types."""

_CODES = {kind: code for code, kind in _KINDS.items()}
_CODE_OF = {dtype: code for code, dtype in _NAMED.items()}


class Exported(Protocol):
    """What `export_capsule` needs of an array; strides are bytes."""

    @property
    def address(self) -> int:
        """Of the first element."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the elements."""
        ...

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each dimension."""
        ...


@dataclass(frozen=True, slots=True)
class Imported:
    """Memory of another library's array. `owner` keeps it; strides are bytes."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    owner: object


_exported: dict[int, tuple[Any, ...]] = {}
"""What consumers still use, by the address of its DLManagedTensor."""


@_Deleter
def _release(managed: int) -> None:
    _exported.pop(managed, None)


def export_capsule(array: Exported, device_type: int) -> object:
    """Returns the capsule for an array, which lives until the consumer releases it.

    Errors: InvalidArgument for an element type that DLPack has not.
    """
    rank = len(array.shape)
    shape = (ctypes.c_int64 * rank)(*array.shape)
    strides = (ctypes.c_int64 * rank)(*(stride // array.dtype.itemsize for stride in array.strides))
    code = _CODE_OF.get(array.dtype, _CODES.get(array.dtype.kind))
    if code is None:
        raise InvalidArgument(f"DLPack has no {array.dtype.name}")
    tensor = _Tensor(array.address, device_type, 0, rank, code, array.dtype.itemsize * 8, 1, shape, strides, 0)
    managed = _ManagedTensor(tensor, None, _release)
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape, strides, array)
    return new_capsule(address, ctypes.addressof(_name_buffer), ctypes.cast(_unused_destructor, ctypes.c_void_p))


def import_array(value: Any, stream: int, device_type: int = CUDA) -> Imported:
    """Returns the memory of an array; the values are there for what is put on `stream` from now on.

    Errors: InvalidArgument if the array is elsewhere, or its elements have no NumPy type.
    """
    capsule = value.__dlpack__(stream=stream or 1) if device_type == CUDA else value.__dlpack__()
    managed = _ManagedTensor.from_address(capsule_pointer(capsule, _NAME))
    tensor = managed.tensor
    shape, rank = tuple(tensor.shape[: tensor.ndim]), tensor.ndim
    owner = _Foreign(managed)
    rename_capsule(capsule, ctypes.addressof(_used_name_buffer))
    if tensor.device_type != device_type:
        raise InvalidArgument(f"the array is on a device of DLPack's kind {tensor.device_type}, not {device_type}")
    dtype = _dtype_of(tensor)
    strides = tuple(n * dtype.itemsize for n in tensor.strides[:rank]) if tensor.strides else None
    return Imported((tensor.data or 0) + tensor.byte_offset, shape, dtype, strides, owner)


class _Foreign:
    """Releases another library's array when nobody uses it any more."""

    def __init__(self, managed: _ManagedTensor) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(ctypes.addressof(self._managed))


def _dtype_of(tensor: _Tensor) -> np.dtype[Any]:
    named = _NAMED.get(tensor.code)
    if tensor.lanes == 1 and named is not None and tensor.bits == 8 * named.itemsize:
        return named
    if tensor.lanes == 1 and tensor.code in _KINDS and tensor.bits >= 8:
        kind = _KINDS[tensor.code]
        return np.dtype(bool) if kind == "b" else np.dtype(f"{kind}{tensor.bits // 8}")
    raise InvalidArgument(f"no element type for DLPack's code {tensor.code} with {tensor.bits} bits")


_name_buffer = ctypes.create_string_buffer(_NAME)
_used_name_buffer = ctypes.create_string_buffer(_USED_NAME)

# A destructor gets a capsule that nobody may refer to any more: its address.
_is_named = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _unused_destructor(capsule: int) -> None:
    """A capsule that nobody consumed goes away, and the array with it."""
    if _is_named(capsule, _NAME):
        _exported.pop(_pointer_of(capsule, _NAME), None)
