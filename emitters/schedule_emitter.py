"""Emits schedules: walks the statements over a loop nest and asks FusedIrEmitter for elements.

A call, or a block of threads, does some units of the work: steps of the TASK or BLOCK loops, part after part. There is
one emitter for all schedules; what differs between kernels is in the schedule, and between targets in `WorkSharing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby

from xjit.emitters.access.memory import Buffer
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_levels import TransposeTile
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.reductions.accumulators import AccumulatorTiles
from xjit.emitters.reductions.row_groups import emit_row_group
from xjit.emitters.reductions.softmax_accumulators import emit_normalize, emit_softmax_step
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import (
    Barrier,
    Bind,
    Clear,
    Combine,
    Complete,
    Contract,
    Fetch,
    Give,
    Init,
    Let,
    Loop,
    Normalize,
    OperandTile,
    Part,
    Reduce,
    ReduceRows,
    Rescale,
    Role,
    SoftmaxStep,
    Stage,
    StageOperand,
    StageSum,
    Statement,
    Store,
    Tile,
    reductions_of,
    statements_of,
)
from xjit.emitters.work_sharing import TaskSharing, WorkSharing
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int


def emit_schedule(context: KernelContext, view: KernelView, schedule: Schedule) -> Kernel:
    """Emits the function of a schedule of the view and returns the kernel."""
    function, leaves, results = context.new_kernel(view, schedule.suffix)
    nest = LoopNest(context.module, function, context.target, table=VariableTable(schedule.variables))
    fused = FusedIrEmitter(nest, leaves, context.maps)
    emit_statements(view, schedule, fused, results, TaskSharing(fused))
    finish(nest)
    return Kernel.of_schedule(function, schedule, _copied_pair(view, schedule))


def emit_statements(
    view: KernelView, schedule: Schedule, fused: FusedIrEmitter, results: Sequence[Buffer], sharing: WorkSharing
) -> None:
    """Emits all parts of a schedule into the open function of `fused.nest`."""
    _ScheduleEmitter(schedule, view, fused, results, sharing).emit(*sharing.units)


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
        sharing: WorkSharing,
    ) -> None:
        self._sharing = sharing
        self._schedule = schedule
        self._view = view
        self._nest = fused.nest
        self._fused = fused
        self._results = results
        self._instructions: Mapping[str, HloInstruction] = {i.name: i for i in (*view.leaves, *view.instructions())}
        self._tiles: Mapping[str, Tile] = {}
        self._operands: Mapping[tuple[str, int], OperandTile] = {}
        self._accumulators = AccumulatorTiles(fused)
        self._range: tuple[Value, Value] | None = None
        self._around: list[int] = []  # the variables of the open loops

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
        self._operands = {(tile.instruction, tile.operand): tile for tile in part.operands}
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
            case ReduceRows(reduction, variable):
                emit_row_group(self._fused, self._instructions[reduction.instruction], reduction, variable)
            case Fetch(name, index):
                self._fused.memory.fetch(self._fused.leaves[self._instructions[name]], index)
            case Init(name, index):
                self._accumulators.start(self._tiles[name], self._instructions[name], index)
            case Combine(reduction):
                self._accumulators.combine(reduction)
            case Rescale(name, by, computation):
                self._accumulators.rescale(name, by, self._computation(computation))
            case Stage(name, index):
                self._sharing.stage(self._tiles[name], self._instructions[name], index)
            case Barrier():
                self._sharing.barrier()
            case Store():
                self._store([statement])
            case Bind():
                self._sharing.bind(statement, lambda: self._body(statement.body))
            case StageOperand(name, operand):
                self._sharing.stage_operand(self._operands[name, operand], self._instructions[name], statement)
            case Clear(name):
                self._accumulators.clear(self._tiles[name], self._instructions[name])
            case Contract(name):
                sums = self._accumulators.registers(name)
                tiles = [self._operands[name, operand] for operand, _ in statement.rows]
                sums = self._sharing.contract(tiles, self._instructions[name], statement, sums)
                self._accumulators.set_registers(name, sums)
            case Give(name, index, source):
                self._accumulators.give(source or name, self._instructions[name], index)
            case Complete(name, source, index, outside):
                value, _ = self._fused.element(self._instructions[source], index)
                assert isinstance(value, Value)
                self._accumulators.set_registers(name, [self._sharing.where_inside(value, outside)])
            case SoftmaxStep():
                emit_softmax_step(self._nest.builder, self._accumulators, statement, self._sharing.combine_lanes)
            case Normalize():
                emit_normalize(self._nest.builder, self._accumulators, statement)
            case StageSum(name, operand, source):
                (value,) = self._accumulators.registers(source)
                assert isinstance(value, Value)
                self._sharing.stage_sum(self._operands[name, operand], statement, value)

    # -- loops

    def _loop(self, loop: Loop) -> None:
        match loop.role:
            case Role.SERIAL | Role.VECTOR:
                self._serial(loop)
            case Role.UNROLL:
                self._unroll(loop)
            case _:
                assert self._range is not None
                self._sharing.loop(loop, self._range, self._steps(loop))

    def _steps(self, loop: Loop) -> Callable[[Sequence[Value]], Sequence[Value]]:
        """The body of a loop as LoopNest wants it: from accumulators to accumulators."""

        def steps(values: Sequence[Value]) -> Sequence[Value]:
            self._around.append(loop.variable)
            with self._accumulators.step(loop.carries, values):
                self._body(loop.body)
                self._around.pop()
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
            self._accumulators.unrolled[loop.variable] = step
            values = nest.once(loop.variable, value, self._steps(loop), carried, None)
            self._accumulators.update(loop.carries, values)
        self._accumulators.unrolled.pop(loop.variable, None)
        nest.tile = None

    # -- values

    def _let(self, let: Let) -> None:
        self._fused.bind_element(let.variable, self._instructions[let.instruction], let.index)

    def _reduce(self, statement: Reduce) -> None:
        if statement.where_needed:
            return
        memory, fetching = self._fused.memory, statement.fetches_next and self._around
        with memory.fetching_next(self._around[-1]) if fetching else nullcontext():
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
        guard = self._sharing.store_guard()
        items = [(self._results[s.result], s.place, value) for s, value in zip(stores, values, strict=True)]
        self._fused.memory.store_all(items, guard)
