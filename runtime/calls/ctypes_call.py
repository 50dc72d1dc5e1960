"""The fallback of the native call path: the same interface as `make_fast_call`, through ctypes.

Used where `xjit.runtime.native.object_layout` finds CPython or NumPy different from what the native code assumes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus
from xjit.runtime.arrays.physical_layout import Array
from xjit.runtime.buffer_pool import pooled_library
from xjit.runtime.calls.fast_call import ArraySpec, NativeEntry


class CtypesCall:
    """Calls an entry through ctypes. Arguments and errors as for `make_fast_call`."""

    __slots__ = (
        "_alignment",
        "_entry",
        "_on_error",
        "_parameters",
        "_results",
        "_returns_tuple",
        "_slow",
    )

    def __init__(
        self,
        entry: NativeEntry,
        parameters: Sequence[ArraySpec],
        results: Sequence[ArraySpec],
        returns_tuple: bool,
        alignment: int,
        slow: Callable[..., Any],
        on_error: Callable[[int, int, int], Any],
    ) -> None:
        self._entry = entry
        self._parameters = tuple(parameters)
        self._results = tuple(results)
        self._returns_tuple = returns_tuple
        self._alignment = alignment
        self._slow = slow
        self._on_error = on_error

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        fit = len(arguments) == len(self._parameters) and all(map(self._fits, arguments, self._parameters))
        if keywords or not fit:
            return self._slow(*arguments, **keywords)
        results = [np.empty(spec.shape, spec.dtype, order="F" if spec.fortran else "C") for spec in self._results]
        call_with_results(self._entry, self._on_error, arguments, results)
        return tuple(results) if self._returns_tuple else results[0]

    def _fits(self, array: Any, spec: ArraySpec) -> bool:
        return (
            type(array) is np.ndarray
            and array.dtype == spec.dtype
            and array.shape == spec.shape
            and (array.flags.f_contiguous if spec.fortran else array.flags.c_contiguous)
            and array.flags.aligned
            and address_of(array) % self._alignment == 0
        )


def address_of(array: Array) -> int:
    """The address of the data; `array.ctypes.data` takes three times as long."""
    return array.__array_interface__["data"][0]


def _pointers(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(address_of(array) for array in arrays))


def call_with_results(
    entry: NativeEntry, on_error: Callable[[int, int, int], Any], arguments: Sequence[Array], results: Sequence[Array]
) -> None:
    """Calls an entry with these very buffers, which must fit; `on_error` raises what a status means."""
    context = ctypes.create_string_buffer(entry.initial_context, len(entry.initial_context))
    call_with_context(entry, on_error, context, arguments, results)


def call_with_context(
    entry: NativeEntry,
    on_error: Callable[[int, int, int], Any],
    context: ctypes.Array[ctypes.c_char],
    arguments: Sequence[Array],
    results: Sequence[Array],
) -> None:
    """Calls an entry with an execution context of the caller."""
    native = pooled_library()
    arena = native.alloc(entry.arena_size) if entry.arena_size else None
    if entry.arena_size and not arena:
        on_error(RuntimeStatus.RESOURCE_EXHAUSTED, -1, entry.arena_size)
    pointers = (_pointers(arguments), _pointers(results), arena, entry.constants_address)
    try:
        status = native.call_entry(entry.address, context, *pointers, entry.release_gil)
    finally:
        native.free(arena)
    if status:
        native.raise_kept_exception(context)
        fields = EXECUTION_CONTEXT.unpack(context.raw)
        on_error(status, fields["failed_instruction"], fields["detail"])
