"""The first step of kernels that update an array in place: writing the array that is about to be updated.

Nothing is emitted for results that share the buffer of their array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.loops.loop import LoopKernel
from xjit.hlo.ir.instruction import HloInstruction


class CopyKernel(LoopKernel):
    """Writes one value of a view's graph to one result buffer."""

    kind = "copy"

    def __init__(
        self, context: KernelContext, view: KernelView, source: HloInstruction, result: int, suffix: str = ".base"
    ) -> None:
        super().__init__(context, view, suffix)
        self.restrict_to([source], [result])


def emit_base_copies(context: KernelContext, view: KernelView, bases: Sequence[HloInstruction]) -> list[Kernel]:
    """Emits the copies of bases[i] to result i, except where both are one buffer already."""
    kernels: list[Kernel] = []
    for result, base in enumerate(bases):
        pair = (view.leaves.index(base), result) if base in view.leaves else None
        if pair not in view.shared and view.result_shapes[result].num_elements:
            kernel = CopyKernel(context, view, base, result).emit()
            kernels.append(replace(kernel, skip_if_same=pair if pair in view.may_share else None))
    return kernels
