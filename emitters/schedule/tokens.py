"""Words, names, numbers and index expressions of a schedule's text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from xjit.affine import AffineExpr, IndexingError
from xjit.affine.expr_text import AffineParser
from xjit.emitters.schedule.statements import Index
from xjit.hlo.diagnostics import HloParseError, Span

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_TOKEN = re.compile(r"%[^\s\[\]{}(),#]+|-?\d+|[A-Za-z_.][\w.\-]*|.")
_T = TypeVar("_T")


class TokenStream:
    """A place in a text, and readers that move it. What is not as expected is an HloParseError there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Whether nothing but remarks is left."""
        return not self.peek()

    def expressions(self, opening: str, closing: str) -> Index:
        """Reads expressions between two brackets, maybe none."""
        self.expect(opening)
        if self.accept(closing):
            return ()
        found = tuple(self.list_of(self.expression))
        self.expect(closing)
        return found

    def expression(self) -> AffineExpr:
        """Reads one affine expression."""
        parser = AffineParser(self._text)
        parser.pos = self._at
        try:
            found = parser.expression()
        except IndexingError as e:
            raise self.error(str(e)) from e
        self._at = parser.pos
        return found

    def variable(self) -> int:
        """Reads `d3` as 3."""
        token = self.next()
        if token[:1] != "d" or not token[1:].isdigit():
            raise self.error(f"expected a variable, found {token!r}")
        return int(token[1:])

    def list_of(self, item: Callable[[], _T]) -> list[_T]:
        """Reads items with commas between them, one or more."""
        found = [item()]
        while self.accept(","):
            found.append(item())
        return found

    def name(self) -> str:
        """Reads `%name`, without the percent sign."""
        token = self.next()
        if token[:1] != "%" or len(token) == 1:
            raise self.error(f"expected a name, found {token!r}")
        return token[1:]

    def integer(self) -> int:
        """Reads a whole number."""
        token = self.next()
        if not token.removeprefix("-").isdigit():
            raise self.error(f"expected a number, found {token!r}")
        return int(token)

    def number(self) -> float:
        """Reads a whole number, or an infinity."""
        sign = -1.0 if self.accept("-") else 1.0
        return sign * float("inf") if self.accept("inf") else sign * self.integer()

    def one_of(self, words: list[str]) -> str:
        """Reads one of some words."""
        token = self.next()
        if token not in words:
            raise self.error(f"expected one of {', '.join(words)}, found {token!r}")
        return token

    def peek(self) -> str:
        """The next token, which stays; empty at the end of the text."""
        space = _SPACE.match(self._text, self._at)
        assert space is not None  # it matches nothing, too
        self._at = space.end()
        match = _TOKEN.match(self._text, self._at)
        return match.group() if match else ""

    def next(self) -> str:
        """Takes the next token, whatever it is."""
        token = self.peek()
        self._at += len(token)
        return token

    def accept(self, token: str) -> bool:
        """Takes the next token if it is this one."""
        if self.peek() != token:
            return False
        self.next()
        return True

    def expect(self, token: str) -> None:
        """Takes this token."""
        if not self.accept(token):
            raise self.error(f"expected {token!r}, found {self.peek()!r}")

    def error(self, message: str) -> HloParseError:
        """The error to raise at this place."""
        start = self._text.rfind("\n", 0, self._at) + 1
        line = self._text.count("\n", 0, start) + 1
        rest = self._text[start:].split("\n", 1)[0]
        return HloParseError(f"schedule: {message}", Span(line, self._at - start + 1, 1, rest))
