"""Prints affine expressions in MLIR's form; `expr_text` parses it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xjit.affine.node import AffineExprKind
from xjit.affine.pool import sum_node

if TYPE_CHECKING:
    from xjit.affine.expr import AffineExpr

__all__ = ["expr_to_string"]

_CONSTANT: Final = AffineExprKind.CONSTANT
_DIM: Final = AffineExprKind.DIM
_SYMBOL: Final = AffineExprKind.SYMBOL
_FLOORDIV: Final = AffineExprKind.FLOORDIV
_MOD: Final = AffineExprKind.MOD
_WORDS: Final = {
    AffineExprKind.PRODUCT: "*",
    AffineExprKind.QUOTIENT: "floordiv",
    AffineExprKind.CEILED_QUOTIENT: "ceildiv",
    AffineExprKind.REMAINDER: "mod",
}


def expr_to_string(expr: AffineExpr, strong: bool = False, ceiled: bool = False) -> str:
    """Returns the text; `strong`: it is an operand of *, floordiv or mod and needs parentheses if compound.

    With `ceiled`, (x + 7) floordiv 8 is written x ceildiv 8.
    """
    kind = expr.kind
    if kind is _CONSTANT:
        return str(expr.constant_term)
    if kind is _DIM:
        return f"d{expr.rhs}"
    if kind is _SYMBOL:
        return f"s{expr.rhs}"
    if kind is _FLOORDIV or kind is _MOD:
        word, left = "floordiv" if kind is _FLOORDIV else "mod", expr.lhs
        if ceiled and kind is _FLOORDIV and left.linear and left.constant_term == expr.rhs - 1:
            word, left = "ceildiv", sum_node(left.linear, 0)
        text = f"{expr_to_string(left, True, ceiled)} {word} {expr.rhs}"
    elif kind > _MOD:
        text = f"{expr_to_string(expr.lhs, True, ceiled)} {_WORDS[kind]} {expr_to_string(expr.second, True, ceiled)}"
    else:
        text = _print_sum(expr, ceiled)
    return f"({text})" if strong else text


def _print_sum(expr: AffineExpr, ceiled: bool) -> str:
    pieces: list[str] = []
    for term, k in expr.linear:
        magnitude = abs(k)
        inside = expr_to_string(term, magnitude != 1 or (k < 0 and not pieces), ceiled)
        if pieces:
            pieces.append(f" {'+-'[k < 0]} {inside}{f' * {magnitude}' if magnitude != 1 else ''}")
        elif magnitude == 1:
            pieces.append(inside if k > 0 else f"-{inside}")
        else:
            pieces.append(f"{inside} * {k}")
    if expr.constant_term:
        pieces.append(f" {'+-'[expr.constant_term < 0]} {abs(expr.constant_term)}")
    return "".join(pieces)
