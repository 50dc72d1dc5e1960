"""`lower_to_loops` and the passes that apply it to all ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xjit.affine import AffineExpr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import TensorType
from xjit.linalg_ext.structured import Access, StructuredOp, as_structured
from xjit.linalg_ext.transforms.lowering.extension_loops import EXTENSION_LOOPS
from xjit.linalg_ext.transforms.lowering.scalar_loops import ScalarLoops

__all__ = ["convert_linalg_ext_to_loops", "convert_linalg_to_loops", "lower_to_loops"]

Lowering: TypeAlias = Callable[[ScalarLoops, StructuredOp], None]


def lower_to_loops(operation: Operation) -> list[Operation]:
    """Replaces a structured op on memrefs by `scf.for` loops over scalar code; returns the loops, outermost first.

    LinalgError for other operations, for tensors, and for extension ops without a lowering.
    """
    op = as_structured(operation)
    if op is None:
        raise LinalgError(f"'{operation.name}' op is not structured: it has no loops", operation.location)
    if any(isinstance(value.type, TensorType) for value in op.operands):
        raise LinalgError(f"'{operation.name}' op has tensors: only ops on memrefs become loops", operation.location)
    lowering = _pointwise_loops if op.row.pointwise else EXTENSION_LOOPS.get(operation.name)
    if lowering is None:
        raise LinalgError(f"'{operation.name}' op has no lowering to loops", operation.location)
    loops = ScalarLoops(operation)
    lowering(loops, op)
    operation.erase()
    return loops.loops


def _pointwise_loops(loops: ScalarLoops, op: StructuredOp) -> None:
    """One loop per iterator; loads what the body reads, and stores what it yields."""
    sources = [loops.size(op.operands[number], axis) for number, axis in op.loop_sources]
    variables = loops.open_all(sources)

    def indices(access: Access) -> list[AffineExpr]:
        return [e for e in access if e is not None]

    body = op.body
    elements = [
        loops.load(value, [loops.at(e, variables) for e in indices(access)]) if argument.has_uses else None
        for argument, value, access in zip(body.arguments, op.operands, op.accesses)
    ]
    yielded = loops.inline(body, elements)
    for value, init, access in zip(yielded, op.inits, op.accesses[len(op.inputs) :]):
        loops.store(value, init, [loops.at(e, variables) for e in indices(access)])
    loops.close_all(len(sources))


def _lower_all(module: Operation, dialect: str) -> bool:
    changed = False
    for operation in list(module.walk()):
        op = as_structured(operation) if operation.dialect == dialect else None
        if op is None or any(isinstance(value.type, TensorType) for value in op.operands):
            continue
        if op.row.pointwise or operation.name in EXTENSION_LOOPS:
            lower_to_loops(operation)
            changed = True
    return changed


def convert_linalg_to_loops(module: Operation) -> bool:
    """The pass `convert-linalg-to-loops`: lowers all `linalg` ops on memrefs; says if there were any."""
    return _lower_all(module, "linalg")


def convert_linalg_ext_to_loops(module: Operation) -> bool:
    """The pass `convert-linalg-ext-to-loops`: lowers all `linalg_ext` ops on memrefs; says if there were any."""
    return _lower_all(module, "linalg_ext")
