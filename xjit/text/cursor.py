"""Reading tokens: error reporting, names, shapes, balanced groups and attribute values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from xjit.hlo.attributes.codecs.shapes import parse_shape
from xjit.hlo.attributes.codecs.value_text import MAX_NESTING, CodecError, is_quoted, shorten, strip_comments
from xjit.hlo.diagnostics import HloParseError, did_you_mean
from xjit.hlo.ir.name_uniquer import KEYWORDS
from xjit.hlo.types.primitive_type import BY_TEXT
from xjit.hlo.types.shape import Shape
from xjit.text.lexer import END, TokenStream

T = TypeVar("T")

_NAME = re.compile(r"%[\w.\-]+|[A-Za-z_][\w.\-]*")
_DIM_LABELS = re.compile(r"[\w?]+->[\w?]+")
_SIZE = re.compile(r"\d+|[,?]|<=")
_LAYOUT_START = re.compile(r"[\d:}]")
_OPEN = {"{": "}", "(": ")", "[": "]"}


class Cursor:
    """A position in a token stream. Methods that take an index return the next one; nothing recurses."""

    def __init__(self, stream: TokenStream) -> None:
        self.stream = stream
        self.tokens = stream.tokens
        self.gaps = stream.gaps
        self.position = 0

    def fail(self, message: str, index: int, *notes: str) -> NoReturn:
        """Raises HloParseError at a token."""
        raise HloParseError(message, self.stream.span(min(index, len(self.tokens) - 1)), *notes)

    def describe(self, index: int) -> str:
        """Returns a token for an error message."""
        token = self.tokens[index] if index < len(self.tokens) else END
        if token == END:
            return "the end of the text"
        if token.startswith("/*"):
            return "a comment without an end"
        if token.startswith('"') and (len(token) == 1 or not token.endswith('"')):
            return "a string without an end"
        return f"'{shorten(token)}'"

    def expect(self, token: str, index: int, where: str) -> int:
        """Returns the index after a token that must be there."""
        if self.tokens[index] != token:
            self.fail(f"expected '{token}' {where}, found {self.describe(index)}", index)
        return index + 1

    def assigned(self, index: int, where: str) -> int:
        """Returns the index after the `=` that must follow a key at once, as XLA reads keys."""
        if self.gaps[index] and self.tokens[index] == "=":
            self.fail(f"expected '=' right {where}", index)
        return self.expect("=", index, where)

    def name(self, index: int, what: str) -> str:
        """Returns a name without its sigil."""
        token = self.tokens[index]
        if _NAME.fullmatch(token) is None or (token in KEYWORDS and self.tokens[index + 1] != ":"):
            self.fail(f"expected {what}, found {self.describe(index)}", index)
        return token[1:] if token[0] == "%" else token

    def decode(self, parse: Callable[[str], T], text: str, index: int) -> T:
        """Returns a value text, without its comments, parsed by a codec; its errors get the place of the value."""
        try:
            return parse(strip_comments(text))
        except CodecError as error:
            offset = self.stream.starts[index] + min(error.offset, len(text))
            length = len(text) if error.offset == 0 and "\n" not in text else 1
            raise HloParseError(error.message, self.stream.span_at(offset, length)) from None

    # -- groups

    def group_end(self, index: int) -> int:
        """Returns the index of the token that closes the bracket at `index`."""
        tokens = self.tokens
        expected: list[str] = []
        i = index
        while True:
            token = tokens[i]
            if token in _OPEN:
                expected.append(_OPEN[token])
                if len(expected) > MAX_NESTING:
                    self.fail(f"brackets are nested deeper than {MAX_NESTING}", i)
            elif token in ("}", ")", "]"):
                if token != expected[-1]:
                    self.fail(f"expected '{expected[-1]}', found '{token}'", i)
                expected.pop()
                if not expected:
                    return i
            elif token == END:
                self.fail(f"'{tokens[index]}' is not closed", index)
            i += 1

    def group(self, index: int) -> tuple[str, int]:
        """Returns the source of the bracketed group that starts at `index`, and the index after it."""
        end = self.group_end(index)
        return self.stream.source(index, end), end + 1

    def json(self, index: int) -> tuple[str, int]:
        """Returns the source of the JSON object that starts at `index`: only its braces are matched, as in XLA."""
        depth, i = 0, index
        while True:
            token = self.tokens[i]
            if token == END:
                self.fail("'{' is not closed", index)
            depth += (token == "{") - (token == "}")
            if not depth:
                return self.stream.source(index, i), i + 1
            i += 1

    # -- shapes and values

    def is_shape(self, index: int) -> bool:
        """Whether a shape starts at a token."""
        token = self.tokens[index]
        if token == "b":
            return self.tokens[index + 1] == "("
        if token in BY_TEXT:
            return self.tokens[index + 1] == "["
        return token == "(" or (token[-1:] in "]}" and "[" in token and token[:1].isalpha())

    def shape(self, index: int) -> tuple[Shape, int]:
        """Returns the shape that starts at `index`, and the index after it."""
        tokens = self.tokens
        token = tokens[index]
        start = index
        if token == "(":
            text, index = self.group(index)
        elif token == "b" and self.is_shape(index):
            _, index = self.group(index + 1)
            text = self.stream.source(start, index - 1)
        elif self.is_shape(index):
            text, index = (token, index + 1) if token[-1] in "]}" else self._spaced_shape(index)
            if text[-1] == "]" and tokens[index] == "{" and _LAYOUT_START.match(tokens[index + 1]):
                _, index = self.group(index)
                text = self.stream.source(start, index - 1)
        elif tokens[index + 1] == "[":
            self._malformed_shape(index)
        else:
            self.fail(f"expected a shape such as f32[2,3], found {self.describe(index)}", index)
        return self.decode(parse_shape, text, start), index

    def _spaced_shape(self, index: int) -> tuple[str, int]:
        """Reads `f32 [2]`, whose dimensions do not follow at once."""
        end = index + 2
        while _SIZE.fullmatch(self.tokens[end]):
            end += 1
        if self.tokens[end] != "]":
            self._malformed_shape(index)
        return self.stream.source(index, end), end + 1

    def _malformed_shape(self, index: int) -> NoReturn:
        token = self.tokens[index]
        if token not in BY_TEXT:
            self.fail(f"unknown element type '{token}'{did_you_mean(token, BY_TEXT)}", index)
        start = self.stream.starts[index]
        line = self.stream.text[start : start + 200].splitlines()[0]
        found = line[: line.find("]") + 1] or shorten(line)
        self.fail(f"expected a shape such as {token}[2,3], found '{found}'", index)

    def value(self, index: int) -> tuple[str, int]:
        """Returns the source text of the attribute value that starts at `index`, and the index after it."""
        tokens = self.tokens
        token = tokens[index]
        first = token[:1]
        if first == "{" and len(token) > 1:
            return token, index + 1
        if token == "[":
            return self._bracket_value(index)
        if token in _OPEN:
            return self.group(index)
        if first in ("'", '"'):
            if not is_quoted(token):
                self.fail("a string without an end", index)
            return token, index + 1
        if token == "mesh" and tokens[index + 1] == "[":
            return self._mesh_axes(index)
        if token[-1:] == "]" and tokens[index + 1] == "{":
            _, end = self.group(index + 1)
            return self.stream.source(index, end - 1), end
        if tokens[index + 1] in ("->", "?") or token == "?":
            return self._dim_labels(index)
        if not (first.isalnum() or (first and first in "%_-+.")):
            self.fail(f"expected a value after '=', found {self.describe(index)}", index)
        return token, index + 1

    def shaped_literal(self, index: int) -> tuple[str, int]:
        """Returns the source text of `f32[2]{0} {1, 2}` at `index`, and the index after it."""
        tokens = self.tokens
        if not self.is_shape(index):
            self.fail(f"expected a literal with its shape, found {self.describe(index)}", index)
        end = self.group_end(index) + 1 if tokens[index] == "(" else index + 1
        if tokens[index] == "(" and tokens[end] not in _OPEN:
            return self.stream.source(index, end - 1), end  # (s32[2] {1, 2}, pred[] true): shapes beside the values
        if tokens[end] == "{" and tokens[index][-1] == "]" and _LAYOUT_START.match(tokens[end + 1]):
            after = self.group_end(end) + 1
            end = end if tokens[after] in (",", END) else after
        last = self.group_end(end) if tokens[end] in _OPEN else end
        return self.stream.source(index, last), last + 1

    def _bracket_value(self, index: int) -> tuple[str, int]:
        """Reads `[2,4]<=[4,2]T(1,0)`."""
        tokens = self.tokens
        end = self.group_end(index)
        if tokens[end + 1] == "<=" and tokens[end + 2] == "[":
            end = self.group_end(end + 2)
            if tokens[end + 1] == "T" and tokens[end + 2] == "(":
                end = self.group_end(end + 2)
        return self.stream.source(index, end), end + 1

    def _mesh_axes(self, index: int) -> tuple[str, int]:
        """Reads `mesh['a'=2,'b'=4], device_ids=(...) {'a'}`."""
        tokens = self.tokens
        end = self.group_end(index + 1) + 1
        if tokens[end] == "," and tokens[end + 1] == "device_ids":
            end = self.group_end(self.assigned(end + 2, "after device_ids")) + 1
        if tokens[end] == ",":
            end += 1
        last = self.group_end(self.expect("{", end, "before the axes of a mesh") - 1)
        return self.stream.source(index, last), last + 1

    def _dim_labels(self, index: int) -> tuple[str, int]:
        match = _DIM_LABELS.match(self.stream.text, self.stream.starts[index])
        if match is None:
            self.fail(f"expected a value after '=', found {self.describe(index)}", index)
        end = index
        while self.stream.starts[end] < match.end():
            end += 1
        return match.group(), end
