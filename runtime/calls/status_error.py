"""`StatusError`: the Python exception for a status with which native code ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from xjit.hlo.custom_call_registry import take_failure_message
from xjit.hlo.diagnostics import ExecutionError, ResourceExhausted, Span
from xjit.llvm.execution_context import RuntimeStatus

FindPlace = Callable[[str], tuple[Span | None, tuple[str, ...]]]
"""From the name of an instruction to its place in a text, and notes on where it comes from."""

_TEXT: Mapping[int, str] = MappingProxyType(
    {
        RuntimeStatus.RESOURCE_EXHAUSTED: "Out of memory",
        RuntimeStatus.FAILED_PRECONDITION: "a checked requirement of the program did not hold",
        RuntimeStatus.INTERNAL: "a library routine refused its arguments",
        RuntimeStatus.CUSTOM_CALL_FAILED: "a custom call failed",
        RuntimeStatus.ITERATION_LIMIT: "a while loop exceeded the iteration limit",
        RuntimeStatus.CANCELLED: "it was cancelled",
        RuntimeStatus.COLLECTIVE_FAILED: "a collective of several devices failed",
    }
)


def _no_place(_instruction: str) -> tuple[Span | None, tuple[str, ...]]:
    return None, ()


class StatusError:
    """Raises the exception for a status that the entry returned.

    Args:
        program: the name of the program.
        instructions: names by the number that the code reports as `failed_instruction`.
        find_place: asked when something has failed, for the place of the instruction.
    """

    __slots__ = ("_find_place", "_instructions", "_program")

    def __init__(self, program: str, instructions: Sequence[str], find_place: FindPlace | None = None) -> None:
        self._program = program
        self._instructions = instructions
        self._find_place = find_place or _no_place

    def __call__(self, status: int, instruction: int, detail: int) -> NoReturn:
        name = self._instructions[instruction] if 0 <= instruction < len(self._instructions) else ""
        span, notes = self._find_place(name) if name else (None, ())
        known = status in _TEXT
        text = f"{RuntimeStatus(status).name}: {_TEXT[status]}" if known else f"status {status}"
        text = f"program {self._program!r} failed{' at ' + name if name else ''}: {text}"
        if status == RuntimeStatus.RESOURCE_EXHAUSTED:
            raise ResourceExhausted(text + (f" allocating {detail} bytes" if detail else ""), span, *notes)
        if status == RuntimeStatus.CUSTOM_CALL_FAILED:
            raise ExecutionError(f"{text}: {take_failure_message(detail)}", span, *notes)
        raise ExecutionError(text + (f" (info {detail})" if detail else ""), span, *notes)
