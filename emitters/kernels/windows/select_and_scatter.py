"""select-and-scatter (the gradient of pooling): each window picks one element, and its source value is combined there.

Windows go in row-major order, which makes results deterministic. Dimensions without a window separate the work: those
are the parallel range, and the innermost one is the lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.guards import Guard
from xjit.emitters.access.memory import Buffer
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish
from xjit.emitters.kernels.loops.hand_loops import here
from xjit.emitters.kernels.view import KernelView, lanes_for
from xjit.emitters.kernels.windows.window_selection import WindowSelection
from xjit.emitters.loops.iteration_space import unit_index
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested, same_width
from xjit.hlo import attributes as at
from xjit.hlo.types.shape import Shape
from xjit.llvm.values import Value, const_int

NS_PER_ELEMENT = 1.5


def emit_select_and_scatter(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of the windows; the result holds the initial value already."""
    return [_SelectKernel(context, view).emit()]


class _SelectKernel:
    """Loops over [free dimensions] x [windows, in order] x [elements of the window]."""

    def __init__(self, context: KernelContext, view: KernelView) -> None:
        self.context = context
        self.hero = view.hero
        self.operand, self.source = self.hero.operand(0), self.hero.operand(1)
        _, self.scatter = self.hero.called_computations
        self.window = self.hero.attributes_as(at.WindowAttributes).window.dimensions
        self.function, leaves, results = context.new_kernel(view, ".windows")
        self.nest = LoopNest(context.module, self.function, context.target)
        self.fused = FusedIrEmitter(self.nest, leaves, context.maps)
        self.nested = IrEmitterNested()
        self.kind = self.operand.shape.element_type
        self.result = results[0]
        self.flat = Buffer(Shape.array(self.kind, (self.result.shape.num_elements,)), results[0].pointer)
        trivial = at.WindowDimension()
        self.free = [d for d, w in enumerate(self.window) if w == trivial]
        self.selection = WindowSelection(self.fused, self.hero, self.free)
        self.lanes = self._lane_dimension()

    def _lane_dimension(self) -> int | None:
        minor = next((d for d in self.result.shape.minor_to_major if self.result.shape.dimensions[d] > 1), None)
        return minor if minor in self.free and not self.kind.is_complex else None

    def emit(self) -> Kernel:
        nest = self.nest
        sizes = self.source.shape.dimensions
        outer = [d for d in self.free if d != self.lanes]
        units = math.prod(sizes[d] for d in outer)
        unit = nest.new_variable(units)
        begin, end = self.context.unit_range(self.nest, units)
        index: list[AffineExpr] = [constant(0)] * len(sizes)
        for d, place in zip(outer, unit_index(nest.table, unit, [sizes[d] for d in outer]), strict=True):
            index[d] = place

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._windows(index, [d for d in range(len(sizes)) if d not in self.free])
            return ()

        nest.loop(unit, body, begin=begin, end=end, name="own")
        finish(nest)
        work = self.source.shape.num_elements * math.prod(w.size for w in self.window)
        return Kernel(self.function, units, work * NS_PER_ELEMENT, "select-and-scatter", 0, work)

    def _windows(self, index: list[AffineExpr], remaining: Sequence[int]) -> Sequence[Value]:
        nest, sizes = self.nest, self.source.shape.dimensions
        if remaining:
            position = nest.new_variable(sizes[remaining[0]])
            inner = list(index)
            inner[remaining[0]] = dim(position)
            return nest.scalar_loop(position, lambda _: self._windows(inner, remaining[1:]))
        if self.lanes is None:
            self._window(tuple(index))
            return ()
        position = nest.new_variable(sizes[self.lanes])
        index = list(index)
        index[self.lanes] = dim(position)
        width = lanes_for(nest.target, [self.kind])

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._window(tuple(index))
            return ()

        return nest.vector_loop(position, width, body)

    def _window(self, index: Index) -> None:
        """Finds the window's element and combines the source value there."""
        self._combine(index, self.selection.chosen(index))

    def _combine(self, index: Index, place: Value) -> None:
        nest, memory = self.nest, self.fused.memory
        builder = nest.builder
        found = builder.icmp_signed(">=", place, const_int(place.type, 0))
        position = nest.new_variable(max(2, self.flat.shape.num_elements))
        safe = builder.select(found, place, const_int(place.type, 0))
        depth = nest.level.depth
        if place.type.is_vector:
            nest.bind_lanes(position, safe, depth)
            guard = Guard(None, found, depth)
        else:
            nest.bind(position, safe, depth)
            guard = Guard(found, None, depth)
        source, _ = self.fused.element(self.source, index)
        old = memory.load(self.flat, (dim(position),), guard if place.type.is_vector else here(nest))
        arguments = same_width(builder, [old, source])
        new = self.nested.inline(builder, self.scatter, arguments)[0]
        memory.store(self.flat, (dim(position),), new, guard)
