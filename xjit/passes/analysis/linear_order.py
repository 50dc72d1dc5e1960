"""The program as one line: what runs when, with loops, branches and calls unrolled once into their computations.

Every event has a time, its position. A while is WHILE_BEGIN, the condition's events, WHILE_BODY, the body's events,
WHILE_END; a conditional (or call, or async-start) is BRANCH_BEGIN ... BRANCH_END per computation, then CALL_END. All
other instructions are one RUN. Needs a flattened call graph: then each instruction has exactly one time.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.attributes.opcodes import opcodes_with
from xjit.hlo.diagnostics import FailedPrecondition


class EventKind(enum.Enum):
    """What happens at a time."""

    RUN = "run"
    WHILE_BEGIN = "while-begin"
    WHILE_BODY = "while-body"
    WHILE_END = "while-end"
    BRANCH_BEGIN = "branch-begin"
    BRANCH_END = "branch-end"
    CALL_END = "call-end"


@dataclass(frozen=True, slots=True)
class Event:
    """One step. `branch` numbers the called computation of BRANCH events."""

    kind: EventKind
    instruction: HloInstruction
    branch: int = 0


CALLS = opcodes_with(Trait.CONTROL_FLOW) - {"while"}
"""Opcodes that run each of their computations at most once."""

Sequences = Mapping[HloComputation, Sequence[HloInstruction]]


def module_sequences(module: HloModule) -> dict[HloComputation, list[HloInstruction]]:
    """Returns the order of every sequential computation: the schedule's, or post order where there is none."""
    sequences: dict[HloComputation, list[HloInstruction]] = {}
    stack = [module.entry_computation]
    while stack:
        computation = stack.pop()
        if computation in sequences:
            raise FailedPrecondition(
                f"computation {computation.name} is called from several places: run flatten-call-graph first"
            )
        if module.has_schedule() and module.schedule.is_scheduled(computation):
            sequences[computation] = list(module.schedule.sequence(computation))
        else:
            sequences[computation] = computation.make_instruction_post_order()
        for instruction in sequences[computation]:
            if instruction.op.has(Trait.CONTROL_FLOW):
                stack.extend(instruction.called_computations)
    return sequences


def linear_order(entry: HloComputation, sequences: Sequences) -> list[Event]:
    """Returns the events of the whole program, from the first instruction of the entry to its last."""
    events: list[Event] = []
    stack: list[HloComputation | HloInstruction | Event] = [entry]
    while stack:
        item = stack.pop()
        if isinstance(item, Event):
            events.append(item)
        elif isinstance(item, HloComputation):
            stack.extend(reversed(sequences[item]))
        elif item.opcode == "while":
            events.append(Event(EventKind.WHILE_BEGIN, item))
            stack.append(Event(EventKind.WHILE_END, item))
            stack.append(item.while_body)
            stack.append(Event(EventKind.WHILE_BODY, item))
            stack.append(item.while_condition)
        elif item.opcode in CALLS:
            stack.append(Event(EventKind.CALL_END, item))
            for branch in range(len(item.called_computations) - 1, -1, -1):
                stack.append(Event(EventKind.BRANCH_END, item, branch))
                stack.append(item.called_computations[branch])
                stack.append(Event(EventKind.BRANCH_BEGIN, item, branch))
        else:
            events.append(Event(EventKind.RUN, item))
    return events
