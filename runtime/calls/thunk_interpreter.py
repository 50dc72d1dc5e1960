"""Runs a program thunk by thunk from Python: the same kernels over the same slices as the native entry, one at a time.

For profiles, and to find the kernel that is wrong: a callback sees what each thunk read and wrote. Results are bitwise
those of the native entry, as any partition of a kernel's work gives the same bits.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xjit.dataclass import dataclass
from xjit.llvm.execution_context import EXECUTION_CONTEXT, initial_context
from xjit.runtime.arrays.arguments import conforming
from xjit.runtime.arrays.physical_layout import Array, array_signature, from_physical
from xjit.runtime.buffer_pool import pooled_library
from xjit.runtime.calls.status_error import FindPlace, StatusError
from xjit.runtime.machine_code.linker import LoadedObject
from xjit.runtime.program import ARENA_ALIGNMENT, CpuProgram
from xjit.thunks import (
    BufferSlice,
    CallThunk,
    ConditionalThunk,
    CopyThunk,
    InlineThunk,
    KernelThunk,
    ShapedSlice,
    Thunk,
    ThunkProgram,
    WhileThunk,
    step_symbol,
)


@dataclass(frozen=True, slots=True)
class ThunkStep:
    """A thunk that has just run. `seconds` is the time of its native call, some microseconds of it Python's.

    `operands` are copies of the arrays it read, made before it ran; `results` of those it wrote.
    """

    thunk: KernelThunk | InlineThunk
    seconds: float
    operands: tuple[Array, ...]
    results: tuple[Array, ...]


OnThunk = Callable[[ThunkStep], object]
"""Called after every kernel and every piece of code in line; what it raises ends the run."""


class ThunkInterpreter:
    """Runs the thunks of a program.

    Args:
        program: says how large the arena is, and what parameters and results are.
        thunks: what to run.
        steps: has the function `step_symbol(thunk)` of every thunk that computes.
        constants: address of the array of the constants' addresses.
        find_place: says where an instruction is, for the errors of a run.
    """

    def __init__(
        self,
        program: CpuProgram,
        thunks: ThunkProgram,
        steps: LoadedObject,
        constants: int,
        find_place: FindPlace | None = None,
    ) -> None:
        self._program = program
        self._thunks = thunks
        self._steps = steps
        self._find_place = find_place
        self._constants = (ctypes.c_void_p * len(program.constants)).from_address(constants)

    def __call__(self, *buffers: Array, on_thunk: OnThunk | None = None) -> tuple[Array, ...]:
        """Runs on physical buffers that fit the parameters; returns those of the results.

        Errors: ExecutionError if a kernel leaves a status other than 0; it names the instruction.
        """
        given = [conforming(b, s.dtype) for b, s in zip(buffers, self._program.parameters, strict=True)]
        results = [np.zeros(s.byte_size // s.dtype.itemsize, s.dtype) for s in self._program.results]
        constants = [address or 0 for address in self._constants]
        read, written = ([array.ctypes.data for array in arrays] for arrays in (given, results))
        memory = ThunkMemory(read, written, constants, self._program.arena_size)
        context = ctypes.create_string_buffer(initial_context())
        for thunk in executed_thunks(self._thunks, memory.number):
            if isinstance(thunk, CopyThunk):
                size = thunk.destination.size
                ctypes.memmove(memory.address(thunk.destination), memory.address(thunk.source), size)
                continue
            assert isinstance(thunk, KernelThunk | InlineThunk), f"no step for a {type(thunk).__name__}"
            operands = memory.read(thunk.operands) if on_thunk is not None else ()
            seconds = self._compute(thunk, memory, context)
            if on_thunk is not None:
                on_thunk(ThunkStep(thunk, seconds, operands, memory.read(thunk.results)))
        return tuple(results)

    def _compute(
        self, thunk: KernelThunk | InlineThunk, memory: ThunkMemory, context: ctypes.Array[ctypes.c_char]
    ) -> float:
        """Calls the step of a thunk; returns the seconds it took."""
        step = self._steps.address(step_symbol(thunk))
        operands, results = memory.addresses(thunk.operands), memory.addresses(thunk.results)
        start = time.perf_counter()
        status = pooled_library().call_entry(step, context, operands, results, None, None, 1)
        seconds = time.perf_counter() - start
        if status:
            pooled_library().raise_kept_exception(context)
            detail = EXECUTION_CONTEXT.unpack(context.raw)["detail"]
            StatusError(self._program.name, (thunk.instruction,), self._find_place)(status, 0, detail)
        return seconds


@dataclass(frozen=True, slots=True)
class _Test:
    """The condition of a loop has run."""

    loop: WhileThunk


def executed_thunks(program: ThunkProgram, number: Callable[[BufferSlice], int]) -> Iterator[Thunk]:
    """Yields the thunks that do something, in the order in which they run; `number` reads a predicate or a selector."""
    pending: list[Thunk | _Test] = []

    def run(name: str) -> None:
        pending.extend(reversed(program.sequences[name].thunks))

    run(program.entry)
    while pending:
        match pending.pop():
            case WhileThunk() as loop:
                pending.append(_Test(loop))
                run(loop.condition)
            case _Test(loop):
                if number(loop.predicate):
                    pending.append(loop)
                    run(loop.body)
            case ConditionalThunk() as thunk:
                run(thunk.branches[_branch(thunk, number(thunk.selector.slice))])
            case CallThunk() as thunk:
                run(thunk.callee)
            case thunk:
                yield thunk


def _branch(thunk: ConditionalThunk, selector: int) -> int:
    if thunk.selector.slice.size == 1:  # a pred
        return 0 if selector else 1
    last = len(thunk.branches) - 1
    return selector if 0 <= selector <= last else last


class ThunkMemory:
    """The memory of one execution: where slices are, by the addresses of all arrays."""

    def __init__(
        self, parameters: Sequence[int], results: Sequence[int], constants: Sequence[int], arena_size: int
    ) -> None:
        self._arena = np.zeros(arena_size + ARENA_ALIGNMENT, np.uint8)
        start = self._arena.ctypes.data
        self._bases = {
            "parameter": parameters,
            "result": results,
            "constant": constants,
            "arena": [start + -start % ARENA_ALIGNMENT],
        }

    def address(self, where: BufferSlice) -> int:
        """Returns where a slice begins."""
        return self._bases[where.kind][where.index] + where.offset

    def number(self, where: BufferSlice) -> int:
        """Returns the integer in a slice of one or four bytes."""
        kind = ctypes.c_uint8 if where.size == 1 else ctypes.c_int32
        return kind.from_address(self.address(where)).value

    def read(self, places: Sequence[ShapedSlice]) -> tuple[Array, ...]:
        """Returns copies of the arrays in slices, in their logical shapes."""
        return tuple(map(self._read, places))

    def _read(self, place: ShapedSlice) -> Array:
        data = ctypes.string_at(self.address(place.slice), place.slice.size)
        signature = array_signature(place.shape, "")
        return from_physical(np.frombuffer(data, signature.dtype), signature)

    def addresses(self, places: Sequence[ShapedSlice]) -> ctypes.Array[ctypes.c_void_p]:
        """Returns the addresses of slices, as native code takes them."""
        return (ctypes.c_void_p * len(places))(*(self.address(place.slice) for place in places))
