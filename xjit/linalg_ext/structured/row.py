"""StructuredRow: the facts of a structured op: loops, accesses, iterator types, scalar body, checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xjit.affine.expr import AffineExpr
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value

if TYPE_CHECKING:
    from xjit.linalg_ext.structured.view import StructuredOp

__all__ = ["PARALLEL", "REDUCTION", "Access", "Accesses", "BodyBuilder", "StructuredRow"]

PARALLEL = "parallel"
REDUCTION = "reduction"

Access: TypeAlias = tuple[AffineExpr | None, ...]
"""Per dimension of an operand its index, in loop variables; None where an iteration may touch the whole dimension."""

Accesses: TypeAlias = tuple[Access, ...]
"""One access per operand, inputs first."""

BodyBuilder: TypeAlias = "Callable[[Builder, StructuredOp, Sequence[Value]], list[Value]]"
"""Builds the scalar body: from the elements of inputs and inits to the new elements of the inits."""


def _no_more_checks(op: StructuredOp) -> None:
    """The accesses say all that must hold."""


def _body_reads(op: StructuredOp, number: int) -> bool:
    index = len(op.inputs) + number
    arguments = op.body.arguments
    return index < len(arguments) and arguments[index].has_uses  # the body of a map has no arguments for its init


@dataclass(frozen=True, slots=True)
class StructuredRow:
    """One structured op.

    `num_inputs`, `num_inits`: how many operands it has; None for any number. `accesses`: one per operand. `iterators`:
    one per loop. `body`: builds the scalar body of an op that is printed without one; None if the op carries its
    region. `pointwise`: the op is its body at each iteration, in any order of the parallel loops; if not, its
    evaluation defines it. `check`: raises an error for what the accesses do not say. `reads_init`: whether results
    depend on what init n holds.
    """

    name: str
    num_inputs: int | None
    num_inits: int | None
    accesses: Callable[[StructuredOp], Accesses]
    iterators: Callable[[StructuredOp], tuple[str, ...]]
    body: BodyBuilder | None = None
    pointwise: bool = True
    check: Callable[[StructuredOp], None] = _no_more_checks
    reads_init: Callable[[StructuredOp, int], bool] = _body_reads
