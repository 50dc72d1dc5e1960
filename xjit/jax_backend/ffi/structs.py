"""The C structs of XLA's typed interface for functions. Source: `xla/ffi/api/c_api.h` of openxla/xla, version 0.3."""

from __future__ import annotations

import ctypes
from typing import Any, Final


class SizedStruct(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


HEADER: Final = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]
_LIST: Final = [*HEADER, ("size", ctypes.c_int64), ("types", ctypes.c_void_p)]


class Buffer(SizedStruct):
    """XLA_FFI_Buffer."""

    _fields_ = [
        *HEADER,
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.c_void_p),
    ]


class Values(SizedStruct):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = [*_LIST, ("values", ctypes.c_void_p)]


class Attributes(SizedStruct):
    """XLA_FFI_Attrs."""

    _fields_ = [*_LIST, ("names", ctypes.c_void_p), ("values", ctypes.c_void_p)]


class Span(ctypes.Structure):
    """XLA_FFI_ByteSpan."""

    _fields_ = [("address", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Scalar(ctypes.Structure):
    """XLA_FFI_Scalar."""

    _fields_ = [("dtype", ctypes.c_int), ("value", ctypes.c_void_p)]


class Array(ctypes.Structure):
    """XLA_FFI_Array."""

    _fields_ = [("dtype", ctypes.c_int), ("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class CallFrame(SizedStruct):
    """XLA_FFI_CallFrame. Its size is told, and compared by functions, without the last field."""

    _fields_ = [
        *HEADER,
        ("api", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", Values),
        ("results", Values),
        ("attributes", Attributes),
        ("future", ctypes.c_void_p),
    ]

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.struct_size -= ctypes.sizeof(ctypes.c_void_p)


class ErrorRequest(ctypes.Structure):
    """The arguments of the functions for errors: a message and its code, or an error and the place of its message."""

    _fields_ = [*HEADER, ("subject", ctypes.c_void_p), ("message", ctypes.c_void_p)]

    @property
    def code(self) -> int:
        """What stands in the place of `message`: an XLA_FFI_Error_Code."""
        return (self.message or 0) & 0xFFFFFFFF


class ScheduleRequest(ctypes.Structure):
    """XLA_FFI_ThreadPool_Schedule_Args: a function to call with its data."""

    _fields_ = [*HEADER, ("context", ctypes.c_void_p), ("task", ctypes.c_void_p), ("data", ctypes.c_void_p)]


class NumThreadsRequest(ctypes.Structure):
    """XLA_FFI_ThreadPool_NumThreads_Args: where the number goes."""

    _fields_ = [*HEADER, ("context", ctypes.c_void_p), ("num_threads", ctypes.POINTER(ctypes.c_int64))]


class FutureRequest(ctypes.Structure):
    """XLA_FFI_Future_Create_Args, _SetAvailable_Args, and _SetError_Args, which alone has the error."""

    _fields_ = [*HEADER, ("future", ctypes.c_void_p), ("error", ctypes.c_void_p)]


class TypeInfo(ctypes.Structure):
    """XLA_FFI_TypeInfo."""

    _fields_ = [*HEADER, ("deleter", ctypes.c_void_p)]


class StateRequest(ctypes.Structure):
    """XLA_FFI_State_Set_Args and XLA_FFI_State_Get_Args."""

    _fields_ = [
        *HEADER,
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("type_id", ctypes.POINTER(ctypes.c_int64)),
        ("state", ctypes.c_void_p),
    ]


class AllocateRequest(ctypes.Structure):
    """XLA_FFI_DeviceMemory_Allocate_Args."""

    _fields_ = [
        *HEADER,
        ("context", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("alignment", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
    ]


class FreeRequest(ctypes.Structure):
    """XLA_FFI_DeviceMemory_Free_Args."""

    _fields_ = [*HEADER, ("context", ctypes.c_void_p), ("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]
