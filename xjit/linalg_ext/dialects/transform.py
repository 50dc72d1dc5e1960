"""The transform dialect: the syntax of scripts. What the operations do is in `xjit.linalg_ext.transform_scripts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.attribute_kinds import ATTRIBUTE_KINDS, FAILURE_MODES, MATCH_INTERFACES, word_of
from xjit.linalg_ext.dialects.definition import SEGMENTS, CustomAssembly, make_rows
from xjit.linalg_ext.dialects.func import check_function, parse_function, print_function
from xjit.linalg_ext.dialects.handle_syntax import handle_types, handles_row
from xjit.linalg_ext.dialects.scf import ensure_terminator
from xjit.linalg_ext.dialects.transform_control import CONTROL_SCRIPT_ROWS
from xjit.linalg_ext.dialects.transform_match import MATCH_SCRIPT_ROWS
from xjit.linalg_ext.dialects.transform_structured import STRUCTURED_SCRIPT_ROWS
from xjit.linalg_ext.ir.attributes import DenseArrayAttr, DictAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FunctionType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["TRANSFORM_ROWS"]


def parse_sequence(p: Parser, state: ParseState) -> None:
    """Parses `%root, %more : types -> types failures(propagate) {region}`."""
    if p.token.kind == "value":
        names = [p.operand()]
        while p.accept(","):
            names.append(p.operand())
        p.expect(":")
        state.operands = p.resolve_all(names, p.type_list())
    count = len(state.operands)
    state.attributes[SEGMENTS] = DenseArrayAttr.i32([min(count, 1), max(count - 1, 0)])
    state.result_types = p.arrow_types()
    p.expect("failures")
    p.expect("(")
    ATTRIBUTE_KINDS["failures"].parse(p, state, ("failure_propagation_mode",))
    p.expect(")")
    if p.accept("attributes"):
        state.attributes.update(p.attribute_dictionary())
    state.regions = [p.region()]
    ensure_terminator(state.regions[0], "transform.yield")


def print_sequence(p: Printer, op: Operation) -> None:
    if op.operands:
        p.write(f" {', '.join(map(p.value, op.operands))} : {', '.join(p.type(v.type) for v in op.operands)}")
    if op.results:
        p.write(f" -> {', '.join(p.type(t) for t in op.result_types)}")
    p.write(f"  failures({word_of(op.attributes['failure_propagation_mode'], FAILURE_MODES)})")
    text = p.dictionary(op, frozenset({"failure_propagation_mode", SEGMENTS}))
    p.write(f" attributes {text} " if text else " ")
    p.region(op.regions[0], terminator=bool(op.results))


def parse_named_sequence(p: Parser, state: ParseState) -> None:
    parse_function(p, state)
    if state.regions[0].blocks:
        ensure_terminator(state.regions[0], "transform.yield")


def parse_match(p: Parser, state: ParseState) -> None:
    while not p.at("in"):
        word = p.keyword("a criterion of the match, or 'in'")
        if word == "ops":
            p.expect("{")
            state.attributes["ops"] = p.attribute()
            p.expect("}")
        elif word == "interface":
            p.expect("{")
            ATTRIBUTE_KINDS["interface"].parse(p, state, ("interface",))
            p.expect("}")
        elif word == "attributes":
            state.attributes["op_attrs"] = DictAttr(tuple(sorted(p.attribute_dictionary().items())))
        elif word in ("filter_result_type", "filter_operand_types"):
            p.expect("=")
            state.attributes[word] = p.attribute()
        else:
            p.fail(f"unknown criterion '{word}' of a match", state.span)
    p.expect("in")
    names = [p.operand()]
    state.attributes.update(p.optional_dictionary())
    state.operands = p.resolve_all(names, None)
    state.result_types = handle_types(p, state, state.operands, 1)


_FILTERS = ("filter_result_type", "filter_operand_types")
_MATCH_ATTRIBUTES = frozenset({"ops", "interface", "op_attrs", *_FILTERS})


def print_match(p: Printer, op: Operation) -> None:
    ops = op.attributes.get("ops")
    if ops is not None:
        p.write(f" ops{{{p.attribute(ops)}}}")
    if "interface" in op.attributes:
        p.write(f" interface{{{word_of(op.attributes['interface'], MATCH_INTERFACES)}}}")
    if "op_attrs" in op.attributes:
        p.write(f" attributes {p.attribute(op.attributes['op_attrs'])}")
    for name in _FILTERS:
        if name in op.attributes:
            p.write(f" {name} = {p.attribute(op.attributes[name])}")
    p.write(f" in {p.value(op.operands[0])}")
    p.optional_dictionary(op, _MATCH_ATTRIBUTES)
    p.write(f" : {p.type(FunctionType((op.operands[0].type,), op.result_types))}")


def check_match(op: Operation) -> None:
    """The interface is one that operations can be asked for."""
    interface = op.attributes.get("interface")
    if interface is not None and not word_of(interface, MATCH_INTERFACES):
        raise LinalgVerifyError(f"'{op.name}' op has attribute 'interface' = {interface}", op.location)


_POSITIONS = "positions(raw_position_list, is_inverted, is_all)"

_HANDLE_ROWS = (
    handles_row("annotate_ext", "target", "transformed", "%target", ("transformed",)),
    handles_row("annotate", "target;param?", "", "%target string(name) { = %param }?param"),
    handles_row("print", "target?", "", "{ %target }?target"),
    handles_row("get_producer_of_operand", "target", "producer", "%target [ i64(operand_number) ]"),
    handles_row("get_consumers_of_result", "target", "consumers", "%target [ i64(result_number) ]"),
    handles_row("get_parent_op", "target", "parent", "%target"),
    handles_row("get_closest_isolated_parent", "target", "parent", "%target"),
    handles_row("get_operand", "target", "result", f"%target [ {_POSITIONS} ]"),
    handles_row("get_result", "target", "result", f"%target [ {_POSITIONS} ]"),
    handles_row("get_defining_op", "target", "result", "%target"),
    handles_row("select", "target", "result", "string(op_name) in %target"),
    handles_row("num_associations", "handle", "num", "%handle"),
    handles_row("verify", "target", "", "%target"),
    handles_row("match.operation_name", "operand", "", "%operand attr(op_names)"),
    handles_row("split_handle", "handle", "results*", "%handle"),
    handles_row("apply_cse", "target", "", "to %target"),
    handles_row("apply_dce", "target", "", "to %target"),
    handles_row("apply_licm", "target", "", "to %target"),
    handles_row(
        "apply_registered_pass",
        "target",
        "result",
        "string(pass_name) { with options = attr(options) }?options to %target",
    ),
    handles_row("loop.get_parent_for", "target", "parent", "%target"),
    handles_row("loop.unroll", "target", "", "%target"),
    handles_row("loop.fuse_sibling", "target;source", "fused_loop", "%target into %source", ("fused_loop",)),
    handles_row("loop.hoist_loop_invariant_subsets", "target", "", "%target"),
    handles_row("loop.promote_if_one_iteration", "target", "", "%target"),
    handles_row("loop.coalesce", "target", "transformed", "%target"),
    handles_row("loop.forall_to_for", "target", "transformed*", "%target"),
    handles_row("loop.outline", "target", "function;call", "%target", ("function", "call")),
    handles_row("loop.peel", "target", "results*", "%target"),
    handles_row("loop.forall_to_parallel", "target", "transformed", "%target"),
    handles_row("scf.take_assumed_branch", "target", "", "%target { take_else(take_else_branch) }?take_else_branch"),
)

PATTERN_SETS = tuple(
    f"transform.apply_patterns.{name}"
    for name in (
        "canonicalization",
        "linalg.decompose_pad",
        "linalg.erase_unnecessary_inputs",
        "linalg.fold_unit_extent_dims_via_reshapes",
        "linalg.tiling_canonicalization",
        "memref.alloc_to_alloca",
        "memref.resolve_ranked_shaped_type_result_dims",
        "scf.for_loop_canonicalization",
        "tensor.decompose_concat",
        "tensor.drop_redundant_insert_slice_rank_expansion",
        "tensor.fold_tensor_empty",
        "tensor.fold_tensor_subset_ops",
        "tensor.merge_consecutive_insert_extract_slice",
        "tensor.fold_into_pack_and_unpack",
        "tensor.reassociative_reshape_folding",
        "tensor.rewrite_as_constant",
    )
)
"""The sets of patterns that scripts may name: canonicalization does what it can of most of them."""

TRANSFORM_ROWS = make_rows(
    op(
        "transform.sequence",
        "root?;extra_bindings*",
        "results*",
        assembly=CustomAssembly(parse_sequence, print_sequence),
        needs="failures(failure_propagation_mode)",
        regions=1,
        default_dialect="transform",
    ),
    op(
        "transform.named_sequence",
        assembly=CustomAssembly(parse_named_sequence, print_function),
        needs="string(sym_name) type(function_type)",
        check=check_function,
        traits="symbol isolated",
        default_dialect="transform",
    ),
    op("transform.yield", "operands*", "", "attrs { %operands : type(operands) }?operands", traits="terminator"),
    op("transform.cleanup", format="attrs"),
    op(
        "transform.structured.match",
        "target",
        "results",
        assembly=CustomAssembly(parse_match, print_match),
        check=check_match,
    ),
    *STRUCTURED_SCRIPT_ROWS,
    *CONTROL_SCRIPT_ROWS,
    *MATCH_SCRIPT_ROWS,
    *_HANDLE_ROWS,
    op(
        "transform.merge_handles",
        "handles*",
        "result handle",
        "{ deduplicate(deduplicate) }?deduplicate %handles attrs { : type(result) }?result",
    ),
    op(
        "transform.match.param.cmpi",
        "param;reference =param",
        "",
        "comparison(predicate) %param , %reference attrs : type(param)",
    ),
    op("transform.param.constant", "", "param", "attr(value) attrs -> type(param)"),
    op("transform.cast", "input", "output", "%input attrs : type(input) to type(output)"),
    op(
        "transform.include",
        "operands*",
        "results*",
        "symbol(target) failures ( failures(failure_propagation_mode) ) ( %operands ) attrs : functional",
    ),
    *(op(name, format="attrs") for name in PATTERN_SETS),
)
