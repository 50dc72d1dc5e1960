"""Named structured ops become `linalg.generic`."""

from __future__ import annotations

from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import element_type
from xjit.linalg_ext.structured import StructuredOp, as_structured
from xjit.linalg_ext.structured.creation import create_generic

__all__ = ["generalize", "generalize_all", "generic_body"]


def generic_body(op: StructuredOp) -> Region:
    """Returns a copy of the body with one argument per operand, closed by `linalg.yield`."""
    block = Block([element_type(value.type) for value in op.operands])
    source = op.body
    mapping: dict[Value, Value] = dict(zip(source.arguments, block.arguments))
    builder = Builder(block, location=op.operation.location)
    for inner in source.operations[:-1]:
        builder.clone(inner, mapping)
    builder.create("linalg.yield", [mapping.get(v, v) for v in op.yielded])
    return Region([block])


def generalize(operation: Operation) -> Operation:
    """Replaces an op by the generic that does the same; returns it. LinalgError for an op that is no such loop nest."""
    op = as_structured(operation)
    if op is None or not op.row.pointwise:
        raise LinalgError(f"'{operation.name}' op is no nest of loops around scalar code", operation.location)
    if operation.name == "linalg.generic":
        return operation
    builder = Builder.before(operation)
    result = create_generic(builder, op.inputs, op.inits, op.indexing_maps, op.iterator_types, generic_body(op))
    operation.replace_all_uses_with(result.results)
    operation.erase()
    return result


def generalize_all(module: Operation) -> bool:
    """The pass `linalg-generalization-ext`: generalizes all ops for which that is possible; says if there were any."""
    changed = False
    for operation in list(module.walk()):
        op = as_structured(operation)
        if op is not None and op.row.pointwise and operation.name != "linalg.generic" and operation.block is not None:
            generalize(operation)
            changed = True
    return changed
