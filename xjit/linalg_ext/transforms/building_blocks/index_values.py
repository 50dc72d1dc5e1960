"""Offsets and sizes while a loop nest is built: numbers where they are known, SSA values of type index where not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xjit.affine import AffineExpr, AffineExprKind, AffineMap, constant, dim, substitute, substitute_all, symbol
from xjit.linalg_ext.dialects.affine import is_symbol
from xjit.linalg_ext.ir import (
    AffineMapAttr,
    Builder,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    OpResult,
    Value,
    constant_value,
)
from xjit.linalg_ext.structured import as_structured, shape_of

__all__ = ["Index", "IndexBuilder", "Operands", "same_index"]

Index: TypeAlias = int | Value


def same_index(left: Index, right: Index) -> bool:
    """Whether both are the same number or the same value."""
    return left is right or (isinstance(left, int) and isinstance(right, int) and left == right)


class Operands:
    """Collects the dims and symbols of one affine operation, each value once."""

    def __init__(self) -> None:
        self.dims: dict[Value, AffineExpr] = {}
        self.symbols: dict[Value, AffineExpr] = {}

    def expr(self, index: Index, as_symbol: bool) -> AffineExpr:
        """Returns the index as an expression; what `affine.apply` computed is composed into it."""
        if isinstance(index, int):
            return constant(index)
        op = index.defining_op
        if op is not None and op.name == "affine.apply":
            attribute = op.attributes["map"]
            assert isinstance(attribute, AffineMapAttr)
            inner, values = attribute.map, op.operands
            dims = [self.expr(v, as_symbol) for v in values[: inner.num_dims]]
            symbols = [self.expr(v, True) for v in values[inner.num_dims :]]
            return substitute_all(inner.results, dims, symbols)[0]
        known = constant_value(index)
        if known is not None:
            return constant(known)
        if (as_symbol or is_symbol(index)) and index not in self.dims:
            return self.symbols.setdefault(index, symbol(len(self.symbols)))
        return self.dims.setdefault(index, dim(len(self.dims)))


class IndexBuilder:
    """Emits index arithmetic through `builder`; constants and sizes through `outer`, which stands outside the loops.

    What was asked for before is not emitted again, so that equal indices are the same value.
    """

    def __init__(self, builder: Builder, outer: IndexBuilder | None = None) -> None:
        self.builder = builder
        self.outer = self if outer is None else outer.outer
        self._known: dict[object, Value] = {}
        self._divisors: dict[Value, int] = {}
        self._may_be_zero: set[Value] = set()

    def value(self, index: Index) -> Value:
        """Returns the index as a value."""
        if isinstance(index, Value):
            return index
        outer = self.outer
        known = outer._known.get(index)
        if known is None:
            known = outer._known[index] = outer.builder.constant_index(index)
        return known

    def apply(self, expr: AffineExpr, dims: Sequence[Index], symbols: Sequence[Index] = ()) -> Index:
        """Returns the expression of some indices, folded where it is a number or one of them."""
        return self._affine("affine.apply", (expr,), dims, symbols)

    def minimum(self, exprs: Sequence[AffineExpr], dims: Sequence[Index], symbols: Sequence[Index] = ()) -> Index:
        """Returns the least of some expressions of indices."""
        return self._affine("affine.min", exprs, dims, symbols)

    def maximum(self, exprs: Sequence[AffineExpr], dims: Sequence[Index], symbols: Sequence[Index] = ()) -> Index:
        """Returns the greatest of some expressions of indices."""
        return self._affine("affine.max", exprs, dims, symbols)

    def _affine(self, name: str, exprs: Sequence[AffineExpr], dims: Sequence[Index], symbols: Sequence[Index]) -> Index:
        plain = [substitute(e, *_numbers(dims, symbols)) for e in exprs]
        if len(plain) == 1 and plain[0].kind is AffineExprKind.DIM:
            return dims[plain[0].position]
        operands = Operands()
        of_symbols = [operands.expr(s, True) for s in symbols]
        of_dims = [operands.expr(d, False) for d in dims]
        results = tuple(dict.fromkeys(substitute_all(list(exprs), of_dims, of_symbols)))
        if all(e.is_constant for e in results):
            values = [e.value for e in results]
            return max(values) if name == "affine.max" else min(values)
        results, used_dims, used_symbols = _compressed(results, operands)
        if len(results) == 1:
            name = "affine.apply"
            if results[0] is dim(0) or results[0] is symbol(0):
                return (*used_dims, *used_symbols)[0]
        values = (*used_dims, *used_symbols)
        key = (name, results, tuple(map(id, values)))
        known = self._known.get(key)
        if known is None:
            attributes = {"map": AffineMapAttr(AffineMap(len(used_dims), len(used_symbols), results))}
            known = self.builder.create(name, values, (IndexType(),), attributes).result
            self._known[key] = known
        return known

    def add(self, left: Index, right: Index) -> Index:
        """left + right, by `arith.addi`."""
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        return self._arith("arith.addi", left, right)

    def subtract(self, left: Index, right: Index) -> Index:
        """left - right, by `arith.subi`."""
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        if same_index(left, right):
            return 0
        return left if right == 0 else self._arith("arith.subi", left, right)

    def lesser(self, left: Index, right: Index) -> Index:
        """The lesser one, by `arith.minsi`."""
        if isinstance(left, int) and isinstance(right, int):
            return min(left, right)
        return left if same_index(left, right) else self._arith("arith.minsi", left, right)

    def greater(self, left: Index, right: Index) -> Index:
        """The greater one, by `arith.maxsi`."""
        if isinstance(left, int) and isinstance(right, int):
            return max(left, right)
        return left if same_index(left, right) else self._arith("arith.maxsi", left, right)

    def unless_zero(self, size: Index, index: Index, otherwise: Index) -> Index:
        """Returns the index, or another one where the size is 0, by `arith.select`."""
        if not self.may_be_zero(size) or same_index(index, otherwise):
            return index
        if isinstance(size, int):
            return otherwise
        key = ("arith.select", *map(id, (size, self.value(index), self.value(otherwise))))
        known = self._known.get(key)
        if known is None:
            equal = {"predicate": IntegerAttr(0, IntegerType(64))}
            is_zero = self.builder.create("arith.cmpi", (size, self.value(0)), (IntegerType(1),), equal).result
            operands = (is_zero, self.value(otherwise), self.value(index))
            known = self._known[key] = self.builder.create("arith.select", operands, (IndexType(),)).result
        return known

    def _arith(self, name: str, left: Index, right: Index) -> Value:
        operands = (self.value(left), self.value(right))
        key = (name, *map(id, operands))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.builder.create(name, operands, (IndexType(),)).result
        return known

    def multiply(self, left: Index, right: Index) -> Index:
        """left * right, by `arith.muli`."""
        if isinstance(left, int) and isinstance(right, int):
            return left * right
        if left == 1:
            return right
        return left if right == 1 else self._arith("arith.muli", left, right)

    def dim_of(self, value: Value, axis: int) -> Index:
        """Returns the size of a dimension of a tensor or memref: a number, or a value outside the loops.

        The size of what is written into a tensor is that of the tensor, so that no op is kept for its size only.
        """
        size = shape_of(value)[axis]
        op = value.defining_op
        while size is None and op is not None:
            if op.name == "tensor.empty":
                return op.operands[sum(n is None for n in shape_of(value)[:axis])]
            view = as_structured(op)
            if view is None or not isinstance(value, OpResult):
                break
            value = view.inits[value.index]
            size, op = shape_of(value)[axis], value.defining_op
        if size is not None:
            return size
        outer, key = self.outer, ("dim", id(value), axis)
        known = outer._known.get(key)
        if known is None:
            name = "memref.dim" if isinstance(value.type, MemRefType) else "tensor.dim"
            known = outer.builder.create(name, (value, self.value(axis)), (IndexType(),)).result
            outer._known[key] = known
        return known

    def discard_unused(self) -> None:
        """Erases what nobody uses of what was emitted."""
        for value in reversed(self._known.values()):
            op = value.defining_op
            if op is not None and op.block is not None and not value.has_uses:
                op.erase()
        self._known.clear()

    def set_divisor(self, index: Index, divisor: int) -> None:
        """Notes that a value is a multiple of a number."""
        if isinstance(index, Value):
            self._divisors[index] = divisor

    def note_zero(self, size: Index) -> None:
        """Notes that a size is 0 in some iterations."""
        if isinstance(size, Value):
            self._may_be_zero.add(size)

    def may_be_zero(self, size: Index) -> bool:
        """Whether a size is known to be 0 in some iterations; other sizes are those of tiles that have elements."""
        return size in self._may_be_zero or size == 0

    def divisor(self, index: Index) -> int:
        """Returns a number that divides the index, 0 for 0."""
        return index if isinstance(index, int) else self._divisors.get(index, 1)


def _numbers(
    dims: Sequence[Index], symbols: Sequence[Index]
) -> tuple[dict[int, AffineExpr | int], dict[int, AffineExpr | int]]:
    """What is known of operands without looking at how they were computed."""
    return (
        {i: n for i, n in enumerate(dims) if isinstance(n, int)},
        {i: n for i, n in enumerate(symbols) if isinstance(n, int)},
    )


def _compressed(
    results: Sequence[AffineExpr], operands: Operands
) -> tuple[tuple[AffineExpr, ...], list[Value], list[Value]]:
    """Renumbers dims and symbols without those that no result uses."""
    dim_mask = symbol_mask = 0
    for e in results:
        dim_mask |= e.dim_mask
        symbol_mask |= e.symbol_mask
    dims = [v for i, v in enumerate(operands.dims) if dim_mask >> i & 1]
    symbols = [v for i, v in enumerate(operands.symbols) if symbol_mask >> i & 1]
    new_dims = _renumbered(len(operands.dims), dim_mask, dim)
    new_symbols = _renumbered(len(operands.symbols), symbol_mask, symbol)
    return tuple(substitute_all(list(results), new_dims, new_symbols)), dims, symbols


def _renumbered(count: int, mask: int, variable: Callable[[int], AffineExpr]) -> list[AffineExpr]:
    result: list[AffineExpr] = []
    used = 0
    for i in range(count):
        result.append(variable(used))
        used += mask >> i & 1
    return result
