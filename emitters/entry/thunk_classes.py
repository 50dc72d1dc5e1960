"""Which thunk a kernel call is: the class, and what that class says about the operation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xjit.emitters.kernels.collectives.collective import KIND as COLLECTIVE
from xjit.emitters.kernels.collectives.collective import collective_spec
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.thunks import (
    CollectiveThunk,
    ConvolutionThunk,
    CustomCallThunk,
    FftThunk,
    GemmThunk,
    KernelThunk,
    RuntimeCall,
    RuntimeCallThunk,
    ShapedSlice,
    SortThunk,
)

PARALLEL_COST_NS = 20_000.0
"""A kernel that takes less is not worth waking other threads."""

TASK_COST_NS = 24_000.0
"""What a task should take at least: handing one out costs .1 us, and moving its data to another core more."""

MAX_TASKS = 64

_LIBRARY_THUNKS: Mapping[str, type[GemmThunk | ConvolutionThunk | SortThunk | FftThunk]] = {
    "gemm": GemmThunk,
    "convolution": ConvolutionThunk,
    "sort": SortThunk,
    "fft": FftThunk,
}
"""By the kind of the kernel; the attributes are the hero's."""


def kernel_thunk(
    kernel: Kernel,
    view: KernelView,
    number: int,
    operands: tuple[ShapedSlice, ...],
    results: tuple[ShapedSlice, ...],
) -> KernelThunk:
    """Returns the thunk that calls a kernel of a view."""
    common: dict[str, Any] = {
        "instruction": view.instruction.name,
        "number": number,
        "kernel": kernel.function.name,
        "kind": kernel.kind,
        "operands": operands,
        "results": results,
        "units": kernel.units,
        "tasks": num_tasks(kernel),
        "cost_ns": kernel.cost_ns,
        "bytes_accessed": kernel.bytes_accessed,
        "flops": kernel.flops,
        "can_fail": kernel.can_fail,
        "skip_if_same": kernel.skip_if_same,
        "scratch_bytes": kernel.function.scratch_bytes,
    }
    attributes = view.hero.attributes
    if isinstance(attributes, at.CustomCallAttributes):
        return CustomCallThunk(**common, target=attributes.custom_call_target)
    if kernel.kind == COLLECTIVE:
        return CollectiveThunk(**common, spec=collective_spec(view.hero))
    library = _LIBRARY_THUNKS.get(kernel.kind)
    if library is None:
        return KernelThunk(**common)
    common["attributes"] = attributes
    return library(**common)


def runtime_call_thunk(
    call: RuntimeCall,
    view: KernelView,
    number: int,
    operands: tuple[ShapedSlice, ...],
    results: tuple[ShapedSlice, ...],
) -> RuntimeCallThunk:
    """Returns the thunk of what the runtime does for a view of a GPU's program."""
    return RuntimeCallThunk(
        instruction=view.instruction.name,
        number=number,
        kernel=call.symbol,
        kind=call.kind,
        operands=operands,
        results=results,
        units=1,
        tasks=1,
        cost_ns=0.0,
        bytes_accessed=view.byte_size - call.workspace_bytes,
        flops=call.flops,
        can_fail=False,
        call=call,
    )


def num_tasks(kernel: Kernel) -> int:
    """Returns into how many tasks a kernel's units are cut: by its cost, never by the number of threads.

    A power of two, where units allow, as most numbers of threads are: with three tasks one of two threads would wait.
    """
    if kernel.launch is not None:
        return 1
    if kernel.cost_ns < PARALLEL_COST_NS or kernel.units < 2 or kernel.repeats_work or kernel.has_threads:
        return 1
    worth = max(2, math.ceil(min(kernel.cost_ns / TASK_COST_NS, MAX_TASKS)))
    return min(kernel.units, 1 << (worth - 1).bit_length())
