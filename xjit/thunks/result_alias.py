"""Which results may lie in the memory of parameters: planned by buffer assignment, done by calls that donate."""

from __future__ import annotations

from xjit.dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ResultAlias:
    """Leaf `result` may be computed in the buffer of leaf `parameter`, `byte_size` bytes; numbers of array leaves.

    A call `must` donate the parameter where that says so.
    """

    parameter: int
    result: int
    byte_size: int
    must: bool = False
