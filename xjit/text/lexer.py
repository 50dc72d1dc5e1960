"""The lexer of HLO text: one regular expression, applied once to the whole text.

Tokens are plain strings. To keep their number small, the common composite values are one token each: a shape with its
layout (`f32[2,3]{1,0}`), a braced value after `=` that has no braces inside (`={0,1}`), the body of a numeric constant.
Positions are computed only when somebody asks: for error messages and the spans of instructions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, chain
from operator import add

from xjit.hlo.diagnostics import Span
from xjit.hlo.types.primitive_type import BY_TEXT

_TYPES = "|".join(sorted(BY_TEXT, key=len, reverse=True))
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_SINGLE = r"'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'"
_SKIP = r"\s*+(?:(?://[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)\s*+)*+"
_INSTRUCTION = r"\s*(?:ROOT\s+)?%?[\w.\-]+\s*=\s*(?:\(|[a-z]\w*\[|[a-z][\w\-]*\()"  # the first of a computation
_WORD = r"[\w.]*+(?:-(?!>)[\w.]*+)*+"  # the rest of a name
_TOKEN = rf"""
    [,=()]                                                           # the most frequent ones first
  | %[\w.\-]{_WORD}                                                   # name
  | (?:{_TYPES})\[(?:[\d,<=? ]|/\*(?:[^*]|\*(?!/))*+\*/)*+\](?:\{{[\d, ]*+(?::[^{{}}"/=]*+)?\}})?   # shape
  | [A-Za-z_]{_WORD}                                                  # name, keyword, word
  | (?<==)\{{(?!{_INSTRUCTION})(?:[^{{}}"'/]++|{_STRING}|{_SINGLE}|')*+\}}         # braced value without inner braces
  | (?<=[ ]constant\()[^()":/\[\]]++(?=\))                           # numbers of a constant
  | {_STRING} | {_SINGLE}
  | ->
  | <=
  | [-+]?\.?\d(?:[\w.+]|-(?!>))*+                                    # number, 3x3, 1_0x1_0
  | /\*(?s:.)*                                                       # comment without an end
  | \S
  | \Z                                                               # so that trailing space is skipped only once
"""
_LEXER = re.compile(f"({_SKIP})({_TOKEN})", re.VERBOSE | re.DOTALL)
_NEWLINE = re.compile("\n")
END = ""  # the tokens after the last one
_LOOKAHEAD = 4  # how many tokens the parser may look ahead without checking for the end


def _split(text: str) -> tuple[list[str], list[str]]:
    """Returns what is skipped in front of each token, and the tokens."""
    parts: list[str] = _LEXER.split(text)  # nothing, skipped, token, nothing, ...: every character is matched
    skipped, tokens = parts[1::3], parts[2::3]
    skipped.extend([END] * _LOOKAHEAD)
    tokens.extend([END] * _LOOKAHEAD)
    return skipped, tokens


def _starts(skipped: list[str], tokens: list[str]) -> list[int]:
    return list(accumulate(map(add, map(len, skipped), chain((0,), map(len, tokens)))))


class TokenPlaces:
    """Where the tokens of a text are. Outlives the parser, so it keeps only the text: it finds them when asked."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file

    @cached_property
    def starts(self) -> list[int]:
        """The character offset of each token."""
        return _starts(*_split(self.text))

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(m.end() for m in _NEWLINE.finditer(self.text))]

    @cached_property
    def _lines(self) -> dict[int, str]:
        return {}

    def span_at(self, offset: int, length: int = 1) -> Span:
        """Returns the span of some characters of the text."""
        line = bisect_right(self._line_starts, offset)
        start = self._line_starts[line - 1]
        text = self._lines.get(line)
        if text is None:
            end = self.text.find("\n", start)
            text = self._lines[line] = self.text[start : len(self.text) if end < 0 else end]
        return Span(line, offset - start + 1, length, text, self.file)

    def span(self, index: int) -> Span:
        """Returns the span of a token."""
        token = _LEXER.match(self.text, self.starts[index])
        return self.span_at(self.starts[index], max(1, len(token[2])) if token else 1)


class TokenStream:
    """The tokens of a text (`tokens`, ended by END), what is skipped in front of each (`gaps`), and their `places`."""

    def __init__(self, text: str, file: str = "<string>") -> None:
        self.text = text
        self.places = TokenPlaces(text, file)
        self.gaps, self.tokens = _split(text)

    @cached_property
    def starts(self) -> list[int]:
        """The character offset of each token."""
        return _starts(self.gaps, self.tokens)

    def span_at(self, offset: int, length: int = 1) -> Span:
        """Returns the span of some characters of the text."""
        return self.places.span_at(offset, length)

    def span(self, index: int) -> Span:
        """Returns the span of a token."""
        return self.places.span(index)

    def source(self, first: int, last: int) -> str:
        """Returns the text from token `first` to token `last`, inclusive, as it was written."""
        return self.text[self.starts[first] : self.starts[last] + len(self.tokens[last])]
