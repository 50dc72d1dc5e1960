"""The program as one line: what runs when, with loops, branches and calls unrolled once into their computations.

Every event has a time, its position. A while is WHILE_BEGIN, the condition's events, WHILE_BODY, the body's events,
WHILE_END; a conditional (or call, or async-start) is BRANCH_BEGIN ... BRANCH_END per computation, then CALL_END. All
other instructions are one RUN. A computation runs where it is called first: each instruction has exactly one time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

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


RUN, WHILE_BEGIN, WHILE_BODY, WHILE_END, BRANCH_BEGIN, BRANCH_END, CALL_END = EventKind
"""The kinds by themselves: reading a member of an enum takes as long as a call."""


class Event(NamedTuple):
    """One step. `branch` numbers the called computation of BRANCH events."""

    kind: EventKind
    instruction: HloInstruction
    branch: int = 0


_RUNS_COMPUTATIONS = opcodes_with(Trait.CONTROL_FLOW)

CALLS = _RUNS_COMPUTATIONS - {"while"}
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
            if instruction.opcode in _RUNS_COMPUTATIONS:
                stack.extend(instruction.called_computations)
    return sequences


def linear_order(start: HloComputation, sequence: Callable[[HloComputation], Sequence[HloInstruction]]) -> list[Event]:
    """Returns the events of a computation and of what it runs, each computation in its `sequence`."""
    events: list[Event] = []
    seen: set[HloComputation] = set()
    stack: list[Iterator[HloInstruction | HloComputation | Event]] = [iter([start])]
    while stack:
        for item in stack[-1]:
            if isinstance(item, HloInstruction):
                if item.opcode in _RUNS_COMPUTATIONS:
                    stack.append(_steps_of(item))
                    break
                events.append(Event(RUN, item))
            elif isinstance(item, Event):
                events.append(item)
            elif item not in seen:
                seen.add(item)
                stack.append(iter(sequence(item)))
                break
        else:
            stack.pop()
    return events


def _steps_of(caller: HloInstruction) -> Iterator[HloComputation | Event]:
    """Yields what an instruction runs, with the events around it."""
    if caller.opcode == "while":
        yield Event(WHILE_BEGIN, caller)
        yield caller.while_condition
        yield Event(WHILE_BODY, caller)
        yield caller.while_body
        yield Event(WHILE_END, caller)
        return
    for branch, computation in enumerate(caller.called_computations):
        yield Event(BRANCH_BEGIN, caller, branch)
        yield computation
        yield Event(BRANCH_END, caller, branch)
    yield Event(CALL_END, caller)
