"""Live ranges of values on the line of events.

Time is doubled: what happens at event t occupies the half-open steps 2t (operands are read, results start) and 2t + 1
(the last read). A value lives in closed intervals of such steps. A loop-carried element has two: from the loop's start
to its last read in an iteration, and from the loop's end (where the next iteration's value has taken its place) on. A
value from outside that a loop reads lives until the loop ends: the next iteration reads it, too.
"""

from __future__ import annotations

from bisect import bisect_right

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.analysis.forwarded_layouts import check_forwarded_layouts
from xjit.passes.analysis.forwarding import forwards
from xjit.passes.analysis.hlo_value import HloValue
from xjit.passes.analysis.linear_order import (
    BRANCH_BEGIN,
    BRANCH_END,
    CALLS,
    RUN,
    WHILE_BEGIN,
    WHILE_BODY,
    WHILE_END,
    module_sequences,
)
from xjit.passes.framework import analyses

Interval = tuple[int, int]


@dataclass(eq=False, slots=True)
class _Loop:
    begin: int
    body: int
    end: int
    parent: _Loop | None


class Liveness:
    """`intervals[value.id]` are the steps during which the memory of a value must stay as it is."""

    @classmethod
    def of(cls, module: HloModule) -> Liveness:
        """The live ranges in the scheduled order.

        Errors: FailedPrecondition, if the call graph is not flattened, or a value is handed on in another layout.
        """
        module_sequences(module)  # every instruction runs at one time only
        flow = analyses.get(HloDataflowAnalysis, module)
        check_forwarded_layouts(flow.events)
        return cls(flow, module.entry_computation.root_instruction)

    def __init__(self, flow: HloDataflowAnalysis, entry_root: HloInstruction) -> None:
        self.flow = flow
        self.end_time = len(flow.events)
        self.intervals: list[tuple[Interval, ...]] = []
        self.use_times: list[list[int]] = [[] for _ in flow.all_values]
        self._loop_at: list[_Loop | None] = []
        self._loop_of: dict[HloInstruction, _Loop] = {}
        self._find_loops()
        self._collect_uses()
        self._use(entry_root, self.end_time)
        self.intervals = [self._live(v) for v in flow.all_values]

    def _find_loops(self) -> None:
        current: _Loop | None = None
        for time, event in enumerate(self.flow.events):
            self._loop_at.append(current)  # a loop's initial values are read once, before the first iteration
            if event.kind is RUN:
                continue
            if event.kind is WHILE_BEGIN:
                current = _Loop(time, time, time, current)
                self._loop_of[event.instruction] = current
            if event.kind is WHILE_BODY and current is not None:
                current.body = time
            if event.kind is WHILE_END and current is not None:
                current.end = time
                current = current.parent
        self._loop_at.append(None)

    def _use(self, instruction: HloInstruction, time: int) -> None:
        for value in self.flow.values(instruction):
            if value is not None:
                self.use_times[value.id].append(time)

    def _collect_uses(self) -> None:
        for time, event in enumerate(self.flow.events):
            instruction = event.instruction
            if event.kind is RUN:
                if not forwards(instruction):
                    for operand in instruction.unique_operands():
                        self._use(operand, time)
            elif event.kind is WHILE_BEGIN:
                self._use(instruction.operand(0), time)
            elif event.kind is WHILE_BODY:
                self._use(instruction.while_condition.root_instruction, time)
            elif event.kind is WHILE_END:
                self._use(instruction.while_body.root_instruction, time)
            elif event.kind is BRANCH_BEGIN and event.branch == 0:
                for operand in instruction.operands if instruction.opcode in CALLS else ():
                    if instruction.opcode != "conditional" or operand is instruction.operand(0):
                        self._use(operand, time)
            elif event.kind is BRANCH_END:
                self._use(instruction.called_computations[event.branch].root_instruction, time)

    def _extended(self, time: int, defined: int) -> int:
        """Returns the end of the outermost loop around `time` that does not contain `defined`; else `time`."""
        result = time
        loop = self._loop_at[time]
        while loop is not None and loop.begin > defined:
            result = loop.end
            loop = loop.parent
        return result

    def _live(self, value: HloValue) -> tuple[Interval, ...]:
        uses = self.use_times[value.id]  # in order: the last one lives longest, extended or not
        if value.instruction.opcode != "while" or value.forward is not None:
            last = self._extended(uses[-1], value.time) if uses else value.time
            return ((2 * value.time, 2 * max(last, value.time) + 1),)
        loop = self._loop_of[value.instruction]
        inside = bisect_right(uses, loop.end)
        read = self._extended(uses[inside - 1], value.time) if inside else loop.body
        read_after = self._extended(uses[-1], value.time) if inside < len(uses) else loop.end
        first = (2 * loop.begin, 2 * max(loop.body, read) + 1)
        second = (2 * loop.end, 2 * max(loop.end, read_after) + 1)
        return (first, second) if first[1] < second[0] else ((first[0], second[1]),)
