"""Hand-written kernels whose units are independent, on GPUs: a thread does one unit, with scalar code.

The emitters are those of CPUs: they ask their context for a function and for the units to do. Every unit is done by one
thread in order, so the results are those of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.random.rng_bit_generator import emit_rng_bit_generator
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.kernels.windows.select_and_scatter import emit_select_and_scatter
from xjit.emitters.loop_nest import LoopNest
from xjit.emitters.memory import Buffer
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.function import Function, string_attribute
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

MAX_THREADS = 256
SCALAR_BITS = 8
"""Bits of a vector: of one element, whatever its type."""

UNIT_EMITTERS: Mapping[str, Callable[[KernelContext, KernelView], list[Kernel]]] = {
    "rng-bit-generator": emit_rng_bit_generator,
    "select-and-scatter": emit_select_and_scatter,
}
"""By the kind of the kernel."""


@dataclass(slots=True)
class _UnitContext(GpuKernelContext):
    """A context whose kernels have one unit per thread, each kernel in a module of its own."""

    def new_kernel(
        self, view: KernelView, suffix: str = ""
    ) -> tuple[Function, dict[HloInstruction, Buffer], list[Buffer]]:
        """See KernelContext. How many threads a block has is said when the units are known."""
        self.module = self.for_one_kernel(view.instruction.name + suffix).module
        return self.new_gpu_kernel(view)

    def unit_range(self, nest: LoopNest) -> tuple[Value, Value]:
        """See KernelContext: the unit of this thread's number."""
        block, threads = special_register(nest, "ctaid.x"), special_register(nest, "ntid.x")
        begin = nest.builder.add(nest.builder.mul(block, threads), special_register(nest, "tid.x"))
        return begin, nest.builder.add(begin, const_int(I64, 1))


def emit_unit_kernels(context: GpuKernelContext, view: KernelView, kind: str) -> list[Kernel]:
    """Emits the kernels of a kind of `UNIT_EMITTERS`. Errors: as of its emitter."""
    target = replace(context.target, vector_bits=SCALAR_BITS)
    own = _UnitContext(context.module, target, maps=context.maps, names=context.names)
    return [_launched(kernel) for kernel in UNIT_EMITTERS[kind](own, view)]


def _launched(kernel: Kernel) -> Kernel:
    """Returns a kernel with launch dimensions: blocks of as many threads as divide its units."""
    threads = min(kernel.units & -kernel.units, MAX_THREADS)
    kernel.function.attributes += (string_attribute("nvvm.reqntid", str(threads)),)
    return replace(kernel, launch=launch_dimensions(kernel.units // threads, threads))
