"""Compiles and loads the runtime's native code, once per process.

Invariant: a loaded library is never unloaded; its worker threads end at interpreter exit at the latest.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
import threading

from xjit.llvm import Module
from xjit.runtime.elf import undefined_symbols
from xjit.runtime.jit import LoadedObject, compile_ir_to_object, load_object
from xjit.runtime.native.buffer_pool_ir import STATISTICS, buffer_pool_ir
from xjit.runtime.native.call_ir import call_ir
from xjit.runtime.native.context_functions import MAIN_THREAD, SYMBOLS, define_context_functions
from xjit.runtime.native.fast_call_ir import FAST_CALL_IR
from xjit.runtime.native.numpy_api import numpy_api_address
from xjit.runtime.native.object_layout import fast_call_obstacle
from xjit.runtime.native.thread_pool_ir import thread_pool_ir

_EXPORTS = [
    "xjit_parallel_for",
    "xjit_num_threads",
    "xjit_pool_num_running",
    "xjit_pool_is_busy",
    "xjit_pool_configure",
    "xjit_pool_after_fork",
    "xjit_scratch_alloc",
    "xjit_scratch_free",
    "xjit_buffer_trim",
    "xjit_buffer_after_fork",
    "xjit_buffer_statistics",
    "xjit_numpy_malloc",
    "xjit_numpy_calloc",
    "xjit_numpy_realloc",
    "xjit_numpy_free",
    "xjit_call_entry",
    "__truncsfbf2",
    "__truncdfbf2",
]
_FAST_CALL_EXPORTS = ["xjit_fast_call", "xjit_mem_handler"]

_load_lock = threading.Lock()


class NativeLibrary:
    """The loaded code: addresses by name, and ctypes functions for what Python calls.

    `call_entry` releases the GIL; `call_entry_with_gil` does not. `has_fast_call` tells if the METH_FASTCALL function
    exists.
    """

    def __init__(self) -> None:
        self.has_fast_call = not fast_call_obstacle()
        text = native_ir(self.has_fast_call)
        exports = _EXPORTS + (_FAST_CALL_EXPORTS if self.has_fast_call else [])
        context_functions = Module("context_functions")
        define_context_functions(context_functions)
        texts = (text, context_functions.to_text())
        objects = [compile_ir_to_object(part, trusted=True) for part in texts]
        symbols = {name: _symbol_address(name) for name in undefined_symbols(objects)}
        self._loaded: LoadedObject = load_object(objects, [*exports, *SYMBOLS, MAIN_THREAD], symbols)
        self.set_main_thread()
        pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
        entry_types = (i32, pointer, pointer, pointer, pointer, pointer, pointer)
        self.call_entry = ctypes.CFUNCTYPE(*entry_types)(self.address("xjit_call_entry"))
        self.call_entry_with_gil = ctypes.PYFUNCTYPE(*entry_types)(self.address("xjit_call_entry"))
        self.parallel_for = ctypes.CFUNCTYPE(None, pointer, pointer, i64)(self.address("xjit_parallel_for"))
        self.num_threads = ctypes.PYFUNCTYPE(i32)(self.address("xjit_num_threads"))
        self.num_running = ctypes.PYFUNCTYPE(i32)(self.address("xjit_pool_num_running"))
        self.pool_is_busy = ctypes.PYFUNCTYPE(i32)(self.address("xjit_pool_is_busy"))
        self.configure_pool = ctypes.CFUNCTYPE(None, i32, pointer, i32)(self.address("xjit_pool_configure"))
        self.pool_after_fork = ctypes.PYFUNCTYPE(None)(self.address("xjit_pool_after_fork"))
        self.buffer_after_fork = ctypes.PYFUNCTYPE(None)(self.address("xjit_buffer_after_fork"))
        self.alloc = ctypes.PYFUNCTYPE(pointer, i64)(self.address("xjit_scratch_alloc"))
        self.free = ctypes.PYFUNCTYPE(None, pointer)(self.address("xjit_scratch_free"))
        self.trim = ctypes.PYFUNCTYPE(None)(self.address("xjit_buffer_trim"))
        self.statistics = (i64 * len(STATISTICS)).from_address(self.address("xjit_buffer_statistics"))

    def set_main_thread(self) -> None:
        """Says which thread runs signal handlers: another one, perhaps, after a fork."""
        ctypes.c_uint64.from_address(self.address(MAIN_THREAD)).value = threading.main_thread().ident or 0

    def address(self, name: str) -> int:
        """The address of an exported symbol."""
        return self._loaded.address(name)


def native_ir(with_fast_call: bool) -> str:
    """The text of the runtime's native module for this machine."""
    parts = [
        call_ir(platform.machine()),
        buffer_pool_ir(sys.platform),
        thread_pool_ir(platform.machine(), sys.platform),
    ]
    return "\n".join([*parts, FAST_CALL_IR] if with_fast_call else parts)


def library() -> NativeLibrary:
    """The native code of this process; the first call compiles it."""
    with _load_lock:
        return _library()


@functools.cache
def _library() -> NativeLibrary:
    return NativeLibrary()


def _symbol_address(name: str) -> int:
    if name.startswith("PyArray_"):
        return numpy_api_address(name)
    scope = ctypes.pythonapi if name.startswith("Py") else ctypes.CDLL(None)
    return ctypes.cast(getattr(scope, name), ctypes.c_void_p).value or 0
