"""reduce-window whose window reaches from one end of a dimension to each element: cumulative sums, products, extrema.

Linear instead of quadratic work. Along contiguous memory a vector of elements is scanned in registers, in log2(W)
steps, and carries its last lane on; across it, each lane is a line of its own. Sums of floats carry what was rounded
off, too: a long line has the digits of a short one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.guards import EVERYWHERE
from xjit.emitters.elemental import RegisterValue, register_type
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish, range_arguments
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import unit_index
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested, same_width, splat_register
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.hlo import PrimitiveType
from xjit.hlo import attributes as at
from xjit.llvm.values import Value, zero
from xjit.ops.prefix_scan import prefix_dimension
from xjit.ops.reducers import reduction_identity, single_operation

NS_PER_ELEMENT = 0.6


def emit_prefix_scan(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a reduce-window that is a scan."""
    axis = prefix_dimension(view.hero)
    assert axis is not None, "only scans are planned as such"
    return [_PrefixScan(context, view, axis).emit()]


class _PrefixScan:
    """State while the kernel is emitted."""

    def __init__(self, context: KernelContext, view: KernelView, axis: int) -> None:
        self.hero = view.hero
        self.axis = axis
        window = self.hero.attributes_as(at.WindowAttributes).window.dimensions[axis]
        self.backwards = window.padding_high > 0
        self.function, leaves, results = context.new_kernel(view)
        self.result = results[0]
        self.nest = LoopNest(context.module, self.function, context.target)
        self.fused = FusedIrEmitter(self.nest, leaves, context.maps)
        self.kind = self.hero.shape.element_type
        self.width = context.target.vector_width(register_type(self.kind))
        shape = self.hero.shape
        self.sizes = shape.dimensions
        minor = next((d for d in shape.minor_to_major if self.sizes[d] > 1), axis)
        self.lanes = minor if minor != axis else None
        known = reduction_identity(self.hero.to_apply) is not None  # and may be regrouped
        self.combiner = IrEmitterNested(promote=known)  # what others compute is rounded at every step
        self.is_sum = single_operation(self.hero.to_apply) == "add" and self.kind.is_float
        in_lanes = self.kind in (PrimitiveType.F32, PrimitiveType.F64) or (known and not self.kind.is_complex)
        self.in_registers = minor == axis and in_lanes and self.width > 1

    def emit(self) -> Kernel:
        nest, sizes = self.nest, self.sizes
        outer = [d for d in range(len(sizes)) if d not in (self.axis, self.lanes)]
        units = math.prod(sizes[d] for d in outer)
        unit = nest.new_variable(units)
        index: list[AffineExpr] = [constant(0)] * len(sizes)
        for d, place in zip(outer, unit_index(nest.table, unit, [sizes[d] for d in outer]), strict=True):
            index[d] = place
        begin, end = range_arguments(self.function)
        nest.loop(unit, lambda _: self._lines(index), begin=begin, end=end, name="line")
        finish(nest)
        elements = self.hero.shape.num_elements
        traffic = 2 * self.hero.shape.byte_size
        operations = elements * (self.hero.to_apply.instruction_count - 2)  # without the parameters
        return Kernel(self.function, units, operations * NS_PER_ELEMENT, "scan", traffic, operations)

    def _lines(self, index: list[AffineExpr]) -> Sequence[Value]:
        if self.lanes is None:
            return self._line(index)
        position = self.nest.new_variable(self.sizes[self.lanes])
        index[self.lanes] = dim(position)
        return self.nest.vector_loop(position, self.width, lambda _: self._line(index))

    def _line(self, index: list[AffineExpr]) -> Sequence[Value]:
        """Scans along the axis, from the initial value on."""
        nest, size = self.nest, self.sizes[self.axis]
        position = nest.new_variable(size)
        along = constant(size - 1) - dim(position) if self.backwards else dim(position)
        place = tuple(along if d == self.axis else e for d, e in enumerate(index))
        init, _ = self.fused.element(self.hero.operand(1), ())
        width = nest.vector.width if nest.vector is not None else 0
        start = splat_register(nest.builder, init, width)
        carried = flatten([start])
        if self.is_sum:
            carried = [*carried, zero(carried[0].type)]
        if self.in_registers:
            nest.vector_loop(position, self.width, lambda now: self._block(place, now), carried)
        else:
            nest.scalar_loop(position, lambda now: self._element(place, now, start), carried)
        return ()

    def _combine(self, left: RegisterValue, right: RegisterValue) -> RegisterValue:
        builder = self.nest.builder
        return self.combiner.inline(builder, self.hero.to_apply, same_width(builder, [left, right]))[0]

    def _in_order(self, before: RegisterValue, value: RegisterValue) -> RegisterValue:
        return self._combine(value, before) if self.backwards else self._combine(before, value)

    def _with_lanes_before(self, value: Value, distance: int) -> Value:
        """Combines each lane with the one some lanes before it, if there is one."""
        builder, width = self.nest.builder, self.width
        lanes = range(width)
        shifted = builder.shuffle_vector(value, value, [max(lane - distance, 0) for lane in lanes])
        combined = splat_register(builder, self._in_order(shifted, value), width)
        assert isinstance(combined, Value)
        return builder.shuffle_vector(value, combined, [lane if lane < distance else lane + width for lane in lanes])

    def _element(self, place: Sequence[AffineExpr], now: Sequence[Value], like: RegisterValue) -> Sequence[Value]:
        value, _ = self.fused.element(self.hero.operand(0), tuple(place))
        if self.is_sum:
            assert isinstance(value, Value)
            width = self.nest.vector.width if self.nest.vector is not None else 0
            value = splat_register(self.nest.builder, value, width)
            assert isinstance(value, Value)
            carried = self._carried(now, value)
            self.fused.memory.store(self.result, place, self.nest.builder.fadd(carried[0], carried[1]))
            return carried
        before = unflatten(now, [like])[0]
        total = self._in_order(before, value)
        self.fused.memory.store(self.result, place, total)
        return flatten([total])

    def _carried(self, now: Sequence[Value], value: Value) -> list[Value]:
        """Adds to a sum and to what was rounded off of it: 0 where that is not finite."""
        builder = self.nest.builder
        before, rest = now
        total = builder.fadd(before, value)
        added = builder.fsub(total, before)
        lost = builder.fadd(builder.fsub(before, builder.fsub(total, added)), builder.fsub(value, added))
        is_number = builder.fcmp_ordered("==", lost, lost)
        return [total, builder.fadd(rest, builder.select(is_number, lost, zero(lost.type)))]

    def _block(self, place: Sequence[AffineExpr], now: Sequence[Value]) -> Sequence[Value]:
        """Scans one vector in registers and adds what came before."""
        builder, width = self.nest.builder, self.width
        value, _ = self.fused.element(self.hero.operand(0), tuple(place), EVERYWHERE)
        assert isinstance(value, Value)
        value = value if value.type.is_vector else builder.splat(value, width)
        distance = 1
        while distance < width:
            value = self._with_lanes_before(value, distance)
            distance *= 2
        if self.is_sum:
            last = builder.extract_element(value, width - 1)
            below = builder.fadd(builder.splat(now[1], width), value)
            self.fused.memory.store(self.result, place, builder.fadd(builder.splat(now[0], width), below))
            return self._carried(now, last)
        total = splat_register(builder, self._in_order(builder.splat(now[0], width), value), width)
        assert isinstance(total, Value)
        self.fused.memory.store(self.result, place, total)
        return [builder.extract_element(total, width - 1)]
