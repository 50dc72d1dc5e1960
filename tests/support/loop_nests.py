"""Harness for what is emitted inside a loop nest: a function of pointers, its text by blocks, and a way to run it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.emitters.loops.loop_nest import LoopNest
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.llvm.types import PTR, VOID
from xjit.llvm.values import Value
from xjit.runtime.machine_code import jit, linker
from xjit.runtime.machine_code.ir_check import external_symbols
from xjit.runtime.machine_code.symbols import resolve_symbols

Array = np.ndarray[Any, Any]
Emit = Callable[[LoopNest, Sequence[Value]], None]


@dataclass(frozen=True, slots=True)
class EmittedNest:
    """A function `void(ptr...)` around a loop nest."""

    nest: LoopNest
    pointers: int

    @property
    def text(self) -> str:
        """The module."""
        return self.nest.module.to_text()

    def block(self, hint: str) -> str:
        """The lines of all blocks whose labels start with a hint, such as `i.loop`."""
        found = [b for b in self.nest.function.blocks if re.sub(r"\W", "_", b.label).startswith(hint.replace(".", "_"))]
        assert found, f"no block {hint}"
        return "\n".join(line for b in found for line in b.to_lines())

    def run(self, *arrays: Array) -> None:
        """Compiles the function and calls it on arrays."""
        symbols = resolve_symbols(external_symbols(self.text))
        target = self.nest.target
        options = jit.CodegenOptions(cpu=target.cpu, features=target.features)
        code = linker.load_object(jit.compile_ir_to_object(self.text, options), ["nest"], symbols)
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * self.pointers)(code.address("nest"))(
            *[a.ctypes.data for a in arrays]
        )


def emit_nest(pointers: int, emit: Emit, target: Target | None = None) -> EmittedNest:
    """Returns the function whose body is what `emit(nest, pointers)` puts into its loop nest."""
    module = Module("test", target or Target.host())
    function = module.add_function("nest", VOID, [(PTR, f"p{i}") for i in range(pointers)])
    nest = LoopNest(module, function, module.target)
    emit(nest, function.args)
    nest.builder.ret_void()
    return EmittedNest(nest, pointers)
