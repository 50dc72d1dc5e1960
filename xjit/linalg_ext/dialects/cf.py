"""The cf dialect: branches between the blocks of a region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import SEGMENTS, CustomAssembly, make_rows
from xjit.linalg_ext.ir.attributes import DenseArrayAttr, DenseAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Value
from xjit.linalg_ext.ir.types import IntegerType, TensorType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["CF_ROWS", "branch_targets"]

_CASE_SEGMENTS = "case_operand_segments"


def branch_targets(op: Operation) -> list[tuple[Block, tuple[Value, ...]]]:
    """Returns the blocks that a branch may go to, each with what it is given."""
    leading = 0 if op.name == "cf.br" else 1
    rest = op.operands[leading:]
    counts = [len(rest)]
    segments, cases = op.attributes.get(SEGMENTS), op.attributes.get(_CASE_SEGMENTS)
    if op.name == "cf.cond_br" and isinstance(segments, DenseArrayAttr):
        counts = list(segments.ints[1:])
    elif op.name == "cf.switch" and isinstance(segments, DenseArrayAttr) and isinstance(cases, DenseArrayAttr):
        counts = [segments.ints[1], *cases.ints]
    found: list[tuple[Block, tuple[Value, ...]]] = []
    for block, count in zip(op.successors, counts):
        found.append((block, rest[:count]))
        rest = rest[count:]
    return found


def _parse_target(p: Parser, state: ParseState) -> int:
    """Parses `^bb1(%x : i32)`; returns the number of operands."""
    state.successors.append(p.successor())
    if not p.accept("("):
        return 0
    names = [p.operand()]
    while p.accept(","):
        names.append(p.operand())
    p.expect(":")
    state.operands += p.resolve_all(names, p.type_list())
    p.expect(")")
    return len(names)


def _target_text(p: Printer, block: Block, values: tuple[Value, ...]) -> str:
    types = ", ".join(p.type(v.type) for v in values)
    return p.block(block) + (f"({', '.join(map(p.value, values))} : {types})" if values else "")


def parse_br(p: Parser, state: ParseState) -> None:
    _parse_target(p, state)
    state.attributes.update(p.optional_dictionary())


def print_br(p: Printer, op: Operation) -> None:
    p.write(f" {', '.join(_target_text(p, *target) for target in branch_targets(op))}")
    p.optional_dictionary(op)


def parse_cond_br(p: Parser, state: ParseState) -> None:
    state.operands = [p.resolve(p.operand(), IntegerType(1))]
    counts = [1]
    for _ in range(2):
        p.expect(",")
        counts.append(_parse_target(p, state))
    state.attributes.update(p.optional_dictionary())
    state.attributes[SEGMENTS] = DenseArrayAttr.i32(counts)


def print_cond_br(p: Printer, op: Operation) -> None:
    texts = [p.value(op.operands[0]), *(_target_text(p, *target) for target in branch_targets(op))]
    p.write(f" {', '.join(texts)}")
    p.optional_dictionary(op, frozenset({SEGMENTS}))


def parse_switch(p: Parser, state: ParseState) -> None:
    """Parses `%flag : i32, [ default: ^bb1, 42: ^bb2(%x : i32) ]`."""
    flag = p.operand()
    p.expect(":")
    type = p.type()
    state.operands = [p.resolve(flag, type)]
    p.expect(",")
    cases: list[int] = []
    counts: list[int] = []

    def case() -> None:
        if counts:
            cases.append(p.integer())
        else:
            p.expect("default")
        p.expect(":")
        counts.append(_parse_target(p, state))

    p.comma_list("[", "]", case)
    state.attributes.update(p.optional_dictionary())
    if not counts:
        p.fail("expected 'default'", state.span)
    if cases:
        state.attributes["case_values"] = DenseAttr(tuple(cases), TensorType((len(cases),), type))
    state.attributes[_CASE_SEGMENTS] = DenseArrayAttr.i32(counts[1:])
    state.attributes[SEGMENTS] = DenseArrayAttr.i32((1, counts[0], sum(counts[1:])))


def print_switch(p: Printer, op: Operation) -> None:
    values = op.attributes.get("case_values")
    numbers = values.values if isinstance(values, DenseAttr) else ()
    labels = ["default", *map(str, numbers)]
    p.write(f" {p.value(op.operands[0])} : {p.type(op.operands[0].type)}, [")
    texts = [f"{label}: {_target_text(p, *target)}" for label, target in zip(labels, branch_targets(op))]
    for number, text in enumerate(texts):
        p.indented_line(text + ("," if number + 1 < len(texts) else ""))
        p.dedent()
    p.line("]")
    p.optional_dictionary(op, frozenset({SEGMENTS, _CASE_SEGMENTS, "case_values"}))


def check_branch(op: Operation) -> None:
    """Blocks get what their arguments are."""
    targets = branch_targets(op)
    for block, values in targets:
        found, expected = [v.type for v in values], [a.type for a in block.arguments]
        if found != expected:
            given, wanted = (", ".join(map(str, types)) or "nothing" for types in (found, expected))
            raise LinalgVerifyError(f"'{op.name}' op gives a block ({given}), which takes ({wanted})", op.location)
    if len(targets) != len(op.successors):
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.successors)} successors", op.location)


CF_ROWS = make_rows(
    op("cf.br", "operands*", "", assembly=CustomAssembly(parse_br, print_br), traits="terminator", check=check_branch),
    op(
        "cf.cond_br",
        "condition i1;taken*;other*",
        "",
        assembly=CustomAssembly(parse_cond_br, print_cond_br),
        traits="terminator",
        check=check_branch,
    ),
    op(
        "cf.switch",
        "flag;default*;cases*",
        "",
        assembly=CustomAssembly(parse_switch, print_switch),
        traits="terminator",
        check=check_branch,
    ),
    op("cf.assert", "arg i1", "", "%arg , string(msg) attrs"),
)
