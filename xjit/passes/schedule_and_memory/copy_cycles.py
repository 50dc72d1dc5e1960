"""Loop-carried elements that change places with each other, each by one copy.

One after the other the copies are wrong: the first overwrites what another reads. Done at once - all elements of one
index are read before one is written - they need no memory in between.
"""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.passes.analysis.alias_analysis import Tie
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.analysis.hlo_value import HloValue

LONGEST_CYCLE = 16
"""How many arrays change places in one kernel. Of more, one is copied aside: little beside the others, and loops that
walk through so many arrays are slow."""


class CopyCycles:
    """The cycles of a module's loops. Each loop is looked at once, when it is first asked about."""

    def __init__(self, flow: HloDataflowAnalysis) -> None:
        self._flow = flow
        self._by_loop: dict[HloInstruction, dict[int, tuple[HloInstruction, ...]]] = {}

    def of(self, tie: Tie) -> tuple[HloInstruction, ...]:
        """Returns the copies of the cycle that a leaf of a loop's state is part of; () if of none.

        Each copy is read by the body's result only, and all arrays are of one shape. Cycles of more than
        LONGEST_CYCLE are none: copy insertion cuts them.
        """
        if tie.kind != "body":
            return ()
        found = self._by_loop.get(tie.instruction)
        if found is None:
            found = self._by_loop[tie.instruction] = _cycles_of(self._flow, tie.instruction)
        return found.get(tie.leaf, ())


def _cycles_of(flow: HloDataflowAnalysis, loop: HloInstruction) -> dict[int, tuple[HloInstruction, ...]]:
    """Returns the cycle of each leaf that is part of one, its first leaf's copy first."""
    ends = flow.values(loop.while_body.root_instruction)
    leaf_of = {phi: leaf for leaf, phi in enumerate(flow.values(loop)) if phi is not None}
    copied_from = [leaf_of[source] if (source := _source(flow, value, loop)) is not None else None for value in ends]
    found: dict[int, tuple[HloInstruction, ...]] = {}
    seen: set[int] = set()
    for start in range(len(ends)):
        path: list[int] = []
        leaf: int | None = start
        while leaf is not None and leaf not in seen:
            seen.add(leaf)
            path.append(leaf)
            leaf = copied_from[leaf]
        cycle = path[path.index(leaf) :] if leaf in path else []
        first = cycle.index(min(cycle)) if cycle else 0
        values = [value for n in cycle[first:] + cycle[:first] if (value := ends[n]) is not None]
        if 1 < len(values) <= LONGEST_CYCLE and all(v.shape == values[0].shape for v in values):
            copies = tuple(v.instruction for v in values)
            found.update(dict.fromkeys(cycle, copies))
    return found


def _source(flow: HloDataflowAnalysis, value: HloValue | None, loop: HloInstruction) -> HloValue | None:
    """Returns the element of a loop's state of which a value is a copy that only the body's result reads."""
    if value is None:
        return None
    copy = value.instruction
    if copy.opcode != "copy" or not copy.shape.is_array or copy.user_count != 1 or copy.users[0].opcode != "tuple":
        return None
    source = flow.values(copy.operand(0))[0]
    return source if source is not None and source.phi and source.instruction is loop else None
