"""Loops, branches and accesses of the affine dialect, whose bounds and indices are affine maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.affine import AffineMap, dim, symbol
from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.dialects.affine_subscripts import parse_subscripts, subscripts_text
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import SEGMENTS, CustomAssembly, OpDefinition, make_rows
from xjit.linalg_ext.dialects.scf import ensure_terminator, parse_assignments
from xjit.linalg_ext.ir.attributes import (
    AffineMapAttr,
    AffineSetAttr,
    DenseArrayAttr,
    IntegerAttr,
)
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Region, Value
from xjit.linalg_ext.ir.types import IndexType, MemRefType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState, Unresolved
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["AFFINE_LOOP_ROWS"]

INDEX = IndexType()
_ONE = IntegerAttr(1, INDEX)
_FOR = frozenset({SEGMENTS, "lowerBoundMap", "upperBoundMap", "step"})


def _operands_of_map(p: Parser, count: tuple[int, int], place: Span) -> list[Value]:
    """Parses `(%d0)[%s0]`."""
    dims = p.operand_list()
    symbols = p.operand_list("[", "]") if p.at("[") else []
    if (len(dims), len(symbols)) != count:
        p.fail(f"expected {count[0]} dims and {count[1]} symbols", place)
    return [p.resolve(u, INDEX) for u in (*dims, *symbols)]


def _parse_bound(p: Parser, word: str) -> tuple[AffineMapAttr, list[Value]]:
    """Parses a number, a value, or a map with its operands, behind `max` or `min` if it has several results."""
    several = p.accept(word)
    place = p.here()
    if not several and p.token.kind == "value":
        return AffineMapAttr(AffineMap(0, 1, (symbol(0),))), [p.resolve(p.operand(), INDEX)]
    if not several and p.token.kind not in ("hash", "id"):
        return AffineMapAttr(AffineMap.constants((p.integer(),))), []
    attribute = p.attribute()
    if not isinstance(attribute, AffineMapAttr):
        p.fail(f"expected a number, a value or an affine map as bound, found {attribute}", place)
    map = attribute.map
    if len(map.results) != 1 and not several:
        p.fail(f"a bound of {len(map.results)} results needs '{word}'", place)
    return attribute, _operands_of_map(p, (map.num_dims, map.num_symbols), place)


def _bound_text(p: Printer, attribute: AffineMapAttr, operands: tuple[Value, ...], word: str) -> str:
    map = attribute.map
    if len(map.results) == 1 and map.results[0].is_constant:
        return str(map.results[0].value)
    if len(operands) == 1 and map.results in ((dim(0),), (symbol(0),)):
        return p.value(operands[0])
    dims, symbols = operands[: map.num_dims], operands[map.num_dims :]
    text = f"{p.attribute(attribute)}({', '.join(_map_values(p, dims))})"
    text += f"[{', '.join(_map_values(p, symbols))}]" if symbols else ""
    return text if len(map.results) == 1 else f"{word} {text}"


def _map_values(p: Printer, values: tuple[Value, ...]) -> list[str]:
    """The names of values that stand for a map's dims or symbols."""
    return [p.value(v) for v in values]


def parse_for(p: Parser, state: ParseState) -> None:
    span = p.here()
    variable = p.expect_kind("value", "a loop variable").text
    p.expect("=")
    lower, lower_operands = _parse_bound(p, "max")
    p.expect("to")
    upper, upper_operands = _parse_bound(p, "min")
    state.attributes["step"] = IntegerAttr(p.integer(), INDEX) if p.accept("step") else _ONE
    names: list[tuple[str, Span]] = []
    inits: list[Unresolved] = []
    types: list[Type] = []
    if p.accept("iter_args"):
        names, inits = parse_assignments(p)
        p.expect("->")
        types = p.type_tuple()
    state.operands = [*lower_operands, *upper_operands, *p.resolve_all(inits, types)]
    state.result_types = types
    state.attributes["lowerBoundMap"], state.attributes["upperBoundMap"] = lower, upper
    state.attributes[SEGMENTS] = DenseArrayAttr.i32((len(lower_operands), len(upper_operands), len(inits)))
    arguments = [(variable, INDEX, span), *((n, t, s) for (n, s), t in zip(names, types))]
    state.regions = [p.region(arguments)]
    if not types:
        ensure_terminator(state.regions[0], "affine.yield")
    state.attributes.update(p.optional_dictionary())


def _bounds(op: Operation) -> tuple[AffineMapAttr, AffineMapAttr, tuple[int, ...]]:
    lower, upper = op.attributes.get("lowerBoundMap"), op.attributes.get("upperBoundMap")
    segments = op.attributes.get(SEGMENTS)
    if not (isinstance(lower, AffineMapAttr) and isinstance(upper, AffineMapAttr)):
        raise LinalgVerifyError(f"'{op.name}' op needs maps as bounds", op.location)
    if not isinstance(segments, DenseArrayAttr) or len(segments.ints) != 3 or sum(segments.ints) != len(op.operands):
        raise LinalgVerifyError(
            f"'{op.name}' op has {len(op.operands)} operands, but {SEGMENTS} {segments}", op.location
        )
    return lower, upper, segments.ints


def check_for(op: Operation) -> None:
    for map, count in zip(_bounds(op)[:2], _bounds(op)[2]):
        if map.map.num_dims + map.map.num_symbols != count:
            raise LinalgVerifyError(f"'{op.name}' op has {count} operands of a bound {map}", op.location)
    step = op.attributes.get("step")
    if not isinstance(step, IntegerAttr) or step.value < 1:
        raise LinalgVerifyError(f"'{op.name}' op expects a positive step, found {step}", op.location)


def print_for(p: Printer, op: Operation) -> None:
    lower, upper, (first, second, _) = _bounds(op)
    step = op.attributes.get("step")
    operands, block = op.operands, op.body
    variable, *carried = map(p.value, block.arguments)
    p.write(f" {variable} = {_bound_text(p, lower, operands[:first], 'max')}")
    p.write(f" to {_bound_text(p, upper, operands[first : first + second], 'min')}")
    if isinstance(step, IntegerAttr) and step.value != 1:
        p.write(f" step {step.value}")
    if op.results:
        pairs = ", ".join(f"{a} = {p.value(v)}" for a, v in zip(carried, operands[first + second :]))
        p.write(f" iter_args({pairs}) -> ({', '.join(p.type(t) for t in op.result_types)})")
    p.write(" ")
    p.region(op.regions[0], arguments=False, terminator=bool(op.results))
    p.optional_dictionary(op, _FOR)


def parse_if(p: Parser, state: ParseState) -> None:
    place = p.here()
    condition = p.attribute()
    if not isinstance(condition, AffineSetAttr):
        p.fail(f"expected an affine set, found {condition}", place)
    state.operands = _operands_of_map(p, (condition.map.num_dims, condition.map.num_symbols), place)
    state.attributes["condition"] = condition
    state.result_types = p.arrow_types()
    state.regions = [p.region(), p.region() if p.accept("else") else Region()]
    for region in state.regions:
        if region.blocks or region is state.regions[0]:
            ensure_terminator(region, "affine.yield")
    state.attributes.update(p.optional_dictionary())


def print_if(p: Printer, op: Operation) -> None:
    condition = op.attributes["condition"]
    assert isinstance(condition, AffineSetAttr)
    count = condition.map.num_dims
    p.write(f" {p.attribute(condition)}({', '.join(_map_values(p, op.operands[:count]))})")
    if len(op.operands) > count:
        p.write(f"[{', '.join(_map_values(p, op.operands[count:]))}]")
    if op.results:
        p.write(f" -> {', '.join(p.type(t) for t in op.result_types)}")
    p.write(" ")
    p.region(op.regions[0], terminator=bool(op.results))
    if op.regions[1].blocks:
        p.write(" else ")
        p.region(op.regions[1], terminator=bool(op.results))
    p.optional_dictionary(op, frozenset({"condition"}))


def check_if(op: Operation) -> None:
    condition = op.attributes["condition"]
    assert isinstance(condition, AffineSetAttr)
    if len(op.operands) != condition.map.num_dims + condition.map.num_symbols or len(op.regions) != 2:
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.operands)} operands, but set {condition}", op.location)


def _access(name: str, leading: int) -> OpDefinition:
    """The row of a load, or with one leading operand of a store: `%value, %memref[..] : type`."""

    def parse(p: Parser, state: ParseState) -> None:
        names: list[Unresolved] = []
        for _ in range(leading):
            names.append(p.operand())
            p.expect(",")
        memref = p.operand()
        map, indices = parse_subscripts(p)
        state.attributes.update(p.optional_dictionary())
        state.attributes["map"] = AffineMapAttr(map)
        p.expect(":")
        place = p.here()
        type = p.type()
        if not isinstance(type, MemRefType):
            p.fail(f"expected a memref, found {type}", place)
        values = [p.resolve(u, type.element) for u in names]
        state.operands = [*values, p.resolve(memref, type), *indices]
        state.result_types = [] if leading else [type.element]

    def show(p: Printer, op: Operation) -> None:
        map = op.attributes["map"]
        assert isinstance(map, AffineMapAttr)
        shown = ", ".join(_map_values(p, op.operands[: leading + 1]))
        p.write(f" {shown}{subscripts_text(p, map.map, op.operands[leading + 1 :])}")
        p.optional_dictionary(op, frozenset({"map"}))
        p.write(f" : {p.type(op.operands[leading].type)}")

    def check(op: Operation) -> None:
        """As many subscripts as the map has dimensions, as many results as the memref."""
        map, kind = op.attributes["map"], op.operands[leading].type
        assert isinstance(map, AffineMapAttr)
        found, expected = len(op.operands) - leading - 1, map.map.num_dims + map.map.num_symbols
        if not isinstance(kind, MemRefType) or len(map.map.results) != kind.rank or found != expected:
            raise LinalgVerifyError(f"'{op.name}' op has {found} subscripts {map} of {kind}", op.location)

    groups = ("value element memref;" if leading else "") + "memref;indices* index"
    result = "" if leading else "result element memref"
    return op(name, groups, result, assembly=CustomAssembly(parse, show), needs="map(map)", check=check)


AFFINE_LOOP_ROWS = make_rows(
    op(
        "affine.for",
        assembly=CustomAssembly(parse_for, print_for),
        traits="recursive",
        needs="map(lowerBoundMap) map(upperBoundMap) i64(step)",
        regions=1,
        check=check_for,
    ),
    op(
        "affine.if",
        "operands* index",
        "results*",
        assembly=CustomAssembly(parse_if, print_if),
        traits="recursive",
        needs="set(condition)",
        regions=1,
        check=check_if,
    ),
    _access("affine.load", 0),
    _access("affine.store", 1),
)
