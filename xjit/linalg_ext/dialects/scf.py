"""The scf dialect: loops and branches. Loops in any order stand apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import CustomAssembly, make_rows
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState, Unresolved
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["SCF_ROWS", "ensure_terminator", "parse_assignments"]

INDEX = IndexType()


def ensure_terminator(region: Region, name: str) -> None:
    """Closes a region whose text leaves its terminator out."""
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[-1]
    if block.last is None or block.last.name != name:
        block.append(Operation(name))


def parse_assignments(p: Parser) -> tuple[list[tuple[str, Span]], list[Unresolved]]:
    """Parses `(%a = %b, ...)`: the names of arguments with their places, and the values they begin with."""
    names: list[tuple[str, Span]] = []
    values: list[Unresolved] = []

    def one() -> None:
        span = p.here()
        names.append((p.expect_kind("value", "an argument").text, span))
        p.expect("=")
        values.append(p.operand())

    p.comma_list("(", ")", one)
    return names, values


def parse_for(p: Parser, state: ParseState) -> None:
    span = p.here()
    variable = p.expect_kind("value", "a loop variable").text
    p.expect("=")
    bounds = [p.operand()]
    for word in ("to", "step"):
        p.expect(word)
        bounds.append(p.operand())
    names: list[tuple[str, Span]] = []
    inits: list[Unresolved] = []
    types: list[Type] = []
    if p.accept("iter_args"):
        names, inits = parse_assignments(p)
        p.expect("->")
        types = p.type_tuple()
    index: Type = p.type() if p.accept(":") else INDEX
    state.operands = [*(p.resolve(b, index) for b in bounds), *p.resolve_all(inits, types)]
    state.result_types = types
    arguments = [(variable, index, span), *((n, t, s) for (n, s), t in zip(names, types))]
    state.regions = [p.region(arguments)]
    if not types:
        ensure_terminator(state.regions[0], "scf.yield")
    state.attributes.update(p.optional_dictionary())


def print_for(p: Printer, op: Operation) -> None:
    lower, upper, step, *inits = map(p.value, op.operands)
    block = op.body
    variable, *carried = map(p.value, block.arguments)
    p.write(f" {variable} = {lower} to {upper} step {step}")
    if inits:
        pairs = ", ".join(f"{a} = {v}" for a, v in zip(carried, inits))
        p.write(f" iter_args({pairs}) -> ({', '.join(p.type(t) for t in op.result_types)})")
    if block.arguments[0].type != INDEX:
        p.write(f" : {p.type(block.arguments[0].type)}")
    p.write(" ")
    p.region(op.regions[0], arguments=False, terminator=bool(inits))
    p.optional_dictionary(op)


def check_for(op: Operation) -> None:
    types = op.result_types
    block = op.regions[0].blocks[0] if op.regions and op.regions[0].blocks else Block()
    carried = tuple(a.type for a in block.arguments[1:])
    inits = tuple(v.type for v in op.operands[3:])
    yielded = tuple(v.type for v in block.terminator.operands) if block.last else ()
    if not types == carried == inits == yielded:
        groups = [
            f"{what} ({', '.join(map(str, found))})"
            for what, found in (("results", types), ("arguments", carried), ("inits", inits), ("yielded", yielded))
        ]
        raise LinalgVerifyError(f"'scf.for' op carries different types: {'; '.join(groups)}", op.location)


def check_branches(op: Operation) -> None:
    """Each region of an `scf.if`, `scf.index_switch` or `scf.execute_region` yields what the operation returns."""
    if op.name == "scf.if" and op.results and not (len(op.regions) == 2 and op.regions[1].blocks):
        raise LinalgVerifyError("'scf.if' op has results, so it needs an else region", op.location)
    for region in op.regions:
        for block in region.blocks:
            last = block.last
            if last is not None and last.name == "scf.yield":
                _check_passed_on(op, last, "yielded", last.operands, "results", op.results)
            elif last is not None and last.name == "scf.condition":
                raise LinalgVerifyError("'scf.condition' op expects parent op 'scf.while'", last.location)
            elif op.results and op.name != "scf.execute_region":
                raise LinalgVerifyError(
                    f"'{op.name}' op has results, so its regions must end in scf.yield", op.location
                )


def check_while(op: Operation) -> None:
    """What goes round an `scf.while`: inits and the second region's values into the first, its values out of it."""
    before, after = (region.blocks[0] for region in op.regions[:2])
    condition, again = before.last, after.last
    if condition is None or condition.name != "scf.condition" or again is None or again.name != "scf.yield":
        raise LinalgVerifyError("'scf.while' op expects regions that end in scf.condition and scf.yield", op.location)
    _check_passed_on(op, op, "inits", op.operands, "arguments", before.arguments)
    _check_passed_on(op, again, "yielded", again.operands, "inits", op.operands)
    _check_passed_on(op, condition, "args", condition.operands[1:], "results", op.results)
    _check_passed_on(op, condition, "args", condition.operands[1:], "arguments", after.arguments)


def _check_passed_on(
    op: Operation, giver: Operation, what: str, given: Sequence[Value], whom: str, taken: Sequence[Value]
) -> None:
    types, expected = [v.type for v in given], [v.type for v in taken]
    if types != expected:
        lists = (f"{name} ({', '.join(map(str, found))})" for name, found in ((what, types), (whom, expected)))
        place = giver.location or op.location
        raise LinalgVerifyError(f"'{op.name}' op has different types: {'; '.join(lists)}", place)


def parse_if(p: Parser, state: ParseState) -> None:
    state.operands = [p.resolve(p.operand(), IntegerType(1))]
    state.result_types = p.arrow_types()
    state.regions = [p.region(), Region()]
    if p.accept("else"):
        state.regions[1] = p.region()
    for region in state.regions:
        if region.blocks or region is state.regions[0]:
            ensure_terminator(region, "scf.yield")
    state.attributes.update(p.optional_dictionary())


def print_if(p: Printer, op: Operation) -> None:
    p.write(f" {p.value(op.operands[0])}")
    if op.results:
        p.write(f" -> ({', '.join(p.type(t) for t in op.result_types)})")
    p.write(" ")
    p.region(op.regions[0], terminator=bool(op.results))
    if len(op.regions) > 1 and op.regions[1].blocks:
        p.write(" else ")
        p.region(op.regions[1], terminator=bool(op.results))
    p.optional_dictionary(op)


def parse_while(p: Parser, state: ParseState) -> None:
    names, inits = parse_assignments(p) if p.at("(") else ([], [])
    p.expect(":")
    function = p.function_type()
    state.operands = p.resolve_all(inits, function.inputs)
    state.result_types = list(function.results)
    before = [(n, t, s) for (n, s), t in zip(names, function.inputs)]
    state.regions = [p.region(before)]
    p.expect("do")
    state.regions.append(p.region())
    if p.accept("attributes"):
        state.attributes.update(p.attribute_dictionary())


def print_while(p: Printer, op: Operation) -> None:
    before = op.regions[0].blocks[0]
    if op.operands:
        p.write(f" ({', '.join(f'{p.value(a)} = {p.value(v)}' for a, v in zip(before.arguments, op.operands))})")
    inputs = ", ".join(p.type(v.type) for v in op.operands)
    results = ", ".join(p.type(t) for t in op.result_types)
    p.write(f" : ({inputs}) -> {results if len(op.results) == 1 else f'({results})'} ")
    p.region(op.regions[0], arguments=False)
    p.write(" do ")
    p.region(op.regions[1])
    text = p.dictionary(op, frozenset())
    if text:
        p.write(f" attributes {text}")


def parse_execute_region(p: Parser, state: ParseState) -> None:
    state.result_types = p.arrow_types()
    state.regions = [p.region()]
    state.attributes.update(p.optional_dictionary())


def print_execute_region(p: Printer, op: Operation) -> None:
    types = ", ".join(p.type(t) for t in op.result_types)
    p.write(f" -> {types if len(op.results) == 1 else f'({types})'} " if types else " ")
    p.region(op.regions[0])
    p.optional_dictionary(op)


def parse_index_switch(p: Parser, state: ParseState) -> None:
    """Parses `%x -> f32 case 2 {..} default {..}`: the region of the default is the first."""
    state.operands = [p.resolve(p.operand(), INDEX)]
    state.attributes.update(p.optional_dictionary())
    state.result_types = p.arrow_types()
    cases: list[int] = []
    while p.accept("case"):
        cases.append(p.integer())
        state.regions.append(p.region())
    p.expect("default")
    state.regions.insert(0, p.region())
    for region in state.regions:
        ensure_terminator(region, "scf.yield")
    state.attributes["cases"] = DenseArrayAttr.i64(cases)


def check_index_switch(op: Operation) -> None:
    cases = op.attributes.get("cases")
    if not isinstance(cases, DenseArrayAttr) or len(cases.ints) != len(op.regions) - 1:
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.regions)} regions, but cases {cases}", op.location)
    check_branches(op)


def print_index_switch(p: Printer, op: Operation) -> None:
    cases = op.attributes.get("cases")
    p.write(f" {p.value(op.operands[0])}")
    p.optional_dictionary(op, frozenset({"cases"}))
    types = ", ".join(p.type(t) for t in op.result_types)
    p.write(f" -> {types if len(op.results) == 1 else f'({types})'}" if types else "")
    labels = [f"case {n} " for n in (cases.ints if isinstance(cases, DenseArrayAttr) else ())]
    for label, region in zip([*labels, "default "], [*op.regions[1:], op.regions[0]]):
        p.line(label)
        p.region(region, terminator=bool(op.results))


SCF_ROWS = make_rows(
    op(
        "scf.for",
        "lower;upper;step;inits*",
        "results*",
        assembly=CustomAssembly(parse_for, print_for),
        traits="recursive",
        regions=1,
        check=check_for,
    ),
    op(
        "scf.if",
        "condition i1",
        "results*",
        assembly=CustomAssembly(parse_if, print_if),
        traits="recursive",
        regions=1,
        check=check_branches,
    ),
    op(
        "scf.while",
        "inits*",
        "results*",
        assembly=CustomAssembly(parse_while, print_while),
        traits="recursive",
        regions=2,
        check=check_while,
    ),
    op("scf.yield", "results*", "", "attrs { %results : type(results) }?results", traits="pure terminator"),
    op(
        "scf.condition",
        "condition i1;args*",
        "",
        "( %condition ) attrs { %args : type(args) }?args",
        traits="pure terminator",
    ),
    op(
        "scf.execute_region",
        "",
        "results*",
        assembly=CustomAssembly(parse_execute_region, print_execute_region),
        traits="recursive",
        regions=1,
        check=check_branches,
    ),
    op(
        "scf.index_switch",
        "arg index",
        "results*",
        assembly=CustomAssembly(parse_index_switch, print_index_switch),
        traits="recursive",
        regions=1,
        check=check_index_switch,
    ),
)
