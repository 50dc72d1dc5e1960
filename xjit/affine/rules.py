"""Smart constructors of affine expressions: every rule that is exact without bounds on the variables.

Sums collect like terms and let quotients and remainders cancel; floordiv and mod take out what their divisor divides,
drop common factors and collapse nesting. See `expr` for the normal form that results.
"""

from __future__ import annotations

from bisect import bisect_left
from math import gcd
from operator import index
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from xjit.affine.node import AffineExprKind, Node
from xjit.affine.pool import constant, division_node, extended_sum_node, sum_node

if TYPE_CHECKING:
    from xjit.affine.expr import AffineExpr

__all__ = ["add", "ceildiv", "clear_memos", "floordiv", "from_terms", "linear_combination", "mod", "scale"]

_CONSTANT: Final = AffineExprKind.CONSTANT
_ADD: Final = AffineExprKind.ADD
_MUL: Final = AffineExprKind.MUL
_FLOORDIV: Final = AffineExprKind.FLOORDIV
_MOD: Final = AffineExprKind.MOD


def _term_order(item: tuple[AffineExpr, int]) -> tuple[Any, ...]:
    return item[0].order


def _collect(into: dict[AffineExpr, int], expr: AffineExpr, factor: int) -> int:
    """Adds factor * expr to the terms; returns factor * its constant."""
    kind = expr.kind
    if kind is _ADD or kind is _MUL:
        for term, k in expr.linear:
            into[term] = into.get(term, 0) + k * factor
    elif kind is not _CONSTANT:
        into[expr] = into.get(expr, 0) + factor
    return expr.constant_term * factor


def from_terms(terms: dict[AffineExpr, int], constant_term: int) -> AffineExpr:
    """Returns the canonical sum; `terms` are non-sum expressions, zero coefficients allowed; it is consumed."""
    compound = False
    zero = False
    for term, factor in terms.items():
        if not factor:
            zero = True
        elif term.depth:
            compound = True
    if zero:
        terms = {t: k for t, k in terms.items() if k}
    if compound and len(terms) > 1:
        constant_term += _recombine(terms)
    if len(terms) > 1:
        return sum_node(tuple(sorted(terms.items(), key=_term_order)), constant_term)
    return sum_node(tuple(terms.items()), constant_term)


def linear_combination(parts: list[tuple[AffineExpr, int]], constant_term: int = 0) -> AffineExpr:
    """Returns the sum of expression * factor over `parts`, plus a constant."""
    terms: dict[AffineExpr, int] = {}
    for expr, factor in parts:
        constant_term += _collect(terms, expr, factor)
    return from_terms(terms, constant_term)


def scale(expr: AffineExpr, factor: int) -> AffineExpr:
    if factor == 1:
        return expr
    if factor == 0:
        return constant(0)
    kind = expr.kind
    if kind is _CONSTANT:
        return constant(expr.constant_term * factor)
    if kind is _ADD or kind is _MUL:
        return sum_node(tuple([(t, k * factor) for t, k in expr.linear]), expr.constant_term * factor)
    return sum_node(((expr, factor),), 0)


def add(left: AffineExpr, right: AffineExpr | int, sign: int) -> AffineExpr:
    """Returns left + sign * right."""
    if not isinstance(right, Node):
        return sum_node(left.terms, left.constant_term + sign * index(right))
    if right.kind is _CONSTANT:
        return sum_node(left.terms, left.constant_term + sign * right.constant_term)
    if left.kind is _ADD and not right.depth and not right.linear:
        return _add_variable(left, right, sign)
    terms: dict[AffineExpr, int] = {}
    constant_term = _collect(terms, left, 1)
    constant_term += _collect(terms, right, sign)
    return from_terms(terms, constant_term)


def _add_variable(total: AffineExpr, variable: AffineExpr, factor: int) -> AffineExpr:
    """Returns total + factor * variable by insertion: one more addend costs little in a sum of thousands."""
    terms = total.linear
    at = bisect_left(terms, variable.order, key=_term_order)
    if (at < len(terms) and terms[at][0] is variable) or total.depth:
        collected = dict(terms)
        collected[variable] = collected.get(variable, 0) + factor
        return from_terms(collected, total.constant_term)
    terms = (*terms[:at], (variable, factor), *terms[at:])
    return extended_sum_node(terms, total, variable)


def _recombine(terms: dict[AffineExpr, int]) -> int:
    """Rewrites `terms` in place while quotients and remainders of one expression cancel; returns the constant freed.

    With F = x floordiv m and M = x mod m:
      k*m*F + k*M          = k*x, also if M = x mod m has been written with another x
      k*m*(y mod n) + k*M  = k*((m*y + M) mod (m*n))   applied if m*y + M itself cancels
      k*x - k*m*F          = k*M
      k*q*y + k*F          = k*((m*q*y + x) floordiv m)   likewise, for a floordiv y
      k*x - k*M            = k*m*F
    Each rewrite shrinks the expression written as a tree, so the loop ends.
    """
    freed = 0
    while True:
        compounds = [t for t in terms if t.depth]
        if not compounds or len(terms) < 2:
            return freed
        if len(compounds) > 1:
            compounds.sort(key=lambda t: t.order)
        for term in compounds:
            found = (
                _cancel_mod(terms, compounds, term) if term.kind is _MOD else _cancel_floordiv(terms, compounds, term)
            )
            if found is not None:
                expr, factor = found
                freed += _collect(terms, expr, factor)
                for zero in [t for t, k in terms.items() if not k]:
                    del terms[zero]
                break
        else:
            return freed


def _cancel_mod(
    terms: dict[AffineExpr, int], compounds: list[AffineExpr], remainder: AffineExpr
) -> tuple[AffineExpr, int] | None:
    """Takes `remainder` and what cancels with it out of `terms`; returns (expression, factor) to add instead."""
    factor, x, m = terms[remainder], remainder.lhs, remainder.rhs
    quotient: AffineExpr | None = None
    if len(compounds) > 1:
        wanted = factor * m
        quotient = floordiv(x, m)
        if terms.get(quotient) == wanted:
            del terms[quotient], terms[remainder]
            return x, factor
        for other in compounds:
            if terms[other] != wanted or other is remainder:
                continue
            if other.kind is _FLOORDIV:
                if other.rhs % m == 0:
                    z = floordiv(other.lhs, other.rhs // m)
                    if mod(z, m) is remainder:
                        del terms[other], terms[remainder]
                        return z, factor
            else:
                merged = linear_combination([(other.lhs, m), (remainder, 1)])
                if merged.size < other.lhs.size + remainder.size:
                    del terms[other], terms[remainder]
                    return mod(merged, m * other.rhs), factor
    if _holds(terms, x, -factor):
        quotient = quotient if quotient is not None else floordiv(x, m)
        del terms[remainder]
        for term, k in x.terms:
            terms[term] += k * factor
        # The constant of x was never among the terms: k*x there lacks k*const.
        return linear_combination([(quotient, m)], -x.constant_term), -factor
    return None


def _cancel_floordiv(
    terms: dict[AffineExpr, int], compounds: list[AffineExpr], quotient: AffineExpr
) -> tuple[AffineExpr, int] | None:
    """As `_cancel_mod`, for a floordiv."""
    factor, x, m = terms[quotient], quotient.lhs, quotient.rhs
    if factor % m == 0 and _holds(terms, x, -factor // m):
        del terms[quotient]
        factor = -factor // m
        for term, k in x.terms:
            terms[term] -= k * factor
        return mod(x, m) - x.constant_term, factor
    if quotient.depth > 1 and len(compounds) > 1:
        for other in compounds:
            if other.kind is _FLOORDIV and other is not quotient and terms[other] % factor == 0:
                merged = linear_combination([(other, terms[other] // factor * m), (x, 1)])
                if merged.size < other.size + x.size:
                    del terms[quotient], terms[other]
                    return floordiv(merged, m), factor
    return None


def _holds(terms: dict[AffineExpr, int], expr: AffineExpr, factor: int) -> bool:
    return all(terms.get(t) == k * factor for t, k in expr.terms)


# --- floordiv and mod ------------------------------------------------------------------------------------------------


_MEMO_LIMIT: Final = 8192
_Memo: TypeAlias = "dict[tuple[AffineExpr, int], AffineExpr]"
_quotients: _Memo = {}
_remainders: _Memo = {}


def _remember(memo: _Memo, key: tuple[AffineExpr, int], result: AffineExpr) -> AffineExpr:
    if len(memo) >= _MEMO_LIMIT:
        memo.clear()
    memo[key] = result
    return result


def clear_memos() -> None:
    """Drops remembered quotients and remainders."""
    _quotients.clear()
    _remainders.clear()


def _divisor(divisor: AffineExpr | int, what: str) -> int:
    if isinstance(divisor, Node):
        if divisor.kind is not _CONSTANT:
            raise ValueError(f"{what} needs a constant divisor, found {divisor}")
        divisor = divisor.constant_term
    divisor = index(divisor)
    if divisor <= 0:
        raise ValueError(f"{what} needs a positive divisor, found {divisor}")
    return divisor


def ceildiv(expr: AffineExpr, divisor: AffineExpr | int) -> AffineExpr:
    """Returns ceil(expr / divisor), lowered to floordiv."""
    c = _divisor(divisor, "ceildiv")
    return floordiv(expr + (c - 1), c)


def _truncated(value: int, divisor: int) -> tuple[int, int]:
    """Quotient and remainder rounded to zero: keeps the sign of small constants, as in (d0 - 1) floordiv 2."""
    quotient = value // divisor if value >= 0 else -(-value // divisor)
    return quotient, value - quotient * divisor


def floordiv(expr: AffineExpr, divisor: AffineExpr | int) -> AffineExpr:
    """Returns floor(expr / divisor), canonical; ValueError unless divisor is a positive constant."""
    c = divisor if type(divisor) is int and divisor > 0 else _divisor(divisor, "floordiv")
    kind = expr.kind
    if c == 1:
        return expr
    if kind is _ADD or kind is _MUL:
        found = _quotients.get((expr, c))
        return found if found is not None else _remember(_quotients, (expr, c), _floordiv_sum(expr, c))
    if kind is _CONSTANT:
        return constant(expr.constant_term // c)
    if kind is _FLOORDIV:  # (x floordiv a) floordiv b = x floordiv a*b
        return floordiv(expr.lhs, expr.rhs * c)
    if kind is _MOD:
        if expr.rhs <= c:
            return constant(0)
        if expr.rhs % c == 0:  # (x mod a*b) floordiv a = (x floordiv a) mod b
            return mod(floordiv(expr.lhs, c), expr.rhs // c)
    return division_node(_FLOORDIV, expr, c)


def _floordiv_sum(expr: AffineExpr, c: int) -> AffineExpr:
    whole: list[tuple[AffineExpr, int]] = []
    rest: list[tuple[AffineExpr, int]] = []
    g = c
    for term, k in expr.linear:
        if k % c:
            rest.append((term, k))
            g = gcd(g, k)
        else:
            whole.append((term, k // c))
    offset = expr.constant_term
    if not rest:
        return sum_node(tuple(whole), offset // c)
    if g > 1:
        rest = [(t, k // g) for t, k in rest]
        offset //= g
        c //= g
    quotient, offset = _truncated(offset, c)
    for i, (term, k) in enumerate(rest):
        if k == 1 and term.kind is _FLOORDIV:  # (x floordiv n + y) floordiv c = (x + n*y) floordiv n*c
            n = term.rhs
            others = [(t, f * n) for j, (t, f) in enumerate(rest) if j != i]
            inner = floordiv(linear_combination([(term.lhs, 1), *others], offset * n), n * c)
            break
    else:
        inner = sum_node(tuple(rest), offset)
        inner = division_node(_FLOORDIV, inner, c) if inner.linear else floordiv(inner, c)
    if not whole:
        return sum_node(inner.terms, inner.constant_term + quotient) if quotient else inner
    return linear_combination([*whole, (inner, 1)], quotient)


def mod(expr: AffineExpr, divisor: AffineExpr | int) -> AffineExpr:
    """Returns expr - divisor * floor(expr / divisor), canonical; ValueError unless divisor is a positive constant."""
    c = divisor if type(divisor) is int and divisor > 0 else _divisor(divisor, "mod")
    kind = expr.kind
    if c == 1:
        return constant(0)
    if kind is _ADD or kind is _MUL:
        found = _remainders.get((expr, c))
        return found if found is not None else _remember(_remainders, (expr, c), _mod_sum(expr, c))
    if kind is _CONSTANT:
        return constant(expr.constant_term % c)
    if kind is _MOD:
        if expr.rhs % c == 0:  # (x mod a*b) mod a = x mod a
            return mod(expr.lhs, c)
        if expr.rhs <= c:
            return expr
    if kind is _FLOORDIV:
        reduced = _reduced(expr, c)
        if reduced is not expr:
            return mod(reduced, c)
    return division_node(_MOD, expr, c)


def _reduced(expr: AffineExpr, modulus: int) -> AffineExpr:
    """Returns an expression equal to `expr` modulo `modulus`, with inner mods dropped where only that matters.

    k*(x mod n) = k*x if the modulus divides k*n; k*(x floordiv a) needs x only modulo a*modulus/gcd(modulus, k).
    """
    parts: list[tuple[AffineExpr, int]] = []
    changed = False
    for term, k in expr.terms:
        new = term
        if term.kind is _MOD and k * term.rhs % modulus == 0:
            new = term.lhs
        elif term.kind is _FLOORDIV and term.depth > 1:
            inner = _reduced(term.lhs, term.rhs * (modulus // gcd(modulus, k)))
            if inner is not term.lhs:
                new = floordiv(inner, term.rhs)
        changed = changed or new is not term
        parts.append((new, k))
    return linear_combination(parts, expr.constant_term) if changed else expr


def _mod_sum(expr: AffineExpr, c: int) -> AffineExpr:
    rest: list[tuple[AffineExpr, int]] = []
    g = c
    if expr.depth:
        reduced = _reduced(expr, c)
        if reduced is not expr:
            return mod(reduced, c)
    for term, k in expr.linear:
        if k % c:
            rest.append((term, k))
            g = gcd(g, k)
    offset = expr.constant_term
    if not rest:
        return constant(offset % c)
    if g > 1:  # (g*x + r) mod g*c = g*(x mod c) + r with r in [0, g)
        inner = mod(sum_node(tuple([(t, k // g) for t, k in rest]), offset // g), c // g)
        return linear_combination([(inner, g)], offset % g)
    inner = sum_node(tuple(rest), _truncated(offset, c)[1])
    return division_node(_MOD, inner, c) if inner.linear else mod(inner, c)
