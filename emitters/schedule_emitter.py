"""Emits schedules: walks the statements over a loop nest and asks FusedIrEmitter for elements.

The function does the units begin .. end - 1 of its work: steps of the TASK loops, part after part. There is one emitter
for all schedules; what differs between kernels is in the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from xjit.emitters.accumulators import AccumulatorTiles
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish, range_arguments
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loop_levels import TransposeTile
from xjit.emitters.loop_nest import LoopNest
from xjit.emitters.memory import Buffer
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import (
    Combine,
    Init,
    Let,
    Loop,
    Part,
    Reduce,
    Rescale,
    Role,
    Stage,
    Statement,
    Store,
    Tile,
    reductions_of,
    statements_of,
)
from xjit.emitters.variables import VariableTable
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int


def emit_schedule(context: KernelContext, view: KernelView, schedule: Schedule) -> Kernel:
    """Emits the function of a schedule of the view and returns the kernel."""
    function, leaves, results = context.new_kernel(view, schedule.suffix)
    nest = LoopNest(context.module, function, context.target, table=VariableTable(schedule.variables))
    fused = FusedIrEmitter(nest, leaves, context.maps)
    emitter = _ScheduleEmitter(schedule, view, fused, results)
    emitter.emit(*range_arguments(function))
    finish(nest)
    cost = schedule.cost
    return Kernel(
        function,
        schedule.units,
        cost.ns,
        schedule.kind,
        cost.byte_count,
        cost.operations,
        cost.repeats_work,
        schedule=schedule,
        skip_if_same=_copied_pair(view, schedule),
    )


def _copied_pair(view: KernelView, schedule: Schedule) -> tuple[int, int] | None:
    """Returns the (operand, result) of a schedule that only copies one to the other, if they may be one buffer."""
    stores = [s for part in schedule.parts for s in statements_of(part.body) if isinstance(s, Store)]
    for operand, result in view.may_share:
        leaf = view.leaves[operand].name
        if all((s.instruction, s.result) == (leaf, result) and s.index == s.place for s in stores):
            return operand, result
    return None


class _ScheduleEmitter:
    """State while one schedule is emitted."""

    def __init__(
        self,
        schedule: Schedule,
        view: KernelView,
        fused: FusedIrEmitter,
        results: Sequence[Buffer],
    ) -> None:
        self._schedule = schedule
        self._view = view
        self._nest = fused.nest
        self._fused = fused
        self._results = results
        self._instructions: Mapping[str, HloInstruction] = {i.name: i for i in (*view.leaves, *view.instructions())}
        self._tiles: Mapping[str, Tile] = {}
        self._accumulators = AccumulatorTiles(fused)
        self._range: tuple[Value, Value] | None = None

    def emit(self, begin: Value, end: Value) -> None:
        """Emits the parts for the units begin .. end - 1."""
        for let in self._schedule.lets:
            self._let(let)
        parts, base = self._schedule.parts, 0
        for part in parts:
            units = self._schedule.units_of(part)
            if len(parts) == 1:
                self._part(part, begin, end)
            else:
                self._clipped(part, base, units, begin, end)
            base += units

    def _clipped(self, part: Part, base: int, units: int, begin: Value, end: Value) -> None:
        """Emits a part for the units of [begin, end) that fall into it."""
        builder = self._nest.builder
        zero, count = const_int(I64, 0), const_int(I64, units)
        low = builder.sub(begin, const_int(I64, base))
        low = builder.select(builder.icmp_signed("<", low, zero), zero, low)
        high = builder.sub(end, const_int(I64, base))
        high = builder.select(builder.icmp_signed(">", high, count), count, high)
        run, skip = builder.append_block("part"), builder.append_block("next")
        builder.cbranch(builder.icmp_signed("<", low, high), run, skip)
        builder.position_at_end(run)
        with self._nest.branch():
            self._part(part, low, high)
        self._nest.builder.br(skip)
        self._nest.builder.position_at_end(skip)

    def _part(self, part: Part, begin: Value, end: Value) -> None:
        instructions = self._instructions
        self._fused.planned = {(instructions[r.instruction], r.index): r for r in reductions_of(part.body)}
        self._tiles = {tile.instruction: tile for tile in part.tiles}
        self._range = (begin, end)
        self._body(part.body)

    def _body(self, body: Sequence[Statement]) -> None:
        for is_store, statements in groupby(body, lambda statement: isinstance(statement, Store)):
            if is_store:
                self._store([s for s in statements if isinstance(s, Store)])
                continue
            for statement in statements:
                self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Loop():
                self._loop(statement)
            case Let():
                self._let(statement)
            case Reduce():
                self._reduce(statement)
            case Init(name, index):
                self._accumulators.start(self._tiles[name], self._instructions[name], index)
            case Combine(reduction):
                self._accumulators.combine(reduction)
            case Rescale(name, by, computation):
                self._accumulators.rescale(name, by, self._computation(computation))
            case Stage(name, index):
                self._fused.stage(self._tiles[name], self._instructions[name], index)
            case Store():
                self._store([statement])

    # -- loops

    def _loop(self, loop: Loop) -> None:
        rule = _LOOPS.get(loop.role)
        if rule is None:
            raise Unsupported(f"a {loop.role.value} loop: no target has them yet")
        rule(self, loop)

    def _steps(self, loop: Loop) -> Callable[[Sequence[Value]], Sequence[Value]]:
        """The body of a loop as LoopNest wants it: from accumulators to accumulators."""

        def steps(values: Sequence[Value]) -> Sequence[Value]:
            with self._accumulators.step(loop.carries, values):
                self._body(loop.body)
                return self._accumulators.carried(loop.carries)

        return steps

    def _serial(self, loop: Loop) -> None:
        carried = self._accumulators.carried(loop.carries)
        if loop.lanes:
            values = self._nest.vector_loop(loop.variable, loop.lanes, self._steps(loop), carried)
        else:
            values = self._nest.scalar_loop(loop.variable, self._steps(loop), carried)
        self._accumulators.update(loop.carries, values)
        self._fused.rows.end_of_loop(loop.variable)

    def _unroll(self, loop: Loop) -> None:
        nest = self._nest
        depth, lanes = nest.level.depth, nest.vector
        bounds = nest.intervals[loop.variable]
        for step in range(bounds.upper - bounds.lower + 1):
            if loop.transposes is not None:
                assert lanes is not None and lanes.position == loop.transposes, "not inside of the loop it transposes"
                nest.tile = TransposeTile(loop.variable, lanes.width, depth, step)
            carried = self._accumulators.carried(loop.carries)
            value = const_int(I64, bounds.lower + step)
            values = nest.once(loop.variable, value, self._steps(loop), carried, None)
            self._accumulators.update(loop.carries, values)
        nest.tile = None

    def _task(self, loop: Loop) -> None:
        """Emits the loop over the units begin .. end - 1."""
        if loop.lanes:
            self._task_of_vectors(loop)
            return
        nest = self._nest
        assert self._range is not None
        begin, end = self._range
        lower = nest.intervals[loop.variable].lower
        if lower:
            begin = nest.builder.add(begin, const_int(I64, lower))
            end = nest.builder.add(end, const_int(I64, lower))
        nest.loop(loop.variable, self._steps(loop), begin=begin, end=end, name="p")

    def _task_of_vectors(self, loop: Loop) -> None:
        """One vector loop over everything: units are whole vectors, the last unit takes the tail along."""
        nest, width, position = self._nest, loop.lanes, loop.variable
        assert self._range is not None
        begin, end = self._range
        size, lower = self._schedule.size(position), nest.intervals[position].lower
        if size < width:
            nest.vector_loop(position, width, self._steps(loop))
            return
        builder = nest.builder
        scale, shift = const_int(I64, width), const_int(I64, lower)
        first = builder.add(builder.mul(begin, scale), shift)
        last = builder.add(builder.mul(end, scale), shift)
        nest.loop(position, self._steps(loop), begin=first, end=last, step=width, vector_width=width, name="v")
        if size % width:
            builder = nest.builder
            tail, done = builder.append_block("tail"), builder.append_block("done")
            builder.cbranch(builder.icmp_signed("==", end, const_int(I64, size // width)), tail, done)
            builder.position_at_end(tail)
            with nest.branch():
                nest.vector_tail(position, width, self._steps(loop), ())
            nest.builder.br(done)
            nest.builder.position_at_end(done)

    # -- values

    def _let(self, let: Let) -> None:
        self._fused.bind_element(let.variable, self._instructions[let.instruction], let.index)

    def _reduce(self, statement: Reduce) -> None:
        if not statement.where_needed:
            self._fused.reduction(self._instructions[statement.reduction.instruction], statement.reduction)

    def _computation(self, name: str) -> HloComputation:
        parent = self._view.instruction.parent
        module = parent.parent if parent is not None else None
        computation = module.get_computation_with_name(name) if module is not None else None
        assert computation is not None, f"no computation '{name}'"
        return computation

    def _store(self, stores: Sequence[Store]) -> None:
        """Stores elements. All are computed before: an operand that one of them overwrites may be read for another."""
        self._accumulators.publish()
        values = [self._fused.element(self._instructions[s.instruction], s.index, output=s.output)[0] for s in stores]
        for store, value in zip(stores, values, strict=True):
            self._fused.memory.store(self._results[store.result], store.place, value)


_LOOPS: Mapping[Role, Callable[[_ScheduleEmitter, Loop], None]] = {
    Role.TASK: _ScheduleEmitter._task,
    Role.SERIAL: _ScheduleEmitter._serial,
    Role.VECTOR: _ScheduleEmitter._serial,
    Role.UNROLL: _ScheduleEmitter._unroll,
}
