"""Semi-affine terms: products, quotients and remainders of two expressions neither of which is a constant.

MLIR has them in maps of sizes that are known at run time only, as `d0 * s0` or `64 ceildiv s0`. In the linear normal
form they are atoms: they have the depth of a variable, and no rule looks inside. With a constant on either side, these
functions are the operators of affine expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from xjit.affine import rules
from xjit.affine.node import AffineExprKind
from xjit.affine.pool import constant, semi_node

if TYPE_CHECKING:
    from xjit.affine.expr import AffineExpr

__all__ = ["SEMI_AFFINE", "SEMI_VALUES", "ceildiv", "floordiv", "mod", "product"]

_CONSTANT: Final = AffineExprKind.CONSTANT


def product(left: AffineExpr, right: AffineExpr) -> AffineExpr:
    """Returns left * right; what is a dim or has one stands on the left, and constant factors go outside."""
    if left.kind is _CONSTANT:
        return rules.scale(right, left.constant_term)
    if right.kind is _CONSTANT:
        return rules.scale(left, right.constant_term)
    if right.dim_mask and not left.dim_mask:
        left, right = right, left
    (left, outer), (right, inner) = _factored(left), _factored(right)
    return rules.scale(semi_node(AffineExprKind.PRODUCT, left, right), outer * inner)


def _factored(expr: AffineExpr) -> tuple[AffineExpr, int]:
    """Splits one scaled term into the term and its factor."""
    return expr.linear[0] if expr.kind is AffineExprKind.MUL else (expr, 1)


def _division(
    kind: AffineExprKind, by_constant: Callable[[AffineExpr, AffineExpr], AffineExpr]
) -> Callable[[AffineExpr, AffineExpr], AffineExpr]:
    def divide(left: AffineExpr, right: AffineExpr) -> AffineExpr:
        if right.kind is _CONSTANT:
            return by_constant(left, right)
        if left.kind is _CONSTANT and left.constant_term == 0:
            return constant(0)
        return semi_node(kind, left, right)

    return divide


floordiv = _division(AffineExprKind.QUOTIENT, rules.floordiv)
ceildiv = _division(AffineExprKind.CEILED_QUOTIENT, rules.ceildiv)
mod = _division(AffineExprKind.REMAINDER, rules.mod)

SEMI_AFFINE: dict[AffineExprKind, Callable[[AffineExpr, AffineExpr], AffineExpr]] = {
    AffineExprKind.PRODUCT: product,
    AffineExprKind.QUOTIENT: floordiv,
    AffineExprKind.CEILED_QUOTIENT: ceildiv,
    AffineExprKind.REMAINDER: mod,
}
"""What makes a term of each kind from its operands, simplified where one of them has become a constant."""

SEMI_VALUES: dict[AffineExprKind, Callable[[Any, Any], Any]] = {
    AffineExprKind.PRODUCT: lambda a, b: a * b,
    AffineExprKind.QUOTIENT: lambda a, b: a // b,
    AffineExprKind.CEILED_QUOTIENT: lambda a, b: -(-a // b),
    AffineExprKind.REMAINDER: lambda a, b: a % b,
}
"""The same on numbers."""
