"""Hand-written kernels whose units are independent, on GPUs: a thread does one unit, with scalar code.

The emitters are those of CPUs: they ask their context for a function and for the units to do. Every unit is done by one
thread in order, so the results are those of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.emitters.access.memory import Buffer
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.calls.allocate_buffer import emit_allocate_buffer
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.loops.scatter import emit_scatter
from xjit.emitters.kernels.random.rng_bit_generator import emit_rng_bit_generator
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.kernels.windows.select_and_scatter import emit_select_and_scatter
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.planners.gpu.scatter import IN_ORDER
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.function import Function, string_attribute
from xjit.llvm.inline_control_flow import return_if
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

THREADS = 128
SCALAR_BITS = 8
"""Bits of a vector: of one element, whatever its type."""

UNIT_EMITTERS: Mapping[str, Callable[[KernelContext, KernelView], list[Kernel]]] = {
    "fill": emit_allocate_buffer,
    IN_ORDER: emit_scatter,
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
        """See KernelContext."""
        self.module = self.for_one_kernel(view.instruction.name + suffix).module
        return self.new_gpu_kernel(view)

    @property
    def has_unit_threads(self) -> bool:
        """See KernelContext."""
        return True

    def unit_range(self, nest: LoopNest, units: int) -> tuple[Value, Value]:
        """See KernelContext: the unit of this thread's number. Threads without one leave."""
        builder = nest.builder
        block = builder.mul(special_register(nest, "ctaid.x"), const_int(I64, THREADS))
        begin = builder.add(block, special_register(nest, "tid.x"))
        return_if(builder, builder.icmp_signed(">=", begin, const_int(I64, units)))
        return begin, builder.add(begin, const_int(I64, 1))


def emit_unit_kernels(context: GpuKernelContext, view: KernelView, kind: str) -> list[Kernel]:
    """Emits the kernels of a kind of `UNIT_EMITTERS`. Errors: as of its emitter."""
    target = replace(context.target, vector_bits=SCALAR_BITS)
    own = _UnitContext(context.module, target, maps=context.maps, names=context.names)
    return [_launched(kernel) for kernel in UNIT_EMITTERS[kind](own, view)]


def _launched(kernel: Kernel) -> Kernel:
    """Returns a kernel with its launch dimensions. One of a single unit need not ask which thread does it."""
    threads = THREADS if kernel.units > 1 else 1
    kernel.function.attributes += (string_attribute("nvvm.reqntid", str(threads)),)
    return replace(kernel, launch=launch_dimensions(-(-kernel.units // threads), threads))
