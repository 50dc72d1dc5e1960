"""Text form of indexing maps: printing as in XLA's indexing documents, parsing of that and of XLA's newer form.

    (d0, d1)[s0] -> (d0 + s0, d1)         newer:  (d0, d1)[s0]{rt0} -> (d0 + rt0, d1 + s0),
    domain:                                       domain: d0 in [0, 9], d1 in [0, 4],
    d0 in [0, 9]                                  s0 in [0, 3], rt0 in [0, 6],
    d1 in [0, 4]                                  d0 mod 2 in [0, 0]
    s0 in [0, 6]
      hlo: of1 = s32[] parameter(1)
      (d0, d1) -> ()
    d0 mod 2 in [0, 0]

Bounds are inclusive. An empty domain prints as KNOWN EMPTY, an unknown map as UNKNOWN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xjit.affine.affine_map import AffineMap
from xjit.affine.errors import IndexingError
from xjit.affine.expr import AffineExpr
from xjit.affine.expr_text import AffineParser
from xjit.affine.interval import INT64_MAX, INT64_MIN, Interval
from xjit.affine.map_variables import Constraint, DimVar, RangeVar, RTVar
from xjit.affine.pool import dim, symbol

if TYPE_CHECKING:
    from xjit.affine.indexing_map import IndexingMap

__all__ = ["ParsedMap", "parse_map", "print_indexing_map"]

_EMPTY = "KNOWN EMPTY"
_UNKNOWN = "UNKNOWN"


def print_indexing_map(m: IndexingMap) -> str:
    """Returns the text form; inverse of `IndexingMap.parse`."""
    if m.is_unknown:
        return _UNKNOWN
    lines = [str(m.map)]
    if m.is_known_empty:
        return f"{lines[0]}\ndomain:\n{_EMPTY}"
    lines.append("domain:")
    lines += [f"d{i} in {v.bounds}" for i, v in enumerate(m.dim_vars)]
    lines += [f"s{i} in {v.bounds}" for i, v in enumerate(m.range_vars)]
    for i, v in enumerate(m.rt_vars, len(m.range_vars)):
        lines += [f"s{i} in {v.feasible_values}", f"  hlo: {_source_text(v.source)}", f"  {v.map}"]
    lines += [f"{expr} in {interval}" for expr, interval in m.constraints]
    return "\n".join(lines) if len(lines) > 2 else lines[0]


def _source_text(source: object) -> str:
    """The text of a run-time variable's source: its `short_text()` where it has one (an instruction without sigils)."""
    short_text = getattr(source, "short_text", None)
    return str(short_text()) if callable(short_text) else str(source)


class _Lines:
    """What the domain says about each variable, before the variables are sorted into kinds."""

    def __init__(self) -> None:
        self.bounds: dict[AffineExpr, Interval] = {}
        self.sources: dict[AffineExpr, tuple[str, AffineMap]] = {}
        self.constraints: list[Constraint] = []


class ParsedMap(NamedTuple):
    """The fields of the map in a text."""

    map: AffineMap
    dim_vars: tuple[DimVar, ...]
    range_vars: tuple[RangeVar, ...]
    rt_vars: tuple[RTVar, ...]
    constraints: tuple[Constraint, ...]
    is_known_empty: bool = False


def parse_map(text: str) -> ParsedMap | None:
    """Returns what `text` says, in either form; None for UNKNOWN. IndexingError, with position, if it is no map.

    Without a `domain:` all variables are unbounded, as in the documents' short examples.
    """
    if text.strip() == _UNKNOWN:
        return None
    parser = AffineParser(text)
    dims = parser.names("(", ")")
    ranges = parser.names("[", "]") if parser.peek() == "[" else []
    runtime = parser.names("{", "}") if parser.peek() == "{" else []
    names = [*dims, *ranges, *runtime]
    if len(set(names)) != len(names):
        raise parser.error("a variable is declared twice")
    variables = [*[dim(i) for i in range(len(dims))], *[symbol(i) for i in range(len(ranges) + len(runtime))]]
    parser.scope = dict(zip(names, variables))
    parser.expect("->")
    results = parser.expressions()
    affine_map = AffineMap(len(dims), len(ranges) + len(runtime), results)
    parser.accept(",")
    if parser.at_end():
        return _build(parser, affine_map, _unbounded(variables), len(ranges), dims)
    parser.expect("domain")
    parser.expect(":")
    if parser.peek() == "KNOWN":
        parser.next()
        parser.expect("EMPTY")
        if not parser.at_end():
            raise parser.error(f"unexpected {parser.peek()!r} after {_EMPTY}")
        unbounded = _build(parser, affine_map, _unbounded(variables), len(ranges), dims)
        return unbounded._replace(is_known_empty=True)  # the text gives no bounds
    found = _parse_domain(parser, set(variables))
    return _build(parser, affine_map, found, len(ranges), dims)


def _unbounded(variables: list[AffineExpr]) -> _Lines:
    lines = _Lines()
    lines.bounds = dict.fromkeys(variables, Interval(INT64_MIN, INT64_MAX))
    return lines


def _parse_domain(parser: AffineParser, variables: set[AffineExpr]) -> _Lines:
    lines = _Lines()
    while not parser.at_end():
        expr = parser.expression()
        parser.expect("in")
        interval = _parse_interval(parser)
        if expr in variables and expr not in lines.bounds:
            lines.bounds[expr] = interval
        else:
            lines.constraints.append((expr, interval))
        parser.accept(",")
        if parser.peek() == "hlo":
            lines.sources[expr] = _parse_source(parser)
    return lines


def _parse_interval(parser: AffineParser) -> Interval:
    parser.expect("[")
    lower = parser.integer()
    parser.expect(",")
    upper = parser.integer()
    parser.expect("]")
    return Interval(lower, upper)


def _parse_source(parser: AffineParser) -> tuple[str, AffineMap]:
    """Parses the `hlo:` line, kept as text, and the map line below it."""
    parser.expect("hlo")
    parser.expect(":")
    end = parser.text.find("\n", parser.pos)
    if end < 0:
        raise parser.error("expected the map of the run-time variable on the line after 'hlo:'")
    source = parser.text[parser.pos : end].strip()
    parser.pos = end
    return source, AffineMap.parse_from(parser)


def _build(parser: AffineParser, affine_map: AffineMap, found: _Lines, num_ranges: int, names: list[str]) -> ParsedMap:
    first_rt = num_ranges
    for position in range(num_ranges):
        if symbol(position) in found.sources:
            first_rt = position
            break
    for position in range(affine_map.num_dims):
        if dim(position) not in found.bounds:
            raise parser.error(f"no bounds for {names[position]}")
    range_vars: list[RangeVar] = []
    rt_vars: list[RTVar] = []
    for position in range(affine_map.num_symbols):
        variable = symbol(position)
        bounds = found.bounds.get(variable)
        if bounds is None:
            raise parser.error(f"no bounds for symbol {position}")
        if position < first_rt:
            range_vars.append(RangeVar(bounds))
            continue
        source, rt_map = found.sources.get(variable, ("", AffineMap(affine_map.num_dims, 0, ())))
        if position < num_ranges and variable not in found.sources:
            raise IndexingError(f"range variable s{position} follows a run-time variable; range variables come first")
        rt_vars.append(RTVar(bounds, source, rt_map))
    dim_vars = [DimVar(found.bounds[dim(i)], "" if name == f"d{i}" else name) for i, name in enumerate(names)]
    return ParsedMap(affine_map, tuple(dim_vars), tuple(range_vars), tuple(rt_vars), tuple(found.constraints))
