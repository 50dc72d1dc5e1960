"""A sort by the digits of its keys: for each of them the kernels that count, add up, and move."""

from __future__ import annotations

from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.sort.radix.counts import emit_count_sums, emit_digit_counts
from xjit.emitters.gpu.sort.radix.moves import emit_moves
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.gpu.radix_sort import RadixPlan


def emit_radix_sort(context: GpuKernelContext, view: KernelView, plan: RadixPlan) -> list[Kernel]:
    """Emits the kernels of a sort, in the order in which they run; all passes add up by the same."""
    sums = emit_count_sums(context, view, plan)
    kernels: list[Kernel] = []
    for number in range(len(plan.shifts)):
        count, move = emit_digit_counts(context, view, plan, number), emit_moves(context, view, plan, number)
        kernels += [count, sums, move]
    return kernels
