"""Alternating measurements of two functions, and compiled multiplications and convolutions to measure."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.llvm import Function, Module
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import CodegenOptions, compile_ir_to_object
from xjit.runtime.machine_code.linker import LoadedObject, load_object
from xjit.runtime.machine_code.symbols import resolve_symbols


@dataclass(frozen=True, slots=True)
class Native:
    """A function of five pointers; `compile_ms` is the CPU time that text and code generation took."""

    loaded: LoadedObject
    call: Callable[..., None]
    compile_ms: float


def compile_function(emit: Callable[[Module], Function]) -> Native:
    """Compiles the function that `emit` defines in a new module for this machine."""
    start = time.process_time()
    module = Module("benchmark")
    function = emit(module)
    options = CodegenOptions(cpu=module.target.cpu, features=module.target.features)
    code = compile_ir_to_object(module.to_text(), options)
    milliseconds = 1e3 * (time.process_time() - start)
    loaded = load_object(code, [function.name], resolve_symbols(undefined_symbols([code])))
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
    return Native(loaded, prototype(loaded.address(function.name)), milliseconds)


def aligned(num_elements: int, rng: np.random.Generator) -> np.ndarray:
    """Random float32 numbers at a 64-byte boundary."""
    buffer = np.empty(num_elements + 16, np.float32)
    start = -buffer.ctypes.data % 64 // 4
    values = buffer[start : start + num_elements]
    values[:] = rng.random(num_elements, np.float32) - 0.5
    return values


def alternate(functions: Sequence[Callable[[], Any]], repetitions: int, inner: int) -> list[list[float]]:
    """Seconds per call of each function, in turns. The first call of each block is not measured."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repetitions):
        for function, found in zip(functions, times):
            function()
            start = time.perf_counter()
            for _ in range(inner):
                function()
            found.append((time.perf_counter() - start) / inner)
            time.sleep(0.005)  # lets the other side's spinning threads fall asleep
    return times


def compare(
    ours: Callable[[], Any], theirs: Callable[[], Any], repetitions: int, inner: int
) -> tuple[list[float], list[float]]:
    """Seconds per call of both, in turns."""
    first, second = alternate((ours, theirs), repetitions, inner)
    return first, second


def report(label: str, flops: int, ours: list[float], theirs: list[float]) -> float:
    """Prints medians, and the best in parentheses; returns the ratio of the medians (above 1: we are faster)."""
    median, other = statistics.median(ours), statistics.median(theirs)
    print(
        f"{label:34s} xjit {median * 1e3:9.4f} ({min(ours) * 1e3:9.4f}) ms {flops / median / 1e9:6.1f} GF/s | "
        f"jax {other * 1e3:9.4f} ({min(theirs) * 1e3:9.4f}) ms | "
        f"ratio {other / median:5.2f} ({min(theirs) / min(ours):5.2f})",
        flush=True,
    )
    return other / median


def geometric_mean(ratios: list[float]) -> float:
    """The mean that suits ratios."""
    return float(np.exp(np.mean(np.log(ratios))))
