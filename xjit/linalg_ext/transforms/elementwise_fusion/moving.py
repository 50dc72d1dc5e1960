"""Moves operations behind another one of their block, with all that depends on them."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.operation import Block, Operation, Value
from xjit.linalg_ext.structured import as_structured

__all__ = ["dependents_before", "move_behind", "operation_in"]


def operation_in(block: Block, op: Operation) -> Operation | None:
    """Returns the operation of a block that is, or contains, `op`; None if it is outside."""
    current: Operation | None = op
    while current is not None and current.block is not block:
        current = current.parent_op
    return current


def dependents_before(values: Sequence[Value], anchor: Operation) -> list[Operation] | None:
    """Returns the operations before `anchor` that use the values, directly or not, in their order.

    None if the anchor uses one of their results, or the values in its body, or if one of them has effects and must stay
    where it is. That the anchor has the values as operands is the caller's to handle.
    """
    block = anchor.block
    assert block is not None
    found: dict[Operation, None] = {}
    pending = list(values)
    while pending:
        value = pending.pop()
        for user in value.users:
            op = operation_in(block, user)
            if op is None or op in found or (user is anchor and value in values):
                continue
            if op is anchor:
                return None
            if op.is_before(anchor):
                if not is_pure(op):
                    return None
                found[op] = None
                pending += op.results
    return sorted(found, key=block.position)


def is_pure(op: Operation) -> bool:
    """Whether an operation has no effects, so that it may be moved, or go if nobody uses it."""
    structured = as_structured(op)
    if structured is not None:
        return structured.has_tensor_semantics
    return has_trait(op, "pure")


def move_behind(operations: Sequence[Operation], anchor: Operation) -> None:
    """Moves operations behind the anchor, in their order."""
    for op in reversed(operations):
        op.move_after(anchor)
