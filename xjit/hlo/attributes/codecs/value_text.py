"""Basics of value texts: errors with an offset, string escapes, comments, and splitting of bracketed lists.

Everything here is linear in the text and free of recursion: values come from untrusted files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from xjit.dataclass import dataclass

STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
ANY_STRING = rf"(?:{STRING}|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+')"  # XLA reads either quote, and writes the double one
INTS = r"\s*-?\d+(?:\s*,\s*-?\d+)*+\s*"  # 0,1
SIZES = r"\s*\d+(?:\s*,\s*\d+)*+\s*"  # of those, what is not negative
MAX_NESTING = 256

_COMMENT = re.compile(rf"{ANY_STRING}|/\*(?:[^*]|\*(?!/))*+\*/|//[^\n]*", re.DOTALL)
_SPLIT = re.compile(rf"""{ANY_STRING}|[{{}}()\[\],]|[^{{}}()\[\],"']++|["']""", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_SIMPLE_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_ESCAPED_BYTES = {
    **{byte: f"\\{byte:03o}" for byte in (*range(32), *range(127, 256))},
    **{ord(c): f"\\{letter}" for c, letter in zip("\n\r\t\"'\\", "nrt\"'\\", strict=True)},
}


class CodecError(ValueError):
    """A value text is malformed: what is wrong, and at which character of the value."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Codec:
    """One kind of value: `parse` takes its text (CodecError if malformed), `format` gives it back."""

    parse: Callable[[str], Any]
    format: Callable[[Any], str]


def strip_comments(text: str) -> str:
    """Returns the text with comments outside of strings blanked out (offsets stay)."""
    if "/*" not in text and "//" not in text:
        return text
    return _COMMENT.sub(lambda m: " " * len(m.group()) if m.group()[0] == "/" else m.group(), text)


def is_quoted(text: str) -> bool:
    """Whether a text starts and ends with one kind of quote."""
    return len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]


def unquote(text: str) -> str:
    """Returns the value of a quoted string (C escapes); CodecError if it is not one."""
    if not is_quoted(text):
        raise CodecError(f"expected a quoted string, found '{shorten(text)}'")
    body = text[1:-1]
    if "\\" not in body:
        return body
    return _ESCAPE.sub(_unescape, body.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    hexadecimal, octal, simple = match.groups()
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if octal:
        return bytes([int(octal, 8) & 255])
    return _SIMPLE_ESCAPES.get(simple, simple)


def quote(value: str) -> str:
    """Returns a string in quotes with C escapes; bytes that are not printable ASCII become octal."""
    text = value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("latin-1")
    return f'"{text.translate(_ESCAPED_BYTES)}"'


def shorten(text: str, limit: int = 40) -> str:
    """Returns the text for an error message, on one line and cut."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + "..."


def inside(text: str, brackets: str = "{}") -> str:
    """Returns what is between the outer brackets; CodecError if they are missing."""
    stripped = text.strip()
    if len(stripped) < 2 or stripped[0] != brackets[0] or stripped[-1] != brackets[1]:
        raise CodecError(f"expected '{brackets[0]}...{brackets[1]}', found '{shorten(text)}'")
    return stripped[1:-1]


def split_list(text: str) -> list[str]:
    """Splits `a, {b, c}, "d"` at commas outside of brackets and strings; no text gives no items."""
    return [item for item, _ in split_items(text)] if text.strip() else []


def split_items(text: str) -> Iterator[tuple[str, int]]:
    """Yields (item, offset) of a comma-separated list; CodecError on unbalanced brackets or deep nesting."""
    depth = start = 0
    for match in _SPLIT.finditer(text):
        token = match.group()
        if token in "{([":
            depth += 1
            if depth > MAX_NESTING:
                raise CodecError(f"brackets are nested deeper than {MAX_NESTING}", match.start())
        elif token in "})]":
            depth -= 1
            if depth < 0:
                raise CodecError(f"unexpected '{token}'", match.start())
        elif token == "," and depth == 0:
            yield text[start : match.start()].strip(), start
            start = match.end()
    if depth:
        raise CodecError("a bracket is not closed", len(text))
    yield text[start:].strip(), start
