"""In-place dynamic-update-slice: only the update's elements are written.

Buffer assignment lets the result share the buffer of the array that is updated. Where it could not, that array is
written to the result first, by a loop kernel of its own.
"""

from __future__ import annotations

from xjit.affine import AffineExpr
from xjit.emitters.access_analysis import Accesses, Index
from xjit.emitters.iteration_space import IterationSpace
from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.loops.base_copy import emit_base_copies
from xjit.emitters.kernels.loops.loop import LoopKernel
from xjit.hlo.types.shape import Shape


def emit_dynamic_update_slice(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernels of a view whose root is a dynamic-update-slice."""
    kernels = emit_base_copies(context, view, [view.hero.operand(0)])
    if view.hero.operand(1).shape.num_elements:
        kernels.append(_UpdateKernel(context, view).emit())
    return kernels


class _UpdateKernel(LoopKernel):
    """Loops over the update; the start indices are read once, before the loops."""

    kind = "dynamic-update-slice"

    def __init__(self, context: KernelContext, view: KernelView) -> None:
        super().__init__(context, view, ".update")
        update: Shape = view.hero.operand(1).shape
        self.shape = update.with_layout(view.hero.shape.layout)
        self.roots = (view.hero.operand(1),)
        self.starts: list[AffineExpr] = self.fused.runtime_values(view.hero, 1, ())

    def _regions(self) -> list[IterationSpace]:
        order = self.shape.minor_to_major[::-1]
        return [IterationSpace.over(self.nest.table, self.shape.dimensions, order)]

    def _accesses(self, space: IterationSpace) -> list[Accesses]:
        return [self.analysis.collect(self.roots[0], space.index)]

    def _store(self, index: Index) -> None:
        value, _ = self.fused.element(self.roots[0], index)
        place = tuple(e + start for e, start in zip(index, self.starts, strict=True))
        self.fused.memory.store(self.results[0], place, value)
