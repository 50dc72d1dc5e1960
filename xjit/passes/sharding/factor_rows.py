"""What a row of the table of factors says."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors of the operands' dimensions and of each array of the result, in order; None: says nothing.

    A factor `first` is preferred among the shardings of several operands (batch dimensions). `changed` ones are of
    different sizes in operand and result. With `siblings`, operands take tiles from
    each other in late rounds, too (contracted dimensions, indices). `level` is the round from which on the
    instruction is passed.
    """

    operands: Sequence[Dims | None]
    results: Sequence[Dims | None]
    level: int = 1
    first: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()
    siblings: bool = False
