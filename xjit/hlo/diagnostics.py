"""The `HloError` family: every mistake in a user's input is reported as one of these, with a source span.

Imports nothing of xjit. Internal faults are `AssertionError`s; everything a user can cause is an `HloError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Protocol

from xjit.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source text: 1-based line and column, and the text of that line for the caret message."""

    line: int
    column: int
    length: int = 1
    line_text: str = ""
    file: str = "<string>"

    def caret(self) -> str:
        """Returns the source line with carets under the span (long lines are cut around it)."""
        start = max(0, self.column - 1 - 60)
        text = self.line_text[start : start + 160]
        return f"    {text}\n    {' ' * (self.column - 1 - start)}{'^' * max(1, min(self.length, 40))}"


class SpanSource(Protocol):
    """Something that knows where its tokens are: a text that was parsed."""

    def span(self, index: int) -> Span:
        """Returns the place of a token."""
        ...


Place = Span | tuple[SpanSource, int]
"""A span, or what it can be found from: a million instructions have a place, and hardly one is asked for its span."""


def span_of(place: Place | None) -> Span | None:
    """Returns the span of a place."""
    if place is None or isinstance(place, Span):
        return place
    source, index = place
    return source.span(index)


class HloError(Exception):
    """Base of all errors that xjit reports about its input. `message` is one clear sentence; `span` its place."""

    kind = "error"

    def __init__(self, message: str, span: Span | None = None, *notes: str) -> None:
        self.message = message
        self.span = span
        self.notes = notes
        super().__init__(message)

    @property
    def line(self) -> int | None:
        """1-based line of the mistake, if it came from a text."""
        return self.span.line if self.span else None

    @property
    def column(self) -> int | None:
        """1-based column of the mistake, if it came from a text."""
        return self.span.column if self.span else None

    def __str__(self) -> str:
        head = self.message
        if self.span is not None:
            head = f"{self.span.file}:{self.span.line}:{self.span.column}: error: {self.message}\n{self.span.caret()}"
        return "\n".join([head, *(f"  note: {note}" for note in self.notes)])


XjitError = HloError  # the name of the family in the catalogue of passes and of the HloModule API


class HloParseError(HloError):
    """The text is not HLO: has `.line`, `.column` and a caret message that says what was expected."""


class ElidedConstantWarning(UserWarning):
    """A text leaves out the values of constants: the module computes with zeros."""


class HloVerifyError(HloError):
    """The module breaks a rule of the IR: shapes, operands, attributes, structure."""


class ArrayTooLarge(HloVerifyError):
    """A shape has more bytes than any memory that is addressed here."""


class InvalidArgument(HloError):
    """A call got arguments that do not fit: wrong count, shape, dtype, name."""


class FailedPrecondition(HloError):
    """The object is not in the state that the operation needs."""


class Unsupported(HloError):
    """Valid HLO that this target or tool does not implement; names the opcode."""


class UnknownTarget(Unsupported):
    """A custom call to a function that nobody has; `is_typed` if it is one of XLA's typed interface (FFI)."""

    def __init__(self, target: str, known: Sequence[str], *, is_typed: bool, span: Span | None) -> None:
        self.target = target
        self.is_typed = is_typed
        super().__init__(f"custom-call to '{target}': expected one of {', '.join(known)}", span)


class PassError(HloError):
    """A pass or the pass pipeline failed; names the pass."""


class CompileError(HloError):
    """LLVM rejected the generated code, or the module cannot be compiled for the target."""


class ExecutionError(HloError):
    """A compiled program reported a failure at run time; names the instruction."""


class ResourceExhausted(ExecutionError, MemoryError):
    """A compiled program did not get the memory that it needs."""


_MAX_CANDIDATES = 2000


def did_you_mean(word: str, candidates: Collection[str]) -> str:
    """Returns ` (did you mean 'x'?)` for the nearest candidate, or nothing (also if there are very many)."""
    if len(candidates) > _MAX_CANDIDATES or len(word) > 80:
        return ""
    close = difflib.get_close_matches(word, list(candidates), 1)
    return f" (did you mean '{close[0]}'?)" if close else ""
