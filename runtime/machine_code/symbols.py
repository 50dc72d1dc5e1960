"""Addresses of the external symbols that generated code may call. The names: `xjit.runtime.machine_code.symbol_table`.

Role: resolves what one program needs, when it is loaded, so that SciPy is imported only for programs that call it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Iterable
from typing import Any

from xjit.hlo.custom_call_registry import SYMBOL_PREFIX, custom_call_address
from xjit.hlo.diagnostics import CompileError
from xjit.runtime.capsules import capsule_name, capsule_pointer
from xjit.runtime.collectives.native_function import collective_function
from xjit.runtime.machine_code import symbol_table
from xjit.runtime.native.numpy_api import numpy_sort_address
from xjit.runtime.thread_pool import running_pool

_ALWAYS = ("memcpy", "memmove", "memset")  # LLVM calls these on its own account


def resolve_symbols(names: Iterable[str]) -> dict[str, int]:
    """Maps each name, and those that LLVM adds by itself, to its address.

    Raises CompileError if a name is not in the table, or not available on this system.
    """
    return {name: symbol_address(name) for name in (*_ALWAYS, *names)}


@functools.cache
def symbol_address(name: str) -> int:
    """The address of one symbol of the table. Raises CompileError."""
    if not symbol_table.is_known_symbol(name):
        raise CompileError(f"the program needs the symbol {name!r}, which the runtime does not offer")
    address = _find(name)
    if not address:
        raise CompileError(f"the program needs the symbol {name!r}, which is not available on this system")
    return address


def _find(name: str) -> int:
    if name == "xjit_collective":
        return collective_function()[1]
    if name in symbol_table.RUNTIME_SYMBOLS:
        return running_pool().address(name)
    if name in symbol_table.LIBC_SYMBOLS:
        return _in_library(None, name)
    if name in symbol_table.LIBM_SYMBOLS:
        return _in_library("libm.so.6", name) or _in_library(None, name)
    if name in symbol_table.COMPILER_SYMBOLS:
        return _in_library("libgcc_s.so.1", name) or _in_library(None, name)
    if name in symbol_table.BLAS_SYMBOLS:
        return _cython_address("scipy.linalg.cython_blas", name.removeprefix("xjit_blas_"))
    if name in symbol_table.LAPACK_SYMBOLS:
        return _cython_address("scipy.linalg.cython_lapack", name.removeprefix("xjit_lapack_"))
    if name.startswith(SYMBOL_PREFIX):
        return custom_call_address(name.removeprefix(SYMBOL_PREFIX)) or 0
    if name in symbol_table.BLAS_THREAD_SYMBOLS:
        return _blas_threads_address(name)
    return numpy_sort_address(name.removeprefix("xjit_numpy_sort_"))


@functools.cache
def _library(name: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _in_library(library: str | None, name: str) -> int:
    function = getattr(_library(library), name, None)
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function is not None else 0


def _cython_address(module: str, routine: str) -> int:
    """A routine that a Cython module exports: a capsule whose name is the signature. Its integers must be C's int."""
    try:
        capsule: Any = importlib.import_module(module).__pyx_capi__.get(routine)
    except ImportError as error:
        raise CompileError(
            f"the program calls {routine} of {module}, which cannot be imported: {error}; "
            "SciPy is a dependency of xjit (pip install 'scipy>=1.15,<2')"
        ) from None
    if capsule is None:
        return 0
    signature = capsule_name(capsule)
    if b"int *" not in (ctypes.string_at(signature) if signature else b""):
        raise CompileError(f"{routine} of {module} takes integers of another width than C's int")
    return capsule_pointer(capsule, signature) or 0


def _blas_threads_address(name: str) -> int:
    """OpenBLAS's own function, if SciPy brings that library."""
    verb = name.removeprefix("xjit_blas_").removesuffix("_num_threads")
    _cython_address("scipy.linalg.cython_blas", "sgemm")  # loads SciPy's BLAS
    for path in _mapped_openblas():
        for candidate in (f"scipy_openblas_{verb}_num_threads", f"openblas_{verb}_num_threads"):
            if address := _in_library(path, candidate):
                return address
    return 0


def _mapped_openblas() -> list[str]:
    """Files of OpenBLAS libraries in this process, SciPy's first."""
    try:
        with open("/proc/self/maps") as file:
            paths = {line.split(maxsplit=5)[5].strip() for line in file if "openblas" in line}
    except OSError:
        return []
    return sorted(paths, key=lambda path: ("scipy" not in path, path))
