"""All structured ops by name."""

from __future__ import annotations

from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.structured.contractions import CONTRACTION_ROWS
from xjit.linalg_ext.structured.elementwise import ELEMENTWISE_ROWS
from xjit.linalg_ext.structured.extension import EXTENSION_ROWS
from xjit.linalg_ext.structured.row import StructuredRow
from xjit.linalg_ext.structured.view import StructuredOp

__all__ = ["STRUCTURED_ROWS", "as_structured", "structured"]

STRUCTURED_ROWS: dict[str, StructuredRow] = {
    row.name: row for row in (*ELEMENTWISE_ROWS, *CONTRACTION_ROWS, *EXTENSION_ROWS)
}


def as_structured(op: Operation | None) -> StructuredOp | None:
    """Returns the view of a structured op, None for any other operation."""
    row = None if op is None else STRUCTURED_ROWS.get(op.name)
    return None if op is None or row is None else StructuredOp(op, row)


def structured(op: Operation) -> StructuredOp:
    """Returns the view of an operation that is known to be structured."""
    return StructuredOp(op, STRUCTURED_ROWS[op.name])
