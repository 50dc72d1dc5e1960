"""Affine maps that are written with their operands inside: `[%i + 1, %j * 2 + symbol(%n)]`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xjit.affine import AffineMap
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import IndexType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["parse_subscripts", "subscripts_text"]

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
    operands: dict[str, dict[str, Value]] = {"d": {}, "s": {}}

    def variable(found: re.Match[str]) -> str:
        kind, name = ("s", found.group(1)) if found.group(1) else ("d", found.group(2))
        known = operands[kind]
        if name not in known:
            place = p.span(start + 1 + found.start(), len(found.group()))
            known[name] = p.resolve(p.operand_at(name, place), INDEX)
        return f"{kind}{list(known).index(name)}"

    body = _OPERAND.sub(variable, match.group(1))
    dims, symbols = (", ".join(f"{kind}{i}" for i in range(len(operands[kind]))) for kind in "ds")
    map = p.affine_map_of(f"({dims})[{symbols}] -> ({body})", start)
    return map, [*operands["d"].values(), *operands["s"].values()]


def subscripts_text(p: Printer, map: AffineMap, operands: tuple[Value, ...]) -> str:
    """Returns what `parse_subscripts` reads."""
    dims, symbols = operands[: map.num_dims], operands[map.num_dims :]

    def name(found: re.Match[str]) -> str:
        number = int(found.group(2))
        return p.value(dims[number]) if found.group(1) == "d" else f"symbol({p.value(symbols[number])})"

    results = map.text(ceiled=True).split(" -> ", 1)[1].removeprefix("(").removesuffix(")")
    return f"[{_VARIABLE.sub(name, results)}]"
