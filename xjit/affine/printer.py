"""Prints affine expressions in MLIR's form; `expr_text` parses it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xjit.affine.node import AffineExprKind

if TYPE_CHECKING:
    from xjit.affine.expr import AffineExpr

__all__ = ["expr_to_string"]

_CONSTANT: Final = AffineExprKind.CONSTANT
_DIM: Final = AffineExprKind.DIM
_SYMBOL: Final = AffineExprKind.SYMBOL
_FLOORDIV: Final = AffineExprKind.FLOORDIV
_MOD: Final = AffineExprKind.MOD


def expr_to_string(expr: AffineExpr, strong: bool = False) -> str:
    """Returns the text; `strong`: it is an operand of *, floordiv or mod and needs parentheses if compound."""
    kind = expr.kind
    if kind is _CONSTANT:
        return str(expr.constant_term)
    if kind is _DIM:
        return f"d{expr.rhs}"
    if kind is _SYMBOL:
        return f"s{expr.rhs}"
    if kind is _FLOORDIV or kind is _MOD:
        text = f"{expr_to_string(expr.lhs, strong=True)} {'floordiv' if kind is _FLOORDIV else 'mod'} {expr.rhs}"
    else:
        text = _print_sum(expr)
    return f"({text})" if strong else text


def _print_sum(expr: AffineExpr) -> str:
    pieces: list[str] = []
    for term, k in expr.linear:
        magnitude = abs(k)
        if pieces:
            body = expr_to_string(term) if magnitude == 1 else f"{expr_to_string(term, strong=True)} * {magnitude}"
            pieces.append(f" {'+-'[k < 0]} {body}")
        elif magnitude == 1:
            pieces.append(expr_to_string(term) if k > 0 else f"-{expr_to_string(term, strong=True)}")
        else:
            pieces.append(f"{expr_to_string(term, strong=True)} * {k}")
    if expr.constant_term:
        pieces.append(f" {'+-'[expr.constant_term < 0]} {abs(expr.constant_term)}")
    return "".join(pieces)
