"""Rows of elements that a reduction computes and that are needed again: softmax's exponentials, for one.

While a reduction runs along a row, costly values that something outside of it also uses are written to a row on the
stack. After the reduction they are known to the row's level; another loop over the same columns loads them instead of
computing them once more. Values are kept only where they are computed for the whole row, without a guard.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from xjit.affine import AffineExpr, dim, substitute
from xjit.emitters.access_analysis import Index
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.loop_nest import LoopNest
from xjit.emitters.nested import splat_register
from xjit.emitters.stack_row import StackRow
from xjit.hlo.ir.instruction import HloInstruction

MAX_ROW_ELEMENTS = 16 * 1024
MAX_ROWS = 4
WORTH_KEEPING = 8  # operations
_COSTLY = frozenset(
    {"atan2", "cbrt", "cosine", "divide", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one",
     "logistic", "power", "remainder", "sine", "sqrt", "rsqrt", "tan", "tanh"}
)  # fmt: skip


@dataclass(slots=True)
class _Recording:
    """One reduction's loop over the columns: what to keep of it, and what has been kept."""

    wanted: Collection[HloInstruction]
    column: int
    depth: int
    kept: dict[tuple[HloInstruction, Index], StackRow] = field(default_factory=dict)


class RowCache:
    """The rows of one kernel."""

    def __init__(self, nest: LoopNest) -> None:
        self._nest = nest
        self._recordings: list[_Recording] = []
        self._columns: dict[int, AffineExpr] = {}
        self._kept: set[HloInstruction] = set()
        self._rows = 0

    @contextmanager
    def recording(self, reduce: HloInstruction, leaves: Collection[HloInstruction], column: int) -> Generator[None]:
        """Keeps rows of the loop over `column` that is emitted meanwhile; they can be loaded once it is complete."""
        nest = self._nest
        wanted: Collection[HloInstruction] = ()
        if nest.intervals[column].lower == 0 and nest.intervals[column].upper < MAX_ROW_ELEMENTS:
            wanted = _needed_again(reduce, leaves)
        recording = _Recording(wanted, column, nest.level.depth)
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
        if recording is None or instruction not in recording.wanted or nest.vector is None:
            return
        if depth <= recording.depth:
            return  # the same for the whole row
        column, lanes = dim(recording.column), nest.vector
        if lanes.position != recording.column or not any(e.uses_dim(recording.column) for e in index):
            return
        if any(nest.depth_of(dim(p)) > recording.depth for e in index for p in e.dims if p != recording.column):
            return
        key = (instruction, self._place(index, recording.column))
        builder = nest.levels[depth].builder
        value = splat_register(builder, value, lanes.width)  # the only lane of a tail is a scalar
        row = recording.kept.get(key)
        if row is None:
            if self._rows == MAX_ROWS:
                return
            self._rows += 1
            row = recording.kept[key] = StackRow.like(builder, value, nest.intervals[recording.column].upper + 1)
        row.store(builder, nest.index_value(column), value)

    def load(self, instruction: HloInstruction, index: Index) -> tuple[RegisterValue, int] | None:
        """Returns the element's value and its level, if it is one of a row that has been kept."""
        nest, lanes = self._nest, self._nest.vector
        if instruction not in self._kept or lanes is None or nest.intervals[lanes.position].lower:
            return None
        row: StackRow | None = nest.lookup(("row", instruction, self._place(index, lanes.position)))
        if row is None:
            return None
        depth = max(nest.depth_of(e) for e in index)
        column = nest.index_value(dim(lanes.position))
        return row.load(nest.levels[depth].builder, column, lanes.width), depth

    def _place(self, index: Index, column: int) -> Index:
        """The index with the column's variable replaced by one that all loops over as many columns share."""
        size = self._nest.intervals[column].upper + 1
        if size not in self._columns:
            self._columns[size] = dim(self._nest.new_variable(size))
        change = {column: self._columns[size]}
        return tuple(self._nest.simplify(substitute(e, change)) for e in index)


def _needed_again(reduce: HloInstruction, leaves: Collection[HloInstruction]) -> set[HloInstruction]:
    """Returns the costly instructions of a reduction's elements that are used by others, too."""
    order = _cone(reduce, leaves)
    inside = {reduce, *order}
    again = [i for i in order if i.shape.is_array and any(u not in inside for u in i.users)]
    return {i for i in again if _cost(i, leaves) >= WORTH_KEEPING}


def _cone(instruction: HloInstruction, leaves: Collection[HloInstruction]) -> list[HloInstruction]:
    """Returns what an instruction's elements are computed from, up to other reductions."""
    found: dict[HloInstruction, None] = {}
    stack = list(instruction.operands)
    while stack:
        item = stack.pop()
        if item in found or item in leaves or item.opcode in ("reduce", "constant"):
            continue
        found[item] = None
        stack.extend(item.operands)
    return list(found)


def _cost(instruction: HloInstruction, leaves: Collection[HloInstruction]) -> int:
    """Returns about how many operations one element takes, without those that the whole row shares."""
    size = instruction.shape.num_elements
    cone = [i for i in _cone(instruction, leaves) if i.shape.is_array and i.shape.num_elements >= size]
    return sum(WORTH_KEEPING if i.opcode in _COSTLY else 1 for i in (instruction, *cone))
