"""An HLO module with its buffer assignment -> thunks and kernels for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xjit.dataclass import dataclass
from xjit.emitters.gpu import rng_state
from xjit.emitters.gpu.arena_tail import behind, end_of, with_scratch
from xjit.emitters.gpu.fft import emit_gpu_fft
from xjit.emitters.gpu.kernel_context import GpuKernelContext, emit_gpu_schedule
from xjit.emitters.gpu.linalg.cholesky import emit_gpu_cholesky
from xjit.emitters.gpu.linalg.triangular_solve import emit_gpu_triangular_solve
from xjit.emitters.gpu.rng_state import emit_gpu_rng_state
from xjit.emitters.gpu.runtime_calls import runtime_call
from xjit.emitters.gpu.scan import emit_gpu_scan
from xjit.emitters.gpu.scatter.scatter import emit_gpu_scatter
from xjit.emitters.gpu.scatter.segments import emit_sorted_scatter
from xjit.emitters.gpu.select_and_scatter import emit_gpu_select_and_scatter
from xjit.emitters.gpu.sort.sort import emit_gpu_sort
from xjit.emitters.gpu.unit_kernels import emit_unit_kernels
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.gpu.scatter import BY_SEGMENTS
from xjit.emitters.planners.gpu.table import gpu_plan_context, plan_gpu_kernels
from xjit.emitters.planners.gpu.windows import GATHERED
from xjit.emitters.planners.plan import HandWritten, KernelPlan
from xjit.emitters.unnested import IrEmitterUnnested
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.thunks.gpu_kernel import GpuKernel, GpuProgram


@dataclass(frozen=True, slots=True)
class EmittedGpuModule:
    """What a module runs on a GPU, and the kernels as they were emitted."""

    program: GpuProgram
    kernels: tuple[Kernel, ...]
    arena_size: int
    views: Mapping[str, KernelView]  # what each kernel computes, or a part of it, by the kernel's name

    @property
    def schedule_text(self) -> str:
        """The schedule of every kernel, in the order of the first calls; a remark for each that is written by hand."""
        return "\n".join(map(_schedule_text, self.kernels))

    @property
    def ir_text(self) -> str:
        """The modules of all kernels, one after the other."""
        return "\n".join(kernel.ir_text for kernel in self.program.kernels.values())


def _schedule_text(kernel: Kernel) -> str:
    remark = f"// {kernel.function.name}: {kernel.kind}, written by hand\n"
    return remark if kernel.schedule is None else str(kernel.schedule)


_OWN_EMITTERS: Mapping[str, Callable[[GpuKernelContext, KernelView], list[Kernel]]] = {
    "cholesky": emit_gpu_cholesky,
    "fft-in-block": emit_gpu_fft,
    "rng-get-and-update-state": emit_gpu_rng_state,
    "scan": emit_gpu_scan,
    "scatter": emit_gpu_scatter,
    BY_SEGMENTS: emit_sorted_scatter,
    GATHERED: emit_gpu_select_and_scatter,
    "sort": emit_gpu_sort,
    "triangular-solve": emit_gpu_triangular_solve,
}
"""By the kind of the plan. The other hand-written kernels are the CPU's, see `unit_kernels`."""


def _emit(context: GpuKernelContext, view: KernelView, plan: KernelPlan) -> list[Kernel]:
    if not isinstance(plan, HandWritten):
        return [emit_gpu_schedule(context, view, plan)]
    own = _OWN_EMITTERS.get(plan.kind)
    if own is not None:
        return own(context, view)
    return emit_unit_kernels(context, view, plan.kind)


def emit_gpu_module(
    assignment: BufferAssignment, target: Target, deterministic: bool = False, verify: bool = False
) -> EmittedGpuModule:
    """Emits every kernel of a scheduled, buffer-assigned module; `verify`: see IrEmitterUnnested.

    Errors: Unsupported names what has no kernel.
    """
    context = GpuKernelContext(Module(assignment.module.name, target), target)
    planning = gpu_plan_context(target, context.maps, deterministic)

    views: dict[str, KernelView] = {}

    def emit(view: KernelView) -> list[Kernel]:
        kernels = [kernel for plan in plan_gpu_kernels(planning, view) for kernel in _emit(context, view, plan)]
        views.update({kernel.function.name: view for kernel in kernels})
        return kernels

    unnested = IrEmitterUnnested(emit, assignment, inline=False, verify=verify, runtime_call=runtime_call).emit()
    emitted = unnested.kernels
    program, arena_size = with_scratch(unnested.program, emitted, assignment.arena_size)
    if any(kernel.kind == rng_state.KIND for kernel in emitted):
        (state,) = behind(arena_size, [rng_state.STATE])
        initial = rng_state.emit_initial_state(context)
        program = rng_state.with_state(program, emitted, initial, state)
        emitted, arena_size = (initial, *emitted), end_of(arena_size, [state])
    users = {thunk.kernel: thunk.instruction for thunk in reversed(program.kernel_thunks)}
    kernels: dict[str, GpuKernel] = {}
    for kernel in emitted:
        name, module = kernel.function.name, kernel.function.module
        assert module is not None and kernel.launch is not None
        kernels[name] = GpuKernel(name, module.to_text(), kernel.launch, users[name])
    return EmittedGpuModule(GpuProgram(program, kernels), emitted, arena_size, views)
