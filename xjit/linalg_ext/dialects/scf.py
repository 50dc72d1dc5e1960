"""The scf dialect: loops and branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC
from xjit.linalg_ext.dialects.definition import SEGMENTS, CustomAssembly, make_rows
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState, Unresolved
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["SCF_ROWS", "ensure_terminator", "forall_bounds", "parse_assignments"]

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


def parse_forall(p: Parser, state: ParseState) -> None:
    variables: list[tuple[str, Type, Span]] = []

    def variable() -> None:
        span = p.here()
        variables.append((p.expect_kind("value", "a loop variable").text, INDEX, span))

    p.comma_list("(", ")", variable)
    count = len(variables)
    lists: list[tuple[list[Value], list[int]]] = [([], [0] * count), ([], []), ([], [1] * count)]
    if p.accept("in"):
        lists[1] = _mixed(p, "(", ")")
    else:
        p.expect("=")
        lists[0] = _mixed(p, "(", ")")
        p.expect("to")
        lists[1] = _mixed(p, "(", ")")
        p.expect("step")
        lists[2] = _mixed(p, "(", ")")
    if any(len(static) != count for _, static in lists):
        p.fail(f"expected {count} bounds", state.span)
    names: list[tuple[str, Span]] = []
    outs: list[Unresolved] = []
    types: list[Type] = []
    if p.accept("shared_outs"):
        names, outs = parse_assignments(p)
        p.expect("->")
        types = p.type_tuple()
    dynamic = [values for values, _ in lists]
    state.operands = [*(v for values in dynamic for v in values), *p.resolve_all(outs, types)]
    state.result_types = types
    state.attributes[SEGMENTS] = DenseArrayAttr.i32([*map(len, dynamic), len(outs)])
    for name, (_, static) in zip(_FORALL_LISTS, lists):
        state.attributes[name] = DenseArrayAttr.i64(static)
    state.regions = [p.region([*variables, *((n, t, s) for (n, s), t in zip(names, types))])]
    if not state.regions[0].blocks[0].last or state.regions[0].blocks[0].terminator.name != "scf.forall.in_parallel":
        inner = Operation("scf.forall.in_parallel", regions=[Region([Block()])])
        state.regions[0].blocks[0].append(inner)
    state.attributes.update(p.optional_dictionary())


_FORALL_LISTS = ("staticLowerBound", "staticUpperBound", "staticStep")


def _mixed(p: Parser, opening: str, closing: str) -> tuple[list[Value], list[int]]:
    """Parses a list of index values and numbers."""
    values: list[Value] = []
    static: list[int] = []

    def one() -> None:
        if p.token.kind == "value":
            values.append(p.resolve(p.operand(), INDEX))
            static.append(DYNAMIC)
        else:
            static.append(p.integer())

    p.comma_list(opening, closing, one)
    return values, static


def forall_bounds(op: Operation) -> tuple[list[Value | int], list[Value | int], list[Value | int]]:
    """Returns lower bounds, upper bounds and steps of an `scf.forall`, each a value or a number."""
    values = iter(op.operands)
    found: list[list[Value | int]] = []
    for name in _FORALL_LISTS:
        static = op.attributes[name]
        assert isinstance(static, DenseArrayAttr)
        found.append([next(values) if v == DYNAMIC else v for v in static.ints])
    return found[0], found[1], found[2]


def check_forall(op: Operation) -> None:
    """As many lower and upper bounds and steps, and values for those that are no numbers; an argument per result."""
    lists = [op.attributes.get(name) for name in _FORALL_LISTS]
    static = [each.ints for each in lists if isinstance(each, DenseArrayAttr)]
    if len(static) != 3 or len({len(each) for each in static}) != 1:
        raise LinalgVerifyError(f"'{op.name}' op expects as many bounds as steps", op.location)
    dynamic = sum(each.count(DYNAMIC) for each in static)
    if len(op.operands) != dynamic + len(op.results):
        raise LinalgVerifyError(
            f"'{op.name}' op has {len(op.operands)} operands, expected {dynamic} bounds", op.location
        )
    if len(op.body.arguments) != len(static[0]) + len(op.results):
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.body.arguments)} arguments of its body", op.location)


def print_forall(p: Printer, op: Operation) -> None:
    lower, upper, step = forall_bounds(op)
    block = op.body
    rank = len(upper)
    variables = ", ".join(map(p.value, block.arguments[:rank]))
    texts = [", ".join(str(v) if isinstance(v, int) else p.value(v) for v in each) for each in (lower, upper, step)]
    plain = lower == [0] * rank and step == [1] * rank
    p.write(f" ({variables}) " + (f"in ({texts[1]})" if plain else f"= ({texts[0]}) to ({texts[1]}) step ({texts[2]})"))
    if op.results:
        outs = op.operands[len(op.operands) - len(op.results) :]
        pairs = ", ".join(f"{p.value(a)} = {p.value(v)}" for a, v in zip(block.arguments[rank:], outs))
        p.write(f" shared_outs({pairs}) -> ({', '.join(p.type(t) for t in op.result_types)})")
    p.write(" ")
    p.region(op.regions[0], arguments=False, terminator=bool(op.results))
    p.optional_dictionary(op, frozenset({SEGMENTS, *_FORALL_LISTS}))


def parse_in_parallel(p: Parser, state: ParseState) -> None:
    state.regions = [p.region()]
    if not state.regions[0].blocks:
        state.regions[0].add_block(Block())
    state.attributes.update(p.optional_dictionary())


def print_in_parallel(p: Printer, op: Operation) -> None:
    p.write(" ")
    p.region(op.regions[0])
    p.optional_dictionary(op)


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


def parse_parallel(p: Parser, state: ParseState) -> None:
    variables: list[tuple[str, Type, Span]] = []

    def variable() -> None:
        span = p.here()
        variables.append((p.expect_kind("value", "a loop variable").text, INDEX, span))

    p.comma_list("(", ")", variable)
    p.expect("=")
    bounds = [p.operand_list()]
    for word in ("to", "step"):
        p.expect(word)
        bounds.append(p.operand_list())
    inits = p.operand_list() if p.accept("init") else []
    state.result_types = p.arrow_types()
    groups = [[p.resolve(u, INDEX) for u in group] for group in bounds]
    values = p.resolve_all(inits, state.result_types)
    state.operands = [*(v for group in groups for v in group), *values]
    state.attributes[SEGMENTS] = DenseArrayAttr.i32([*map(len, groups), len(values)])
    state.regions = [p.region(variables)]
    block = state.regions[0].blocks[0]
    if block.last is None or block.last.name not in ("scf.reduce", "scf.yield"):
        block.append(Operation("scf.reduce"))
    state.attributes.update(p.optional_dictionary())


def check_parallel(op: Operation) -> None:
    rank = len(op.body.arguments)
    if len(op.operands) != 3 * rank + len(op.results):
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.operands)} operands for {rank} loops", op.location)


def print_parallel(p: Printer, op: Operation) -> None:
    rank = len(op.body.arguments)
    lower, upper, step = (", ".join(map(p.value, op.operands[i * rank : (i + 1) * rank])) for i in range(3))
    p.write(f" ({', '.join(map(p.value, op.body.arguments))}) = ({lower}) to ({upper}) step ({step})")
    if op.results:
        p.write(f" init ({', '.join(map(p.value, op.operands[3 * rank :]))})")
        types = ", ".join(p.type(t) for t in op.result_types)
        p.write(f" -> {types if len(op.results) == 1 else f'({types})'}")
    p.write(" ")
    p.region(op.regions[0], arguments=False)
    p.optional_dictionary(op, frozenset({SEGMENTS}))


def parse_reduce(p: Parser, state: ParseState) -> None:
    """Parses `(%a, %b : f32, f32) {..}, {..}`; the older spelling has the type behind the parenthesis."""
    if p.accept("("):
        names = [p.operand()]
        while p.accept(","):
            names.append(p.operand())
        types = p.type_list() if p.accept(":") else []
        p.expect(")")
        if not types:
            p.expect(":")
            types = p.type_list()
        state.operands = p.resolve_all(names, types)
        for number in range(len(names)):
            if number:
                p.expect(",")
            state.regions.append(p.region())
    state.attributes.update(p.optional_dictionary())


def print_reduce(p: Printer, op: Operation) -> None:
    if op.operands:
        p.write(f"({', '.join(map(p.value, op.operands))} : {', '.join(p.type(v.type) for v in op.operands)}) ")
    for number, region in enumerate(op.regions):
        p.write(", " if number else "")
        p.region(region)
    p.optional_dictionary(op)


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
        "scf.forall",
        "lower* index;upper* index;steps* index;outputs*",
        "results*",
        assembly=CustomAssembly(parse_forall, print_forall),
        traits="recursive",
        regions=1,
        check=check_forall,
    ),
    op(
        "scf.forall.in_parallel",
        assembly=CustomAssembly(parse_in_parallel, print_in_parallel),
        regions=1,
        traits="recursive terminator",
    ),
    op(
        "scf.if", "condition i1", "results*", assembly=CustomAssembly(parse_if, print_if), traits="recursive", regions=1
    ),
    op(
        "scf.while",
        "inits*",
        "results*",
        assembly=CustomAssembly(parse_while, print_while),
        traits="recursive",
        regions=2,
    ),
    op(
        "scf.parallel",
        "lower* index;upper* index;steps* index;inits*",
        "results*",
        assembly=CustomAssembly(parse_parallel, print_parallel),
        traits="recursive",
        regions=1,
        check=check_parallel,
    ),
    op("scf.yield", "results*", "", "attrs { %results : type(results) }?results", traits="pure terminator"),
    op(
        "scf.condition",
        "condition i1;args*",
        "",
        "( %condition ) attrs { %args : type(args) }?args",
        traits="pure terminator",
    ),
    op("scf.reduce", assembly=CustomAssembly(parse_reduce, print_reduce), traits="terminator"),
    op("scf.reduce.return", "result", "", "%result attrs : type(result)", traits="pure terminator"),
    op(
        "scf.execute_region",
        "",
        "results*",
        assembly=CustomAssembly(parse_execute_region, print_execute_region),
        traits="recursive",
        regions=1,
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
