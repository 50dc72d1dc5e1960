"""The warm buffer pool, as seen from Python: its limit, its numbers, and the NumPy handler that returns results to it.

The pool is native code (`xjit.runtime.native.buffer_pool_functions`). Results of 1 KiB and more, arenas and scratch
space come from it.
"""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass
from typing import Any

from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.capsules import new_capsule
from xjit.runtime.native.buffer_records import STATISTICS
from xjit.runtime.native.loader import NativeLibrary, library

_MAX_DEFAULT_LIMIT = 4 << 30
_LIMIT = STATISTICS.offsets["limit_bytes"] // 8


@dataclass(frozen=True, slots=True)
class BufferPoolStatistics:
    """Counters since the process started. `cached_bytes` are free and kept, `live_bytes` are in use (capacities)."""

    hits: int
    misses: int
    cached_bytes: int
    limit_bytes: int
    live_bytes: int


def buffer_pool_statistics() -> BufferPoolStatistics:
    """The numbers of this process's pool."""
    return BufferPoolStatistics(*pooled_library().statistics)


def set_buffer_pool_limit(num_bytes: int) -> None:
    """Sets how many free bytes the pool keeps; 0 keeps none. What is kept now goes back to the system."""
    if num_bytes < 0:
        raise InvalidArgument(f"the limit of the buffer pool must not be negative, got {num_bytes}")
    native = pooled_library()
    native.statistics[_LIMIT] = num_bytes
    native.trim()


def trim_buffer_pool() -> None:
    """Gives all free buffers back to the system."""
    pooled_library().trim()


@functools.cache
def pooled_library() -> NativeLibrary:
    """The native library with the pool's default limit set: a quarter of the memory, at most 4 GiB."""
    native = library()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    native.statistics[_LIMIT] = min(memory // 4, _MAX_DEFAULT_LIMIT)
    return native


class _DataAllocator(ctypes.Structure):
    """NumPy's PyDataMem_Handler (NEP 49), version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


# Capsules keep a pointer to their name: it must never go away.
_CAPSULE_NAME = ctypes.create_string_buffer(b"mem_handler")


@functools.cache
def numpy_handler() -> tuple[Any, Any]:
    """The handler capsule of pooled arrays, and its record. Kept for ever: arrays may outlive everything."""
    native = pooled_library()
    record = _DataAllocator(
        name=b"xjit_buffer_pool",
        version=1,
        context=None,
        malloc=native.address("xjit_numpy_malloc"),
        calloc=native.address("xjit_numpy_calloc"),
        realloc=native.address("xjit_numpy_realloc"),
        free=native.address("xjit_numpy_free"),
    )
    capsule = new_capsule(ctypes.addressof(record), ctypes.addressof(_CAPSULE_NAME), None)
    for immortal in (capsule, record, _CAPSULE_NAME):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))
    return capsule, record
