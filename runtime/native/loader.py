"""Compiles and loads the runtime's native code, once per process.

Invariant: a loaded library is never unloaded; its worker threads end at interpreter exit at the latest.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
import threading

from xjit.llvm import Module
from xjit.llvm.execution_context import EXECUTION_CONTEXT
from xjit.llvm.library import Library
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import compile_library
from xjit.runtime.machine_code.linker import LoadedObject, load_object
from xjit.runtime.native.buffer_pool_functions import define_buffer_pool
from xjit.runtime.native.buffer_records import STATISTICS, STATISTICS_SYMBOL
from xjit.runtime.native.call_functions import KEEP_SUBNORMALS, RESTORE_SUBNORMALS, define_call_functions
from xjit.runtime.native.context_functions import MAIN_THREAD, SYMBOLS, define_context_functions
from xjit.runtime.native.fast_call_functions import MEM_HANDLER, define_fast_call
from xjit.runtime.native.numpy_api import numpy_api_address
from xjit.runtime.native.object_layout import fast_call_obstacle
from xjit.runtime.native.thread_pool_functions import define_thread_pool

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
    STATISTICS_SYMBOL,
    "xjit_numpy_malloc",
    "xjit_numpy_calloc",
    "xjit_numpy_realloc",
    "xjit_numpy_free",
    "xjit_call_entry",
    KEEP_SUBNORMALS,
    RESTORE_SUBNORMALS,
    "__truncsfbf2",
    "__truncdfbf2",
    *SYMBOLS,
    MAIN_THREAD,
]
_FAST_CALL_EXPORTS = ["xjit_fast_call", MEM_HANDLER]

RARELY_RUN = frozenset(
    {
        "xjit_fail",
        "xjit_check_signals",
        "xjit_raise_status",
        "xjit_buffer_make",
        "xjit_buffer_destroy",
        "xjit_buffer_not_live",
        "xjit_buffer_trim",
        "xjit_buffer_after_fork",
        "xjit_heap_block",
        "xjit_mapped_block",
        "xjit_pin",
        "xjit_pin_all",
        "xjit_spawn",
        "xjit_pool_configure",
        "xjit_pool_after_fork",
        "xjit_pool_num_running",
        "xjit_pool_is_busy",
    }
)
"""Functions that no call of a program runs as a rule: a process without kept code need not optimize them."""

_load_lock = threading.Lock()


class NativeLibrary:
    """The loaded code: addresses by name, and ctypes functions for what Python calls.

    `has_fast_call` tells if the METH_FASTCALL function exists.
    """

    def __init__(self) -> None:
        self.has_fast_call = not fast_call_obstacle()
        objects = [compile_library(library) for library in runtime_libraries()]
        exports = _EXPORTS + (_FAST_CALL_EXPORTS if self.has_fast_call else [])
        symbols = {name: _symbol_address(name) for name in undefined_symbols(objects)}
        self._loaded: LoadedObject = load_object(objects, exports, symbols)
        runtime_libraries.cache_clear()  # nobody asks again
        self.set_main_thread()
        pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
        self.call_entry = ctypes.PYFUNCTYPE(i32, *[pointer] * 6, i64)(self.address("xjit_call_entry"))
        self._set_exception = ctypes.PYFUNCTYPE(None, pointer, pointer, pointer)(("PyErr_Restore", ctypes.pythonapi))
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
        self.statistics = (i64 * len(STATISTICS.fields)).from_address(self.address(STATISTICS_SYMBOL))

    def raise_kept_exception(self, context: ctypes.Array[ctypes.c_char]) -> None:
        """Raises what a signal handler raised during the call with this context, if one did."""
        fields = EXECUTION_CONTEXT.unpack(context.raw)
        if fields["exception_type"]:
            self._set_exception(*(fields[f"exception_{part}"] for part in ("type", "value", "traceback")))

    def set_main_thread(self) -> None:
        """Says which thread runs signal handlers: another one, perhaps, after a fork."""
        ctypes.c_uint64.from_address(self.address(MAIN_THREAD)).value = threading.main_thread().ident or 0

    def address(self, name: str) -> int:
        """The address of an exported symbol."""
        return self._loaded.address(name)


@functools.cache
def runtime_libraries() -> tuple[Library, ...]:
    """The runtime's native modules for this process, in the order of `native_modules`."""
    return tuple(Library.of_module("runtime", module) for module in native_modules(not fast_call_obstacle()))


def libraries_to_load() -> tuple[Library, ...]:
    """The libraries that the first program of this process must wait for; none once they are loaded."""
    return () if _library.cache_info().currsize else runtime_libraries()


def native_modules(
    with_fast_call: bool, machine: str = platform.machine(), system: str = sys.platform
) -> tuple[Module, ...]:
    """The runtime's native modules, for `platform.machine()` and `sys.platform`."""
    module = Module("runtime")
    define_call_functions(module, machine)
    define_context_functions(module)
    if with_fast_call:
        define_fast_call(module)
    pools = Module("pools")
    define_buffer_pool(pools, system)
    define_thread_pool(pools, machine, system)
    for function in (*module.functions.values(), *pools.functions.values()):
        function.is_cold = function.name in RARELY_RUN
    return module, pools


def _after_fork_in_child() -> None:
    global _load_lock
    _load_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


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
