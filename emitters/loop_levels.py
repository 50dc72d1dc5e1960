"""The open levels of a loop nest: where code goes, what is known there, and the loop variables.

Loop variables are the dimensions `d0, d1, ...` of affine expressions. A level stays open for more code while its inner
loops are being emitted, so code can be placed in front of a loop from inside it. At most one variable is the *vector*
variable of a level: its lanes are W consecutive values.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xjit.affine import AffineExpr, Interval, RangeContext
from xjit.llvm.builder import IRBuilder
from xjit.llvm.module import Function, Module
from xjit.llvm.target import Target
from xjit.llvm.values import Value


@dataclass(frozen=True, slots=True)
class VectorVariable:
    """The vector variable of a level: lanes are `value .. value + width - 1`; `mask` says which exist (None: all).

    The first `active` lanes exist. The first lane's value is a multiple of the width above the variable's lower bound.
    """

    position: int
    width: int
    mask: Value | None = None
    active: int = 0

    @property
    def present(self) -> int:
        """Number of lanes that exist."""
        return self.active or self.width


@dataclass(slots=True)
class Variable:
    """One loop variable (or run-time value) of the kernel. `value` is None until its loop is open."""

    bounds: Interval
    depth: int = -1
    value: Value | None = None
    lanes: Value | None = None  # a run-time value that differs per lane: a vector of i64


@dataclass(slots=True)
class LoopLevel:
    """One open level: where its code goes, and what has been computed there."""

    depth: int
    builder: IRBuilder
    vector: VectorVariable | None = None
    cache: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransposeTile:
    """A tile in force: `position` is the unrolled variable (0 .. width - 1), now `step`.

    `depth` is the vector loop's level.
    """

    position: int
    width: int
    depth: int
    step: int


class LoopLevels:
    """The levels and the variables of one function. Level 0 is the function's straight-line code, or a builder's."""

    def __init__(self, module: Module, function: Function, target: Target, builder: IRBuilder | None = None) -> None:
        self.module = module
        self.function = function
        self.target = target
        self.variables: list[Variable] = []
        self.intervals: list[Interval] = []
        self._ranges = RangeContext((), (), replace_points=True)
        self.levels = [LoopLevel(0, builder or IRBuilder(function.append_block("entry")))]
        self._depth_of_mask: dict[int, int] = {}
        self.tile: TransposeTile | None = None  # the one in force (see xjit.emitters.transpose_tile)
        self._lane_variables = 0  # bit set of the variables whose values differ per lane by themselves

    # -- levels

    @property
    def level(self) -> LoopLevel:
        """The innermost open level."""
        return self.levels[-1]

    @property
    def builder(self) -> IRBuilder:
        """Where the innermost level's code goes."""
        return self.levels[-1].builder

    @property
    def vector(self) -> VectorVariable | None:
        """The vector variable in force at the innermost level."""
        return self.levels[-1].vector

    @contextmanager
    def at_depth(self, depth: int) -> Generator[LoopLevel]:
        """Makes the level of that depth the innermost one for a while; deeper levels stay open behind it."""
        hidden = self.levels[depth + 1 :]
        del self.levels[depth + 1 :]
        try:
            yield self.levels[-1]
        finally:
            del self.levels[depth + 1 :]
            self.levels.extend(hidden)

    @contextmanager
    def branch(self) -> Generator[None]:
        """Isolates what the innermost level computes in a conditional block: later code must not find it."""
        level = self.level
        saved, level.cache = level.cache, dict(level.cache)
        try:
            yield
        finally:
            level.cache = saved

    def lookup(self, key: Any) -> Any:
        """Returns what an open level has computed under a key, or None."""
        for level in reversed(self.levels):
            found = level.cache.get(key)
            if found is not None:
                return found
        return None

    # -- variables

    def new_variable(self, size: int, lower: int = 0) -> int:
        """Returns the position of a new loop variable with values lower .. lower + size - 1, not yet bound."""
        bounds = Interval(lower, lower + size - 1)
        self.variables.append(Variable(bounds))
        self.intervals.append(bounds)
        self._ranges.add_dim(bounds)
        return len(self.variables) - 1

    def bind(self, position: int, value: Value, depth: int) -> None:
        """Gives a variable its value, known from level `depth` on."""
        variable = self.variables[position]
        variable.value, variable.depth = value, depth
        self._depth_of_mask.clear()

    def bind_lanes(self, position: int, lanes: Value, depth: int) -> None:
        """Gives a variable one value per lane of the current vector variable (a vector of i64)."""
        variable = self.variables[position]
        variable.lanes, variable.depth = lanes, depth
        self._lane_variables |= 1 << position
        self._depth_of_mask.clear()

    def simplify(self, expr: AffineExpr) -> AffineExpr:
        """Simplifies with the bounds of the loop variables."""
        return self._ranges.simplify(expr)

    def interval(self, expr: AffineExpr) -> Interval:
        """Bounds of an expression over the loop variables."""
        return self._ranges.interval(expr)

    def depth_of(self, expr: AffineExpr) -> int:
        """Depth of the outermost level at which the expression can be computed."""
        mask = expr.dim_mask
        depth = self._depth_of_mask.get(mask)
        if depth is None:
            depth = max((self.variables[p].depth for p in expr.dims), default=0)
            self._depth_of_mask[mask] = depth
        return depth
