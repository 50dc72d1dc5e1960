"""The transform dialect: the syntax of scripts. What the operations do is in `xjit.linalg_ext.transform`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC
from xjit.linalg_ext.dialects.definition import HANDLE, SEGMENTS, CustomAssembly, OpDefinition, make_rows
from xjit.linalg_ext.dialects.func import parse_function, print_function
from xjit.linalg_ext.dialects.scf import ensure_terminator
from xjit.linalg_ext.ir.attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DictAttr,
    EnumAttr,
    IntegerAttr,
)
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import FunctionType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["TRANSFORM_ROWS"]


def parse_sequence(p: Parser, state: ParseState) -> None:
    if p.token.kind == "value":
        names = [p.operand()]
        p.expect(":")
        state.operands = p.resolve_all(names, [p.type()])
    state.result_types = p.arrow_types()
    p.expect("failures")
    p.expect("(")
    mode = p.keyword("'propagate' or 'suppress'")
    if mode not in ("propagate", "suppress"):
        p.fail(f"expected 'propagate' or 'suppress', found '{mode}'", state.span)
    p.expect(")")
    state.attributes["failure_propagation_mode"] = EnumAttr("transform.failures", mode)
    if p.accept("attributes"):
        state.attributes.update(p.attribute_dictionary())
    state.regions = [p.region()]
    ensure_terminator(state.regions[0], "transform.yield")


def print_sequence(p: Printer, op: Operation) -> None:
    if op.operands:
        p.write(f" {p.value(op.operands[0])} : {p.type(op.operands[0].type)}")
    if op.results:
        p.write(f" -> {', '.join(p.type(t) for t in op.result_types)}")
    mode = op.attributes.get("failure_propagation_mode")
    p.write(f"  failures({mode.value if isinstance(mode, EnumAttr) else 'propagate'})")
    text = p.dictionary(op, frozenset({"failure_propagation_mode"}))
    p.write(f" attributes {text} " if text else " ")
    p.region(op.regions[0], terminator=bool(op.results))


def parse_named_sequence(p: Parser, state: ParseState) -> None:
    parse_function(p, state)
    if state.regions[0].blocks:
        ensure_terminator(state.regions[0], "transform.yield")


def _handle_types(p: Parser, state: ParseState, operands: list[Value], count: int | None) -> list[Type]:
    """Parses `: (types) -> (types)`, `: types of results`, or nothing: handles, as many as there are names."""
    if not p.accept(":"):
        return [HANDLE] * (state.num_results if count is None else count)
    if p.at("("):
        place = p.here()
        inputs = p.comma_list("(", ")", p.type)
        p.expect("->")
        results = p.type_tuple()
        if len(inputs) != len(operands):
            p.fail(f"expected {len(operands)} types of handles, found {len(inputs)}", place)
        return results
    return p.type_list()


def _print_types(p: Printer, op: Operation) -> None:
    """Prints the types unless all of them are the default."""
    types = [v.type for v in (*op.operands, *op.results)]
    if any(t != HANDLE for t in types):
        p.write(f" : {p.type(FunctionType(tuple(v.type for v in op.operands), op.result_types))}")


def parse_match(p: Parser, state: ParseState) -> None:
    while not p.at("in"):
        word = p.keyword("'ops', 'interface', 'attributes', 'filter_result_type' or 'in'")
        if word == "ops":
            p.expect("{")
            state.attributes["ops"] = p.attribute()
            p.expect("}")
        elif word == "interface":
            p.expect("{")
            state.attributes["interface"] = EnumAttr("transform.match_interface", p.keyword("an interface"))
            p.expect("}")
        elif word == "attributes":
            state.attributes["op_attrs"] = DictAttr(tuple(sorted(p.attribute_dictionary().items())))
        elif word == "filter_result_type":
            p.expect("=")
            state.attributes["filter_result_type"] = p.attribute()
        else:
            p.fail(f"unknown criterion '{word}' of a match", state.span)
    p.expect("in")
    names = [p.operand()]
    state.attributes.update(p.optional_dictionary())
    state.operands = p.resolve_all(names, None)
    state.result_types = _handle_types(p, state, state.operands, 1)


_MATCH_ATTRIBUTES = frozenset({"ops", "interface", "op_attrs", "filter_result_type"})


def print_match(p: Printer, op: Operation) -> None:
    ops, interface = op.attributes.get("ops"), op.attributes.get("interface")
    if ops is not None:
        p.write(f" ops{{{p.attribute(ops)}}}")
    if isinstance(interface, EnumAttr):
        p.write(f" interface{{{interface.value}}}")
    if "op_attrs" in op.attributes:
        p.write(f" attributes {p.attribute(op.attributes['op_attrs'])}")
    if "filter_result_type" in op.attributes:
        p.write(f" filter_result_type = {p.attribute(op.attributes['filter_result_type'])}")
    p.write(f" in {p.value(op.operands[0])}")
    p.optional_dictionary(op, _MATCH_ATTRIBUTES)
    p.write(f" : {p.type(FunctionType((op.operands[0].type,), op.result_types))}")


def _mixed_list(p: Parser, attributes: dict[str, Attribute], name: str) -> list[Value]:
    """Parses `[4, %size]` into an attribute and values; brackets inside mark scalable sizes, which are refused."""
    values: list[Value] = []
    static: list[int] = []

    def one() -> None:
        if p.token.kind == "value":
            values.append(p.resolve(p.operand(), None))
            static.append(DYNAMIC)
            if p.accept(":"):
                p.type()
        elif p.at("["):
            p.fail("scalable tile sizes are not supported: vectors have fixed lengths")
        else:
            static.append(p.integer())

    p.comma_list("[", "]", one)
    attributes[name] = DenseArrayAttr.i64(static)
    return values


def _mixed_text(p: Printer, attribute: Attribute | None, values: list[Value]) -> str:
    ints = attribute.ints if isinstance(attribute, DenseArrayAttr) else ()
    return f"[{', '.join(p.value(values.pop(0)) if v == DYNAMIC else str(v) for v in ints)}]"


def _integers(attribute: Attribute) -> Attribute:
    """Returns `array<i64: ...>` for `[1, 0]` in a dictionary."""
    if isinstance(attribute, ArrayAttr) and all(isinstance(e, IntegerAttr) for e in attribute.elements):
        return DenseArrayAttr.i64([e.value for e in attribute.elements if isinstance(e, IntegerAttr)])
    return attribute


def _count_loops(attribute: Attribute, none: tuple[int, ...] = (0,)) -> int:
    """Returns how many of the sizes make a loop; those in `none` do not."""
    attribute = _integers(attribute)
    return sum(1 for v in attribute.ints if v not in none) if isinstance(attribute, DenseArrayAttr) else 0


def parse_tile(p: Parser, state: ParseState) -> None:
    """Parses `%0 [4, %s] {interchange = [1, 0]} : types`: a handle of the tiled op, and one per loop."""
    target = p.resolve(p.operand(), None)
    p.accept("tile_sizes")
    sizes = _mixed_list(p, state.attributes, "static_sizes")
    if p.accept("interchange"):
        p.expect("=")
        state.attributes["interchange"] = DenseArrayAttr.i64(p.comma_list("[", "]", p.integer))
    for name, value in p.optional_dictionary().items():
        state.attributes[name] = _integers(value)
    state.operands = [target, *sizes]
    state.result_types = _handle_types(p, state, state.operands, 1 + _count_loops(state.attributes["static_sizes"]))


def print_tile(p: Printer, op: Operation) -> None:
    target, *sizes = op.operands
    p.write(f" {p.value(target)} {_mixed_text(p, op.attributes.get('static_sizes'), sizes)}")
    interchange = op.attributes.get("interchange")
    if isinstance(interchange, DenseArrayAttr) and interchange.values:
        p.write(f" {{interchange = [{', '.join(map(str, interchange.ints))}]}}")
    p.optional_dictionary(op, frozenset({"interchange", "static_sizes", SEGMENTS}))
    _print_types(p, op)


def _counted(name: str, sizes: str, none: tuple[int, ...] = (0,)) -> OpDefinition:
    """The row of an op that takes handles and a dictionary, with a loop per number in `sizes` not in `none`."""

    def parse(p: Parser, state: ParseState) -> None:
        names = [p.operand()]
        while p.accept(","):
            names.append(p.operand())
        state.operands = p.resolve_all(names, None)
        if p.at("["):
            state.attributes[sizes] = DenseArrayAttr.i64(p.comma_list("[", "]", p.integer))
        state.attributes.update(p.optional_dictionary())
        if sizes not in state.attributes:
            p.fail(f"expected '{sizes}' attribute", state.span)
        count = 1 + _count_loops(state.attributes[sizes], none)
        state.result_types = _handle_types(p, state, state.operands, count)

    def show(p: Printer, op: Operation) -> None:
        p.write(f" {', '.join(map(p.value, op.operands))}")
        p.optional_dictionary(op)
        _print_types(p, op)

    return op(
        f"transform.structured.{name}", assembly=CustomAssembly(parse, show), result_names=("transformed", "loops")
    )


def parse_loops(p: Parser, state: ParseState) -> None:
    """Parses `%0 [0, -1]`: a handle per listed loop."""
    state.operands = [p.resolve(p.operand(), None)]
    ids = p.comma_list("[", "]", p.integer) if p.at("[") else []
    state.attributes["loop_ids"] = DenseArrayAttr.i64(ids)
    state.attributes.update(p.optional_dictionary())
    state.result_types = _handle_types(p, state, state.operands, len(ids))


def print_loops(p: Printer, op: Operation) -> None:
    ids = op.attributes["loop_ids"]
    assert isinstance(ids, DenseArrayAttr)
    p.write(f" {p.value(op.operands[0])} [{', '.join(map(str, ids.ints))}]")
    p.optional_dictionary(op, frozenset({"loop_ids"}))
    _print_types(p, op)


def parse_with_region(p: Parser, state: ParseState) -> None:
    """Parses `%0 : type -> type {region}`: `foreach`, `apply_patterns to %0 {..} : type`."""
    to = p.accept("to")
    if p.token.kind == "value":
        state.operands = [p.resolve(p.operand(), None)]
    if not to and p.accept(":"):
        p.type()
        state.result_types = p.arrow_types()
    state.regions = [p.region()]
    ensure_terminator(state.regions[0], "transform.yield")
    state.attributes.update(p.optional_dictionary())
    if to and p.accept(":"):
        p.type()


def print_with_region(p: Printer, op: Operation) -> None:
    target = f" {p.value(op.operands[0])}" if op.operands else ""
    to = op.name == "transform.apply_patterns"
    p.write(f" to{target} " if to else f"{target} : {p.type(op.operands[0].type)}")
    if not to:
        results = ", ".join(p.type(t) for t in op.result_types)
        p.write(f" -> {results} " if results else " ")
    p.region(op.regions[0], terminator=bool(op.results))
    p.optional_dictionary(op)
    if to and op.operands:
        p.write(f" : {p.type(op.operands[0].type)}")


_TILED = ("tiled_linalg_op", "loops")


def _handles(name: str, operands: str, results: str, format: str, names: tuple[str, ...] = ()) -> OpDefinition:
    """The row of an operation on handles. Types of handles, where the text leaves them out, are `HANDLE`."""
    return op(f"transform.{name}", operands, results, f"{format} attrs handles", result_names=names)


_PARTS = ("fill_op", "split_linalg_op", "combining_linalg_op")

_HANDLE_ROWS = (
    _handles("annotate_ext", "target", "transformed", "%target", ("transformed",)),
    _handles("annotate", "target", "", "%target string(name)"),
    _handles("print", "target?", "", "{ %target }?target"),
    _handles("get_producer_of_operand", "target", "producer", "%target [ i64(operand_number) ]"),
    _handles("get_consumers_of_result", "target", "consumers", "%target [ i64(result_number) ]"),
    _handles("get_parent_op", "target", "parent", "%target"),
    _handles("split_handle", "handle", "results*", "%handle"),
    _handles("apply_cse", "target", "", "to %target"),
    _handles("apply_dce", "target", "", "to %target"),
    _handles("loop.get_parent_for", "target", "parent", "%target"),
    _handles(
        "structured.fuse_into_containing_op",
        "producer_op;containing_op",
        "fused_op;new_containing_op",
        "%producer_op into %containing_op",
        ("fused_op", "new_containing_op"),
    ),
    _handles("structured.tile_loop_hint", "target", "", "%target"),
    _handles(
        "structured.collapse_dims", "target", "transformed", "%target reassociation(reassociation)", ("transformed",)
    ),
    _handles("structured.fold_unit_extent_dims", "target", "transformed", "%target", ("transformed",)),
    _handles("structured.generalize", "target", "transformed", "%target"),
    _handles(
        "structured.interchange",
        "target",
        "transformed",
        "%target { iterator_interchange = dense_integers(iterator_interchange) }?iterator_interchange",
    ),
    _handles("structured.convert_to_loops", "target", "result", "%target"),
    _handles("structured.inline", "target", "", "%target"),
    _handles("structured.outline", "target", "functions;calls", "%target", ("functions", "calls")),
    _handles(
        "structured.shared_output_to_distributed_style",
        "loop;init;merge",
        "new_loop;new_init",
        "%loop , %init , %merge",
        ("new_loop", "new_init"),
    ),
    _handles(
        "structured.tile_reduction_using_forall",
        "target",
        "fill_op;split;combining;loop",
        "%target by num_threads = dense_integers(num_threads) { , tile_sizes = dense_integers(tile_sizes) }?tile_sizes"
        " { , mapping = attr(mapping) }?mapping",
        (*_PARTS, "forall_op"),
    ),
    _handles(
        "structured.tile_reduction_using_for",
        "target",
        "fill_op;split;combining;loop",
        "%target by tile_sizes = dense_integers(tile_sizes)",
        (*_PARTS, "for_op"),
    ),
    *(
        _handles(
            f"structured.{name}",
            "target;threads*;sizes*",
            "tiled_op;forall_op",
            "%target { num_threads indices(threads, num_threads) }?num_threads"
            " { tile_sizes indices(sizes, tile_sizes) }?tile_sizes { ( mapping = attr(mapping) ) }?mapping",
            ("tiled_op", "forall_op"),
        )
        for name in ("tile_using_forall", "tile_to_forall_op")
    ),
)

PATTERN_SETS = tuple(
    f"transform.apply_patterns.{name}"
    for name in (
        "canonicalization",
        "linalg.tiling_canonicalization",
        "scf.for_loop_canonicalization",
        "tensor.drop_redundant_insert_slice_rank_expansion",
        "tensor.fold_tensor_empty",
        "tensor.fold_tensor_subset_ops",
        "tensor.merge_consecutive_insert_extract_slice",
        "tensor.reassociative_reshape_folding",
    )
)
"""The sets of patterns that scripts may name: canonicalization does what it can of each."""

TRANSFORM_ROWS = make_rows(
    op(
        "transform.sequence",
        assembly=CustomAssembly(parse_sequence, print_sequence),
        default_dialect="transform",
    ),
    op(
        "transform.named_sequence",
        assembly=CustomAssembly(parse_named_sequence, print_function),
        traits="symbol isolated",
        default_dialect="transform",
    ),
    op("transform.yield", "operands*", "", "attrs { %operands : type(operands) }?operands", traits="terminator"),
    op("transform.cleanup", format="attrs"),
    op("transform.structured.match", assembly=CustomAssembly(parse_match, print_match)),
    *(
        op(f"transform.structured.{name}", assembly=CustomAssembly(parse_tile, print_tile), result_names=_TILED)
        for name in ("tile_ext", "tile_using_for", "tile", "tile_to_scf_for")
    ),
    _counted("fuse", "tile_sizes"),
    _counted("fuse_ext", "tile_sizes"),
    _counted("fuse_operands", "tile_nums", (0, 1)),
    op(
        "transform.structured.lower_to_loops",
        assembly=CustomAssembly(parse_loops, print_loops),
        result_names=("loops",),
    ),
    *_HANDLE_ROWS,
    op(
        "transform.merge_handles",
        "handles*",
        "result handle",
        "{ deduplicate(deduplicate) }?deduplicate %handles attrs { : type(result) }?result",
    ),
    op("transform.cast", "input", "output", "%input attrs : type(input) to type(output)"),
    op(
        "transform.include",
        "operands*",
        "results*",
        "symbol(target) failures ( mode(failure_propagation_mode) ) ( %operands ) attrs : functional",
    ),
    *(op(name, format="attrs") for name in PATTERN_SETS),
    *(
        op(name, assembly=CustomAssembly(parse_with_region, print_with_region), default_dialect="transform")
        for name in ("transform.foreach", "transform.apply_patterns", "transform.with_pdl_patterns")
    ),
)
