"""Operations of scripts with sequences inside, or that call them: their syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import CustomAssembly
from xjit.linalg_ext.dialects.handle_syntax import handle_types, print_handle_types
from xjit.linalg_ext.dialects.scf import ensure_terminator
from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, SymbolRefAttr, UnitAttr
from xjit.linalg_ext.ir.operation import Operation

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["CONTROL_SCRIPT_ROWS"]


_SHORTEST = "with_zip_shortest"


def _parse_operands(p: Parser, state: ParseState) -> None:
    names = [p.operand()] if p.token.kind == "value" else []
    while names and p.accept(","):
        names.append(p.operand())
    state.operands = p.resolve_all(names, None)


def parse_foreach(p: Parser, state: ParseState) -> None:
    """Parses `%0, %1 with_zip_shortest : types -> types {region}`."""
    _parse_operands(p, state)
    if p.accept(_SHORTEST):
        state.attributes[_SHORTEST] = UnitAttr()
    if p.accept(":"):
        p.type_list()
        state.result_types = p.arrow_types()
    _parse_regions(p, state)


def _parse_regions(p: Parser, state: ParseState) -> None:
    state.regions = [p.region()]
    while p.accept(","):
        state.regions.append(p.region())
    for region in state.regions:
        if region.blocks:
            ensure_terminator(region, "transform.yield")
    state.attributes.update(p.optional_dictionary())


def print_foreach(p: Printer, op: Operation) -> None:
    if op.operands:
        word = f" {_SHORTEST}" if _SHORTEST in op.attributes else ""
        types = ", ".join(p.type(v.type) for v in op.operands)
        p.write(f" {', '.join(map(p.value, op.operands))}{word} : {types}")
    if op.results:
        p.write(f" -> {', '.join(map(p.type, op.result_types))}")
    for number, region in enumerate(op.regions):
        p.write(", " if number else " ")
        p.region(region, terminator=bool(op.results))
    p.optional_dictionary(op, frozenset({_SHORTEST}))


def parse_apply_patterns(p: Parser, state: ParseState) -> None:
    """Parses `to %0 {region} : type`."""
    p.accept("to")
    _parse_operands(p, state)
    _parse_regions(p, state)
    if p.accept(":"):
        p.type()


def print_apply_patterns(p: Printer, op: Operation) -> None:
    p.write(f" to {p.value(op.operands[0])} " if op.operands else " ")
    p.region(op.regions[0], terminator=False)
    p.optional_dictionary(op)
    if op.operands:
        p.write(f" : {p.type(op.operands[0].type)}")


_MATCH_FLAGS = ("restrict_root", "flatten_results")


def parse_foreach_match(p: Parser, state: ParseState) -> None:
    """Parses `restrict_root flatten_results in %0 @matcher -> @action, @matcher -> @action : types`."""
    for word in _MATCH_FLAGS:
        if p.accept(word):
            state.attributes[word] = UnitAttr()
    p.expect("in")
    _parse_operands(p, state)
    pairs: list[tuple[SymbolRefAttr, SymbolRefAttr]] = []
    while not pairs or p.accept(","):
        matcher = p.symbol_reference()
        p.expect("->")
        pairs.append((matcher, p.symbol_reference()))
    state.attributes["matchers"] = ArrayAttr(tuple(matcher for matcher, _ in pairs))
    state.attributes["actions"] = ArrayAttr(tuple(action for _, action in pairs))
    state.attributes.update(p.optional_dictionary())
    state.result_types = handle_types(p, state, state.operands, None)


def _symbols(attribute: Attribute) -> tuple[Attribute, ...]:
    return attribute.elements if isinstance(attribute, ArrayAttr) else ()


def print_foreach_match(p: Printer, op: Operation) -> None:
    matchers, actions = _symbols(op.attributes["matchers"]), _symbols(op.attributes["actions"])
    pairs = ", ".join(f"{p.attribute(m)} -> {p.attribute(a)}" for m, a in zip(matchers, actions))
    flags = "".join(f" {word}" for word in _MATCH_FLAGS if word in op.attributes)
    p.write(f"{flags} in {', '.join(map(p.value, op.operands))} {pairs}")
    p.optional_dictionary(op, frozenset({"matchers", "actions", *_MATCH_FLAGS}))
    print_handle_types(p, op)


CONTROL_SCRIPT_ROWS = (
    *(
        op(
            name,
            "targets*",
            "results*",
            assembly=CustomAssembly(parse_foreach, print_foreach),
            default_dialect="transform",
            regions=1,
        )
        for name in ("transform.foreach", "transform.alternatives", "transform.with_pdl_patterns")
    ),
    op(
        "transform.apply_patterns",
        "target?",
        "",
        assembly=CustomAssembly(parse_apply_patterns, print_apply_patterns),
        regions=1,
        default_dialect="transform",
    ),
    op(
        "transform.foreach_match",
        "root",
        "updated;results*",
        assembly=CustomAssembly(parse_foreach_match, print_foreach_match),
        needs="symbols(matchers) symbols(actions)",
    ),
    op("transform.collect_matching", "root", "results*", "symbol(matcher) in %root attrs handles"),
)
