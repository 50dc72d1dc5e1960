"""How an attribute is written inside a format, without its type: the kinds that formats name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xjit.linalg_ext.ir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    EnumAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FloatType, IntegerType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["ATTRIBUTE_KINDS", "DYNAMIC", "AttributeKind", "integer_array"]

DYNAMIC = -(2**63)
"""Stands in a list of static values where the value is an operand."""

I64 = IntegerType(64)


@dataclass(frozen=True)
class AttributeKind:
    """`parse` into the state, `text` of the operation, and whether the parser stands where it `begins`."""

    parse: Callable[[Parser, ParseState, tuple[str, ...]], None]
    text: Callable[[Printer, Operation, tuple[str, ...]], str]
    begins: Callable[[Parser], bool] = lambda p: True


def _simple(parse: Callable[[Parser], Attribute], text: Callable[[Attribute], str], begins: str = "") -> AttributeKind:
    """A kind that is one attribute."""

    def into(p: Parser, state: ParseState, names: tuple[str, ...]) -> None:
        state.attributes[names[0]] = parse(p)

    def show(p: Printer, op: Operation, names: tuple[str, ...]) -> str:
        value = op.attributes.get(names[0])
        return "" if value is None else text(value)

    return AttributeKind(into, show, (lambda p: p.at(begins)) if begins else lambda p: True)


def integer_array(values: list[int]) -> ArrayAttr:
    """Returns `[1 : i64, 2 : i64]`."""
    return ArrayAttr(tuple(IntegerAttr(v, I64) for v in values))


def _number(attribute: Attribute) -> str:
    return str(attribute).rsplit(" : ", 1)[0]


def _f64(p: Parser) -> Attribute:
    attribute = p.number(FloatType("f64"))
    if p.accept(":"):
        p.type()
    return attribute


def _bool(p: Parser) -> Attribute:
    if not p.at("true", "false"):
        p.fail(f"expected 'true' or 'false', found {p.describe()}")
    return BoolAttr(p.next().text == "true")


def _flags_kind(word: str) -> AttributeKind:
    """`fastmath<nnan, ninf>` as an enumeration of arith."""

    def parse(p: Parser) -> Attribute:
        p.expect(word)
        return EnumAttr(f"arith.{word}", ", ".join(p.comma_list("<", ">", p.keyword)))

    def text(value: Attribute) -> str:
        shown = value.value if isinstance(value, EnumAttr) else ""
        return "" if shown == "none" else f"{word}<{shown}>"

    return _simple(parse, text, word)


def _predicate_kind(names: tuple[str, ...]) -> AttributeKind:
    """The number of a comparison, by name."""

    def parse(p: Parser) -> Attribute:
        word = p.string() if p.token.kind == "string" else p.keyword("a predicate")
        if word not in names:
            p.fail(f"unknown predicate '{word}', expected one of {', '.join(names)}")
        return IntegerAttr(names.index(word), I64)

    return _simple(parse, lambda value: names[value.value] if isinstance(value, IntegerAttr) else str(value))


def _reassociation(p: Parser) -> Attribute:
    groups = p.comma_list("[", "]", lambda: integer_array(p.comma_list("[", "]", lambda: _typed_integer(p))))
    return ArrayAttr(tuple(groups))


def _typed_integer(p: Parser) -> int:
    value = p.integer()
    if p.accept(":"):
        p.type()
    return value


def _bare_array(value: Attribute) -> str:
    """Returns `[[0, 1], [2]]` of nested arrays of integers."""
    if isinstance(value, ArrayAttr):
        return f"[{', '.join(_bare_array(v) for v in value.elements)}]"
    return _number(value)


def _dense_array(p: Parser) -> Attribute:
    return DenseArrayAttr.i64(p.comma_list("[", "]", p.integer))


def _dense_text(value: Attribute) -> str:
    return f"[{', '.join(str(v) for v in value.ints)}]" if isinstance(value, DenseArrayAttr) else _bare_array(value)


def _parse_indices(p: Parser, state: ParseState, names: tuple[str, ...]) -> None:
    """`[%a, 0, %b]`: values go to the operand group, numbers to the array, where `DYNAMIC` keeps a value's place."""
    group = state.operand_groups.setdefault(names[0], [])
    static: list[int] = []

    def element() -> None:
        if p.token.kind == "value":
            group.append(p.operand())
            static.append(DYNAMIC)
            if p.accept(":"):  # handles may tell their type
                p.type()
        else:
            static.append(p.integer())

    p.comma_list("[", "]", element)
    state.attributes[names[1]] = DenseArrayAttr.i64(static)


def _indices_text(p: Printer, op: Operation, names: tuple[str, ...]) -> str:
    static = op.attributes.get(names[1])
    assert isinstance(static, DenseArrayAttr)
    values = iter(p.operand_group(op, names[0]))
    return f"[{', '.join(p.value(next(values)) if v == DYNAMIC else str(v) for v in static.ints)}]"


def _unit_kind(word: str) -> AttributeKind:
    def parse(p: Parser) -> Attribute:
        p.expect(word)
        return UnitAttr()

    return _simple(parse, lambda value: word, word)


def _word_kind(dialect: str, words: tuple[str, ...]) -> AttributeKind:
    """One of some words, as an enumeration."""

    def parse(p: Parser, state: ParseState, names: tuple[str, ...]) -> None:
        state.attributes[names[0]] = EnumAttr(dialect, p.keyword(" or ".join(words)))

    def text(p: Printer, op: Operation, names: tuple[str, ...]) -> str:
        value = op.attributes.get(names[0])
        return value.value if isinstance(value, EnumAttr) else ""

    return AttributeKind(parse, text, lambda p: p.at(*words))


def _parse_positions(p: Parser, state: ParseState, names: tuple[str, ...]) -> None:
    """`0, -1`, `except(0)` or `all`: a list, whether it tells what is left out, whether it is everything."""
    if p.accept("all"):
        state.attributes[names[2]] = UnitAttr()
        state.attributes[names[0]] = DenseArrayAttr.i64(())
        return
    if p.accept("except"):
        state.attributes[names[1]] = UnitAttr()
        state.attributes[names[0]] = DenseArrayAttr.i64(p.comma_list("(", ")", p.integer))
        return
    positions = [p.integer()]
    while p.accept(","):
        positions.append(p.integer())
    state.attributes[names[0]] = DenseArrayAttr.i64(positions)


def _positions_text(p: Printer, op: Operation, names: tuple[str, ...]) -> str:
    if names[2] in op.attributes:
        return "all"
    positions = op.attributes.get(names[0])
    listed = ", ".join(map(str, positions.ints)) if isinstance(positions, DenseArrayAttr) else ""
    return f"except({listed})" if names[1] in op.attributes else listed


ROUNDING_MODES = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")
CMPF = (
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
)
CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")

ATTRIBUTE_KINDS: dict[str, AttributeKind] = {
    "i64": _simple(lambda p: p.number(I64), _number),
    "f64": _simple(_f64, _number),
    "bool": _simple(_bool, str),
    "string": _simple(lambda p: StringAttr(p.string()), str),
    "attr": AttributeKind(
        lambda p, state, names: state.attributes.__setitem__(names[0], p.attribute()),
        lambda p, op, names: p.attribute(op.attributes[names[0]]) if names[0] in op.attributes else "",
    ),
    "symbol": AttributeKind(
        lambda p, state, names: state.attributes.__setitem__(names[0], p.symbol_reference()),
        lambda p, op, names: p.attribute(op.attributes[names[0]]),
    ),
    "map": AttributeKind(
        lambda p, state, names: state.attributes.__setitem__(names[0], p.attribute()),
        lambda p, op, names: p.attribute(op.attributes[names[0]]),
    ),
    "fastmath": _flags_kind("fastmath"),
    "overflow": _flags_kind("overflow"),
    "cmpf": _predicate_kind(CMPF),
    "cmpi": _predicate_kind(CMPI),
    "reassociation": _simple(_reassociation, _bare_array),
    "integers": _simple(lambda p: integer_array(p.comma_list("[", "]", lambda: _typed_integer(p))), _bare_array),
    "dense_integers": _simple(_dense_array, _dense_text),
    "indices": AttributeKind(_parse_indices, _indices_text, lambda p: p.at("[")),
    "nofold": _unit_kind("nofold"),
    "deduplicate": _unit_kind("deduplicate"),
    "unique": _unit_kind("unique"),
    "restrict": _unit_kind("restrict"),
    "writable": _unit_kind("writable"),
    "positions": AttributeKind(_parse_positions, _positions_text),
    "comparison": _word_kind("transform.match_cmpi", ("eq", "ne", "le", "lt", "ge", "gt")),
    "rounding": _word_kind("arith.roundingmode", ROUNDING_MODES),
    "mode": _simple(
        lambda p: EnumAttr("transform.failures", p.keyword("'propagate' or 'suppress'")),
        lambda value: value.value if isinstance(value, EnumAttr) else str(value),
    ),
}
