"""Loops of the scf dialect whose iterations run in any order: forall and parallel, and what closes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC
from xjit.linalg_ext.dialects.definition import SEGMENTS, CustomAssembly, make_rows
from xjit.linalg_ext.dialects.scf import parse_assignments
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import IndexType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState, Unresolved
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["SCF_PARALLEL_ROWS", "forall_bounds"]

INDEX = IndexType()


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
    last = op.body.last
    if last is not None and last.name == "scf.reduce" and len(last.operands) != len(op.results):
        message = f"'{op.name}' op expects number of results: {len(op.results)} to be the same as number of reductions"
        raise LinalgVerifyError(f"{message}: {len(last.operands)}", op.location)


def check_reduce(op: Operation) -> None:
    """A region per value that is reduced, which makes one of two."""
    if len(op.regions) != len(op.operands):
        raise LinalgVerifyError(
            f"'{op.name}' op has {len(op.regions)} regions for {len(op.operands)} operands", op.location
        )
    for region, value in zip(op.regions, op.operands):
        types = [a.type for a in region.block.arguments] if region.blocks else []
        end = region.block.last if region.blocks else None
        if types != [value.type] * 2 or end is None or end.name != "scf.reduce.return":
            raise LinalgVerifyError(
                f"'{op.name}' op expects two block arguments of type {value.type} and what they make", op.location
            )


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


SCF_PARALLEL_ROWS = make_rows(
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
        "scf.parallel",
        "lower* index;upper* index;steps* index;inits*",
        "results*",
        assembly=CustomAssembly(parse_parallel, print_parallel),
        traits="recursive",
        regions=1,
        check=check_parallel,
    ),
    op("scf.reduce", assembly=CustomAssembly(parse_reduce, print_reduce), traits="terminator", check=check_reduce),
    op("scf.reduce.return", "result", "", "%result attrs : type(result)", traits="pure terminator"),
)
