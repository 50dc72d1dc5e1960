"""Rules of reshapes: two are one where groups of dimensions fit together; what is filled is filled in its shape."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.dialects.registry import operand_group
from xjit.linalg_ext.dialects.tensor import reassociation
from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, DenseArrayAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import IntegerType, TensorType
from xjit.linalg_ext.rewrite.rule import Rule, replace

__all__ = ["RESHAPE_RULES"]

_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")


def compose(op: Operation) -> bool:
    """A collapse of a collapse, an expansion of an expansion."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name != op.name:
        return False
    outer_first = op.name == "tensor.expand_shape"
    coarse, fine = (inner, op) if outer_first else (op, inner)
    groups = _composed(reassociation(coarse), reassociation(fine))
    return replace(op, [_reshaped(op, op.name, inner.operands[0], groups)])


def collapse_of_expansion(op: Operation) -> bool:
    """Groups that are made of whole groups of the other kind: one reshape of the difference."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name != "tensor.expand_shape":
        return False
    source, result = inner.operands[0], op.result
    expanded, collapsed = reassociation(inner), reassociation(op)
    assert isinstance(source.type, TensorType) and isinstance(result.type, TensorType)
    name = "tensor.collapse_shape" if source.type.rank > result.type.rank else "tensor.expand_shape"
    if source.type.rank == result.type.rank or (name == "tensor.expand_shape" and None in result.type.shape):
        return False
    coarse, fine = (collapsed, expanded) if name == "tensor.collapse_shape" else (expanded, collapsed)
    groups = _made_of(coarse, fine)
    return groups is not None and replace(op, [_reshaped(op, name, source, groups)])


def undone(op: Operation) -> bool:
    """A reshape back to the type that there was; of several unknown sizes it is not known which is which."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name not in _RESHAPES or inner.name == op.name:
        return False
    source = inner.operands[0].type
    same = isinstance(source, TensorType) and source == op.result.type and source.shape.count(None) < 2
    return same and replace(op, [inner.operands[0]])


def _composed(coarse: Sequence[Sequence[int]], fine: Sequence[Sequence[int]]) -> list[list[int]]:
    """The dimensions of all members of each group."""
    return [[d for member in group for d in fine[member]] for group in coarse]


def _made_of(coarse: Sequence[Sequence[int]], fine: Sequence[Sequence[int]]) -> list[list[int]] | None:
    """Returns which of `fine` each group of `coarse`, of the same dimensions, is made of; None if one is cut."""
    groups: list[list[int]] = []
    number = 0
    for group in coarse:
        members: list[int] = []
        rest = list(group)
        while rest and number < len(fine) and rest[: len(fine[number])] == list(fine[number]):
            del rest[: len(fine[number])]
            members.append(number)
            number += 1
        if rest:
            return None
        groups.append(members)
    return groups if number == len(fine) else None


def _reshaped(op: Operation, name: str, source: Value, groups: Sequence[Sequence[int]]) -> Value:
    """Returns a reshape to the type of the result of `op`, whose sizes it takes over."""
    kind = IntegerType(64)
    listed = ArrayAttr(tuple(ArrayAttr(tuple(IntegerAttr(d, kind) for d in group)) for group in groups))
    attributes: dict[str, Attribute] = {"reassociation": listed}
    sizes: tuple[Value, ...] = ()
    if name == "tensor.expand_shape":
        result = op.result.type
        assert isinstance(result, TensorType)
        static = op.attributes.get("static_output_shape")
        attributes["static_output_shape"] = static or DenseArrayAttr.i64(n or 0 for n in result.shape)
        sizes = operand_group(op, "output_shape") if op.name == name else ()
    return Builder.before(op).create(name, (source, *sizes), (op.result.type,), attributes, (), op.location).result


def reshape_of_fill(op: Operation) -> bool:
    """What is filled in another shape is filled there."""
    fill = op.operands[0].defining_op
    if fill is None or fill.name != "linalg.fill" or not fill.results:
        return False
    place = Builder.before(op).create(
        op.name, (fill.operands[1], *op.operands[1:]), op.result_types, op.attributes, (), op.location
    )
    filled = Builder.before(op).create(
        "linalg.fill", (fill.operands[0], place.result), op.result_types, fill.attributes, (), fill.location
    )
    return replace(op, filled.results)


RESHAPE_RULES: tuple[Rule, ...] = (
    Rule(_RESHAPES, undone),
    Rule(_RESHAPES, compose),
    Rule(("tensor.collapse_shape",), collapse_of_expansion),
    Rule(_RESHAPES, reshape_of_fill),
)
