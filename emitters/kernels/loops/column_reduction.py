"""Reductions that keep the minor dimensions: sums of columns.

A strip of columns has its accumulators in a row on the stack, which stays in the first-level cache. All reduced rows of
the strip go past it in memory order, a few at a time, so every operand is read along its rows. The rows of a column are
combined one after the other: any reducer will do, and neither strips nor threads show in the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access_analysis import apply_map
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.iteration_space import IterationSpace
from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.loops.loop import LoopKernel
from xjit.emitters.kernels.loops.loop_plan import Part, same_dimensions
from xjit.emitters.nested import IrEmitterNested
from xjit.emitters.reduction_loops import round_promoted
from xjit.emitters.stack_row import StackRow
from xjit.emitters.variables import factor_of
from xjit.llvm.types import FLOAT
from xjit.llvm.values import Value

STRIP_VECTORS = 128  # accumulators of a strip: 2048 floats where a vector has 16, a quarter of a usual L1
MIN_STRIP_VECTORS = 16  # shorter strips stride through memory
WANTED_UNITS = 8  # strips are cut shorter where there would be less parallel work
MIN_ROWS = 16  # fewer rows keep their accumulators in registers
MAX_ROWS_AT_A_TIME = 8
MAX_BODY = 32  # operations of all the rows that go past at a time


def applies(view: KernelView) -> bool:
    """Whether a view is one reduction with enough rows; what its accesses are is found out by the kernel."""
    if len(view.roots) != 1 or view.hero.opcode != "reduce" or not same_dimensions(view.result_shapes):
        return False
    dimensions = view.hero.operand(0).shape.dimensions
    return math.prod(dimensions[d] for d in view.hero.dimensions) >= MIN_ROWS


def emit_column_reduction(context: KernelContext, view: KernelView) -> Kernel:
    """Emits the kernel of a view for which `applies` holds: strips of columns, plain loops for all else."""
    return ColumnReductionKernel(context, view).emit()


RowsBody = Callable[[Sequence[Sequence[AffineExpr]]], None]
"""Emits the work on some rows, given by the values of the reduced dimensions."""


class StripPart(Part):
    """A part whose innermost loop is a strip of columns."""


class ColumnReductionKernel(LoopKernel):
    """State while one kernel is emitted."""

    def __init__(self, context: KernelContext, view: KernelView) -> None:
        super().__init__(context, view)
        self.reduce = view.hero
        self.inputs = self.reduce.operand_count // 2
        self.operand = self.fused.maps.of(self.reduce)[0][0]
        self.combiner = IrEmitterNested(promote=True)

    # -- planning

    def _parts(self, space: IterationSpace) -> list[Part]:
        width = self._vector_width(space)
        if not width or not self._keeps_minor(space, width):
            return super()._parts(space)
        self.kind = "column-reduction"
        columns = space.loops[-1]
        length = self._strip_length(space)
        parts: list[Part] = []
        for piece in space.peel(columns, length) if space.size(columns) > length else [space]:
            own = piece.loops[-1]
            if piece.size(own) < width:
                parts += super()._parts(self._drop_single_trips(piece))
                continue
            if piece.size(own) > length:
                piece = piece.split(own, length)
            piece = self._merge_outer(piece, 1)
            self._count(piece, self._accesses(piece))
            units = piece.size(piece.loops[0]) if len(piece.loops) > 1 else 1
            parts.append(StripPart(piece, width, units))
        return parts

    def _keeps_minor(self, space: IterationSpace, width: int) -> bool:
        """Whether the innermost loop walks along most operands, and is worth a strip."""
        innermost = space.loops[-1]
        offsets = [o for a in self._accesses(space) for o in a.offsets if o.uses_dim(innermost)]
        along = sum(1 for o in offsets if factor_of(o, innermost) == 1)
        return space.size(innermost) >= width and 2 * along > len(offsets)

    def _strip_length(self, space: IterationSpace) -> int:
        """Columns of a strip: as many as L1 holds, less if there would be too few strips."""
        vector = self.nest.target.vector_width(FLOAT)
        others = math.prod(space.size(p) for p in space.loops[:-1])
        vectors = -(-space.size(space.loops[-1]) // vector)
        wanted = -(-vectors * others // WANTED_UNITS)
        longest = max(min(STRIP_VECTORS // self.inputs, wanted), MIN_STRIP_VECTORS)
        strips = -(-vectors // longest)
        return vector * -(-vectors // strips)

    def _rows_at_a_time(self) -> int:
        work = sum(1 for i in self.view.instructions() if i not in self.view.leaves)
        rows = MAX_ROWS_AT_A_TIME
        while rows > 1 and rows * work > MAX_BODY:
            rows //= 2
        return rows

    # -- emission

    def _emit_part(self, part: Part, begin: Value, end: Value) -> None:
        space = part.space
        if not isinstance(part, StripPart):
            super()._emit_part(part, begin, end)
        elif len(space.loops) == 1:
            self._emit_strip(space, part.width)
        else:
            self._parallel_loop(space.loops[0], begin, end, lambda: self._loops_around(space, 1, part.width))

    def _loops_around(self, space: IterationSpace, at_loop: int, width: int) -> None:
        if at_loop == len(space.loops) - 1:
            self._emit_strip(space, width)
            return

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._loops_around(space, at_loop + 1, width)
            return ()

        self.nest.scalar_loop(space.loops[at_loop], body)

    def _emit_strip(self, space: IterationSpace, width: int) -> None:
        """Sets the accumulators to the initial values, combines all rows into them, and stores them."""
        nest, fused, columns = self.nest, self.fused, space.loops[-1]
        inits = [fused.element(o, ()) for o in self.reduce.operands[self.inputs :]]
        rows = [StackRow.like(nest.builder, value, space.size(columns)) for value, _ in inits]
        place = dim(columns) - nest.intervals[columns].lower

        def start(_: Sequence[Value]) -> Sequence[Value]:
            for row, init in zip(rows, inits, strict=True):
                row.store(nest.builder, nest.index_value(place), fused.splat(init, width))
            return ()

        def finish(_: Sequence[Value]) -> Sequence[Value]:
            totals = [row.load(nest.builder, nest.index_value(place), width) for row in rows]
            types = [o.shape.element_type for o in self.reduce.operands[: self.inputs]]
            for buffer, total in zip(self.results, round_promoted(nest.builder, types, totals), strict=True):
                fused.memory.store(buffer, space.index, total)
            return ()

        def combine(symbols: Sequence[Sequence[AffineExpr]]) -> None:
            def step(_: Sequence[Value]) -> Sequence[Value]:
                position = nest.index_value(place)
                totals = [row.load(nest.builder, position, width) for row in rows]
                for at in symbols:
                    totals = self._combine(space, at, totals, width)
                for row, total in zip(rows, totals, strict=True):
                    row.store(nest.builder, position, total)
                return ()

            nest.vector_loop(columns, width, step)

        nest.vector_loop(columns, width, start)
        self._loops_over_rows([v.bounds.upper + 1 for v in self.operand.indexing.range_vars], [], combine)
        nest.vector_loop(columns, width, finish)

    def _loops_over_rows(self, sizes: Sequence[int], outer: list[AffineExpr], combine: RowsBody) -> None:
        """Emits the loops over the reduced dimensions; the last one hands over a few rows at a time."""
        nest = self.nest
        if len(sizes) > 1:
            position = nest.new_variable(sizes[0])

            def body(_: Sequence[Value]) -> Sequence[Value]:
                self._loops_over_rows(sizes[1:], [*outer, dim(position)], combine)
                return ()

            nest.scalar_loop(position, body)
            return
        count = self._rows_at_a_time()
        block = nest.new_variable(sizes[0] // count)

        def rows(_: Sequence[Value]) -> Sequence[Value]:
            combine([[*outer, dim(block) * count + i] for i in range(count)])
            return ()

        nest.scalar_loop(block, rows)
        rest = range(sizes[0] - sizes[0] % count, sizes[0])
        if rest:
            combine([[*outer, constant(i)] for i in rest])

    def _combine(
        self, space: IterationSpace, symbols: Sequence[AffineExpr], totals: list[RegisterValue], width: int
    ) -> list[RegisterValue]:
        """Emits one more row's elements and combines them into the accumulators."""
        fused = self.fused
        place = apply_map(self.nest.table, self.operand, space.index, symbols)
        elements = [fused.element(o, place) for o in self.reduce.operands[: self.inputs]]
        values = [fused.splat(e, width) for e in elements]
        return list(self.combiner.inline(self.nest.builder, self.reduce.to_apply, [*totals, *values]))
