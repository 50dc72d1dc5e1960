"""The open levels of a loop nest: where code goes, and what is known there.

A level stays open for more code while its inner loops are being emitted, so code can be placed in front of a loop from
inside it. At most one variable is the *vector* variable of a level: its lanes are W consecutive values.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from xjit.dataclass import dataclass
from xjit.llvm.builder import IRBuilder
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
    """The open levels of one function. Level 0 is the function's straight-line code, or a builder's."""

    __slots__ = ("stack",)

    def __init__(self, builder: IRBuilder) -> None:
        self.stack = [LoopLevel(0, builder)]

    @contextmanager
    def at_depth(self, depth: int) -> Generator[LoopLevel]:
        """Makes the level of that depth the innermost one for a while; deeper levels stay open behind it."""
        stack = self.stack
        hidden = stack[depth + 1 :]
        del stack[depth + 1 :]
        try:
            yield stack[-1]
        finally:
            del stack[depth + 1 :]
            stack.extend(hidden)

    @contextmanager
    def branch(self) -> Generator[None]:
        """Isolates what the innermost level computes in a conditional block: later code must not find it."""
        level = self.stack[-1]
        saved, level.cache = level.cache, dict(level.cache)
        try:
            yield
        finally:
            level.cache = saved

    def lookup(self, key: Any) -> Any:
        """Returns what an open level has computed under a key, or None."""
        for level in reversed(self.stack):
            found = level.cache.get(key)
            if found is not None:
                return found
        return None
