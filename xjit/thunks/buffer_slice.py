"""Places in memory, as buffer assignment decides them: a part of a parameter, a result, a constant or the arena."""

from __future__ import annotations

from typing import Literal as OneOf

from xjit.dataclass import dataclass
from xjit.hlo.types.shape import Shape

SliceKind = OneOf["parameter", "result", "arena", "constant", "none"]


@dataclass(frozen=True, slots=True)
class BufferSlice:
    """Where an array lies: `index` is the number of the leaf parameter, leaf result or constant; sizes in bytes."""

    kind: SliceKind
    index: int = 0
    offset: int = 0
    size: int = 0

    def overlaps(self, other: BufferSlice) -> bool:
        """Whether the two share a byte."""
        if self.kind != other.kind or self.index != other.index or not self.size or not other.size:
            return False
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size

    @property
    def place(self) -> str:
        """Where it begins, in words: `parameter 2`, `arena+64`."""
        return f"arena+{self.offset}" if self.kind == "arena" else f"{self.kind} {self.index}"

    def __str__(self) -> str:
        return "none" if self.kind == "none" else f"{self.place} ({self.size} bytes)"


NO_SLICE = BufferSlice("none")


@dataclass(frozen=True, slots=True)
class ShapedSlice:
    """A slice and the array in it: what a thunk reads or writes."""

    shape: Shape
    slice: BufferSlice

    def __str__(self) -> str:
        return f"{self.shape.to_string()} {self.slice.place}"
