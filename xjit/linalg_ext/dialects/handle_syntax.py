"""Syntax that operations of scripts share: handles, whose types may be left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import HANDLE, OpDefinition
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import FunctionType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["handle_types", "handles_row", "print_handle_types"]


def handle_types(p: Parser, state: ParseState, operands: list[Value], count: int | None) -> list[Type]:
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


def print_handle_types(p: Printer, op: Operation) -> None:
    """Prints the types unless all of them are the default."""
    types = [v.type for v in (*op.operands, *op.results)]
    if any(t != HANDLE for t in types):
        p.write(f" : {p.type(FunctionType(tuple(v.type for v in op.operands), op.result_types))}")


def handles_row(
    name: str, operands: str, results: str, format: str, names: tuple[str, ...] = (), needs: str = ""
) -> OpDefinition:
    """The row of an operation on handles. Types of handles, where the text leaves them out, are `HANDLE`.

    `needs` lists attributes that must be there, though the format lets them stand in the dictionary.
    """
    return op(f"transform.{name}", operands, results, f"{format} attrs handles", result_names=names, needs=needs)
