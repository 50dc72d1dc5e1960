"""Reductions whose parts are made by the members of a group: what they are put together by."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import (
    ArrayAttr,
    Attribute,
    Builder,
    FloatAttr,
    FloatType,
    IndexType,
    IntegerAttr,
    IntegerType,
    Operation,
    OpOperand,
    StringAttr,
    Type,
    Value,
)
from xjit.linalg_ext.structured import StructuredOp, as_structured

__all__ = ["Combiner", "all_reduced", "combiner_of", "neutral_element"]

_REDUCTIONS = {
    "arith.addf": ("sum", 0.0),
    "arith.addi": ("sum", 0),
    "arith.mulf": ("prod", 1.0),
    "arith.muli": ("prod", 1),
    "arith.maximumf": ("max", float("-inf")),
    "arith.maxnumf": ("max", float("-inf")),
    "arith.minimumf": ("min", float("inf")),
    "arith.minnumf": ("min", float("inf")),
    "arith.maxsi": ("max", "least"),
    "arith.minsi": ("min", "greatest"),
    "arith.maxui": ("max", 0),
    "arith.minui": ("min", -1),
    "arith.andi": ("and", -1),
    "arith.ori": ("or", 0),
    "arith.xori": ("xor", 0),
}
"""The name of a reduction in collectives, and its neutral element, per associative and commutative scalar op."""


@dataclass(frozen=True)
class Combiner:
    """The scalar op that adds an element to what has been reduced."""

    op: Operation

    @property
    def reduction(self) -> str:
        return _REDUCTIONS[self.op.name][0]


def combiner_of(view: StructuredOp) -> Combiner | None:
    """Returns what combines elements in a reduction with one result, None if it is more than one known scalar op."""
    if len(view.inits) != 1 or not view.row.pointwise:
        return None
    total = view.body.arguments[len(view.inputs)]
    op = view.yielded[0].defining_op
    if op is None or op.name not in _REDUCTIONS or total.users != [op] or len(total.uses) != 1:
        return None
    return Combiner(op)


def neutral_element(name: str, kind: Type) -> Attribute:
    """Returns the element that the scalar op `name` leaves others unchanged with."""
    value = _REDUCTIONS[name][1]
    if isinstance(kind, FloatType):
        return FloatAttr(float(value), kind)
    assert isinstance(kind, IntegerType | IndexType)
    width = kind.width if isinstance(kind, IntegerType) else 64
    bounds = {"least": -(1 << width - 1), "greatest": (1 << width - 1) - 1}
    number = bounds[value] if isinstance(value, str) else int(value)
    return IntegerAttr(number, kind)


def all_reduced(op: Operation, group: int | None = None) -> Value | None:
    """Puts `ccl.all_reduce` behind a reduction, for its users; None if it is not known how its parts are combined."""
    view = as_structured(op)
    combiner = None if view is None else combiner_of(view)
    if combiner is None:
        return None
    attributes: dict[str, Attribute] = {"reduction": StringAttr(combiner.reduction)}
    if group is not None:
        members = ArrayAttr(tuple(IntegerAttr(i, IntegerType(64)) for i in range(group)))
        attributes["replica_groups"] = ArrayAttr((members,))
    reduced = Builder.after(op).create("ccl.all_reduce", (op.result,), (op.result.type,), attributes)

    def is_other(use: OpOperand) -> bool:
        return use.owner is not reduced

    op.result.replace_uses_if(reduced.result, is_other)
    return reduced.result
