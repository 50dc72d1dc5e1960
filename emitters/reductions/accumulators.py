"""Accumulators that a schedule keeps in tiles: in registers, carried by loops, or in memory, for a strip of results.

The value of such a reduction is what has been combined so far: elements that are emitted next find it. A contraction
has several accumulators in registers, one for each value of the variables of unrolled loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xjit.affine import AffineExpr, constant, dim, evaluate
from xjit.dataclass import dataclass
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.elemental import RegisterValue, constant_register
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.nested import IrEmitterNested
from xjit.emitters.reductions.reduction_loops import accumulate, flatten, round_promoted, unflatten
from xjit.emitters.reductions.stack_row import StackRow
from xjit.emitters.schedule.statements import Memory, Reduction, Tile
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.element_types import PROMOTED
from xjit.llvm.values import Value
from xjit.ops.reducers import reduction_identity


@dataclass(slots=True)
class _Accumulators:
    """Those of one instruction: `values` in registers, or `rows` in memory."""

    tile: Tile
    instruction: HloInstruction
    index: Index
    values: list[RegisterValue]
    rows: tuple[StackRow, ...] = ()


class AccumulatorTiles:
    """The accumulators of the part that is being emitted."""

    def __init__(self, fused: FusedIrEmitter) -> None:
        self._fused = fused
        self._nest = fused.nest
        self._of: dict[str, _Accumulators] = {}
        self._steps: list[dict[str, list[RegisterValue]]] = []
        self.unrolled: dict[int, int] = {}  # steps of the unrolled loops that are open, from 0

    def start(self, tile: Tile, instruction: HloInstruction, index: Index) -> None:
        """Sets the accumulators of the current place to the initial values."""
        fused = self._fused
        elements = [fused.element(o, ()) for o in instruction.operands[instruction.operand_count // 2 :]]
        if tile.memory is Memory.REGISTER:
            self._of[tile.instruction] = _Accumulators(tile, instruction, index, [v for v, _ in elements])
            self._publish(self._of[tile.instruction])
            return
        if tile.memory is not Memory.STACK:
            raise Unsupported(f"accumulators in {tile.memory.value} memory: no target has them yet", instruction.span)
        own = self._of.get(tile.instruction)
        if own is None or own.tile != tile:
            size = 1
            for variable in tile.over:
                size *= fused.nest.table.size(variable)
            rows = tuple(StackRow.like(fused.nest.builder, value, size) for value, _ in elements)
            own = self._of[tile.instruction] = _Accumulators(tile, instruction, index, [], rows)
        self._write(own, [fused.splat(e, self._width(own)) for e in elements])

    def combine(self, reduction: Reduction) -> None:
        """Takes some more elements into the accumulators of the current place."""
        own = self._of[reduction.instruction]
        self._write(own, accumulate(self._fused, own.instruction, reduction, self._read(own)))

    def rescale(self, name: str, by: str, computation: HloComputation) -> None:
        """Applies `computation(accumulator, old, new)`; see the statement Rescale."""
        own, other = self._of[name], self._of[by]
        old, new = self._steps[-1][by], self._read(other)
        arguments = [*self._read(own), *old, *new]
        self._write(own, list(IrEmitterNested(promote=True).inline(self._nest.builder, computation, arguments)))

    def publish(self) -> None:
        """Loads accumulators that lie in memory, if their place is known here, for the elements emitted next."""
        level = self._nest.level
        for own in self._of.values():
            known = all(0 <= self._nest.bindings.depth(v) <= level.depth for v in own.tile.over)
            if own.rows and known and ("accumulators", own.tile) not in level.cache:
                self._publish(own)
                level.cache["accumulators", own.tile] = own

    # -- contractions: a register for each value of the tile's variables

    def clear(self, tile: Tile, instruction: HloInstruction) -> None:
        """Sets all accumulators of a contraction to zero, of a reduction to its identity."""
        kind = instruction.shape.element_type
        known = reduction_identity(instruction.to_apply) if instruction.opcode == "reduce" else ("add", 0)
        assert known is not None, f"{instruction.name} has no identity"
        start = constant_register(PROMOTED.get(kind, kind), known[1])
        count = math.prod(self._nest.table.size(v) for v in tile.over)
        self._of[tile.instruction] = _Accumulators(tile, instruction, (), [start] * count)

    def registers(self, name: str) -> list[RegisterValue]:
        """Returns the accumulators of the current place: one, or all along the variables that are in no loop here."""
        own = self._of[name]
        first, count = self._registers_here(own)
        return own.values[first : first + count]

    def set_registers(self, name: str, values: Sequence[RegisterValue]) -> None:
        """Replaces what `registers` returns."""
        own = self._of[name]
        first, count = self._registers_here(own)
        assert len(values) == count, "not as many accumulators as there are here"
        own.values[first : first + count] = values

    def give(self, name: str, instruction: HloInstruction, index: Index) -> None:
        """Lets an element be the accumulator of the current place, rounded to its type."""
        (value,) = round_promoted(self._nest.builder, [instruction.shape.element_type], self.registers(name))
        self._fused.give(instruction, index, [value])

    def all_registers(self, name: str) -> list[Value]:
        """Returns all accumulators of real numbers, in the order of their tile."""
        return flatten(self._of[name].values)

    def set_all_registers(self, name: str, values: Sequence[Value]) -> None:
        """Replaces what `all_registers` returns."""
        self._of[name].values = list(values)

    def numbers(self, name: str, expr: AffineExpr) -> list[int]:
        """Returns the value of an expression over the variables of a tile, for each of its accumulators."""
        over, table = self._of[name].tile.over, self._nest.table
        values, found = [0] * len(table.intervals), list[int]()
        for steps in itertools.product(*(range(table.size(v)) for v in over)):
            for variable, step in zip(over, steps, strict=True):
                values[variable] = step
            found.append(int(evaluate(expr, values)))
        return found

    def _registers_here(self, own: _Accumulators) -> tuple[int, int]:
        """Where in its list the current place begins, and how many accumulators it has."""
        table, first, count = self._nest.table, 0, 1
        for variable in own.tile.over:
            size = table.size(variable)
            step = self.unrolled.get(variable)
            if step is None:
                count *= size
            assert step is None or count == 1, "an unrolled variable within one that is not"
            first = first * size + (step or 0)
        return first, count

    # -- loops that carry accumulators

    def carried(self, names: Sequence[str]) -> list[Value]:
        """Returns the current accumulators as plain values."""
        return [value for name in names for value in flatten(self._of[name].values)]

    def update(self, names: Sequence[str], values: Sequence[Value]) -> None:
        """Sets accumulators to what `carried` gave elsewhere."""
        rest = list(values)
        for name in names:
            own = self._of[name]
            count = len(flatten(own.values))
            own.values = unflatten(rest[:count], own.values)
            del rest[:count]
            if not own.tile.over:
                self._publish(own)

    @contextmanager
    def step(self, names: Sequence[str], values: Sequence[Value]) -> Generator[None]:
        """One step of a loop that carries accumulators: what they are at its start is what Rescale calls old."""
        self.update(names, values)
        self._steps.append({name: list(self._of[name].values) for name in names})
        try:
            yield
        finally:
            self._steps.pop()

    # -- values

    def _read(self, own: _Accumulators) -> list[RegisterValue]:
        if not own.rows:
            return own.values
        position, width = self._nest.index_value(self._place(own)), self._width(own)
        return [row.load(self._nest.builder, position, width) for row in own.rows]

    def _write(self, own: _Accumulators, values: list[RegisterValue]) -> None:
        if not own.rows:
            own.values = values
            self._publish(own)
            return
        position = self._nest.index_value(self._place(own))
        for row, value in zip(own.rows, values, strict=True):
            row.store(self._nest.builder, position, value)
        self._nest.level.cache.pop(("accumulators", own.tile), None)

    def _publish(self, own: _Accumulators) -> None:
        types = [o.shape.element_type for o in own.instruction.operands[: own.instruction.operand_count // 2]]
        values = round_promoted(self._nest.builder, types, self._read(own))
        self._fused.give(own.instruction, own.index, values)

    def _place(self, own: _Accumulators) -> AffineExpr:
        """Where in its rows the current place is: row-major over the tile's variables."""
        table = self._nest.table
        place = constant(0)
        for variable in own.tile.over:
            place = place * table.size(variable) + dim(variable) - table.intervals[variable].lower
        return place

    def _width(self, own: _Accumulators) -> int:
        lanes = self._nest.vector
        return lanes.width if lanes is not None and lanes.position in own.tile.over else 0
