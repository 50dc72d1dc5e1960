"""The nodes of affine expressions: kinds and storage, without operators. `expr` has the class that everything sees.

Imports go node -> pool -> rules -> expr: what makes and combines nodes knows `AffineExpr` as a type only.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from xjit.affine.expr import AffineExpr

__all__ = ["AffineExprKind", "Node", "Terms"]


class AffineExprKind(IntEnum):
    """Kinds in MLIR's words."""

    CONSTANT = 0
    DIM = 1
    SYMBOL = 2
    ADD = 3
    MUL = 4
    FLOORDIV = 5
    MOD = 6
    # with no constant operand; see `semi`
    PRODUCT = 7
    QUOTIENT = 8
    CEILED_QUOTIENT = 9
    REMAINDER = 10


Terms: TypeAlias = "tuple[tuple[AffineExpr, int], ...]"


class Node:
    """Storage of a node. Writable: a node under construction is a `Node`, and becomes an `AffineExpr` when done."""

    __slots__ = (
        "__weakref__",
        "_dims",
        "_symbols",
        "constant_term",
        "depth",
        "dim_mask",
        "kind",
        "lhs",
        "linear",
        "order",
        "rhs",
        "second",
        "size",
        "symbol_mask",
    )

    kind: AffineExprKind
    linear: Terms
    constant_term: int
    lhs: AffineExpr
    rhs: int
    second: AffineExpr
    order: tuple[Any, ...]
    dim_mask: int
    symbol_mask: int
    depth: int
    size: int
