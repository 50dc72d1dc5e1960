"""The pool of affine expressions: one object per expression, so that equality is identity.

Invariants: the pool holds weak references, and its miss path is locked. What comes here is canonical already (see
`rules`); only leaves and the budgets of depth, size and constants are checked. All nodes become instances of one class,
`AffineExpr`, which announces itself with `make_nodes_of`: its operators need the rules, and the rules need the pool.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from operator import index
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, cast

from xjit.affine.errors import IndexingBudgetError
from xjit.affine.interval import INT64_MAX, INT64_MIN
from xjit.affine.node import AffineExprKind, Node, Terms

if TYPE_CHECKING:
    from xjit.affine.expr import AffineExpr

__all__ = [
    "MAX_DEPTH",
    "MAX_SIZE",
    "constant",
    "dim",
    "division_node",
    "extended_sum_node",
    "semi_node",
    "sum_node",
    "symbol",
]

MAX_DEPTH: Final = 100  # nested floordiv/mod levels
MAX_SIZE: Final = 1 << 17  # nodes of the expression written out as a tree
MAX_SEMI_SIZE: Final = 200  # nodes below a semi-affine term, which counts as no nesting level
MAX_POSITION: Final = 1 << 16

_CONSTANT: Final = AffineExprKind.CONSTANT
_DIM: Final = AffineExprKind.DIM
_SYMBOL: Final = AffineExprKind.SYMBOL
_ADD: Final = AffineExprKind.ADD
_MUL: Final = AffineExprKind.MUL
_FLOORDIV: Final = AffineExprKind.FLOORDIV
_MOD: Final = AffineExprKind.MOD


class _PoolRef(weakref.ref["AffineExpr"]):
    __slots__ = ("key",)
    key: tuple[Any, ...]


_node_class: type[Node] = Node
_pool: dict[tuple[Any, ...], _PoolRef] = {}
_recent: deque[AffineExpr] = deque(maxlen=4096)  # keeps intermediate results alive for a while: a hit is far cheaper
_lock = RLock()  # re-entrant: a collection inside the locked region may run _forget on the same thread


def _after_fork_in_child() -> None:
    global _lock
    _lock = RLock()  # a thread that does not exist in the child may have held it


os.register_at_fork(after_in_child=_after_fork_in_child)


def _forget(ref: Any) -> None:
    with _lock:
        if _pool.get(ref.key) is ref:
            del _pool[ref.key]


def pool_size() -> int:
    """Number of expressions alive."""
    return len(_pool)


def release_recent() -> None:
    """Drops the pool's own references to recent expressions."""
    _recent.clear()


def _fill_leaf(node: Node, kind: AffineExprKind, payload: int) -> None:
    node.linear = ()
    node.constant_term = payload if kind is _CONSTANT else 0
    node.rhs = payload
    node.order = (int(kind), payload)
    node.dim_mask = 1 << payload if kind is _DIM else 0
    node.symbol_mask = 1 << payload if kind is _SYMBOL else 0
    node.depth = 0
    node.size = 1


def _fill_sum(node: Node, terms: Terms, constant_term: int) -> None:
    dim_mask = symbol_mask = depth = 0
    size = 1
    for term, factor in terms:
        dim_mask |= term.dim_mask
        symbol_mask |= term.symbol_mask
        size += term.size
        if term.depth > depth:
            depth = term.depth
        if not INT64_MIN <= factor <= INT64_MAX:
            raise _overflow(factor)
    if not INT64_MIN <= constant_term <= INT64_MAX:
        raise _overflow(constant_term)
    if depth > MAX_DEPTH or size > MAX_SIZE:
        raise _over_budget(depth, size)
    node.linear = terms
    node.constant_term = constant_term
    node.dim_mask = dim_mask
    node.symbol_mask = symbol_mask
    node.depth = depth
    node.size = size


def _fill_extended_sum(node: Node, terms: Terms, total: AffineExpr, variable: AffineExpr) -> None:
    """`_fill_sum` for total + variable, in constant time."""
    if total.size >= MAX_SIZE:
        raise _over_budget(0, total.size + 1)
    node.linear = terms
    node.constant_term = total.constant_term
    node.dim_mask = total.dim_mask | variable.dim_mask
    node.symbol_mask = total.symbol_mask | variable.symbol_mask
    node.depth = total.depth
    node.size = total.size + 1


def _fill_division(node: Node, kind: AffineExprKind, lhs: AffineExpr, divisor: int) -> None:
    depth, size = lhs.depth + 1, lhs.size + 1
    if divisor > INT64_MAX:
        raise _overflow(divisor)
    if depth > MAX_DEPTH or size > MAX_SIZE:
        raise _over_budget(depth, size)
    node.linear = ()
    node.constant_term = 0
    node.lhs = lhs
    node.rhs = divisor
    node.order = (int(kind), _order_of(lhs), divisor)
    node.dim_mask = lhs.dim_mask
    node.symbol_mask = lhs.symbol_mask
    node.depth = depth
    node.size = size


def _order_of(expr: AffineExpr) -> tuple[Any, ...]:
    """Where an operand of a division stands in the order of terms."""
    if expr.linear:
        return (int(_ADD), tuple([(t.order, k) for t, k in expr.linear]), expr.constant_term)
    return expr.order


def _fill_semi(node: Node, kind: AffineExprKind, left: AffineExpr, right: AffineExpr) -> None:
    """A semi-affine term stands in sums where its left operand would stand, as MLIR prints it."""
    size = left.size + right.size + 1
    if size > MAX_SEMI_SIZE:
        raise IndexingBudgetError(f"semi-affine expression of {size} nodes is over the budget of {MAX_SEMI_SIZE}")
    node.linear = ()
    node.constant_term = 0
    node.lhs = left
    node.second = right
    node.order = (*_order_of(left), int(kind), _order_of(right))
    node.dim_mask = left.dim_mask | right.dim_mask
    node.symbol_mask = left.symbol_mask | right.symbol_mask
    node.depth = 0
    node.size = size


def _over_budget(depth: int, size: int) -> IndexingBudgetError:
    if depth > MAX_DEPTH:
        return IndexingBudgetError(f"affine expression nests more than {MAX_DEPTH} floordiv/mod levels")
    return IndexingBudgetError(f"affine expression of {size} nodes is over the budget of {MAX_SIZE}")


def _overflow(value: int) -> IndexingBudgetError:
    return IndexingBudgetError(f"affine expression needs the constant {value}, which does not fit int64")


def _miss(
    key: tuple[Any, ...],
    kind: AffineExprKind,
    left: Any,
    right: int,
    extends: tuple[AffineExpr, AffineExpr] | None = None,
) -> AffineExpr:
    """Makes the node for `key` unless another thread did; `left`/`right` as the kind's `_fill` takes them."""
    node = Node()
    node.kind = kind
    if extends is not None:
        _fill_extended_sum(node, left, *extends)
    elif kind is _ADD or kind is _MUL:
        _fill_sum(node, left, right)
    elif kind is _FLOORDIV or kind is _MOD:
        _fill_division(node, kind, left, right)
    elif kind > _MOD:
        _fill_semi(node, kind, *left)
    else:
        _fill_leaf(node, kind, right)
    node.__class__ = _node_class
    expr = cast("AffineExpr", node)
    ref = _PoolRef(expr, _forget)
    ref.key = key
    with _lock:
        present = _pool.get(key)
        existing = present() if present is not None else None
        if existing is not None:
            return existing
        _pool[key] = ref
    if node.size < 64:
        _recent.append(expr)
    return expr


def sum_node(terms: Terms, constant_term: int) -> AffineExpr:
    """Interns a sum that is canonical already: ADD, MUL or a lone term."""
    if not terms:
        return constant(constant_term)
    if not constant_term and len(terms) == 1:
        kind = _MUL
        if terms[0][1] == 1:
            return terms[0][0]
    else:
        kind = _ADD
    key = (terms, constant_term)
    ref = _pool.get(key)
    expr = ref() if ref is not None else None
    return expr if expr is not None else _miss(key, kind, terms, constant_term)


def extended_sum_node(terms: Terms, total: AffineExpr, variable: AffineExpr) -> AffineExpr:
    """Interns `terms`, which are those of the sum `total` and one more, a multiple of `variable`."""
    key = (terms, total.constant_term)
    ref = _pool.get(key)
    expr = ref() if ref is not None else None
    return expr if expr is not None else _miss(key, _ADD, terms, total.constant_term, (total, variable))


def division_node(kind: AffineExprKind, lhs: AffineExpr, divisor: int) -> AffineExpr:
    key = (kind, lhs, divisor)
    ref = _pool.get(key)
    expr = ref() if ref is not None else None
    return expr if expr is not None else _miss(key, kind, lhs, divisor)


def semi_node(kind: AffineExprKind, left: AffineExpr, right: AffineExpr) -> AffineExpr:
    """Interns a semi-affine term; see `semi`."""
    key = (kind, left, right)
    ref = _pool.get(key)
    expr = ref() if ref is not None else None
    return expr if expr is not None else _miss(key, kind, (left, right), 0)


_leaves: dict[tuple[AffineExprKind, int], AffineExpr] = {}  # variables and small constants live for ever


def _variable(kind: AffineExprKind, position: int) -> AffineExpr:
    expr = _leaves.get((kind, position))
    if expr is not None:
        return expr
    position = index(position)
    if not 0 <= position < MAX_POSITION:
        raise IndexingBudgetError(f"position of a dim or symbol must be in [0, {MAX_POSITION}), found {position}")
    return _leaves.setdefault((kind, position), _miss((kind, position), kind, None, position))


def dim(position: int) -> AffineExpr:
    """Returns dimension d<position>."""
    return _variable(_DIM, position)


def symbol(position: int) -> AffineExpr:
    """Returns symbol s<position>."""
    return _variable(_SYMBOL, position)


def constant(value: int) -> AffineExpr:
    """Returns the constant `value`; bools and NumPy integers become ints."""
    expr = _leaves.get((_CONSTANT, value))
    if expr is not None:
        return expr
    value = int(index(value))
    if not INT64_MIN <= value <= INT64_MAX:
        raise _overflow(value)
    key = (_CONSTANT, value)
    ref = _pool.get(key)
    expr = ref() if ref is not None else None
    return expr if expr is not None else _miss(key, _CONSTANT, None, value)


def make_nodes_of(node_class: type[AffineExpr]) -> None:
    """Makes every node an instance of that class from now on (called once, by the module that defines it)."""
    global _node_class
    _node_class = node_class
    for small in range(-16, 257):
        _leaves[(_CONSTANT, small)] = constant(small)
