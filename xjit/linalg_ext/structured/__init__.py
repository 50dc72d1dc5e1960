"""Structured operations: rows of facts, and a view of an operation through its row."""

from __future__ import annotations

from xjit.linalg_ext.structured.row import PARALLEL, REDUCTION, Access, Accesses, StructuredRow
from xjit.linalg_ext.structured.table import STRUCTURED_ROWS, as_structured, structured
from xjit.linalg_ext.structured.verify import verify_structured
from xjit.linalg_ext.structured.view import StructuredOp, shape_of

__all__ = [
    "PARALLEL",
    "REDUCTION",
    "STRUCTURED_ROWS",
    "Access",
    "Accesses",
    "StructuredOp",
    "StructuredRow",
    "as_structured",
    "shape_of",
    "structured",
    "verify_structured",
]
