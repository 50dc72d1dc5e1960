"""Builtin functions that call compiled programs: the tables behind the native call path.

`make_fast_call` returns an ordinary builtin function; everything it needs lives as long as it does. The code that
reads the tables is `xjit.runtime.native.fast_call_ir`; the structures here must match its types.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.runtime.buffer_pool import numpy_handler, pooled_library

_METH_FASTCALL = 0x80
_C_CONTIGUOUS, _F_CONTIGUOUS, _ALIGNED = 1, 2, 0x100

MAX_FAST_LEAVES = 4096
"""Parameters, and results, that the native path accepts: their pointers are kept on the stack."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array as NumPy sees it: what an argument must be, or how a result is made. Contiguous, C or Fortran order."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


class _Parameter(ctypes.Structure):
    _fields_ = (
        ("descriptor", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dimensions", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("alignment_mask", ctypes.c_int64),
    )


class _Result(ctypes.Structure):
    _fields_ = (
        ("descriptor", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dimensions", ctypes.c_void_p),
        ("nbytes", ctypes.c_int64),
        ("order", ctypes.c_int64),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("num_parameters", ctypes.c_int64),
        ("num_results", ctypes.c_int64),
        ("parameters", ctypes.c_void_p),
        ("results", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("arena_size", ctypes.c_int64),
        ("release_gil", ctypes.c_int64),
        ("returns_tuple", ctypes.c_int64),
        ("slow", ctypes.c_void_p),
        ("on_error", ctypes.c_void_p),
        ("initial_context", ctypes.c_void_p),
    )


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@dataclass(frozen=True, slots=True)
class NativeEntry:
    """What both call paths need to call an entry. `keep_alive` holds what the addresses point into.

    Each call starts with a copy of `initial_context`, an `EXECUTION_CONTEXT`.
    """

    address: int
    initial_context: bytes
    constants_address: int
    arena_size: int
    release_gil: bool
    keep_alive: Any


def make_fast_call(
    entry: NativeEntry,
    parameters: Sequence[ArraySpec],
    results: Sequence[ArraySpec],
    returns_tuple: bool,
    alignment: int,
    slow: Callable[..., Any],
    on_error: Callable[[int], Any],
) -> Callable[..., Any]:
    """Returns a builtin that takes exactly `parameters` and returns the array, or the flat tuple, of `results`.

    Arguments that do not match exactly (type, dtype object, order, alignment in bytes) make it return
    `slow(*arguments)`. A status other than 0 makes it call `on_error(status)`, which must raise. The caller must check
    `has_fast_call` before.
    """
    parameter_table = (_Parameter * len(parameters))()
    result_table = (_Result * len(results))()
    shapes = [(ctypes.c_int64 * len(spec.shape))(*spec.shape) for spec in (*parameters, *results)]
    for record, spec, shape in zip(parameter_table, parameters, shapes, strict=False):
        record.descriptor, record.rank, record.dimensions = id(spec.dtype), len(spec.shape), ctypes.addressof(shape)
        record.flags = _ALIGNED | (_F_CONTIGUOUS if spec.fortran else _C_CONTIGUOUS)
        record.alignment_mask = alignment - 1
    for record, spec, shape in zip(result_table, results, shapes[len(parameters) :], strict=True):
        record.descriptor, record.rank, record.dimensions = id(spec.dtype), len(spec.shape), ctypes.addressof(shape)
        record.nbytes, record.order = spec.nbytes, _F_CONTIGUOUS if spec.fortran else _C_CONTIGUOUS
    initial_context = ctypes.create_string_buffer(entry.initial_context, len(entry.initial_context))
    call = _Call(
        entry=entry.address,
        num_parameters=len(parameters),
        num_results=len(results),
        parameters=ctypes.addressof(parameter_table),
        results=ctypes.addressof(result_table),
        constants=entry.constants_address,
        arena_size=entry.arena_size,
        release_gil=entry.release_gil,
        returns_tuple=returns_tuple,
        slow=id(slow),
        on_error=id(on_error),
        initial_context=ctypes.addressof(initial_context),
    )
    dtypes = [spec.dtype for spec in (*parameters, *results)]
    keep_alive = _KeepAlive(
        (call, parameter_table, result_table, shapes, dtypes, slow, on_error, entry, initial_context)
    )
    return _new_builtin(ctypes.addressof(call), keep_alive)


class _KeepAlive(tuple[Any, ...]):
    """What a builtin has as its "module". Python prints it in the error for keyword arguments."""

    __slots__ = ()

    def __str__(self) -> str:
        return "xjit"


_CAPSULE_NAME = ctypes.create_string_buffer(b"xjit.call")


@functools.cache
def _method_definition() -> _MethodDefinition:
    """One definition serves all functions; it also makes pooled results possible. Kept for ever."""
    native = pooled_library()
    capsule, _ = numpy_handler()
    ctypes.c_void_p.from_address(native.address("xjit_mem_handler")).value = id(capsule)
    definition = _MethodDefinition(b"xjit_executable", native.address("xjit_fast_call"), _METH_FASTCALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))
    return definition


def _new_builtin(call_address: int, keep_alive: tuple[Any, ...]) -> Callable[..., Any]:
    """A builtin whose `self` is a capsule of the record; its "module" is the tuple that keeps the record alive."""
    api = ctypes.pythonapi
    new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCapsule_New", api)
    )
    new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
        ("PyCFunction_NewEx", api)
    )
    capsule = new_capsule(call_address, ctypes.addressof(_CAPSULE_NAME), None)
    return new_function(ctypes.addressof(_method_definition()), capsule, keep_alive)
