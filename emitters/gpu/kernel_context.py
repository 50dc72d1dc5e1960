"""Kernels of a GPU: functions `ptx_kernel void(ptr addrspace(1) operands..., ptr addrspace(1) results...)`.

Each has a module of its own, so that it can be compiled, cached and simulated alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from xjit.dataclass import dataclass
from xjit.emitters.access.memory import BUFFER_ALIGNMENT, Buffer
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.block_lanes import BlockLanes
from xjit.emitters.gpu.block_sharing import BlockSharing
from xjit.emitters.gpu.shared_memory import SharedMemory
from xjit.emitters.gpu.threads import Threads
from xjit.emitters.kernels.kernel import Kernel, KernelContext, buffer_params, finish
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule_emitter import emit_statements
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.function import Function, Param, identifier, string_attribute
from xjit.llvm.module import Module
from xjit.llvm.types import VOID, pointer
from xjit.thunks.gpu_kernel import LaunchDimensions

MAX_BLOCKS = 2**31 - 1


@dataclass(slots=True)
class GpuKernelContext(KernelContext):
    """What all kernels of a GPU's module share. `module` is that of the kernel that is being emitted."""

    names: set[str] = field(default_factory=set)

    def for_one_kernel(self, hint: str) -> GpuKernelContext:
        """Returns the same with a new module, whose name, the kernel's, is new and no word of PTX."""
        base = name = f"{identifier(hint)}_kernel"
        number = 0
        while name in self.names:
            number += 1
            name = f"{base}_{number}"
        self.names.add(name)
        return replace(self, module=Module(name, self.target))

    def new_gpu_kernel(
        self, view: KernelView, threads: int = 0, scratch: Sequence[Shape] = ()
    ) -> tuple[Function, dict[HloInstruction, Buffer], list[Buffer]]:
        """Declares the module's kernel, for blocks of so many threads (0: to be said later).

        Returns it with leaf and result buffers; those of `scratch` arrays, its last parameters, are behind the results.
        """
        target = self.target
        space = pointer(target.address_spaces.global_)
        operands, outputs = buffer_params(view, space)
        own = [Param(space, f"scratch{i}", ("noalias", f"align {BUFFER_ALIGNMENT}")) for i in range(len(scratch))]
        function = self.module.add_function(
            self.module.name,
            VOID,
            [*operands, *outputs, *own],
            ("nounwind", *([string_attribute("nvvm.reqntid", str(threads))] if threads else [])),
            calling_convention=target.kernel_calling_convention,
        )
        given = len(operands) + len(outputs)
        leaves, results = self.buffers(view, function.args[:given])
        extra = [Buffer(shape, place) for shape, place in zip(scratch, function.args[given:], strict=True)]
        return function, leaves, [*results, *extra]


def launch_dimensions(blocks: int, threads: int) -> LaunchDimensions:
    """Returns one-dimensional ones: PTX counts 2^31 - 1 blocks along x."""
    assert 0 < blocks <= MAX_BLOCKS, f"{blocks} blocks"
    return LaunchDimensions((blocks, 1, 1), (threads, 1, 1))


def emit_gpu_schedule(context: GpuKernelContext, view: KernelView, schedule: Schedule) -> Kernel:
    """Emits the function of a schedule of the view and returns the kernel, with its launch dimensions."""
    context = context.for_one_kernel(view.instruction.name + schedule.suffix)
    function, leaves, results = context.new_gpu_kernel(view, schedule.threads)
    nest = LoopNest(context.module, function, context.target, table=VariableTable(schedule.variables))
    threads = Threads(nest, schedule.threads)
    shared = SharedMemory(context.module, function)
    fused = FusedIrEmitter(nest, leaves, context.maps)
    fused.lanes = BlockLanes(nest, threads, shared)
    emit_statements(
        view, schedule, fused, results, BlockSharing(fused, threads, shared, bool(view.shared or view.may_share))
    )
    finish(nest)
    return Kernel.of_schedule(function, schedule, launch=launch_dimensions(schedule.units, schedule.threads))
