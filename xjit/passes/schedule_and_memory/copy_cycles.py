"""Loop-carried elements that change places with each other, each by one copy.

One after the other the copies are wrong: the first overwrites what another reads. Done at once - all elements of one
index are read before one is written - they need no memory in between.
"""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.passes.analysis.alias_analysis import Tie
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.analysis.hlo_value import HloValue


def copy_cycle(flow: HloDataflowAnalysis, tie: Tie) -> list[HloInstruction]:
    """Returns the copies of the cycle that a leaf of a loop's state is part of, from that leaf on; [] if of none.

    Each copy is read by the body's result only, and all arrays are of one shape.
    """
    if tie.kind != "body" or _source(flow, tie.value, tie.instruction) is None:
        return []
    phis, ends = flow.values(tie.instruction), flow.values(tie.instruction.while_body.root_instruction)
    cycle: list[HloInstruction] = []
    leaf = tie.leaf
    while leaf != tie.leaf or not cycle:
        value = ends[leaf]
        source = _source(flow, value, tie.instruction) if value is not None else None
        if value is None or source is None or value.instruction in cycle or value.shape != tie.value.shape:
            return []
        cycle.append(value.instruction)
        leaf = phis.index(source)
    return cycle if len(cycle) > 1 else []


def _source(flow: HloDataflowAnalysis, value: HloValue, loop: HloInstruction) -> HloValue | None:
    """Returns the element of a loop's state of which a value is a copy that only the body's result reads."""
    copy = value.instruction
    if copy.opcode != "copy" or not copy.shape.is_array or copy.user_count != 1 or copy.users[0].opcode != "tuple":
        return None
    source = flow.values(copy.operand(0))[0]
    return source if source is not None and source.phi and source.instruction is loop else None
