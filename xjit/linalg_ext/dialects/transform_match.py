"""`transform.match.structured`: what scripts ask of structured ops; their syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.attribute_kinds import ATTRIBUTE_KINDS, FAILURE_MODES, word_of
from xjit.linalg_ext.dialects.definition import CustomAssembly
from xjit.linalg_ext.dialects.handle_syntax import handle_types, handles_row
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FunctionType, IntegerType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["MATCH_SCRIPT_ROWS"]

_MODE = "failure_propagation_mode"


def parse_structured(p: Parser, state: ParseState) -> None:
    """Parses `failures(propagate) %0 : (type) -> types {region}`."""
    state.attributes[_MODE] = IntegerAttr(FAILURE_MODES["propagate"], IntegerType(32))
    if p.accept("failures"):
        p.expect("(")
        ATTRIBUTE_KINDS["failures"].parse(p, state, (_MODE,))
        p.expect(")")
    state.operands = [p.resolve(p.operand(), None)]
    state.result_types = handle_types(p, state, state.operands, None)
    if len(state.result_types) == 1 and not state.num_results:
        state.result_types = []  # the type of the operand stands alone
    if p.accept("attributes"):
        state.attributes.update(p.attribute_dictionary())
    state.regions = [p.region()]


def print_structured(p: Printer, op: Operation) -> None:
    p.write(f" failures({word_of(op.attributes[_MODE], FAILURE_MODES)}) {p.value(op.operands[0])}")
    kind = op.operands[0].type
    p.write(f" : {p.type(FunctionType((kind,), op.result_types) if op.results else kind)}")
    text = p.dictionary(op, frozenset({_MODE}))
    p.write(f" attributes {text} " if text else " ")
    p.region(op.regions[0])


_POSITIONS = "[ positions(raw_position_list, is_inverted, is_all) ]"

MATCH_SCRIPT_ROWS = (
    op(
        "transform.match.structured",
        "current",
        "outputs*",
        assembly=CustomAssembly(parse_structured, print_structured),
        needs=f"failures({_MODE})",
        regions=1,
        default_dialect="transform",
    ),
    op(
        "transform.match.structured.yield",
        "handles*",
        "",
        "%handles attrs { : type(handles) }?handles",
        traits="terminator",
    ),
    handles_row("match.structured.body", "operand_handle", "", "%operand_handle"),
    handles_row("match.structured.dim", "operand_handle", "result?", f"%operand_handle {_POSITIONS}"),
    *(
        handles_row(f"match.structured.{name}", "operand_handle", "result?", f"%operand_handle {_POSITIONS}")
        for name in ("input", "init")
    ),
    handles_row("match.structured.result", "operand_handle", "result", "%operand_handle [ i64(position) ]"),
    *(
        handles_row(f"match.structured.{name}", "operand_handle", name, "%operand_handle", (name,))
        for name in ("rank", "num_inputs", "num_inits")
    ),
    handles_row("match.structured.elemental_bitwidth", "operand_handle", "result", "%operand_handle"),
    handles_row("match.structured.classify_contraction_dims", "operand_handle", "batch;m;n;k", "%operand_handle"),
)
