"""Rows of elements that a reduction computes and that are needed again: softmax's exponentials, for one.

While a reduction runs along a row, costly values that something outside of it also uses are written to a row on the
stack. After the reduction they are known to the row's level; another loop over the same columns loads them instead of
computing them once more. Values are kept only where they are computed for the whole row, without a guard. A schedule
can also stage a row in a loop of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from xjit.affine import AffineExpr, dim, substitute
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import splat_register, width_of
from xjit.emitters.reductions.stack_row import StackRow
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.builder import IRBuilder

MAX_ROWS = 4


@dataclass(slots=True)
class _Recording:
    """One reduction's loop over the columns: what to keep of it, and what has been kept."""

    wanted: Collection[str]
    column: int
    group: int | None
    depth: int
    kept: dict[tuple[HloInstruction, Index], _KeptRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _KeptRow:
    """A row; or one for each value of the variable `group`, `stride` elements apart."""

    memory: StackRow
    group: int | None = None
    stride: int = 0

    def place(self, column: AffineExpr) -> AffineExpr:
        """Where the element of a column lies."""
        return column if self.group is None else dim(self.group) * self.stride + column


class RowCache:
    """The rows of one kernel."""

    def __init__(self, nest: LoopNest) -> None:
        self._nest = nest
        self._recordings: list[_Recording] = []
        self._columns: dict[int, AffineExpr] = {}
        self._kept: set[HloInstruction] = set()
        self._rows = 0
        self._staged: dict[tuple[HloInstruction, Index], StackRow] = {}
        self._ending: dict[int, list[tuple[HloInstruction, Index]]] = {}

    @contextmanager
    def recording(self, wanted: Collection[str], column: int, group: int | None = None) -> Generator[None]:
        """Keeps rows of the loop over `column` that is emitted meanwhile; they can be loaded once it is complete.

        With a `group`, that loop is in one over this variable, and rows are kept for all its values.
        """
        nest = self._nest
        recording = _Recording(wanted, column, group, nest.level.depth)
        self._recordings.append(recording)
        try:
            yield
        finally:
            self._recordings.pop()
        for (instruction, place), row in recording.kept.items():
            nest.level.cache[("row", instruction, place)] = row
            self._kept.add(instruction)

    def record(self, instruction: HloInstruction, index: Index, value: RegisterValue, depth: int) -> None:
        """Offers the value of an element, computed at a level without a guard."""
        nest = self._nest
        recording = self._recordings[-1] if self._recordings else None
        if recording is None or instruction.name not in recording.wanted or nest.vector is None:
            return
        if depth <= recording.depth:
            return  # the same for the whole row
        column, lanes = dim(recording.column), nest.vector
        if lanes.position != recording.column or not any(e.uses_dim(recording.column) for e in index):
            return
        own = (recording.column, recording.group)
        if any(nest.depth_of(dim(p)) > recording.depth for e in index for p in e.dims if p not in own):
            return
        key = (instruction, self._place(index, recording.column))
        builder = nest.levels[depth].builder
        value = splat_register(builder, value, lanes.width)  # the only lane of a tail is a scalar
        row = recording.kept.get(key)
        if row is None:
            if self._rows == MAX_ROWS:
                return
            self._rows += 1
            row = recording.kept[key] = self._new_row(recording, builder, value)
        row.memory.store(builder, nest.index_value(row.place(column)), value)

    def _new_row(self, recording: _Recording, builder: IRBuilder, value: RegisterValue) -> _KeptRow:
        size, lanes = self._nest.intervals[recording.column].upper + 1, width_of(value)
        if recording.group is None:
            return _KeptRow(StackRow.like(builder, value, size))
        stride = -(-size // lanes) * lanes
        rows = self._nest.table.size(recording.group)
        return _KeptRow(StackRow.like(builder, value, rows * stride), recording.group, stride)

    def stage(self, instruction: HloInstruction, index: Index, value: RegisterValue, column: int) -> None:
        """Writes an element of the row along `column`, whose loop is open; it can be loaded once that has ended."""
        nest = self._nest
        assert nest.intervals[column].lower == 0, "a staged row starts at 0"
        key = (instruction, self._place(index, column))
        row = self._staged.get(key)
        if row is None:
            row = self._staged[key] = StackRow.like(nest.builder, value, nest.intervals[column].upper + 1)
            self._ending.setdefault(column, []).append(key)
        row.store(nest.builder, nest.index_value(dim(column)), value)

    def end_of_loop(self, column: int) -> None:
        """Says that the loop over `column` is complete: what it staged can be loaded at this level."""
        for key in self._ending.pop(column, ()):
            self._nest.level.cache[("row", *key)] = _KeptRow(self._staged.pop(key))
            self._kept.add(key[0])

    def load(self, instruction: HloInstruction, index: Index) -> tuple[RegisterValue, int] | None:
        """Returns the element's value and its level, if it is one of a row that has been kept."""
        nest, lanes = self._nest, self._nest.vector
        if instruction not in self._kept or lanes is None or nest.intervals[lanes.position].lower:
            return None
        row: _KeptRow | None = nest.lookup(("row", instruction, self._place(index, lanes.position)))
        if row is None:
            return None
        depth = max(nest.depth_of(e) for e in index)
        column = nest.index_value(row.place(dim(lanes.position)))
        return row.memory.load(nest.levels[depth].builder, column, lanes.width), depth

    def _place(self, index: Index, column: int) -> Index:
        """The index with the column's variable replaced by one that all loops over as many columns share."""
        size = self._nest.intervals[column].upper + 1
        if size not in self._columns:
            self._columns[size] = dim(self._nest.new_variable(size))
        change = {column: self._columns[size]}
        return tuple(self._nest.simplify(substitute(e, change)) for e in index)
