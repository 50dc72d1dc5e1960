"""Calls of executables between canaries: what generated code writes, or reads, outside of its buffers shows.

`GuardedCall` stands in for `make_fast_call` and `CtypesCall`. The first call of an executable with arguments that fit
runs twice: once with parameters, results and arena in blocks of their own, each between guards that are looked at
afterwards, and once as always. Parameters must be as they were, and both runs must give the same bits: guards and
fresh memory hold NaNs, so what is read beyond a buffer, or before it was written, differs.

Of tests marked `padded`, results may have padding, which nobody writes: they run in a third memory, filled otherwise,
and bytes that differ between the two are left out of the comparison of bits. (What should have been written, and was
not, is for the comparison of values.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjit.passes.schedule_and_memory.buffer_packing import Block
from xjit.runtime import executable
from xjit.runtime.arrays.physical_layout import Array
from xjit.runtime.buffer_pool import pooled_library
from xjit.runtime.calls.ctypes_call import address_of
from xjit.runtime.calls.fast_call import ArraySpec, NativeEntry
from xjit.runtime.program import ARENA_ALIGNMENT, PARAMETER_ALIGNMENT

GUARD_BYTES = 1024
ARENA_GUARD_BYTES = 128
_ALIGNMENT = 64
_MakeCall = Callable[..., Callable[..., Any]]


class CanaryError(AssertionError):
    """Generated code touched memory that is not its own."""


class GuardedBuffer:
    """`size` bytes between two guards. The address is a multiple of `alignment`, and of no greater power of two."""

    def __init__(self, size: int, alignment: int, is_inverted: bool = False) -> None:
        self._is_inverted = is_inverted
        self._block = np.empty(size + 2 * GUARD_BYTES + 2 * _ALIGNMENT, np.uint8)
        base = address_of(self._block)
        start = GUARD_BYTES + -(base + GUARD_BYTES) % _ALIGNMENT + alignment % _ALIGNMENT
        self.inside = slice(start, start + size)
        self.block_size = self._block.size
        self._block[:] = _fill(self._block.size, is_inverted)
        self.address = base + start
        self.contents = self._block[self.inside]

    def touched(self) -> str:
        """Returns which bytes of the guards have changed, in words; "" if none."""
        expected = _fill(self._block.size, self._is_inverted)
        expected[self.inside] = self.contents
        changed = np.flatnonzero(self._block != expected) - self.inside.start
        if not changed.size:
            return ""
        size = self.contents.size
        return f"byte {changed[0]} of a buffer of {size} bytes was written ({changed.size} outside of it in all)"


def _fill(size: int, is_inverted: bool = False) -> Array:
    """Bytes that are NaNs as floats of any type, and hardly ever what a program writes.

    The inverted ones differ from them everywhere.
    """
    pattern = np.full(size, 0xFF, np.uint8)
    pattern[1 if is_inverted else 0 :: 2] = 0xF0 | np.arange((size + (not is_inverted)) // 2) % 15
    return pattern


class GuardedCall:
    """Makes calls as `make` does whose first run is repeated between canaries. See the module's docstring."""

    def __init__(self, make: _MakeCall) -> None:
        self._make = make
        self.is_enabled = True
        self.has_padding = False
        self.arena_gaps: Sequence[slice] = ()

    def __call__(
        self,
        entry: NativeEntry,
        parameters: Sequence[ArraySpec],
        results: Sequence[ArraySpec],
        returns_tuple: bool,
        alignment: int,
        slow: Callable[..., Any],
        on_error: Callable[[int], Any],
    ) -> Callable[..., Any]:
        plain = self._make(entry, parameters, results, returns_tuple, alignment, slow, on_error)
        if not self.is_enabled:
            return plain
        return _FirstCallGuarded(plain, entry, parameters, results, self.arena_gaps, self.has_padding)


class _FirstCallGuarded:
    def __init__(
        self,
        plain: Callable[..., Any],
        entry: NativeEntry,
        parameters: Sequence[ArraySpec],
        results: Sequence[ArraySpec],
        arena_gaps: Sequence[slice],
        has_padding: bool,
    ) -> None:
        self._plain = plain
        self._has_padding = has_padding
        self._arena_gaps = arena_gaps
        self._entry = entry
        self._parameters = parameters
        self._results = results
        self._is_done = False

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self._is_done or keywords or not self._fit(arguments):
            return self._plain(*arguments, **keywords)
        self._is_done = True
        sizes = [spec.nbytes for spec in self._results]
        guarded = run_guarded(self._entry, arguments, sizes, self._arena_gaps)
        again = run_guarded(self._entry, arguments, sizes, self._arena_gaps, True) if self._has_padding else guarded
        value = self._plain(*arguments)
        if guarded is not None and again is not None:
            leaves: Sequence[Any] = value if isinstance(value, tuple) else (value,)
            for number, (leaf, contents, other) in enumerate(zip(leaves, guarded, again, strict=True)):
                found = np.frombuffer(leaf.tobytes("A"), np.uint8)
                looked_at = _written(contents, other) if self._has_padding else np.ones(len(contents), np.bool_)
                if not np.array_equal(found[looked_at], contents[looked_at]):
                    raise CanaryError(f"result {number} depends on what lies around the buffers, or was there before")
        return value

    def _fit(self, arguments: Sequence[Any]) -> bool:
        return len(arguments) == len(self._parameters) and all(
            type(a) is np.ndarray
            and (a.dtype, a.shape) == (spec.dtype, spec.shape)
            and (a.flags.f_contiguous if spec.fortran else a.flags.c_contiguous)
            for a, spec in zip(arguments, self._parameters, strict=True)
        )


def _written(contents: Array, other: Array) -> Array:
    """Which bytes two runs wrote, before which the memory was filled in two ways: padding keeps what was there."""
    return contents == other


def run_guarded(
    entry: NativeEntry,
    arguments: Sequence[Array],
    result_sizes: Sequence[int],
    arena_gaps: Sequence[slice] = (),
    is_inverted: bool = False,
) -> list[Array] | None:
    """Runs an entry on guarded copies of its arguments; returns the results' bytes, None if the program failed.

    What of the arena is in `arena_gaps` must not be written either. CanaryError names the buffer that was overrun, or the parameter that was changed.
    """
    parameters = [GuardedBuffer(a.nbytes, PARAMETER_ALIGNMENT, is_inverted) for a in arguments]
    given = [np.frombuffer(a.tobytes("A"), np.uint8) for a in arguments]
    for buffer, data in zip(parameters, given, strict=True):
        buffer.contents[:] = data
    results = [GuardedBuffer(size, PARAMETER_ALIGNMENT, is_inverted) for size in result_sizes]
    arena = GuardedBuffer(entry.arena_size, ARENA_ALIGNMENT, is_inverted)
    status = _call_entry(entry, parameters, results, arena)
    for what, buffers in (("parameter", parameters), ("result", results), ("the arena, block", [arena])):
        for number, buffer in enumerate(buffers):
            if found := buffer.touched():
                raise CanaryError(f"{what} {number}: {found}")
    untouched = _fill(arena.block_size, is_inverted)[arena.inside]
    for gap in arena_gaps:
        if not np.array_equal(arena.contents[gap], untouched[gap]):
            raise CanaryError(f"the arena between two buffers, bytes {gap.start} to {gap.stop}, was written")
    for number, (buffer, data) in enumerate(zip(parameters, given, strict=True)):
        if not np.array_equal(buffer.contents, data):
            raise CanaryError(f"parameter {number} was changed by the call")
    return None if status else [buffer.contents for buffer in results]


def _call_entry(
    entry: NativeEntry, parameters: list[GuardedBuffer], results: list[GuardedBuffer], arena: GuardedBuffer
) -> int:
    """The one place that knows the native entry's signature. Returns its status."""
    context = ctypes.create_string_buffer(entry.initial_context, len(entry.initial_context))
    buffers = (_pointers(parameters), _pointers(results), arena.address)
    return pooled_library().call_entry(entry.address, context, *buffers, entry.constants_address, entry.release_gil)


def _pointers(buffers: Sequence[GuardedBuffer]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(buffers))(*(buffer.address for buffer in buffers))


NATIVE = GuardedCall(executable.make_fast_call)
CTYPES = GuardedCall(executable.CtypesCall)


def spread(blocks: Sequence[Block]) -> tuple[list[int], int]:
    """Stands in for `buffer_packing.pack`: every buffer of the arena has a place of its own, between guards.

    The guarded calls of what is compiled next look at these guards, too.
    """
    offsets, gaps, end = list[int](), list[slice](), 0
    for block in blocks:
        start = -(-(end + ARENA_GUARD_BYTES) // _ALIGNMENT) * _ALIGNMENT
        offsets.append(start)
        gaps.append(slice(end, start))
        end = start + block.size
    gaps.append(slice(end, end + ARENA_GUARD_BYTES))
    NATIVE.arena_gaps = CTYPES.arena_gaps = gaps
    return offsets, end + ARENA_GUARD_BYTES
