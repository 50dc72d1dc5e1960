"""scatter: updates are combined into the operand one window after the other, in row-major order of the indices.

That order makes results deterministic. Parallel work is split by destination: along a window dimension (or a batching
dimension) that no index moves, so every task sees all indices but writes a part of the operand that is its own.
Within a window the innermost dimension is vectorised: its elements have distinct destinations. Where indices move the
innermost dimension of the operand, as in a scatter to columns, its rows are such parts, and updates are read by rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.affine import AffineExpr, constant, dim, substitute
from xjit.emitters.access.guards import EVERYWHERE
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index, here, index_to_i64, scope, structured
from xjit.emitters.kernels.view import KernelView, lanes_for
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested, same_width
from xjit.emitters.planners.cpu.scatter import ScatterDimensions
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I1, I64
from xjit.llvm.values import Value, const_int
from xjit.ops.reducers import single_operation

NS_PER_ELEMENT = 0.5
LANES = 16  # of the pieces into which the only dimension that can be split is cut: whole vectors
PIECES = (4, 8, 5, 6, 7, 3, 2)
"""How many pieces these are, the best number first. More cost more: every piece goes through all indices, and through
as many pages of memory as there are rows.
"""
MIN_BY_ROWS = 32
"""Of fewer rows or indices, windows that are columns of the result are combined one by one."""
STEPS_AHEAD = 12
"""How many windows before it is combined a destination is fetched: it may be anywhere in memory."""
FETCHED_BYTES = 1 << 18  # results that are smaller stay in the second-level cache
LINE_BYTES, MAX_LINES = 64, 8
MIN_FETCHED_LINE = 32  # bytes of a window: of fewer, so many are under way that the CPU waits for none of them
UNROLLED = 4  # windows of one element in a step of the loop
SETTLED = 16
"""Of so many updates for each element, few are larger than all before: a maximum is written only where it grows."""

Index = tuple[AffineExpr, ...]
_WORSE = {"maximum": "<", "minimum": ">"}


def emit_scatter(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel that combines the updates into the results, which hold the operands already."""
    return [_ScatterKernel(context, view, ScatterDimensions.of(view.hero)).emit()]


class _ScatterKernel:
    """Loops over [own part of the destination] x [index vectors, in order] x [window]."""

    def __init__(self, context: KernelContext, view: KernelView, dimensions: ScatterDimensions) -> None:
        self.context = context
        self.scatter = view.hero
        self.dimensions = dimensions
        self.count = self.scatter.operand_count // 2
        self.indices = self.scatter.operand(self.count)
        self.update_sizes = self.scatter.operand(self.count + 1).shape.dimensions
        self.function, leaves, self.results = context.new_kernel(view, ".update")
        self.nest = LoopNest(context.module, self.function, context.target)
        self.fused = FusedIrEmitter(self.nest, leaves, context.maps)
        self.combiner = IrEmitterNested()
        self.index: list[AffineExpr] = [constant(0)] * len(self.update_sizes)
        self.by_rows = self._scatters_to_columns()

    def emit(self) -> Kernel:
        nest = self.nest
        owner, chunk = self._choose_owner()
        units = 1
        if owner is None:
            self._scatter_loops(None)
        else:
            size = self.update_sizes[owner]
            units = size // chunk
            begin, end = self.context.unit_range(nest, units)
            outer = nest.new_variable(units)
            inner = nest.new_variable(chunk)
            self.index[owner] = dim(outer) * chunk + dim(inner) if chunk > 1 else dim(outer)

            def body(_: Sequence[Value]) -> Sequence[Value]:
                self._scatter_loops(inner if chunk > 1 else None, owner)
                return ()

            nest.loop(outer, body, begin=begin, end=end, name="own")
        finish(nest)
        elements = self.scatter.operand(self.count + 1).shape.num_elements * self.count
        return Kernel(self.function, units, elements * NS_PER_ELEMENT, "scatter", 0, elements)

    def _choose_owner(self) -> tuple[int | None, int]:
        """The update dimension to split, and into pieces of what size. The innermost one is cut into whole vectors."""
        candidates = [u for u in self.dimensions.owners() if self.update_sizes[u] > 1]
        innermost = self._innermost_window()
        outer = [u for u in candidates if u != innermost]
        if outer:
            return max(outer, key=lambda u: self.update_sizes[u]), 1
        if innermost in candidates:
            size = self.update_sizes[innermost]
            whole = [n for n in PIECES if size % (n * LANES) == 0]
            wide = [n for n in whole if size >= 2 * n * LANES]  # of a cache line alone only if it must be
            pieces = [*wide, *reversed(whole)]
            return (innermost, size // pieces[0]) if pieces else (None, 1)
        return None, 1

    def _innermost_window(self) -> int:
        """The window dimension whose elements are nearest in the result, or -1; -1 `by_rows`, too."""
        return -1 if self.by_rows else self._nearest_window()

    def _nearest_window(self) -> int:
        for d in self.scatter.operand(0).shape.minor_to_major:
            window = self.dimensions.windows[d]
            if window is not None and self.update_sizes[window] > 1:
                return window
        return -1

    def _scatters_to_columns(self) -> bool:
        """Whether indices move the innermost dimension, and there are many of them and of rows: of both are updates and
        results read along rows then, and for few the rows of one index are combined side by side.
        """
        operand, nearest = self.scatter.operand(0).shape, self._nearest_window()
        neighbours = next((d for d in operand.minor_to_major if operand.dimensions[d] > 1), None)
        if neighbours is None or self.dimensions.windows[neighbours] == nearest:
            return False
        if nearest not in self.dimensions.owners():
            return False
        steps = math.prod(self.update_sizes[d] for d in self.dimensions.scatter_dims)
        return min(steps, self.update_sizes[nearest]) >= MIN_BY_ROWS

    def _scatter_loops(self, piece: int | None, owner: int | None = None) -> None:
        """The loops over the index vectors; `piece` is the part of the owner dimension that is left to loop over."""
        nest, free = self.nest, [d for d in self.dimensions.scatter_dims if d != owner]
        free = [*self._rows(owner), *free]

        if free and piece is None and self._window_elements(owner) == 1:
            last = free.pop()
            nest.loops([self._over(d) for d in free], lambda _: self._unrolled(last, owner))
            return

        def window(_: Sequence[Value]) -> Sequence[Value]:
            self._window(piece, owner)
            return ()

        nest.loops([self._over(d) for d in free], window)

    def _window_elements(self, owner: int | None) -> int:
        """How many elements are combined for an index, in a row of an owner."""
        return math.prod(self.update_sizes[d] for d in self._window_dimensions(owner))

    def _window_dimensions(self, owner: int | None) -> list[int]:
        """The dimensions of updates that are loops within those over indices, the owner's pieces aside."""
        around = {owner, *self.dimensions.scatter_dims, *self._rows(owner)}
        return [d for d in range(len(self.update_sizes)) if d not in around]

    def _unrolled(self, d: int, owner: int | None) -> Sequence[Value]:
        """The loop over dimension `d` of the indices, several windows per step, and what is left."""
        size, nest = self.update_sizes[d], self.nest
        group = nest.new_variable(size // UNROLLED)

        def windows(_: Sequence[Value]) -> Sequence[Value]:
            for number in range(UNROLLED):
                self.index[d] = dim(group) * UNROLLED + number
                self._window(None, owner)
            return ()

        nest.scalar_loop(group, windows)
        for number in range(size - size % UNROLLED, size):
            self.index[d] = constant(number)
            self._window(None, owner)
        return ()

    def _rows(self, owner: int | None) -> list[int]:
        """The window dimensions, the owner aside, that are loops around those over indices."""
        others = {owner, *self.dimensions.scatter_dims}
        return [d for d in self.dimensions.owners() if d not in others] if self.by_rows else []

    def _over(self, d: int) -> int:
        """A new loop variable for dimension `d` of the updates."""
        position = self.nest.new_variable(self.update_sizes[d])
        self.index[d] = dim(position)
        return position

    def _window(self, piece: int | None, owner: int | None) -> None:
        """Reads the index vector; if the whole window is inside, combines it."""
        nest = self.nest
        with structured(nest) as builder, scope(nest, builder):
            self._fetch_ahead(builder, piece, owner)
            starts, inside = self._starts(builder)
            with builder.when(inside), scope(nest, builder):
                bound = [
                    constant(0) if value is None else bind_index(nest, value, max(2, limit + 1))
                    for value, limit in zip(starts, self.dimensions.limits, strict=True)
                ]
                self._window_loops(bound, piece, owner)

    def _fetch_ahead(self, builder: StructuredBuilder, piece: int | None, owner: int | None) -> None:
        """Asks for the first lines of a window that is combined some steps later."""
        steps = [d for d in self.dimensions.scatter_dims if d != owner]
        parts = self.update_sizes[owner] if owner is not None and piece is None else 1
        if not steps or self.nest.target.gpu is not None or self.results[0].shape.byte_size < FETCHED_BYTES * parts:
            return
        elements, innermost = 1, self._innermost_window()
        if piece is not None or innermost >= 0:
            elements = self.nest.table.size(piece) if piece is not None else self.update_sizes[innermost]
        if elements * max(r.shape.element_type.byte_width for r in self.results) < MIN_FETCHED_LINE:
            return
        nest, kept, size = self.nest, list(self.index), self.update_sizes[steps[-1]]
        later = builder.add(nest.index_value(kept[steps[-1]]), const_int(I64, STEPS_AHEAD))
        self.index[steps[-1]] = bind_index(nest, _smaller(builder, later, size - 1), max(2, size))
        if owner is not None and piece is not None:
            self.index[owner] = substitute(kept[owner], {piece: constant(0)})
        starts, _ = self._starts(builder)
        bound = [
            constant(0) if value is None else bind_index(nest, _smaller(builder, value, limit), max(2, limit + 1))
            for value, limit in zip(starts, self.dimensions.limits, strict=True)
        ]
        place = self._destination(bound, tuple(self.index))
        for result in self.results:
            bytes_each = result.shape.element_type.byte_width
            offset = nest.index_value(physical_offset(nest.table, result.shape, place))
            first = builder.offset(result.pointer, builder.mul(offset, const_int(I64, bytes_each)))
            for line in range(min(MAX_LINES, -(-elements * bytes_each // LINE_BYTES))):
                builder.prefetch(builder.offset(first, const_int(I64, line * LINE_BYTES)), write=True)
        self.index = kept

    def _starts(self, builder: StructuredBuilder) -> tuple[list[Value | None], Value]:
        """The start of the window per operand dimension (None: 0), and whether the window is inside."""
        starts: list[Value | None] = []
        inside = const_int(I1, 1)
        for d, component in enumerate(self.dimensions.components):
            if component is None:
                starts.append(None)
                continue
            place = tuple(
                self.index[self.dimensions.index_of[k]] if k in self.dimensions.index_of else constant(component)
                for k in range(self.indices.shape.rank)
            )
            raw, _ = self.fused.element(self.indices, place, EVERYWHERE)
            assert isinstance(raw, Value)
            value = index_to_i64(builder, raw, self.indices.shape.element_type)
            limit = const_int(I64, self.dimensions.limits[d])
            inside = builder.and_(inside, builder.icmp_unsigned("<=", value, limit))
            starts.append(value)
        return starts, inside

    def _window_loops(self, starts: Sequence[AffineExpr], piece: int | None, owner: int | None) -> None:
        nest = self.nest
        innermost = self._innermost_window()
        windows = sorted(self._window_dimensions(owner), key=lambda d: d == innermost)
        width = lanes_for(nest.target, [r.shape.element_type for r in self.results])

        loops = [self._over(d) for d in windows]
        if piece is not None:
            loops.append(piece)
            width = min(width, LANES)
        elif innermost not in windows:
            width = 0
        else:  # masked stores are not handed on to the loads of the next update of a row
            width = min(width, 1 << self.update_sizes[innermost].bit_length() - 1)
        nest.loops(loops, lambda _: self._combine(starts), vector_width=width)

    def _combine(self, starts: Sequence[AffineExpr]) -> Sequence[Value]:
        """Combines one element (or vector) of every update into its destination."""
        nest, memory = self.nest, self.fused.memory
        index = tuple(nest.simplify(e) for e in self.index)
        place = self._destination(starts, index)
        updates = [self.fused.element(u, index)[0] for u in self.scatter.operands[self.count + 1 :]]
        guard = here(nest) if nest.vector is None else EVERYWHERE
        old: list[RegisterValue] = [memory.load(r, place, guard) for r in self.results]
        with structured(nest) as builder, builder.when(self._may_change(builder, old, updates)), scope(nest, builder):
            arguments = same_width(nest.builder, [*old, *updates])
            new = self.combiner.inline(nest.builder, self.scatter.to_apply, arguments)
            for result, value in zip(self.results, new, strict=True):
                memory.store(result, place, value)
        return ()

    def _may_change(
        self, builder: StructuredBuilder, old: Sequence[RegisterValue], updates: Sequence[RegisterValue]
    ) -> Value:
        """Whether what is combined may differ from what is there. That is asked of a maximum or minimum of many."""
        always, kind = const_int(I1, 1), self.results[0].shape.element_type
        opcode = single_operation(self.scatter.to_apply) if self.count == 1 else None
        elements = [self.scatter.operand(i).shape.num_elements for i in (0, self.count + 1)]
        if self.nest.vector is not None or opcode not in _WORSE or elements[1] < SETTLED * elements[0]:
            return always
        if kind.is_complex or (kind.is_float and kind.bit_width < 32):
            return always
        update, there, sign = updates[0], old[0], _WORSE[opcode]
        assert isinstance(update, Value) and isinstance(there, Value)
        if kind.is_float:
            return builder.not_(builder.fcmp_ordered(sign, update, there))  # never holds for a NaN, or for two zeros
        compare = builder.icmp_signed if kind.is_signed else builder.icmp_unsigned
        return builder.not_(compare(sign, update, there))

    def _destination(self, starts: Sequence[AffineExpr], index: Index) -> Index:
        """The operand index of an update element: start plus window element, or the batch."""
        place: list[AffineExpr] = []
        for d, start in enumerate(starts):
            window, batch = self.dimensions.windows[d], self.dimensions.batches[d]
            moving = window if window is not None else batch
            place.append(start + (index[moving] if moving is not None else 0))
        return tuple(self.nest.simplify(e) for e in place)


def _smaller(builder: StructuredBuilder, value: Value, limit: int) -> Value:
    """Returns a number, or the limit for one that is negative or larger."""
    return builder.intrinsic("umin", I64, (value, const_int(I64, limit)))
