"""sort on GPUs: tiles are sorted in shared memory, then merged, step by step, in the memory of the results.

Any comparator gives a permutation, also one that is no order. Equal elements come in any order: `stable-sort-expander`
makes a stable sort compare positions, too.
"""

from __future__ import annotations

from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.sort.far import emit_far_comparisons
from xjit.emitters.gpu.sort.near import emit_tile_merge, emit_tile_sort
from xjit.emitters.gpu.sort.network import FarPass, SortNetwork
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.view import KernelView


def emit_gpu_sort(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernels of a sort, in the order in which they run; one that several steps need is the same object."""
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
