"""Rules: one rewrite each, tried on operations of certain names; and the helpers they are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir.attributes import Attribute, DenseAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import IndexType, Type

__all__ = ["Rule", "constant_attribute", "replace", "replace_with_constant", "replace_with_index"]


@dataclass(frozen=True)
class Rule:
    """`rewrite` returns whether it has changed anything; it leaves the IR alone otherwise."""

    names: tuple[str, ...]
    rewrite: Callable[[Operation], bool]


def constant_attribute(value: Value) -> Attribute | None:
    """Returns what an `arith.constant` gives, None for any other value."""
    op = value.defining_op
    return op.attributes.get("value") if op is not None and op.name == "arith.constant" else None


def replace(op: Operation, values: Sequence[Value]) -> bool:
    """Replaces the operation by values, and erases it."""
    op.replace_all_uses_with(values)
    op.erase()
    return True


def replace_with_constant(op: Operation, value: IntegerAttr | FloatAttr | DenseAttr, type: Type) -> bool:
    """Replaces the operation, which has one result, by a constant."""
    return replace(op, [Builder.before(op).constant(value, type)])


def replace_with_index(op: Operation, value: int) -> bool:
    """Replaces the operation by a constant of type index."""
    return replace_with_constant(op, IntegerAttr(value, IndexType()), IndexType())
