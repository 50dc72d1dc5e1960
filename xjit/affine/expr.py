"""Affine expressions: nodes with operators. They are interned by `pool`, canonical by `rules`.

Invariants:
- One object per expression: equality is identity. See `pool`.
- Linear normal form: a sum is a tuple of (term, coefficient) pairs in canonical order plus a constant; terms are
  dimensions, symbols, floordivs and mods, all different, with non-zero coefficients. Mul is one scaled term.
- floordiv and mod have a positive constant on the right, round towards minus infinity, and hold no addend that their
  divisor divides. All rules used here are exact on all integers; rules that need bounds live in `simplify`.
- Terms may also be semi-affine (see `semi`): products and divisions without a constant side, which no rule looks into.
- Nesting depth and size are bounded (`IndexingBudgetError`), so that recursion over *nesting* is safe; sums are flat.

Order of terms, which is also the order of printing: dims by position, symbols by position, floordivs, mods.
"""

from __future__ import annotations

from operator import index
from typing import Any, Final, NoReturn

from xjit.affine import pool as _pool
from xjit.affine import printer as _printer
from xjit.affine import rules as _rules
from xjit.affine.node import AffineExprKind, Node, Terms

__all__ = ["AffineExpr", "AffineExprKind", "Terms"]

_CONSTANT: Final = AffineExprKind.CONSTANT
_DIM: Final = AffineExprKind.DIM
_SYMBOL: Final = AffineExprKind.SYMBOL
_ADD: Final = AffineExprKind.ADD
_MUL: Final = AffineExprKind.MUL
_FLOORDIV: Final = AffineExprKind.FLOORDIV
_MOD: Final = AffineExprKind.MOD


class AffineExpr(Node):
    """One canonical expression; make it with `dim`, `symbol`, `constant` and operators, compare it with `is`.

    Slots: `linear` and `constant_term` hold the sum (ADD, MUL; a CONSTANT's value is its constant_term), `lhs` and
    `rhs` a floordiv's or mod's operands, `rhs` also a variable's position, `lhs` and `second` a semi-affine term's
    operands; `order` sorts terms; `dim_mask` and `symbol_mask` are bit sets of the positions used; `depth` and
    `size` are for budgets.
    """

    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError("affine expressions are made by dim(), symbol(), constant() and operators")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"affine expressions are immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"affine expressions are immutable: cannot delete {name!r}")

    @property
    def terms(self) -> Terms:
        """The (term, coefficient) pairs of the linear decomposition, of any expression; see `constant_term`."""
        kind = self.kind
        if kind is _ADD or kind is _MUL:
            return self.linear
        return () if kind is _CONSTANT else ((self, 1),)

    @property
    def is_constant(self) -> bool:
        return self.kind is _CONSTANT

    @property
    def value(self) -> int:
        """Value of a constant; AttributeError for other kinds."""
        if self.kind is not _CONSTANT:
            raise AttributeError(f"{self} is not a constant: it has no value")
        return self.constant_term

    @property
    def position(self) -> int:
        """Position of a dim or symbol; AttributeError for other kinds."""
        if self.kind is not _DIM and self.kind is not _SYMBOL:
            raise AttributeError(f"{self} is not a dim or a symbol: it has no position")
        return self.rhs

    @property
    def operands(self) -> tuple[AffineExpr, ...]:
        """Operands as expressions: the addends of a sum, (term, factor), (lhs, divisor), () for leaves."""
        kind = self.kind
        if kind is _ADD:
            addends = [t if k == 1 else _pool.sum_node(((t, k),), 0) for t, k in self.linear]
            return (*addends, _pool.constant(self.constant_term)) if self.constant_term else tuple(addends)
        if kind is _MUL:
            term, factor = self.linear[0]
            return (term, _pool.constant(factor))
        if kind is _FLOORDIV or kind is _MOD:
            return (self.lhs, _pool.constant(self.rhs))
        return (self.lhs, self.second) if kind > _MOD else ()

    @property
    def dims(self) -> frozenset[int]:
        """Positions of the dimensions used."""
        return _positions(self, "_dims", self.dim_mask)

    @property
    def symbols(self) -> frozenset[int]:
        """Positions of the symbols used."""
        return _positions(self, "_symbols", self.symbol_mask)

    def uses_dim(self, position: int) -> bool:
        return bool(self.dim_mask >> position & 1)

    def uses_symbol(self, position: int) -> bool:
        return bool(self.symbol_mask >> position & 1)

    def __add__(self, other: AffineExpr | int) -> AffineExpr:
        return _rules.add(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: AffineExpr | int) -> AffineExpr:
        return _rules.add(self, other, -1)

    def __rsub__(self, other: AffineExpr | int) -> AffineExpr:
        return _rules.add(_rules.scale(self, -1), other, 1)

    def __neg__(self) -> AffineExpr:
        return _rules.scale(self, -1)

    def __mul__(self, other: AffineExpr | int) -> AffineExpr:
        if isinstance(other, AffineExpr):
            if other.kind is _CONSTANT:
                return _rules.scale(self, other.constant_term)
            if self.kind is _CONSTANT:
                return _rules.scale(other, self.constant_term)
            raise ValueError(f"product of affine expressions needs a constant side: ({self}) * ({other})")
        return _rules.scale(self, index(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: AffineExpr | int) -> AffineExpr:
        return _rules.floordiv(self, other)

    def __mod__(self, other: AffineExpr | int) -> AffineExpr:
        return _rules.mod(self, other)

    def floordiv(self, divisor: AffineExpr | int) -> AffineExpr:
        return _rules.floordiv(self, divisor)

    def mod(self, divisor: AffineExpr | int) -> AffineExpr:
        return _rules.mod(self, divisor)

    def ceildiv(self, divisor: AffineExpr | int) -> AffineExpr:
        return _rules.ceildiv(self, divisor)

    def __copy__(self) -> AffineExpr:
        return self

    def __deepcopy__(self, memo: object) -> AffineExpr:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        kind = self.kind
        if kind is _ADD or kind is _MUL:
            return (_pool.sum_node, (self.linear, self.constant_term))
        if kind is _FLOORDIV or kind is _MOD:
            return (_pool.division_node, (kind, self.lhs, self.rhs))
        if kind > _MOD:
            return (_pool.semi_node, (kind, self.lhs, self.second))
        if kind is _CONSTANT:
            return (_pool.constant, (self.constant_term,))
        return (_pool.dim if kind is _DIM else _pool.symbol, (self.rhs,))

    def __str__(self) -> str:
        return _printer.expr_to_string(self)

    def __repr__(self) -> str:
        return f"<AffineExpr {self}>"


def _positions(expr: AffineExpr, slot: str, mask: int) -> frozenset[int]:
    cached: frozenset[int] | None = getattr(expr, slot, None)
    if cached is None:
        cached = frozenset(i for i in range(mask.bit_length()) if mask >> i & 1)
        object.__setattr__(expr, slot, cached)
    return cached


_pool.make_nodes_of(AffineExpr)
