"""Rules of affine: maps take in constants and the maps of their operands, and are simplified."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, AffineExprKind, AffineMap, IndexingBudgetError, constant, dim, symbol
from xjit.linalg_ext.dialects.affine import is_symbol, map_of
from xjit.linalg_ext.ir.attributes import AffineMapAttr
from xjit.linalg_ext.ir.builder import Builder, constant_value
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.rewrite.rule import Rule, replace, replace_with_index

__all__ = ["AFFINE_RULES", "composed"]

_MAX_OPERANDS = 32


def composed(map: AffineMap, operands: Sequence[Value]) -> tuple[AffineMap, list[Value]]:
    """Returns the same values as a map without `affine.apply` and constants among its operands, each operand once: as a
    symbol if it is needed as one, for maps multiply no dims and divide by none.
    """
    dims: list[Value] = []
    symbols: list[Value] = []
    replacements = [_expression(v, i < map.num_dims, dims, symbols) for i, v in enumerate(operands)]
    result = map.replace(replacements[: map.num_dims], replacements[map.num_dims :], len(dims), len(symbols))
    once = [symbol(symbols.index(v)) if v in symbols else dim(i) for i, v in enumerate(dims)]
    result = result.replace(once, [symbol(i) for i in range(len(symbols))], len(dims), len(symbols))
    return _without_unused(result, [*dims, *symbols])


def _expression(value: Value, as_dim: bool, dims: list[Value], symbols: list[Value]) -> AffineExpr:
    """Returns an operand as an expression over operands that are listed by need."""
    number = constant_value(value)
    if number is not None:
        return constant(number)
    op = value.defining_op
    if op is not None and op.name == "affine.apply" and len(dims) + len(symbols) < _MAX_OPERANDS:
        map = map_of(op)
        inner = [_expression(v, as_dim and i < map.num_dims, dims, symbols) for i, v in enumerate(op.operands)]
        return map.replace(inner[: map.num_dims], inner[map.num_dims :], len(dims), len(symbols)).results[0]
    is_dim = as_dim and not is_symbol(value) and value not in symbols
    table, variable = (dims, dim) if is_dim else (symbols, symbol)
    if value not in table:
        table.append(value)
    return variable(table.index(value))


def _without_unused(map: AffineMap, operands: Sequence[Value]) -> tuple[AffineMap, list[Value]]:
    used_dims = sorted({d for e in map.results for d in e.dims})
    used_symbols = sorted({s for e in map.results for s in e.symbols})
    dims = [dim(used_dims.index(i)) if i in used_dims else constant(0) for i in range(map.num_dims)]
    symbols = [symbol(used_symbols.index(i)) if i in used_symbols else constant(0) for i in range(map.num_symbols)]
    kept = [operands[i] for i in used_dims] + [operands[map.num_dims + i] for i in used_symbols]
    return map.replace(dims, symbols, len(used_dims), len(used_symbols)), kept


def compose(op: Operation) -> bool:
    """Takes in what operands are made of."""
    old = map_of(op)
    try:
        map, operands = composed(old, op.operands)
    except IndexingBudgetError:
        return False
    if map == old and tuple(operands) == op.operands:
        return False
    op.attributes["map"] = AffineMapAttr(map)
    op.set_operands(operands)
    return True


def fold_apply(op: Operation) -> bool:
    """A constant, or an operand itself."""
    map = map_of(op)
    result = map.results[0]
    if result.is_constant:
        return replace_with_index(op, result.value)
    if map.num_dims + map.num_symbols == 1 and result in (dim(0), symbol(0)):
        return replace(op, [op.operands[0]])
    return False


def reduce_bounds(op: Operation) -> bool:
    """Drops results of a min or max that another one is never above or below; one that is left is no bound."""
    map = map_of(op)
    sign = 1 if op.name == "affine.min" else -1
    kept: list[AffineExpr] = []
    for e in map.results:
        if any(_never_above(k, e, sign) for k in kept):
            continue
        kept = [k for k in kept if not _never_above(e, k, sign)]
        kept.append(e)
    if len(kept) == 1:
        value = Builder.before(op).affine_apply(AffineMap(map.num_dims, map.num_symbols, (kept[0],)), op.operands)
        return replace(op, [value])
    if len(kept) == len(map.results):
        return False
    op.attributes["map"] = AffineMapAttr(AffineMap(map.num_dims, map.num_symbols, tuple(kept)))
    return True


def _never_above(a: AffineExpr, b: AffineExpr, sign: int) -> bool:
    """Whether a <= b always, or b <= a for sign -1."""
    difference = b - a
    return difference.is_constant and difference.value * sign >= 0


def order_bounds(op: Operation) -> bool:
    """Sorts the results of a min or max by their coefficients, as MLIR does, where all of them are linear."""
    map = map_of(op)
    if any(t.kind > AffineExprKind.SYMBOL for e in map.results for t, _ in e.terms):
        return False
    variables = [*(dim(i) for i in range(map.num_dims)), *(symbol(i) for i in range(map.num_symbols))]

    def coefficients(e: AffineExpr) -> list[int]:
        factors = dict(e.terms)
        return [*(factors.get(v, 0) for v in variables), e.constant_term]

    ordered = tuple(sorted(map.results, key=coefficients))
    if ordered == map.results:
        return False
    op.attributes["map"] = AffineMapAttr(AffineMap(map.num_dims, map.num_symbols, ordered))
    return True


AFFINE_RULES: tuple[Rule, ...] = (
    Rule(("affine.apply", "affine.min", "affine.max"), compose),
    Rule(("affine.apply",), fold_apply),
    Rule(("affine.min", "affine.max"), reduce_bounds),
    Rule(("affine.min", "affine.max"), order_bounds),
)
