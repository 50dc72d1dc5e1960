"""select-and-scatter (the gradient of pooling): each window picks one element, and its source value is combined there.

Windows go in row-major order, which makes results deterministic. Dimensions without a window separate the work: those
are the parallel range, and the innermost one is the lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.affine import AffineExpr, Interval, constant, dim
from xjit.emitters.access_analysis import Index
from xjit.emitters.elemental import RegisterValue, constant_register
from xjit.emitters.fused import FusedIrEmitter, select_register
from xjit.emitters.iteration_space import unit_index
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish
from xjit.emitters.kernels.loops.hand_loops import here
from xjit.emitters.kernels.view import KernelView, lanes_for
from xjit.emitters.loop_nest import LoopNest
from xjit.emitters.memory import EVERYWHERE, Buffer, Guard, restrict
from xjit.emitters.nested import IrEmitterNested, same_width, splat_register
from xjit.emitters.physical_offsets import physical_offset
from xjit.emitters.reduction_loops import flatten, unflatten
from xjit.hlo import attributes as at
from xjit.hlo.types.shape import Shape
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int
from xjit.ops.indexing.reductions import window_access

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
        self.select, self.scatter = self.hero.called_computations
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
        nest = self.nest
        width = nest.vector.width if nest.vector is not None else 0
        none = const_int(I64, -1)
        best = splat_register(nest.builder, constant_register(self.kind, 0), width)
        start = [*flatten([best]), nest.builder.splat(none, width) if width else none]
        *_, place = self._taps(index, [d for d in range(len(index)) if d not in self.free], {}, start, best)
        self._combine(index, place)

    def _taps(
        self,
        index: Index,
        remaining: Sequence[int],
        taps: dict[int, AffineExpr],
        state: Sequence[Value],
        like: RegisterValue,
    ) -> Sequence[Value]:
        """The loops over the elements of a window; the state is (chosen value, its place or -1)."""
        if not remaining:
            return self._tap(index, taps, state, like)
        d = remaining[0]
        position = self.nest.new_variable(self.window[d].size)
        return self.nest.scalar_loop(
            position, lambda now: self._taps(index, remaining[1:], {**taps, d: dim(position)}, now, like), state
        )

    def _tap(
        self, index: Index, taps: dict[int, AffineExpr], state: Sequence[Value], like: RegisterValue
    ) -> Sequence[Value]:
        nest = self.nest
        place = list(index)
        conditions: list[tuple[AffineExpr, Interval]] = []
        for d, tap in taps.items():
            place[d], inside = window_access(self.window[d], self.operand.shape.dimensions[d], index[d], tap)
            conditions += inside
        guard = restrict(nest, EVERYWHERE, conditions)
        if guard is None:
            return state
        value, _ = self.fused.element(self.operand, tuple(nest.simplify(e) for e in place), guard)
        builder = nest.builder
        best, old = unflatten(state[:-1], [like])[0], state[-1]
        offset = physical_offset(nest.table, self.result.shape, place)
        where = self._offset_value(offset, old)
        best, value = same_width(builder, [best, value])
        keep = self.nested.inline(builder, self.select, [best, value])[0]
        assert isinstance(keep, Value)
        keep = keep if keep.type.is_vector or not old.type.is_vector else builder.splat(keep, old.type.width)
        nothing = builder.icmp_signed("<", old, const_int(old.type, 0))
        take = builder.or_(nothing, builder.not_(keep))
        if guard.scalar is not None:
            test = builder.splat(guard.scalar, old.type.width) if old.type.is_vector else guard.scalar
            take = builder.and_(take, test)
        chosen = select_register(builder, take, value, best)
        return [*flatten([chosen]), builder.select(take, where, old)]

    def _offset_value(self, offset: AffineExpr, like: Value) -> Value:
        """The physical offset of a candidate, for all lanes."""
        nest, builder = self.nest, self.nest.builder
        if not like.type.is_vector:
            return nest.index_value(offset)
        if not nest.uses_vector(offset):
            return builder.splat(nest.index_value(offset), like.type.width)
        lanes = nest.lane_values(offset)
        return lanes if lanes.type.elem is I64 else builder.sext(lanes, I64)

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
