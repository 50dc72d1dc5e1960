"""Affine maps that are written with their operands inside: `[%i + 1, %j * 2 + symbol(%n)]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xjit.affine import AffineMap
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import IndexType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["bounds_text", "parse_bounds", "parse_subscripts", "subscripts_text"]

_SUBSCRIPTS = re.compile(r"\[([^\[\]]*)\]")
_OPERAND = re.compile(r"symbol\s*\(\s*(%[\w.$-]+(?:#\d+)?)\s*\)|(%[\w.$-]+(?:#\d+)?)")
_VARIABLE = re.compile(r"\b([ds])(\d+)\b")
INDEX = IndexType()


def parse_subscripts(p: Parser) -> tuple[AffineMap, list[Value]]:
    """Parses the subscripts at the current token; returns a map, and its dims and symbols."""
    start = p.token.start
    match = p.match_raw(_SUBSCRIPTS)
    if match is None:
        p.fail("expected subscripts in brackets")
    return _map_of(p, match.group(1), start + 1)


def _map_of(p: Parser, text: str, start: int) -> tuple[AffineMap, list[Value]]:
    """Returns the map of expressions that stand in the text from `start` on, and its dims and symbols."""
    operands: dict[str, dict[str, Value]] = {"d": {}, "s": {}}

    def variable(found: re.Match[str]) -> str:
        kind, name = ("s", found.group(1)) if found.group(1) else ("d", found.group(2))
        known = operands[kind]
        if name not in known:
            place = p.span(start + found.start(), len(found.group()))
            known[name] = p.resolve(p.operand_at(name, place), INDEX)
        return f"{kind}{list(known).index(name)}"

    body = _OPERAND.sub(variable, text)
    dims, symbols = (", ".join(f"{kind}{i}" for i in range(len(operands[kind]))) for kind in "ds")
    map = p.affine_map_of(f"({dims})[{symbols}] -> ({body})", start)
    return map, [*operands["d"].values(), *operands["s"].values()]


def parse_bounds(p: Parser, word: str) -> tuple[AffineMap, list[int], list[Value]]:
    """Parses `(%a + 1, max(%b, 4))`, where `word` joins the expressions of one bound; returns a map of all expressions,
    how many of them belong to each bound, and the map's dims and symbols.
    """
    start = p.token.start
    parts: list[str] = []
    sizes: list[int] = []
    text = _parenthesized(p)
    for bound in _at_commas(text):
        several = re.fullmatch(rf"\s*{word}\s*\((.*)\)\s*", bound, re.DOTALL)
        inner = list(_at_commas(several.group(1))) if several else [bound]
        sizes.append(len(inner))
        # what stands for an expression keeps its place, for errors
        parts.append(f"{' ' * several.start(1)}{several.group(1)} " if several else bound)
    map, operands = _map_of(p, ",".join(parts), start + 1)
    if len(map.results) != sum(sizes):
        p.fail(f"expected {sum(sizes)} expressions, found {len(map.results)}", p.span(start))
    return map, sizes, operands


def _parenthesized(p: Parser) -> str:
    """Goes behind the parenthesis that closes the one at the current token; returns the text between them."""
    start = p.token.start
    depth = 0
    for position in range(start, len(p.text)):
        depth += {"(": 1, ")": -1}.get(p.text[position], 0)
        if depth == 0:
            break
    else:
        p.fail("expected bounds in parentheses")
    if position == start:
        p.fail("expected bounds in parentheses")
    p.seek(position + 1)
    return p.text[start + 1 : position]


def _at_commas(text: str) -> Iterator[str]:
    """Yields the parts between the commas that stand in no parentheses."""
    depth = start = 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    if text.strip():
        yield text[start:]


def bounds_text(p: Printer, map: AffineMap, sizes: tuple[int, ...], operands: tuple[Value, ...], word: str) -> str:
    """Returns what `parse_bounds` reads."""
    results = iter(map.results)
    texts: list[str] = []
    for size in sizes:
        part = AffineMap(map.num_dims, map.num_symbols, tuple(next(results) for _ in range(size)))
        inner = subscripts_text(p, part, operands)[1:-1]
        texts.append(inner if size == 1 else f"{word}({inner})")
    return f"({', '.join(texts)})"


def subscripts_text(p: Printer, map: AffineMap, operands: tuple[Value, ...]) -> str:
    """Returns what `parse_subscripts` reads."""
    dims, symbols = operands[: map.num_dims], operands[map.num_dims :]

    def name(found: re.Match[str]) -> str:
        number = int(found.group(2))
        return p.value(dims[number]) if found.group(1) == "d" else f"symbol({p.value(symbols[number])})"

    results = map.text(ceiled=True).split(" -> ", 1)[1].removeprefix("(").removesuffix(")")
    return f"[{_VARIABLE.sub(name, results)}]"
