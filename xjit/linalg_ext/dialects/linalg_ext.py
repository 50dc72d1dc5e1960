"""The linalg_ext dialect: ByteIR's structured ops, and its collective that distributed tiling makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import SEGMENTS, CustomAssembly, make_rows
from xjit.linalg_ext.dialects.linalg import drop_body, parse_ins_outs, print_ins_outs
from xjit.linalg_ext.ir.attributes import StringAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["LINALG_EXT_ROWS"]

_INS = "{ ins ( %inputs : type(inputs) ) }?inputs"
_OUTS = "{ outs ( %outputs : type(outputs) ) }?outputs"
_GROUPS = "inputs*;outputs*"


def parse_batch_matmul(p: Parser, state: ParseState) -> None:
    state.attributes.update(p.optional_dictionary())
    parse_ins_outs(p, state)
    del state.attributes[SEGMENTS]
    p.expect("layout")
    p.expect("=")
    state.attributes["layout"] = StringAttr(p.string())
    state.attributes.update(p.optional_dictionary())
    state.result_types = p.arrow_types() or state.result_types


def print_batch_matmul(p: Printer, op: Operation) -> None:
    print_ins_outs(p, op)
    p.write(f" layout = {p.attribute(op.attributes['layout'])}")
    p.optional_dictionary(op, frozenset({SEGMENTS, "layout"}))


def check_alias(op: Operation) -> None:
    if op.operands[0].type != op.result.type:
        raise LinalgVerifyError(f"'{op.name}' op expected same type of operand and result", op.location)


LINALG_EXT_ROWS = make_rows(
    op("linalg_ext.yield", "operands*", "", "attrs { %operands : type(operands) }?operands", traits="pure terminator"),
    op(
        "linalg_ext.alias",
        "operand",
        "result",
        "( %operand : type(operand) ) attrs : type(result)",
        traits="pure",
        check=check_alias,
    ),
    op(
        "linalg_ext.softmax",
        _GROUPS,
        "results*",
        f"attrs dimension ( i64(dimension) ) {_INS} {_OUTS} {{ : type(results) }}?results",
        traits="structured",
    ),
    op(
        "linalg_ext.diag",
        _GROUPS,
        "results*",
        f"attrs {_INS} {_OUTS} {{ : type(results) }}?results",
        traits="structured",
    ),
    op(
        "linalg_ext.scan",
        _GROUPS,
        "results*",
        f"attrs dimension ( i64(dimension) ) inclusive ( bool(inclusive) ) {_INS} {_OUTS} region"
        " { -> type(results) }?results",
        traits="structured",
    ),
    op(
        "linalg_ext.scatter",
        _GROUPS,
        "results*",
        f"attrs {_INS} {_OUTS} region {{ -> type(results) }}?results",
        traits="structured",
    ),
    op(
        "linalg_ext.topk",
        _GROUPS,
        "results*",
        f"attrs dimension ( i64(dimension) ) {_INS} {_OUTS} region {{ -> type(results) }}?results",
        traits="structured",
    ),
    op(
        "linalg_ext.custom",
        _GROUPS,
        "results*",
        f"attrs {_INS} {_OUTS} region {{ -> type(results) }}?results",
        traits="structured",
    ),
    op(
        "linalg_ext.layer_norm",
        _GROUPS,
        "results*",
        f"attrs axis ( integers(axis) ) epsilon ( f64(epsilon) ) {_INS} {_OUTS} {{ : type(results) }}?results",
        traits="structured",
    ),
    op(
        "linalg_ext.batch_matmul",
        assembly=CustomAssembly(parse_batch_matmul, print_batch_matmul),
        needs="string(layout)",
        traits="structured",
        normalize=drop_body,
    ),
    op("ccl.all_reduce", "src;dynamic_replica_groups?", "result =src", "%src attrs : type(src) -> type(result)"),
)
