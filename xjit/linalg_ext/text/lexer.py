"""Tokens of MLIR text, made on demand: what `4x8xf32` is depends on where it stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.ir.errors import LinalgParseError

__all__ = ["Lexer", "Token"]

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<float>\d+\.\d*(?:[eE][-+]?\d+)?)"
    r"|(?P<hex>0x[0-9A-Fa-f]+)"
    r"|(?P<int>\d+)"
    r"|(?P<id>[A-Za-z_][\w$.]*)"
    r"|(?P<value>%(?:\d+|[A-Za-z$._-][\w$.-]*))"
    r"|(?P<label>\^(?:\d+|[A-Za-z$._-][\w$.-]*))"
    r'|(?P<symbol>@(?:[A-Za-z_][\w$.]*|"(?:[^"\\\n]|\\.)*"))'
    r"|(?P<hash>#(?:\d+|[A-Za-z$_][\w$.-]*))"
    r"|(?P<bang>!(?:\d+|[A-Za-z$_][\w$.-]*))"
    r"|(?P<punct>->|::|\.\.\.|\{-#|#-\}|[-+*/(){}\[\]<>,:=?|])"
)
_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_BALANCED = re.compile(r'"(?:[^"\\\n]|\\.)*"|->|[()\[\]{}<>]|[^"()\[\]{}<>-]+|.', re.S)
MAX_NESTING = 48
"""Of regions, types and attributes inside each other: far below Python's recursion limit."""


class Token(NamedTuple):
    """`kind` is the name of the group in the lexer's expression, "end" at the end."""

    kind: str
    text: str
    start: int


class Lexer:
    """The text, and the token where the parser stands (`token`)."""

    def __init__(self, text: str, file: str = "<string>", first_line: int = 1) -> None:
        self.text, self.file, self.first_line = text, file, first_line
        self._line_starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._nesting = 0
        self._last_end = 0
        self.token = Token("end", "", 0)
        self.seek(0)

    def seek(self, position: int) -> None:
        """Makes the token at or behind `position` the current one."""
        space = _SPACE.match(self.text, position)
        start = space.end() if space else position
        match = _TOKEN.match(self.text, start)
        if match is not None:
            self.token = Token(match.lastgroup or "", match.group(), start)
        elif start >= len(self.text):
            self.token = Token("end", "", len(self.text))
        else:
            self.token = Token("bad", self.text[start], start)

    @property
    def end(self) -> int:
        """Position behind the current token."""
        return self.token.start + len(self.token.text)

    def next(self) -> Token:
        """Returns the current token and goes on."""
        token = self.token
        if token.kind == "bad":
            self.fail(f"unexpected character {token.text!r}")
        self._last_end = self.end
        self.seek(self.end)
        return token

    def peek(self) -> str:
        """Returns the text of the token behind the current one."""
        here = self.token.start
        self.seek(self.end)
        text = self.token.text
        self.seek(here)
        return text

    def on_same_line(self) -> bool:
        """Whether the current token stands on the line where the one before ended."""
        return "\n" not in self.text[self._last_end : self.token.start]

    def span(self, start: int, length: int = 1) -> Span:
        """Returns the place of a position."""
        line = bisect_right(self._line_starts, start) - 1
        begin = self._line_starts[line]
        finish = self.text.find("\n", begin)
        content = self.text[begin : len(self.text) if finish < 0 else finish]
        return Span(line + self.first_line, start - begin + 1, max(1, length), content, self.file)

    def here(self) -> Span:
        return self.span(self.token.start, len(self.token.text))

    def fail(self, message: str, span: Span | None = None) -> NoReturn:
        """Raises an error, at the current token if no other place is given."""
        raise LinalgParseError(message, span or self.here())

    def describe(self) -> str:
        """Returns the current token for a message."""
        return repr(self.token.text[:40]) if self.token.kind != "end" else "end of text"

    def at(self, *texts: str) -> bool:
        """Whether the current token is one of these words or punctuation marks."""
        return self.token.text in texts and self.token.kind in ("id", "punct")

    def accept(self, text: str) -> bool:
        """Skips the token if it is `text`."""
        if not self.at(text):
            return False
        self.next()
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.describe()}")

    def expect_kind(self, kind: str, what: str) -> Token:
        if self.token.kind != kind:
            self.fail(f"expected {what}, found {self.describe()}")
        return self.next()

    def keyword(self, what: str = "a keyword") -> str:
        return self.expect_kind("id", what).text

    def integer(self) -> int:
        """Parses `-12` or `0x1F`."""
        negative = self.accept("-")
        if self.token.kind not in ("int", "hex"):
            self.fail(f"expected an integer, found {self.describe()}")
        text = self.token.text
        if len(text) > 4000:
            self.fail("the integer is too long")
        self.next()
        value = int(text, 16) if text[1:2] == "x" else int(text)
        return -value if negative else value

    def string(self) -> str:
        """Parses a string literal."""
        return self.unquote(self.expect_kind("string", "a string").text)

    def unquote(self, literal: str) -> str:
        """Returns what a string literal means: escapes are `\\"`, `\\\\`, `\\n`, `\\t` and two hex digits."""
        body = literal[1:-1]
        if "\\" not in body:
            return body
        out = bytearray()
        i = 0
        simple = {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}
        while i < len(body):
            if body[i] != "\\":
                out += body[i].encode("utf-8", "surrogateescape")
                i += 1
            elif body[i + 1] in simple:
                out += simple[body[i + 1]]
                i += 2
            elif re.match(r"[0-9A-Fa-f]{2}", body[i + 1 : i + 3]):
                out.append(int(body[i + 1 : i + 3], 16))
                i += 3
            else:
                self.fail(f"unknown escape '\\{body[i + 1]}' in a string")
        return out.decode("utf-8", "surrogateescape")

    def balanced(self) -> str:
        """Parses a bracket and all up to the one that closes it, as text."""
        start = self.token.start
        stack: list[str] = []
        position = start
        while True:
            match = _BALANCED.match(self.text, position)
            if match is None:
                self.fail(f"expected '{stack[-1]}' before the end of the text", self.span(start))
            piece, position = match.group(), match.end()
            if piece in _BRACKETS:
                stack.append(_BRACKETS[piece])
            elif stack and piece == stack[-1]:
                stack.pop()
            elif piece in (")", "]", "}", ">"):
                self.fail(f"unexpected {piece!r}", self.span(match.start()))
            if not stack:
                break
        self.seek(position)
        return self.text[start:position]

    def match_raw(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Matches at the start of the current token, whatever that is, and goes behind the match."""
        match = pattern.match(self.text, self.token.start)
        if match is not None:
            self.seek(match.end())
        return match

    @contextmanager
    def nested(self) -> Generator[None]:
        """Counts how deep things are inside each other."""
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self.fail(f"more than {MAX_NESTING} levels inside each other")
        yield
        self._nesting -= 1
