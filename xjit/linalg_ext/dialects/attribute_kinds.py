"""How an attribute is written inside a format, without its type: the kinds that formats name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.definition import DYNAMIC, Need, words
from xjit.linalg_ext.ir.attributes import (
    AffineMapAttr,
    AffineSetAttr,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FloatType, IntegerType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = [
    "ATOMIC_KINDS",
    "ATTRIBUTE_KINDS",
    "DYNAMIC",
    "FAILURE_MODES",
    "MATCH_INTERFACES",
    "PARAMETER_COMPARISONS",
    "AttributeKind",
    "integer_array",
    "needs_of",
    "word_of",
]

I64 = IntegerType(64)


@dataclass(frozen=True)
class AttributeKind:
    """`parse` into the state, `text` of the operation, which attributes it `accepts`, and whether the parser stands
    where it `begins`. `lists_group`: the first of its names is a group of operands, the second one the attribute.
    """

    parse: Callable[[Parser, ParseState, tuple[str, ...]], None]
    text: Callable[[Printer, Operation, tuple[str, ...]], str]
    accepts: Callable[[Attribute], bool]
    begins: Callable[[Parser], bool] = lambda p: True
    lists_group: bool = False

    def need(self, names: tuple[str, ...], optional: bool) -> Need:
        """Returns what the verifier asks of the attribute with these names."""
        if self.lists_group:
            return Need(names[1], self.accepts, optional, names[0])
        return Need(names[0], self.accepts, optional)


_WORDS = re.compile(r"(\w+)\((\w+)\)")


def needs_of(text: str) -> tuple[Need, ...]:
    """Returns what `i64(dimension) map(permutation)` asks for."""
    return tuple(ATTRIBUTE_KINDS[kind].need((name,), False) for kind, name in _WORDS.findall(text))


def _is(kind: type | UnionType) -> Callable[[Attribute], bool]:
    return lambda attribute: isinstance(attribute, kind)


def _integers(attribute: Attribute) -> bool:
    """Whether an attribute is a list of integers."""
    if isinstance(attribute, ArrayAttr):
        return all(isinstance(e, IntegerAttr) for e in attribute.elements)
    return isinstance(attribute, DenseArrayAttr)


def _symbols(attribute: Attribute) -> bool:
    """Whether an attribute is a list of names that are not alone."""
    symbols = attribute.elements if isinstance(attribute, ArrayAttr) else ()
    return bool(symbols) and all(isinstance(e, SymbolRefAttr) for e in symbols)


def _groups(attribute: Attribute) -> bool:
    """Whether an attribute is a list of lists of integers."""
    return isinstance(attribute, ArrayAttr) and all(
        isinstance(e, ArrayAttr) and _integers(e) for e in attribute.elements
    )


def _simple(
    parse: Callable[[Parser], Attribute],
    text: Callable[[Attribute], str],
    accepts: Callable[[Attribute], bool],
    *begins: str,
) -> AttributeKind:
    """A kind that is one attribute."""

    def into(p: Parser, state: ParseState, names: tuple[str, ...]) -> None:
        state.attributes[names[0]] = parse(p)

    def show(p: Printer, op: Operation, names: tuple[str, ...]) -> str:
        value = op.attributes.get(names[0])
        return "" if value is None else text(value)

    return AttributeKind(into, show, accepts, (lambda p: p.at(*begins)) if begins else lambda p: True)


def _printed(kind: type[Attribute]) -> AttributeKind:
    """An attribute as it stands in a dictionary."""

    def into(p: Parser, state: ParseState, names: tuple[str, ...]) -> None:
        place = p.here()
        attribute = state.attributes[names[0]] = p.attribute()
        if not isinstance(attribute, kind):
            p.fail(f"'{names[0]}' cannot be {attribute}", place)

    def show(p: Printer, op: Operation, names: tuple[str, ...]) -> str:
        value = op.attributes.get(names[0])
        return "" if value is None else p.attribute(value)

    return AttributeKind(into, show, _is(kind))


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

    return _simple(parse, text, _is(EnumAttr), word)


def _predicate_kind(names: tuple[str, ...]) -> AttributeKind:
    """The number of a comparison, by name."""

    def parse(p: Parser) -> Attribute:
        word = p.string() if p.token.kind == "string" else p.keyword("a predicate")
        if word not in names:
            p.fail(f"unknown predicate '{word}', expected one of {', '.join(names)}")
        return IntegerAttr(names.index(word), I64)

    def accepts(attribute: Attribute) -> bool:
        return isinstance(attribute, IntegerAttr) and 0 <= attribute.value < len(names)

    return _simple(parse, lambda value: names[value.value] if isinstance(value, IntegerAttr) else str(value), accepts)


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


def _indices_kind(opening: str, closing: str) -> AttributeKind:
    """`[%a, 0, %b]`: values go to the operand group, numbers to the array, where `DYNAMIC` keeps a value's place."""

    def parse(p: Parser, state: ParseState, names: tuple[str, ...]) -> None:
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

        p.comma_list(opening, closing, element)
        state.attributes[names[1]] = DenseArrayAttr.i64(static)

    def text(p: Printer, op: Operation, names: tuple[str, ...]) -> str:
        static = op.attributes.get(names[1])
        assert isinstance(static, DenseArrayAttr)
        values = iter(p.operand_group(op, names[0]))
        listed = ", ".join(p.value(next(values)) if v == DYNAMIC else str(v) for v in static.ints)
        return f"{opening}{listed}{closing}"

    return AttributeKind(parse, text, _is(DenseArrayAttr), lambda p: p.at(opening), lists_group=True)


def _unit_kind(word: str) -> AttributeKind:
    def parse(p: Parser) -> Attribute:
        p.expect(word)
        return UnitAttr()

    return _simple(parse, lambda value: word, _is(UnitAttr), word)


def word_of(attribute: Attribute | None, names: Mapping[str, int]) -> str:
    """Returns which of some words an attribute is, by its number or as an enumeration; "" if it is none of them."""
    if isinstance(attribute, EnumAttr) and attribute.value in names:
        return attribute.value
    if isinstance(attribute, IntegerAttr):
        return next((word for word, number in names.items() if number == attribute.value), "")
    return ""


def _word_kind(names: Mapping[str, int], width: int = 32) -> AttributeKind:
    """One of some words, whose number is stored as an integer, as MLIR does."""

    def parse(p: Parser) -> Attribute:
        if not p.at(*names):
            p.fail(f"expected {' or '.join(map(repr, names))}, found {p.describe()}")
        return IntegerAttr(names[p.next().text], IntegerType(width))

    return _simple(parse, lambda a: word_of(a, names), lambda a: word_of(a, names) != "", *names)


def _index_predicate_kind() -> AttributeKind:
    """The predicate of `index.cmp`: `#index<cmp_predicate slt>`."""

    def parse(p: Parser) -> Attribute:
        word = p.keyword("a predicate")
        if word not in CMPI:
            p.fail(f"unknown predicate '{word}', expected one of {', '.join(CMPI)}")
        return EnumAttr("index", f"cmp_predicate {word}")

    def text(value: Attribute) -> str:
        return value.value.removeprefix("cmp_predicate ") if isinstance(value, EnumAttr) else ""

    return _simple(parse, text, lambda value: text(value) in CMPI)


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
    positions = [] if p.at("]") else [p.integer()]
    while positions and p.accept(","):
        positions.append(p.integer())
    state.attributes[names[0]] = DenseArrayAttr.i64(positions)


def _positions_text(p: Printer, op: Operation, names: tuple[str, ...]) -> str:
    if names[2] in op.attributes:
        return "all"
    positions = op.attributes.get(names[0])
    listed = ", ".join(map(str, positions.ints)) if isinstance(positions, DenseArrayAttr) else ""
    return f"except({listed})" if names[1] in op.attributes else listed


ROUNDING_MODES = {"to_nearest_even": 0, "downward": 1, "upward": 2, "toward_zero": 3, "to_nearest_away": 4}
FAILURE_MODES = {"propagate": 1, "suppress": 2}
MATCH_INTERFACES = {"LinalgOp": 0, "TilingInterface": 1, "LoopLikeInterface": 2}
ATOMIC_KINDS = {
    word: number
    for number, word in enumerate(
        words("addf addi assign maximumf maxs maxu minimumf mins minu mulf muli ori andi maxnumf minnumf xori")
    )
}
PARAMETER_COMPARISONS = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}
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
    "i64": _simple(lambda p: p.number(I64), _number, _is(IntegerAttr)),
    "f64": _simple(_f64, _number, _is(FloatAttr)),
    "bool": _simple(_bool, str, _is(BoolAttr)),
    "string": _simple(lambda p: StringAttr(p.string()), str, _is(StringAttr)),
    "attr": _printed(Attribute),
    "symbol": _printed(SymbolRefAttr),
    "map": _printed(AffineMapAttr),
    "set": _printed(AffineSetAttr),
    "type": _printed(TypeAttr),
    "symbols": _simple(lambda p: p.attribute(), str, _symbols),
    "fastmath": _flags_kind("fastmath"),
    "overflow": _flags_kind("overflow"),
    "cmpf": _predicate_kind(CMPF),
    "cmpi": _predicate_kind(CMPI),
    "reassociation": _simple(_reassociation, _bare_array, _groups, "["),
    "integers": _simple(
        lambda p: integer_array(p.comma_list("[", "]", lambda: _typed_integer(p))), _bare_array, _integers
    ),
    "sizes": _simple(_dense_array, _dense_text, _is(DenseArrayAttr)),
    "point": _simple(_dense_array, _dense_text, lambda a: isinstance(a, DenseArrayAttr) and len(a.ints) == 1),
    "dense_integers": _simple(_dense_array, _dense_text, _integers),
    "indices": _indices_kind("[", "]"),
    "basis": _indices_kind("(", ")"),
    "nofold": _unit_kind("nofold"),
    "deduplicate": _unit_kind("deduplicate"),
    "unique": _unit_kind("unique"),
    "disjoint": _unit_kind("disjoint"),
    "restrict": _unit_kind("restrict"),
    "writable": _unit_kind("writable"),
    "positions": AttributeKind(_parse_positions, _positions_text, _is(DenseArrayAttr)),
    "comparison": _word_kind(PARAMETER_COMPARISONS),
    "atomic": _word_kind(ATOMIC_KINDS, 64),
    "index_predicate": _index_predicate_kind(),
    "failures": _word_kind(FAILURE_MODES),
    "interface": _word_kind(MATCH_INTERFACES),
    "rounding": _word_kind(ROUNDING_MODES),
    "side": _word_kind({"lhs": 0, "rhs": 1}),
    "take_else": _unit_kind("take_else_branch"),
}
