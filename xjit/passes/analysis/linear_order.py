"""The program as one line: what runs when, with loops, branches and calls unrolled once into their computations.

Every event has a time, its position. A while is WHILE_BEGIN, the condition's events, WHILE_BODY, the body's events,
WHILE_END; a conditional (or call, or async-start) is BRANCH_BEGIN ... BRANCH_END per computation, then CALL_END. All
other instructions are one RUN. A computation runs where it is called first: each instruction has exactly one time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
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


def sequence_of(module: HloModule, computation: HloComputation) -> Sequence[HloInstruction]:
    """Returns the order of a computation: the schedule's, or post order where there is none."""
    if module.has_schedule() and module.schedule.is_scheduled(computation):
        return module.schedule.sequence(computation)
    return computation.make_instruction_post_order()


def module_sequences(module: HloModule) -> dict[HloComputation, list[HloInstruction]]:
    """Returns the order of every computation that runs in sequence.

    Errors: FailedPrecondition, if the call graph is not flattened.
    """
    sequences: dict[HloComputation, list[HloInstruction]] = {}
    stack = [module.entry_computation]
    while stack:
        computation = stack.pop()
        if computation in sequences:
            raise FailedPrecondition(
                f"computation {computation.name} is called from several places: run flatten-call-graph first"
            )
        sequences[computation] = list(sequence_of(module, computation))
        for instruction in sequences[computation]:
            if instruction.op.has(Trait.CONTROL_FLOW):
                stack.extend(instruction.called_computations)
    return sequences


def linear_order(start: HloComputation, sequence: Callable[[HloComputation], Sequence[HloInstruction]]) -> list[Event]:
    """Returns the events of a computation and of what it runs, each computation in its `sequence`."""
    events: list[Event] = []
    seen: set[HloComputation] = set()
    stack: list[HloComputation | HloInstruction | Event] = [start]
    while stack:
        item = stack.pop()
        if isinstance(item, Event):
            events.append(item)
        elif isinstance(item, HloComputation):
            if item not in seen:
                seen.add(item)
                stack.extend(reversed(sequence(item)))
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
