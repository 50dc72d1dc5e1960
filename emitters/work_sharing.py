"""How a kernel's work is shared out among those that run it: the part of a schedule that differs between targets.

A CPU's kernel is a function of the units begin .. end - 1; each of a GPU's blocks does one unit with its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from xjit.emitters.access.guards import EVERYWHERE, Guard
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.loops.loop_nest import LoopBody, LoopNest
from xjit.emitters.reductions.lane_combining import CombinePair, Values
from xjit.emitters.schedule.statements import (
    Bind,
    Contract,
    Index,
    Loop,
    OperandTile,
    Role,
    StageOperand,
    StageSum,
    Tile,
)
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

Units = tuple[Value, Value]
"""The first unit, and the first one after the last, as i64."""


class WorkSharing(Protocol):
    """What loops, stores and tiles mean for one who does a part of the work."""

    @property
    def units(self) -> Units:
        """The units that this call, or this block, does."""
        ...

    def loop(self, loop: Loop, units: Units, body: LoopBody) -> None:
        """Emits a loop whose steps are shared out; `units` are those of its part. Errors: Unsupported for its role."""
        ...

    def store_guard(self) -> Guard:
        """Returns who stores a value that several have computed."""
        ...

    def stage(self, tile: Tile, instruction: HloInstruction, index: Index) -> None:
        """Emits an element and writes it to its tile. Errors: Unsupported for a tile in such memory."""
        ...

    def barrier(self) -> None:
        """Waits until all threads of the block are here. Errors: Unsupported where there are none."""
        ...

    def bind(self, bind: Bind, body: Callable[[], None]) -> None:
        """Emits a body in which a variable has a value. Errors: Unsupported where there are no threads."""
        ...

    def stage_operand(self, tile: OperandTile, instruction: HloInstruction, stage: StageOperand) -> None:
        """Emits an element that an instruction multiplies and writes it to its tile. Errors: as of `bind`."""
        ...

    def contract(
        self,
        tiles: Sequence[OperandTile],
        instruction: HloInstruction,
        contract: Contract,
        sums: Sequence[RegisterValue],
    ) -> list[RegisterValue]:
        """Returns the sums with products of elements of the tiles. Errors: as of `bind`."""
        ...

    def stage_sum(self, tile: OperandTile, stage: StageSum, value: Value) -> None:
        """Writes an accumulator to an operand's tile. Errors: as of `bind`."""
        ...

    def where_inside(self, value: Value, outside: float) -> Value:
        """Returns a value, or a number where a bound variable is beyond its bounds. Errors: as of `bind`."""
        ...

    def combine_lanes(self, values: Values, combine: CombinePair, lanes: int) -> list[RegisterValue]:
        """Returns what so many neighbouring threads have, combined, for each of them. Errors: as of `bind`."""
        ...


class TaskSharing:
    """A CPU's kernel, whose last two arguments say which units to do."""

    def __init__(self, fused: FusedIrEmitter) -> None:
        self._fused = fused
        self._nest: LoopNest = fused.nest

    @property
    def units(self) -> Units:
        """See WorkSharing."""
        return self._nest.function.args[-2], self._nest.function.args[-1]

    def store_guard(self) -> Guard:
        """See WorkSharing."""
        return EVERYWHERE

    def stage(self, tile: Tile, instruction: HloInstruction, index: Index) -> None:
        """See WorkSharing."""
        self._fused.stage(tile, instruction, index)

    def barrier(self) -> None:
        """See WorkSharing."""
        raise Unsupported("a barrier: this target has no blocks of threads")

    def bind(self, bind: Bind, body: Callable[[], None]) -> None:
        """See WorkSharing."""
        raise Unsupported("a bound variable: this target has no threads")

    def stage_operand(self, tile: OperandTile, instruction: HloInstruction, stage: StageOperand) -> None:
        """See WorkSharing."""
        raise Unsupported("a staged operand: this target has no shared memory")

    def contract(
        self,
        tiles: Sequence[OperandTile],
        instruction: HloInstruction,
        contract: Contract,
        sums: Sequence[RegisterValue],
    ) -> list[RegisterValue]:
        """See WorkSharing."""
        raise Unsupported("a contraction of operand tiles: this target has no shared memory")

    def stage_sum(self, tile: OperandTile, stage: StageSum, value: Value) -> None:
        """See WorkSharing."""
        raise Unsupported("a staged sum: this target has no shared memory")

    def where_inside(self, value: Value, outside: float) -> Value:
        """See WorkSharing."""
        raise Unsupported("a bound variable: this target has no threads")

    def combine_lanes(self, values: Values, combine: CombinePair, lanes: int) -> list[RegisterValue]:
        """See WorkSharing."""
        raise Unsupported("values of neighbouring threads: this target has none")

    def loop(self, loop: Loop, units: Units, body: LoopBody) -> None:
        """See WorkSharing."""
        if loop.role is not Role.TASK:
            raise Unsupported(f"a {loop.role.value} loop: this target has none")
        if loop.lanes:
            self._vectors(loop, units, body)
            return
        nest = self._nest
        begin, end = units
        lower = nest.intervals[loop.variable].lower
        if lower:
            begin = nest.builder.add(begin, const_int(I64, lower))
            end = nest.builder.add(end, const_int(I64, lower))
        nest.loop(loop.variable, body, begin=begin, end=end, name="p")

    def _vectors(self, loop: Loop, units: Units, body: LoopBody) -> None:
        """One vector loop over everything: units are whole vectors, the last unit takes the tail along."""
        nest, width, position = self._nest, loop.lanes, loop.variable
        begin, end = units
        size, lower = nest.table.size(position), nest.intervals[position].lower
        if size < width:
            nest.vector_loop(position, width, body)
            return
        builder = nest.builder
        scale, shift = const_int(I64, width), const_int(I64, lower)
        first = builder.add(builder.mul(begin, scale), shift)
        last = builder.add(builder.mul(end, scale), shift)
        nest.loop(position, body, begin=first, end=last, step=width, vector_width=width, name="v")
        if size % width:
            builder = nest.builder
            tail, done = builder.append_block("tail"), builder.append_block("done")
            builder.cbranch(builder.icmp_signed("==", end, const_int(I64, size // width)), tail, done)
            builder.position_at_end(tail)
            with nest.branch():
                nest.vector_tail(position, width, body, ())
            nest.builder.br(done)
            nest.builder.position_at_end(done)
