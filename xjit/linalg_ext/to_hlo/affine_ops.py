"""Affine maps as integer arithmetic; what is known of loop variables decides minima and maxima."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, AffineMap
from xjit.affine.expr import AffineExprKind
from xjit.affine.interval import Interval
from xjit.affine.semi import SEMI_AFFINE
from xjit.affine.walks import evaluate, interval_of
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.linalg_ext.ir.attributes import AffineMapAttr
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.to_hlo.scope import Handler, Lowered, Scope
from xjit.linalg_ext.to_hlo.writer import FunctionWriter

__all__ = ["AFFINE_HANDLERS", "affine_value"]


def affine_value(
    writer: FunctionWriter, e: AffineExpr, dims: Sequence[Lowered], symbols: Sequence[Lowered] = ()
) -> Lowered:
    """Returns an expression of numbers, s64 scalars and s64 arrays of one shape."""
    variables = [*(dims[i] for i in sorted(e.dims)), *(symbols[i] for i in sorted(e.symbols))]
    if all(isinstance(v, int) for v in variables):
        return int(evaluate(e, dims, symbols))
    if e.kind is AffineExprKind.DIM:
        return dims[e.position]
    if e.kind is AffineExprKind.SYMBOL:
        return symbols[e.position]
    if e.kind in (AffineExprKind.FLOORDIV, AffineExprKind.MOD):
        term = affine_value(writer, e.lhs, dims, symbols)
        assert isinstance(term, HloInstruction)
        return _divided(writer, term, writer.like(term, e.rhs), e.kind is AffineExprKind.MOD)
    if e.kind in SEMI_AFFINE:
        return _semi_affine(writer, e.kind, *(affine_value(writer, o, dims, symbols) for o in e.operands))
    number, total = e.constant_term, None
    for term, factor in e.terms:
        value = affine_value(writer, term, dims, symbols)
        if isinstance(value, int):
            number += value * factor
            continue
        product = value if factor == 1 else writer.make("multiply", value, writer.like(value, factor))
        total = product if total is None else writer.elementwise("add", total, product)
    assert total is not None
    return total if number == 0 else writer.make("add", total, writer.like(total, number))


def _semi_affine(writer: FunctionWriter, kind: AffineExprKind, left: Lowered, right: Lowered) -> HloInstruction:
    """A product, quotient or remainder of two values, one of which may be a number."""
    known = left if isinstance(left, HloInstruction) else right
    assert isinstance(known, HloInstruction)
    values = [v if isinstance(v, HloInstruction) else writer.like(known, v) for v in (left, right)]
    x, y = writer.shaped_alike(*values)
    if kind is AffineExprKind.PRODUCT:
        return writer.make("multiply", x, y)
    if kind is AffineExprKind.CEILED_QUOTIENT:
        return writer.make("negate", _divided(writer, writer.make("negate", x), y, is_mod=False))
    return _divided(writer, x, y, kind is AffineExprKind.REMAINDER)


def _divided(writer: FunctionWriter, x: HloInstruction, size: HloInstruction, is_mod: bool) -> HloInstruction:
    """floordiv and mod round towards minus infinity, HLO's division towards zero."""
    rest = writer.make("remainder", x, size)
    negative = writer.compare("LT", rest, writer.like(x, 0))
    mod = writer.make("select", negative, writer.make("add", rest, size), rest)
    return mod if is_mod else writer.make("divide", writer.make("subtract", x, mod), size)


def _map_of(op: Operation) -> AffineMap:
    attribute = op.attributes["map"]
    assert isinstance(attribute, AffineMapAttr)
    return attribute.map


def _results(scope: Scope, op: Operation) -> list[tuple[Lowered, Interval]]:
    affine_map = _map_of(op)
    lowered, count = [scope.values[v] for v in op.operands], affine_map.num_dims
    ranges = [scope.range_of(v) for v in op.operands]
    return [
        (
            affine_value(scope.writer, e, lowered[:count], lowered[count:]),
            interval_of(e, ranges[:count], ranges[count:]),
        )
        for e in affine_map.results
    ]


def _apply(scope: Scope, op: Operation) -> list[Lowered]:
    [(value, scope.ranges[op.result])] = _results(scope, op)
    return [value]


def _extreme(scope: Scope, op: Operation) -> list[Lowered]:
    """Results that are never below all others, or above, do not count."""
    least = op.name == "affine.min"
    found = _results(scope, op)
    bound = min(r.upper for _, r in found) if least else max(r.lower for _, r in found)
    lower, upper = ([pick(r) for _, r in found] for pick in (lambda r: r.lower, lambda r: r.upper))
    scope.ranges[op.result] = Interval(min(lower), bound) if least else Interval(bound, max(upper))
    kept = [v for v, r in found if (r.lower < bound if least else r.upper > bound)]
    kept += [v for v, r in found if r == Interval.point(bound)][:1]
    numbers = [v for v in kept if isinstance(v, int)]
    arrays = [v for v in kept if isinstance(v, HloInstruction)]
    number = None if not numbers else min(numbers) if least else max(numbers)
    if not arrays:
        assert number is not None
        return [number]
    result = arrays[0]
    for other in arrays[1:]:
        result = scope.writer.elementwise("minimum" if least else "maximum", result, other)
    if number is not None:
        constant = scope.writer.constant(number, PrimitiveType.S64)
        result = scope.writer.elementwise("minimum" if least else "maximum", result, constant)
    return [result]


AFFINE_HANDLERS: dict[str, Handler] = {"affine.apply": _apply, "affine.min": _extreme, "affine.max": _extreme}
