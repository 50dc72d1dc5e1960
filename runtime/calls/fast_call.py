"""Builtin functions that call compiled programs: the tables behind the native call path.

`make_fast_call` returns an ordinary builtin function; everything it needs lives as long as it does. The code that
reads the tables is `xjit.runtime.native.fast_call_functions`; `xjit.runtime.native.records` says what is in them.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.runtime.buffer_pool import numpy_handler, pooled_library
from xjit.runtime.capsules import new_capsule
from xjit.runtime.native.fast_call_functions import MEM_HANDLER
from xjit.runtime.native.records import ALIGNED, C_CONTIGUOUS, CALL, F_CONTIGUOUS, PARAMETER, RESULT

_METH_FASTCALL_KEYWORDS = 0x80 | 0x2

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
        return math.prod(self.shape) * self.dtype.itemsize


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
    on_error: Callable[[int, int, int], Any],
) -> Callable[..., Any]:
    """Returns a builtin that takes exactly `parameters` and returns the array, or the flat tuple, of `results`.

    Arguments that do not match exactly (type, dtype object, order, alignment in bytes), or any keyword, make it return
    `slow(*arguments, **keywords)`. A status other than 0 makes it call
    `on_error(status, instruction, detail)`, which must raise. The caller must check `has_fast_call` before.
    """
    specs = (*parameters, *results)
    shapes = [(ctypes.c_int64 * len(spec.shape))(*spec.shape) for spec in specs]
    records = [_record(spec, shape) for spec, shape in zip(specs, shapes, strict=True)]
    asked = [
        PARAMETER.pack(**record, flags=ALIGNED | _order(spec), alignment_mask=alignment - 1)
        for record, spec in zip(records, parameters, strict=False)
    ]
    made = [
        RESULT.pack(**record, nbytes=spec.nbytes, order=_order(spec))
        for record, spec in zip(records[len(parameters) :], results, strict=True)
    ]
    tables = [_Struct(b"".join(asked)), _Struct(b"".join(made)), _Struct(entry.initial_context)]
    call = _Struct(
        CALL.pack(
            entry=entry.address,
            num_parameters=len(parameters),
            num_results=len(results),
            parameters=tables[0].address,
            results=tables[1].address,
            constants=entry.constants_address,
            arena_size=entry.arena_size,
            release_gil=entry.release_gil,
            returns_tuple=returns_tuple,
            slow=id(slow),
            on_error=id(on_error),
            initial_context=tables[2].address,
        )
    )
    dtypes = [spec.dtype for spec in (*parameters, *results)]
    keep_alive = _KeepAlive((call, tables, shapes, dtypes, slow, on_error, entry))
    return _new_builtin(call.address, keep_alive)


class _Struct:
    """Bytes at an address that native code may read for as long as this object lives."""

    __slots__ = ("_data", "address")

    def __init__(self, data: bytes) -> None:
        self._data = ctypes.create_string_buffer(data, max(len(data), 1))
        self.address = ctypes.addressof(self._data)


def _record(spec: ArraySpec, shape: ctypes.Array[ctypes.c_int64]) -> dict[str, int]:
    """What the records of parameters and results have in common."""
    return {"descriptor": id(spec.dtype), "rank": len(spec.shape), "dimensions": ctypes.addressof(shape)}


def _order(spec: ArraySpec) -> int:
    return F_CONTIGUOUS if spec.fortran else C_CONTIGUOUS


class _KeepAlive(tuple[Any, ...]):
    """What a builtin has as its "module". Python prints it where it refuses `f(*5)` or `f(**5)`."""

    __slots__ = ()

    def __str__(self) -> str:
        return "xjit"


_CAPSULE_NAME = ctypes.create_string_buffer(b"xjit.call")


@functools.cache
def _method_definition() -> _MethodDefinition:
    """One definition serves all functions; it also makes pooled results possible. Kept for ever."""
    native = pooled_library()
    capsule, _ = numpy_handler()
    ctypes.c_void_p.from_address(native.address(MEM_HANDLER)).value = id(capsule)
    definition = _MethodDefinition(b"xjit_executable", native.address("xjit_fast_call"), _METH_FASTCALL_KEYWORDS, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))
    return definition


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def _new_builtin(call_address: int, keep_alive: tuple[Any, ...]) -> Callable[..., Any]:
    """A builtin whose `self` is a capsule of the record; its "module" is the tuple that keeps the record alive."""
    capsule = new_capsule(call_address, ctypes.addressof(_CAPSULE_NAME), None)
    return _new_function(ctypes.addressof(_method_definition()), capsule, keep_alive)
