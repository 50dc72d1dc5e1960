"""Thunks as text: one line per thunk, in order of execution, what a thunk runs indented below it."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo.io.printing import attributes_to_strings
from xjit.thunks.buffer_slice import ShapedSlice
from xjit.thunks.thunk import (
    CallThunk,
    CollectiveThunk,
    ConditionalThunk,
    ConvolutionThunk,
    CopyThunk,
    CustomCallThunk,
    FftThunk,
    GemmThunk,
    InlineThunk,
    KernelThunk,
    RuntimeCallThunk,
    SortThunk,
    Thunk,
    ThunkProgram,
    WhileThunk,
    sequences_by_role,
)

_INDENT = "  "


def program_to_string(program: ThunkProgram) -> str:
    """Returns the text of a program, from its entry on. Without recursion, however deeply it is nested."""
    lines = [f"ThunkProgram {program.name}, entry {program.entry}:"]
    pending: list[tuple[int, Thunk | str]] = [(1, t) for t in reversed(program.sequences[program.entry].thunks)]
    while pending:
        depth, item = pending.pop()
        if isinstance(item, str):
            lines.append(_INDENT * depth + item)
            continue
        lines.append(_INDENT * depth + thunk_to_string(item))
        for role, name in reversed(sequences_by_role(item).items()):
            pending.extend((depth + 2, t) for t in reversed(program.sequences[name].thunks))
            pending.append((depth + 1, f"{role} {name}:"))
    return "\n".join(lines) + "\n"


def thunk_to_string(thunk: Thunk) -> str:
    """Returns the line of a thunk: its class, its instruction, and what it reads and writes."""
    return f"{type(thunk).__name__} {thunk.instruction}: {', '.join(_details(thunk))}"


def _details(thunk: Thunk) -> list[str]:
    match thunk:
        case KernelThunk():
            return [_call(f"{thunk.kind} @{thunk.kernel}", thunk.operands, thunk.results), *_call_details(thunk)]
        case InlineThunk():
            return [_call("code", thunk.operands, thunk.results)]
        case CopyThunk():
            copy = f"{thunk.source.place} -> {thunk.destination.place} ({thunk.destination.size} bytes)"
            return [copy, "unless they are one"] if thunk.may_be_one else [copy]
        case WhileThunk():
            count = [] if thunk.trip_count is None else [f"trip_count={thunk.trip_count}"]
            return [f"while {thunk.predicate.place}", *count]
        case ConditionalThunk():
            return [f"on {thunk.selector}"]
        case CallThunk():
            return [thunk.callee]
        case _:
            raise AssertionError(f"no text for a {type(thunk).__name__}")


def _call(what: str, operands: Sequence[ShapedSlice], results: Sequence[ShapedSlice]) -> str:
    return f"{what}({', '.join(map(str, operands))}) -> ({', '.join(map(str, results))})"


def _call_details(thunk: KernelThunk) -> list[str]:
    details = [f"call={thunk.number}", f"units={thunk.units}"]
    if thunk.tasks > 1:
        details.append(f"tasks={thunk.tasks}")
    if thunk.can_fail:
        details.append("can_fail")
    if thunk.skip_if_same is not None:
        operand, result = thunk.skip_if_same
        details.append(f"unless operand {operand} and result {result} are one")
    match thunk:
        case GemmThunk() | ConvolutionThunk() | SortThunk() | FftThunk():
            return [*details, *attributes_to_strings(thunk.attributes)]
        case CustomCallThunk():
            return [*details, f'target="{thunk.target}"']
        case RuntimeCallThunk():
            return [*details, str(thunk.call)]
        case CollectiveThunk():
            return [*details, thunk.spec.devices]
        case _:
            return details
