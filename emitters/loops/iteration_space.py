"""Iteration spaces: the loops over an output, before they are emitted, and the transformations that make them cheap.

Splitting a loop by the divisors that occur in its accesses removes div and mod from the loop body; sorting follows the
output's memory order; collapsing merges loops that walk through memory as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr, AffineExprKind, dim, nodes_of, substitute
from xjit.affine.reshape import delinearize
from xjit.emitters.loops.variables import VariableTable

Index = tuple[AffineExpr, ...]
MAX_SPLITS = 12
MAX_COLUMNS = 16
"""Of short rows whose columns are all in registers at once."""


@dataclass(slots=True)
class IterationSpace:
    """Loops (variable positions, outermost first) and the logical output index in terms of them."""

    table: VariableTable
    loops: list[int]
    index: Index

    @staticmethod
    def over(table: VariableTable, dimensions: Sequence[int], order: Sequence[int]) -> IterationSpace:
        """Returns one loop per dimension, nested in the given order (major to minor)."""
        positions = {d: table.new_variable(dimensions[d]) for d in order}
        return IterationSpace(table, [positions[d] for d in order], tuple(dim(positions[d]) for d in range(len(order))))

    def size(self, position: int) -> int:
        """Trip count of a loop."""
        return self.table.size(position)

    def replace(self, old: dict[int, AffineExpr], loops: list[int]) -> IterationSpace:
        """Returns the space with variables replaced by expressions over new loops."""
        index = tuple(self.table.simplify(substitute(e, old, {})) for e in self.index)
        return IterationSpace(self.table, loops, index)

    def split(self, position: int, factor: int) -> IterationSpace:
        """Returns the space with one loop split into (outer, inner of size `factor`); the size must divide."""
        size, lower = self.size(position), self.table.intervals[position].lower
        outer, inner = self.table.new_variable(size // factor, lower // factor), self.table.new_variable(factor)
        at = self.loops.index(position)
        loops = [*self.loops[:at], outer, inner, *self.loops[at + 1 :]]
        return self.replace({position: dim(outer) * factor + dim(inner) + lower % factor}, loops)

    def peel(self, position: int, factor: int) -> list[IterationSpace]:
        """Returns the spaces of the part that `factor` divides (if not empty) and of the rest (if not empty)."""
        bounds = self.table.intervals[position]
        middle = bounds.upper + 1 - self.size(position) % factor
        parts: list[IterationSpace] = []
        for lower, upper in ((bounds.lower, middle), (middle, bounds.upper + 1)):
            if upper > lower:
                fresh = self.table.new_variable(upper - lower, lower)
                loops = [fresh if p == position else p for p in self.loops]
                parts.append(self.replace({position: dim(fresh)}, loops))
        return parts


def unit_index(table: VariableTable, unit: int, sizes: Sequence[int]) -> Index:
    """Returns the index, in a box of `sizes`, of the element whose row-major number is the loop variable `unit`."""
    return tuple(table.simplify(e) for e in delinearize(dim(unit), sizes))


MaySplit = Callable[[IterationSpace, int, int], bool]


def find_split(space: IterationSpace, expressions: Sequence[AffineExpr], may_split: MaySplit) -> tuple[int, int] | None:
    """Returns (loop, divisor) of a division of a lone loop variable somewhere in the expressions."""
    for node in nodes_of(expressions):
        if node.kind not in (AffineExprKind.FLOORDIV, AffineExprKind.MOD):
            continue
        lhs = node.lhs
        if lhs.kind is AffineExprKind.DIM and lhs.position in space.loops:
            lower = space.table.intervals[lhs.position].lower
            fits = lower % node.rhs == 0 and space.size(lhs.position) > node.rhs
            if fits and may_split(space, lhs.position, node.rhs):
                return lhs.position, node.rhs
    return None


def remove_divisions(
    space: IterationSpace, expressions_of: Callable[[IterationSpace], Sequence[AffineExpr]], may_split: MaySplit
) -> list[IterationSpace]:
    """Returns spaces that cover the same points, split (and peeled) until no loop variable alone is divided.

    `may_split(space, loop, divisor)` can keep a division.
    """
    done: list[IterationSpace] = []
    work = [(space, 0)]
    while work:
        current, splits = work.pop()
        found = find_split(current, expressions_of(current), may_split) if splits < MAX_SPLITS else None
        if found is None:
            done.append(current)
        elif current.size(found[0]) % found[1] == 0:
            work.append((current.split(*found), splits + 1))
        else:
            work.extend((part, splits + 1) for part in reversed(current.peel(*found)))
    return done


def sort_loops(space: IterationSpace, offset: AffineExpr) -> IterationSpace:
    """Returns the space with loops ordered by the output's stride, largest first; unused loops go outside."""
    strides = {p: abs(_factor(offset, p)) for p in space.loops}
    order = sorted(space.loops, key=lambda p: -(strides[p] or 1 << 62))
    return IterationSpace(space.table, order, space.index)


def _factor(offset: AffineExpr, position: int) -> int:
    return next((factor for term, factor in offset.terms if term is dim(position)), 0)


def collapse_loops(
    space: IterationSpace, expressions_of: Callable[[IterationSpace], Sequence[AffineExpr]]
) -> IterationSpace:
    """Returns the space with adjacent loops merged wherever every access walks through them as one."""
    expressions = list(expressions_of(space))
    changed = True
    while changed and len(space.loops) > 1:
        changed = False
        for at in range(len(space.loops) - 2, -1, -1):
            outer, inner = space.loops[at], space.loops[at + 1]
            size = space.size(inner)
            if space.table.intervals[inner].lower or space.table.intervals[outer].lower:
                continue
            if all(_walks_as_one(e, outer, inner, size) for e in expressions):
                merged = space.table.new_variable(space.size(outer) * size)
                quotient, remainder = dim(merged).floordiv(size), dim(merged).mod(size)
                loops = [*space.loops[:at], merged, *space.loops[at + 2 :]]
                change = {outer: quotient, inner: remainder}
                expressions = [space.table.simplify(substitute(e, change, {})) for e in expressions]
                space = space.replace(change, loops)
                changed = True
                break
    return space


MAX_PERIOD = 7
"""Vectors after which lanes may repeat: rows of seven elements, where a vector has eight."""


def period_of(size: int, width: int) -> int:
    """Returns after how many vectors `v floordiv size` and `v mod size` repeat their lanes."""
    return math.lcm(size, width) // width


def merge_short_innermost(space: IterationSpace, width: int, max_period: int = 1) -> IterationSpace:
    """Returns the space with the innermost loops that are together shorter than a vector merged into the next one.

    Then lanes of `v floordiv size` and `v mod size` are regular: they repeat with every vector, or, where the size does
    not divide the width, with some (`period_of`): at most `max_period`, if there are as many.
    """
    while len(space.loops) > 1:
        first, size = len(space.loops) - 1, space.size(space.loops[-1])
        while first > 1 and size * space.size(space.loops[first - 1]) < width:
            first -= 1
            size *= space.size(space.loops[first])
        outer, inner = space.loops[first - 1], space.loops[first:]
        rows, period = space.size(outer), period_of(size, width) if size else 0
        if not 0 < size < width or any(space.table.intervals[p].lower for p in (outer, *inner)):
            return space
        if period > 1 and (period > max_period or rows * size < period * width):
            return space
        merged = space.table.new_variable(rows * size)
        change = {outer: dim(merged).floordiv(size)}
        for position, place in zip(
            inner, delinearize(dim(merged).mod(size), [space.size(p) for p in inner]), strict=True
        ):
            change[position] = place
        space = space.replace(change, [*space.loops[: first - 1], merged])
    return space


def _walks_as_one(expr: AffineExpr, outer: int, inner: int, size: int) -> bool:
    if not (expr.uses_dim(outer) or expr.uses_dim(inner)):
        return True
    for term, _ in expr.terms:
        if term.kind is not AffineExprKind.DIM and (term.uses_dim(outer) or term.uses_dim(inner)):
            return False
    return _factor(expr, outer) == _factor(expr, inner) * size
