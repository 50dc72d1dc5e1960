"""sort on GPUs: by the digits of keys where that moves fewer bytes, else by a bitonic network.

A network sorts tiles in shared memory, then merges them, step by step, in the memory of the results. Any comparator
gives a permutation, also one that is no order. Equal elements come in any order: `stable-sort-expander` makes a stable
sort compare positions, too, unless it goes by digits, which keeps the order.
"""

from __future__ import annotations

from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.sort.far import emit_far_comparisons
from xjit.emitters.gpu.sort.near import emit_tile_merge, emit_tile_sort
from xjit.emitters.gpu.sort.radix.radix import emit_radix_sort
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.gpu.radix_sort import radix_plan
from xjit.emitters.planners.gpu.sort_network import FarPass, SortNetwork
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported


def emit_gpu_sort(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernels of a sort, in the order in which they run; one that several steps need is the same object.

    Errors: Unsupported for a stable sort that networks would have to do.
    """
    plan = radix_plan(view.hero)
    if plan is not None:
        return emit_radix_sort(context, view, plan)
    if view.hero.attributes_as(at.SortAttributes).is_stable:
        raise Unsupported(f"the stable sort '{view.hero.name}': bitonic networks are not stable", view.hero.span)
    network = SortNetwork.of(view.hero)
    kernels = [emit_tile_sort(context, view, network)]
    far: dict[FarPass, Kernel] = {}
    merge: Kernel | None = None
    for step in range(network.bits + 1, network.steps + 1):
        for each in network.far_passes(step):
            if each not in far:
                far[each] = emit_far_comparisons(context, view, network, each)
            kernels.append(far[each])
        merge = merge or emit_tile_merge(context, view, network)
        kernels.append(merge)
    return kernels
