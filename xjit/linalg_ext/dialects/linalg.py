"""The linalg dialect: generic, the named ops, and those with a syntax of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import SEGMENTS, CustomAssembly, OpDefinition, make_rows
from xjit.linalg_ext.dialects.linalg_names import NAMED_OPS
from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, DenseArrayAttr, EnumAttr, StringAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import TensorType, Type, element_type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["LINALG_ROWS", "drop_body", "inputs_and_outputs", "parse_ins_outs", "print_ins_outs"]

_SHOWN_BY_GENERIC = ("doc", "indexing_maps", "iterator_types", "library_call")
_SHOWN_BY_NAMED = {"kind": "", "indexing_maps": " "}
"""Attributes that named ops show in front of the operands, with what stands around the equals sign."""


def parse_ins_outs(p: Parser, state: ParseState) -> None:
    """Parses `ins(%a : t) outs(%b : u)`, and infers results: those of outputs that are tensors."""
    counts: list[int] = []
    for word in ("ins", "outs"):
        count = 0
        if p.accept(word):
            p.expect("(")
            if not p.accept(")"):
                names = [p.operand()]
                while p.accept(","):
                    names.append(p.operand())
                p.expect(":")
                state.operands.extend(p.resolve_all(names, p.type_list()))
                count = len(names)
                p.expect(")")
        counts.append(count)
    state.attributes[SEGMENTS] = DenseArrayAttr.i32(counts)
    state.result_types = [v.type for v in state.operands[counts[0] :] if isinstance(v.type, TensorType)]


def inputs_and_outputs(op: Operation) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Returns the inputs and the outputs of an operation with `ins` and `outs`."""
    segments = op.attributes.get(SEGMENTS)
    operands = op.operands
    count = segments.ints[0] if isinstance(segments, DenseArrayAttr) else len(operands) - max(1, len(op.results))
    return operands[:count], operands[count:]


def print_ins_outs(p: Printer, op: Operation) -> None:
    for word, values in zip(("ins", "outs"), inputs_and_outputs(op)):
        if values:
            p.write(f" {word}({', '.join(map(p.value, values))} : {', '.join(p.type(v.type) for v in values)})")


def _parse_results(p: Parser, state: ParseState) -> None:
    """The tail `-> t` may be left out."""
    types = p.arrow_types()
    if types:
        state.result_types = types


def _print_results(p: Printer, op: Operation) -> None:
    types = ", ".join(p.type(t) for t in op.result_types)
    if types:
        p.write(f" -> {types if len(op.results) == 1 else f'({types})'}")


def _argument_names(op: Operation, count: int) -> list[str]:
    inputs, _ = inputs_and_outputs(op)
    return ["in" if i < len(inputs) else "out" for i in range(count)]


def _initial_names(op: Operation, count: int) -> list[str]:
    inputs, _ = inputs_and_outputs(op)
    return ["in" if i < len(inputs) else "init" for i in range(count)]


def parse_generic(p: Parser, state: ParseState) -> None:
    state.attributes.update(p.attribute_dictionary() if p.at("{") else _trait(p))
    iterators = state.attributes.get("iterator_types")
    if isinstance(iterators, ArrayAttr):
        state.attributes["iterator_types"] = ArrayAttr(tuple(map(_iterator_type, iterators.elements)))
    parse_ins_outs(p, state)
    if p.accept("attrs"):
        p.expect("=")
        state.attributes.update(p.attribute_dictionary())
    state.regions = [p.region()]
    _parse_results(p, state)


def _trait(p: Parser) -> dict[str, Attribute]:
    """Parses `#trait`, an alias of a dictionary."""
    attribute = p.attribute()
    entries = getattr(attribute, "entries", None)
    if entries is None:
        p.fail("expected a dictionary with indexing maps and iterator types")
    return dict(entries)


def _iterator_type(attribute: Attribute) -> Attribute:
    """Returns the enumeration for an old string."""
    return EnumAttr("linalg.iterator_type", attribute.value) if isinstance(attribute, StringAttr) else attribute


def print_generic(p: Printer, op: Operation) -> None:
    shown: dict[str, Attribute] = {}
    for name in _SHOWN_BY_GENERIC:
        value = op.attributes.get(name)
        if name == "iterator_types" and isinstance(value, ArrayAttr):
            value = ArrayAttr(tuple(StringAttr(e.value) if isinstance(e, EnumAttr) else e for e in value.elements))
        if value is not None:
            shown[name] = value
    p.write(f" {p.dictionary_of(shown)}")
    print_ins_outs(p, op)
    rest = p.dictionary(op, frozenset({*_SHOWN_BY_GENERIC, SEGMENTS}))
    if rest:
        p.write(f" attrs =  {rest}")
    p.write(" ")
    p.region(op.regions[0])
    _print_results(p, op)


def parse_named(p: Parser, state: ParseState) -> None:
    for word in _SHOWN_BY_NAMED:
        if p.accept(word):
            p.expect("=")
            state.attributes[word] = p.attribute()
    state.attributes.update(p.optional_dictionary())
    parse_ins_outs(p, state)
    state.attributes.update(p.optional_dictionary())
    _parse_results(p, state)


def print_named(p: Printer, op: Operation) -> None:
    for word, space in _SHOWN_BY_NAMED.items():
        value = op.attributes.get(word)
        if value is not None:
            p.write(f" {word}{space}={space}{p.attribute(value)}")
    p.optional_dictionary(op, frozenset({SEGMENTS, *_SHOWN_BY_NAMED}))
    print_ins_outs(p, op)
    _print_results(p, op)


def drop_body(op: Operation) -> None:
    """Named ops have their bodies from their rows; the generic form tells them, too."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                inner.drop_all_references()
    op.regions.clear()


# map, reduce, transpose, broadcast


def _parse_payload(p: Parser) -> tuple[str, dict[str, Attribute], object] | None:
    """Parses `{ arith.addf }`, a body of one operation."""
    if not p.accept("{"):
        return None
    place = p.here()
    name = p.keyword("an operation")
    attributes = p.optional_dictionary()
    p.expect("}")
    return name, attributes, place


def _payload_region(payload: tuple[str, dict[str, Attribute], object], types: list[Type], order: list[int]) -> Region:
    """Builds the body of a short form: the operation takes the arguments in `order`."""
    name, attributes, place = payload
    block = Block(types)
    result = element_type(types[-1])
    inner = Operation(name, [block.arguments[i] for i in order], [result], attributes, location=place)  # pyright: ignore[reportArgumentType]
    block.append(inner)
    block.append(Operation("linalg.yield", [inner.result]))
    return Region([block])


def _payload_of(op: Operation, order: list[int]) -> Operation | None:
    """Returns the one operation of a body that can be printed in the short form."""
    block = op.body
    if len(block.operations) != 2:
        return None
    inner = block.operations[0]
    if len(inner.results) != 1 or inner.regions or block.terminator.operands != inner.results:
        return None
    return inner if inner.operands == tuple(block.arguments[i] for i in order) and inner.operands else None


def _print_payload(p: Printer, inner: Operation) -> None:
    p.write(f" {{ {inner.name}")
    p.optional_dictionary(inner)
    p.write(" }")


def _parse_arguments_and_region(p: Parser) -> Region:
    return p.region(p.comma_list("(", ")", p.typed_argument))


def _print_arguments_and_region(p: Printer, op: Operation) -> None:
    arguments = ", ".join(f"{p.value(a)}: {p.type(a.type)}" for a in op.body.arguments)
    p.indented_line(f"({arguments}) ")
    p.region(op.regions[0], arguments=False)
    p.dedent()


def parse_map(p: Parser, state: ParseState) -> None:
    payload = _parse_payload(p)
    parse_ins_outs(p, state)
    segments = state.attributes.pop(SEGMENTS)
    assert isinstance(segments, DenseArrayAttr)
    state.attributes.update(p.optional_dictionary())
    if payload is None:
        state.regions = [_parse_arguments_and_region(p)]
        return
    types = [element_type(v.type) for v in state.operands[: segments.ints[0]]]
    if not types:
        p.fail("the short form needs inputs", state.span)
    state.regions = [_payload_region(payload, types, list(range(len(types))))]
    state.regions[0].block.operations[0].results[0].type = element_type(state.operands[-1].type)


def print_map(p: Printer, op: Operation) -> None:
    inner = _payload_of(op, list(range(len(op.body.arguments)))) if len(op.operands) > 1 else None
    if inner is not None:
        _print_payload(p, inner)
    print_ins_outs(p, op)
    p.optional_dictionary(op, frozenset({SEGMENTS}))
    if inner is None:
        _print_arguments_and_region(p, op)


def parse_reduce(p: Parser, state: ParseState) -> None:
    payload = _parse_payload(p)
    parse_ins_outs(p, state)
    del state.attributes[SEGMENTS]
    p.expect("dimensions")
    p.expect("=")
    state.attributes["dimensions"] = DenseArrayAttr.i64(p.comma_list("[", "]", p.integer))
    state.attributes.update(p.optional_dictionary())
    if payload is None:
        state.regions = [_parse_arguments_and_region(p)]
        return
    types = [element_type(v.type) for v in state.operands]
    state.regions = [_payload_region(payload, types, _rotated(len(types)))]


def _rotated(count: int) -> list[int]:
    """The short form of a reduction gives the payload the accumulator first."""
    return [count - 1, *range(count - 1)]


def print_reduce(p: Printer, op: Operation) -> None:
    inner = _payload_of(op, _rotated(len(op.body.arguments)))
    if inner is not None:
        _print_payload(p, inner)
    print_ins_outs(p, op)
    _print_integers(p, op, "dimensions")
    p.optional_dictionary(op, frozenset({SEGMENTS, "dimensions"}))
    if inner is None:
        _print_arguments_and_region(p, op)


def _print_integers(p: Printer, op: Operation, name: str) -> None:
    value = op.attributes.get(name)
    values = value.ints if isinstance(value, DenseArrayAttr) else ()
    p.write(f" {name} = [{', '.join(map(str, values))}]")


def _with_integers(name: str, attribute: str, result: str) -> OpDefinition:
    """The row of an operation that ends in `attribute = [..]`."""

    def parse(p: Parser, state: ParseState) -> None:
        parse_ins_outs(p, state)
        del state.attributes[SEGMENTS]
        p.expect(attribute)
        p.expect("=")
        state.attributes[attribute] = DenseArrayAttr.i64(p.comma_list("[", "]", p.integer))
        state.attributes.update(p.optional_dictionary())

    def show(p: Printer, op: Operation) -> None:
        print_ins_outs(p, op)
        _print_integers(p, op, attribute)
        p.optional_dictionary(op, frozenset({SEGMENTS, attribute}))

    return op(
        name, assembly=CustomAssembly(parse, show), traits="structured", result_names=(result,), normalize=drop_body
    )


def check_index(op: Operation) -> None:
    """It is asked for in a structured op."""
    if op.parent_op is None or not op.parent_op.dialect.startswith("linalg"):
        raise LinalgVerifyError(f"'{op.name}' op expected parent op with LinalgOp interface", op.location)


LINALG_ROWS = make_rows(
    op(
        "linalg.generic",
        assembly=CustomAssembly(parse_generic, print_generic),
        traits="structured",
        regions=1,
        argument_names=_argument_names,
    ),
    op(
        "linalg.map",
        "inputs*;init",
        "results*",
        assembly=CustomAssembly(parse_map, print_map),
        traits="structured",
        regions=1,
        result_names=("mapped",),
        argument_names=_initial_names,
    ),
    op(
        "linalg.reduce",
        assembly=CustomAssembly(parse_reduce, print_reduce),
        traits="structured",
        regions=1,
        result_names=("reduced",),
        argument_names=_initial_names,
    ),
    _with_integers("linalg.transpose", "permutation", "transposed"),
    _with_integers("linalg.broadcast", "dimensions", "broadcasted"),
    *(
        op(
            f"linalg.{name}",
            assembly=CustomAssembly(parse_named, print_named),
            traits="structured",
            normalize=drop_body,
        )
        for name in NAMED_OPS
    ),
    op(
        "linalg.softmax",
        "input;output",
        "result*",
        "attrs dimension ( i64(dimension) ) ins ( %input : type(input) ) outs ( %output : type(output) )"
        " { -> type(result) }?result",
        traits="structured",
    ),
    op("linalg.index", "", "result index", "i64(dim) attrs : type(result)", traits="pure", check=check_index),
    op("linalg.yield", "values*", "", "attrs { %values : type(values) }?values", traits="pure terminator"),
)
