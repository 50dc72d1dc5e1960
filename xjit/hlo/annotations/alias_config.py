"""Aliasing as HLO text writes it: `input_output_alias` and `buffer_donor` of a module, `output_to_operand_aliasing`.

input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {2}, must-alias) }    buffer_donor={ (2, {}), (3, {0}) }
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.shape_index import ShapeIndex, format_shape_index, parse_shape_index

_INDEX = r"\{\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\}"
_BUFFER = rf"\(\s*(\d+)\s*,\s*{_INDEX}\s*(?:,\s*([\w-]+)\s*)?\)"
_ALIAS = re.compile(rf"\s*{_INDEX}\s*:\s*{_BUFFER}\s*")
_DONOR = re.compile(rf"\s*{_BUFFER}\s*")
KINDS = ("may-alias", "must-alias")


@dataclass(frozen=True, slots=True)
class Alias:
    """One output buffer that reuses the buffer of a parameter (of a module) or an operand (of an instruction)."""

    output_index: ShapeIndex
    parameter_number: int
    parameter_index: ShapeIndex = ()
    kind: str = "may-alias"

    def __str__(self) -> str:
        output, index = format_shape_index(self.output_index), format_shape_index(self.parameter_index)
        return f"{output}: ({self.parameter_number}, {index}, {self.kind})"


@dataclass(frozen=True, slots=True)
class BufferDonor:
    """A parameter buffer that any output may reuse."""

    parameter_number: int
    parameter_index: ShapeIndex = ()

    def __str__(self) -> str:
        return f"({self.parameter_number}, {format_shape_index(self.parameter_index)})"


def parse_aliases(text: str) -> tuple[Alias, ...]:
    """Returns the entries of `input_output_alias` or `output_to_operand_aliasing`, braces included or not."""
    result: list[Alias] = []
    for match in _entries(text, _ALIAS, "aliasing"):
        output, number, index, kind = match.groups()
        if kind is not None and kind not in KINDS:
            raise InvalidArgument(f"aliasing '{text}': kind {kind} is none of {', '.join(KINDS)}")
        result.append(Alias(parse_shape_index(output), int(number), parse_shape_index(index), kind or "may-alias"))
    return tuple(result)


def parse_buffer_donors(text: str) -> tuple[BufferDonor, ...]:
    """Returns the entries of `buffer_donor`, braces included or not."""
    matches = _entries(text, _DONOR, "buffer_donor")
    return tuple(BufferDonor(int(m.group(1)), parse_shape_index(m.group(2))) for m in matches)


def format_entries(entries: Iterable[Alias | BufferDonor]) -> str:
    """Returns entries as HLO text writes them."""
    text = ", ".join(map(str, entries))
    return f"{{ {text} }}" if text else "{}"


def _entries(text: str, pattern: re.Pattern[str], what: str) -> list[re.Match[str]]:
    body = _without_outer_braces(text)
    matches: list[re.Match[str]] = []
    position = 0
    while body[position:].strip():
        match = pattern.match(body, position)
        if match is None:
            raise InvalidArgument(f"{what} '{text}': cannot read '{body[position:].strip()}'")
        matches.append(match)
        position = match.end()
        if position < len(body):
            if body[position] != ",":
                raise InvalidArgument(f"{what} '{text}': expected ',' before '{body[position:].strip()}'")
            position += 1
    return matches


def _without_outer_braces(text: str) -> str:
    """`{ {}: (0, {}) }` has outer braces, `{}: (0, {})` has not: they enclose an entry or nothing, not an index."""
    text = text.strip()
    inner = text[1:-1].strip() if text.startswith("{") and text.endswith("}") else None
    if inner is not None and (not inner or inner[0] in "{("):
        return inner
    return text
