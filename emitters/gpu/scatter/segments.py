"""scatter on GPUs where the indices are sorted: rows with equal indices are neighbours, a segment.

Who has the first row of a segment combines all of it, and writes the result once: no atomic operations, and the same
bits every time. Long windows have a thread for each of their elements, which goes from row to row, in the order of the
rows. Short ones have a warp for 32 rows, whose lanes scan the segments that begin there in five shuffles, and follow
the last one to its end. Indices that are not sorted after all have segments that overwrite each other, inside of the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.elemental import RegisterValue, constant_register
from xjit.emitters.fused import select_register
from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.scatter.updates import Index, ScatterUpdates
from xjit.emitters.gpu.shuffles import combine_across, shuffle_from, shuffle_up
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.loops.hand_loops import bind_index
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested
from xjit.emitters.reductions.reduction_loops import flatten, round_promoted, unflatten
from xjit.llvm.element_types import PROMOTED
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import I1, I64
from xjit.llvm.values import Value, const_int
from xjit.ops.reducers import reduction_identity

NOWHERE, NO_ROW = -1, -2
"""The targets of a window that is not inside, and of a row that does not exist."""


def emit_sorted_scatter(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel that combines the updates into the results, which hold the operands already.

    Windows must be equal or apart, see `planners/gpu/scatter.py`.
    """
    rows = _Rows(ScatterUpdates(context, view))
    known = reduction_identity(view.hero.to_apply)
    if known is None or rows.updates.window_size >= WARP_SIZE:
        return [_by_threads(rows)]
    return [_WarpSegments(rows, known[1]).emit()]


class _Rows:
    """The rows of the updates, and where they go."""

    def __init__(self, updates: ScatterUpdates) -> None:
        self.updates = updates
        self.nest = updates.nest
        self.count = updates.num_rows

    def target(self, row: Value) -> Value:
        """Emits a number that two rows share if they go to one place."""
        nest = self.nest

        def read(_: Sequence[Value]) -> Sequence[Value]:
            return [self._target(bind_index(nest, row, self.count))]

        exists = nest.builder.icmp_unsigned("<", row, const_int(I64, self.count))
        return nest.where(exists, read, [const_int(I64, NO_ROW)])[0]

    def _target(self, row: AffineExpr) -> Value:
        updates, builder = self.updates, self.nest.builder
        index = updates.index(row, constant(0))
        starts, inside = updates.starts(index)
        number = const_int(I64, 0)
        for d, size in enumerate(updates.scatter.operand(0).shape.dimensions):
            batch = updates.dimensions.batches[d]
            if d in starts or batch is not None:
                step = starts[d] if batch is None else self.nest.index_value(index[batch])
                number = builder.add(builder.mul(number, const_int(I64, size)), step)
        return builder.select(inside, number, const_int(I64, NOWHERE))

    def combine_into(self, index: Index, value: Callable[[list[RegisterValue]], Sequence[RegisterValue]]) -> None:
        """Emits the change of the results where a row goes: what `value` makes of what is there."""
        starts, _ = self.updates.starts(index)
        place = self.updates.place(starts, index)
        self.updates.store(place, value(self.updates.load(place)))


def _by_threads(rows: _Rows) -> Kernel:
    """A thread for each element of a segment's window."""
    nest, updates, combiner = rows.nest, rows.updates, IrEmitterNested()
    number, count = updates.thread(), updates.shape.num_elements

    def element(_: Sequence[Value]) -> Sequence[Value]:
        own = bind_index(nest, number, count)
        row, element = own.floordiv(updates.window_size), own.mod(updates.window_size)
        first = nest.index_value(nest.simplify(row))
        target, before = rows.target(first), rows.target(nest.builder.sub(first, const_int(I64, 1)))

        def segment(_: Sequence[Value]) -> Sequence[Value]:
            now = nest.new_variable(rows.count)

            def combined(old: list[RegisterValue]) -> Sequence[RegisterValue]:
                def step(values: Sequence[Value]) -> Sequence[Value]:
                    more = updates.updates(updates.index(dim(now), element))
                    arguments = [*unflatten(values, old), *more]
                    return flatten(combiner.inline(nest.builder, updates.scatter.to_apply, arguments))

                def more(following: Value) -> Value:
                    return nest.builder.icmp_signed("==", rows.target(following), target)

                end = const_int(I64, rows.count)
                return unflatten(nest.loop(now, step, flatten(old), first, end, name="row", more=more), old)

            rows.combine_into(updates.index(row, element), combined)
            return ()

        nest.where(_both(nest, nest.builder.icmp_signed("!=", target, before), _is_inside(nest, target)), segment)
        return ()

    nest.where(nest.builder.icmp_signed("<", number, const_int(I64, count)), element)
    return updates.finished(count)


class _WarpSegments:
    """A warp for the segments that begin in 32 rows, and one element of their windows."""

    def __init__(self, rows: _Rows, identity: object) -> None:
        self._rows = rows
        self._nest = rows.nest
        self._updates = rows.updates
        self._combiner = IrEmitterNested(promote=True)
        kind = rows.updates.kind
        self._neutral = constant_register(PROMOTED.get(kind, kind), identity)
        self._groups = -(-rows.count // WARP_SIZE)
        self._thread = rows.updates.thread()
        self._lane = self._nest.builder.and_(self._thread, const_int(I64, WARP_SIZE - 1))
        self._element = self._nest.new_variable(rows.updates.window_size)

    def emit(self) -> Kernel:
        """Returns the kernel."""
        nest, window = self._nest, self._updates.window_size
        warp = nest.builder.lshr(self._thread, const_int(I64, WARP_SIZE.bit_length() - 1))
        warps = self._groups * window

        def group(_: Sequence[Value]) -> Sequence[Value]:
            own = bind_index(nest, warp, warps)
            element = nest.index_value(nest.simplify(own.mod(window)))
            nest.bind(self._element, element, nest.level.depth)
            self._segments(nest.index_value(nest.simplify(own.floordiv(window))))
            return ()

        nest.where(nest.builder.icmp_signed("<", warp, const_int(I64, warps)), group)
        return self._updates.finished(warps * WARP_SIZE)

    def _segments(self, group: Value) -> None:
        nest, builder = self._nest, self._nest.builder
        row = self._row(group)
        target = self._rows.target(row)
        before = self._rows.target(nest.builder.sub(row, const_int(I64, 1)))
        after = self._rows.target(nest.builder.add(row, const_int(I64, 1)))
        is_first = builder.icmp_signed("!=", target, before)
        value, is_own = self._scanned(self._update(row, _is_inside(nest, target)), is_first)
        is_own = _both(nest, is_own, _is_inside(nest, target))
        is_last = builder.icmp_signed("!=", target, after)
        self._combine(_both(nest, is_own, is_last), row, value)
        last = WARP_SIZE - 1
        goes_on = _both(nest, is_own, builder.icmp_signed("==", target, after))
        follows = shuffle_from(builder, goes_on, last)
        target = shuffle_from(builder, target, last)
        carried = [shuffle_from(builder, part, last) for part in flatten([value])]

        def follow(_: Sequence[Value]) -> Sequence[Value]:
            total = self._to_the_end(group, target, carried)
            is_owner = nest.builder.icmp_signed("==", self._lane, const_int(I64, last))
            self._combine(is_owner, row, unflatten(total, [value])[0])
            return ()

        nest.where(follows, follow)

    def _to_the_end(self, group: Value, target: Value, carried: Sequence[Value]) -> list[Value]:
        """Emits the fold of a segment that goes on behind a group: each step takes 32 rows."""
        nest = self._nest
        now = nest.new_variable(self._groups)

        def step(values: Sequence[Value]) -> Sequence[Value]:
            row = self._row(nest.index_value(dim(now)))
            is_own = nest.builder.icmp_signed("==", self._rows.target(row), target)
            found = combine_across(nest.builder, [self._update(row, is_own)], self._combined_pairs)
            return flatten(self._combined_pairs(unflatten(values, found), found))

        def more(following: Value) -> Value:
            first = nest.builder.mul(following, const_int(I64, WARP_SIZE), nsw=True)
            return nest.builder.icmp_signed("==", self._rows.target(first), target)

        begin = nest.builder.add(group, const_int(I64, 1), nsw=True)
        return nest.loop(now, step, carried, begin, const_int(I64, self._groups), name="group", more=more)

    def _row(self, group: Value) -> Value:
        """Emits the number of the lane's row of a group."""
        return self._nest.builder.add(
            self._nest.builder.mul(group, const_int(I64, WARP_SIZE), nsw=True), self._lane, nsw=True
        )

    def _update(self, row: Value, is_wanted: Value) -> RegisterValue:
        """Emits the element of a row, or the identity."""
        nest, updates = self._nest, self._updates

        def read(_: Sequence[Value]) -> Sequence[Value]:
            return flatten(updates.updates(updates.index(bind_index(nest, row, self._rows.count), dim(self._element))))

        return unflatten(nest.where(is_wanted, read, flatten([self._neutral])), [self._neutral])[0]

    def _combine(self, is_wanted: Value, row: Value, value: RegisterValue) -> None:
        """Combines what a segment has with what is in the result."""
        nest, updates = self._nest, self._updates

        def change(old: list[RegisterValue]) -> Sequence[RegisterValue]:
            return round_promoted(nest.builder, [updates.kind], self._combined_pairs(old, [value]))

        def combine(_: Sequence[Value]) -> Sequence[Value]:
            self._rows.combine_into(updates.index(bind_index(nest, row, self._rows.count), dim(self._element)), change)
            return ()

        nest.where(is_wanted, combine)

    def _scanned(self, value: RegisterValue, is_first: Value) -> tuple[RegisterValue, Value]:
        """Combines the value of each lane with those of its segment in the lanes below.

        Also returns whether the segment begins in one of these lanes.
        """
        builder, distance = self._nest.builder, 1
        begins = is_first
        while distance < WARP_SIZE:
            below = unflatten([shuffle_up(builder, part, distance) for part in flatten([value])], [value])
            below_begins = shuffle_up(builder, begins, distance)
            there = builder.icmp_signed(">=", self._lane, const_int(I64, distance))
            joins = builder.select(begins, const_int(I1, 0), there)
            value = select_register(builder, joins, self._combined_pairs(below, [value])[0], value)
            begins = builder.or_(begins, builder.and_(there, below_begins))
            distance *= 2
        return value, begins

    def _combined_pairs(self, a: Sequence[RegisterValue], b: Sequence[RegisterValue]) -> list[RegisterValue]:
        return list(self._combiner.inline(self._nest.builder, self._updates.scatter.to_apply, [*a, *b]))


def _both(nest: LoopNest, a: Value, b: Value) -> Value:
    return nest.builder.and_(a, b)


def _is_inside(nest: LoopNest, target: Value) -> Value:
    return nest.builder.icmp_signed(">=", target, const_int(I64, 0))
