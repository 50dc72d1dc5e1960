"""Harness for GPU kernels: plans and emits the root instruction of a small module, as schedules, LLVM IR and PTX."""

from __future__ import annotations

import functools

from tests.support.kernels import view_of
from xjit.emitters.gpu.kernel_context import GpuKernelContext, emit_gpu_schedule
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.planners.gpu.table import gpu_plan_context, plan_gpu_kernels
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.verify import verify_schedule
from xjit.emitters.schedule.verify_view import verify_for_view
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.runtime.machine_code.nvptx import to_ptx
from xjit.text.parser import parse_hlo

SM = "sm_80"

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT sum = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT most = f32[] maximum(a, b) }\n"


def gpu_kernels(text: str, architecture: str = SM) -> list[Kernel]:
    """Plans and emits the kernels of the root instruction; their schedules print and parse."""
    target = Target.for_gpu(architecture)
    context = GpuKernelContext(Module("unused", target), target)
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    plans = plan_gpu_kernels(gpu_plan_context(target, context.maps), view)
    schedules = [plan for plan in plans if isinstance(plan, Schedule)]
    assert len(schedules) == len(plans), "some kernel has no schedule"
    for schedule in schedules:
        assert parse_schedule(str(schedule)) == schedule
        verify_schedule(schedule)
        verify_for_view(schedule, view)
    return [emit_gpu_schedule(context, view, schedule) for schedule in schedules]


def module_text(kernel: Kernel) -> str:
    """Returns the LLVM IR of a kernel's module."""
    assert kernel.function.module is not None
    return kernel.function.module.to_text()


def schedule_lines(text: str) -> list[str]:
    """Returns the lines of the only schedule, without indentation and without its first and last line."""
    (kernel,) = gpu_kernels(text)
    return [line.strip() for line in str(kernel.schedule).splitlines()[1:-1]]


@functools.lru_cache(maxsize=64)
def ptx_of(text: str, architecture: str = SM) -> str:
    """Returns the PTX of all kernels of the root instruction."""
    target = Target.for_gpu(architecture)
    return "\n".join(to_ptx(module_text(kernel), target) for kernel in gpu_kernels(text, architecture))
