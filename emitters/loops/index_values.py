"""Index expressions as values: each is emitted at the outermost level at which all its variables are known.

That hoists loop invariants by construction, and shares common subexpressions. Where the vector variable occurs, an
expression has a value per lane; often the lanes follow a pattern that needs no arithmetic.
"""

from __future__ import annotations

from xjit.affine import AffineExpr, AffineExprKind, constant, dim, linear_combination, substitute
from xjit.emitters.loops.bindings import Bindings
from xjit.emitters.loops.loop_levels import LoopLevels, VectorVariable
from xjit.emitters.loops.variables import VariableTable
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I32, I64, LLVMType, vector
from xjit.llvm.values import Value, const_int, const_vector


class IndexValues:
    """Emits affine expressions over the variables."""

    def __init__(self, table: VariableTable, levels: LoopLevels, bindings: Bindings) -> None:
        self._table = table
        self._levels = levels
        self._bindings = bindings
        self._patterns: dict[tuple[AffineExpr, VectorVariable], tuple[int, ...] | None] = {}

    def has_lane_values(self, expr: AffineExpr) -> bool:
        """Whether an expression has variables that were given a value per lane."""
        return bool(expr.dim_mask & self._bindings.lane_variables)

    def uses_vector(self, expr: AffineExpr) -> bool:
        """Whether the expression differs between the lanes of the current vector variable."""
        lanes = self._levels.stack[-1].vector
        return lanes is not None and bool(expr.dim_mask & (self._bindings.lane_variables | 1 << lanes.position))

    def lane_pattern(self, expr: AffineExpr) -> tuple[int, ...] | None:
        """Returns how far each present lane's value lies from the first lane's, if that is the same everywhere.

        A linear use of the vector variable gives multiples of its factor; `v floordiv 2` gives 0 0 1 1 2 2 ...; None
        means that the distances depend on other variables.
        """
        lanes = self._levels.stack[-1].vector
        assert lanes is not None
        key = (expr, lanes)
        if key not in self._patterns:
            self._patterns[key] = self._lane_pattern(expr, lanes)
        return self._patterns[key]

    def _lane_pattern(self, expr: AffineExpr, lanes: VectorVariable) -> tuple[int, ...] | None:
        if self.has_lane_values(expr):
            return None
        step = 0
        for term, factor in expr.terms:
            if term is dim(lanes.position):
                step = factor
            elif term.uses_dim(lanes.position):
                break
        else:
            return tuple(step * lane for lane in range(lanes.present))
        first = self._first_lane(lanes)
        start = self._table.simplify(substitute(expr, {lanes.position: first}))
        distances: list[int] = []
        for lane in range(lanes.present):
            moved = self._table.simplify(self._table.simplify(substitute(expr, {lanes.position: first + lane})) - start)
            if not moved.is_constant:
                return None
            distances.append(moved.value)
        return tuple(distances)

    def _first_lane(self, lanes: VectorVariable) -> AffineExpr:
        """The vector variable's value in the first lane of any vector."""
        bounds = self._table.intervals[lanes.position]
        block = dim(self._table.new_variable((bounds.upper - bounds.lower) // lanes.width + 1))
        return block * lanes.width + bounds.lower

    def lane_constants(self, expr: AffineExpr) -> tuple[int, ...] | None:
        """Returns the value of each present lane, if these are the same in every vector: those of `v mod 6` in vectors
        of 48 lanes are 0 1 2 3 4 5 0 1 ...
        """
        lanes = self._levels.stack[-1].vector
        assert lanes is not None
        if expr.dim_mask != 1 << lanes.position:
            return None
        start = self._table.simplify(substitute(expr, {lanes.position: self._first_lane(lanes)}))
        pattern = self.lane_pattern(expr) if start.is_constant else None
        return None if pattern is None else tuple(start.value + distance for distance in pattern)

    def index_value(self, expr: AffineExpr) -> Value:
        """Emits an expression as i64 (the first lane's value where the vector variable occurs)."""
        if expr.is_constant:
            return const_int(I64, expr.value)
        if expr.kind is AffineExprKind.DIM:
            return self._bindings.value(expr.position)
        key = ("index", expr)
        value = self._levels.lookup(key)
        if value is None:
            level = self._levels.stack[self._bindings.depth_of(expr)]
            value = self._emit_index(expr, level.builder)
            level.cache[key] = value
        return value

    def _emit_index(self, expr: AffineExpr, builder: IRBuilder) -> Value:
        if expr.kind in (AffineExprKind.FLOORDIV, AffineExprKind.MOD):
            return self._emit_division(expr, builder)
        terms = sorted(expr.terms, key=lambda t: self._bindings.depth_of(t[0]))
        deepest = self._bindings.depth_of(terms[-1][0])
        outer = [t for t in terms if self._bindings.depth_of(t[0]) < deepest]
        inner = [t for t in terms if self._bindings.depth_of(t[0]) == deepest]
        total: Value | None = None
        if outer:
            total = self.index_value(linear_combination(outer, expr.constant_term))
        for term, factor in inner:
            value = self.index_value(term)
            product = value if factor == 1 else builder.mul(value, const_int(I64, factor), nsw=True)
            total = product if total is None else builder.add(total, product, nsw=True)
        assert total is not None
        if not outer and expr.constant_term:
            total = builder.add(total, const_int(I64, expr.constant_term), nsw=True)
        return total

    def _emit_division(self, expr: AffineExpr, builder: IRBuilder) -> Value:
        """Floor division and modulo by a positive constant; unsigned where the dividend cannot be negative."""
        lhs = self.index_value(expr.lhs)
        return _emit_floor_division(builder, expr, lhs, self._table.interval(expr.lhs).lower >= 0)

    def lane_values(self, expr: AffineExpr) -> Value:
        """Emits an expression for every lane: a vector of i32 where the bounds allow it, else of i64."""
        lanes = self._levels.stack[-1].vector
        assert lanes is not None
        constants = self.lane_constants(expr)
        if constants is not None:
            kind = I32 if all(abs(value) < 2**31 for value in constants) else I64
            absent = constants[:1] * (lanes.width - len(constants))
            return const_vector(vector(kind, lanes.width), (*constants, *absent))
        narrow = self._fits(expr) and self._narrow_enough(expr)
        return self._lanes(expr, lanes, I32 if narrow else I64)

    def _narrow_enough(self, expr: AffineExpr) -> bool:
        """Whether every intermediate value of an expression fits 32 bits."""
        if expr.kind in (AffineExprKind.FLOORDIV, AffineExprKind.MOD):
            return self._fits(expr.lhs) and self._narrow_enough(expr.lhs)
        reach = abs(expr.constant_term)
        for term, factor in expr.terms:
            bounds = self._table.interval(term)
            reach += abs(factor) * max(abs(bounds.lower), abs(bounds.upper))
            if term is not expr and not self._narrow_enough(term):
                return False
        return reach < 2**31

    def _fits(self, expr: AffineExpr) -> bool:
        bounds = self._table.interval(expr)
        return bounds.lower >= -(2**31) and bounds.upper < 2**31

    def _lanes(self, expr: AffineExpr, lanes: VectorVariable, scalar_type: LLVMType) -> Value:
        key = ("lanes", expr, scalar_type)
        found = self._levels.lookup(key)
        if found is not None:
            return found
        level = self._levels.stack[self._bindings.depth_of(dim(lanes.position))]
        level = self._levels.stack[max(level.depth, self._bindings.depth_of(expr))]
        builder = level.builder
        if not self.uses_vector(expr):
            value = self.index_value(expr)
            value = builder.splat(builder.trunc(value, scalar_type), lanes.width)
        elif expr.kind is AffineExprKind.DIM and expr.position != lanes.position:
            value = builder.trunc(self._bindings.lanes(expr.position), scalar_type)
        elif expr.kind is AffineExprKind.DIM:
            splat = builder.splat(builder.trunc(self.index_value(expr), scalar_type), lanes.width)
            value = builder.add(splat, builder.vector_iota(vector(scalar_type, lanes.width)))
        elif expr.kind in (AffineExprKind.FLOORDIV, AffineExprKind.MOD):
            lhs = self._lanes(expr.lhs, lanes, scalar_type)
            value = _emit_floor_division(builder, expr, lhs, self._table.interval(expr.lhs).lower >= 0)
        else:
            value = self._lanes_of_sum(expr, lanes, scalar_type, builder)
        level.cache[key] = value
        return value

    def _lanes_of_sum(
        self, expr: AffineExpr, lanes: VectorVariable, scalar_type: LLVMType, builder: IRBuilder
    ) -> Value:
        varying = [t for t in expr.terms if self.uses_vector(t[0])]
        uniform = linear_combination([t for t in expr.terms if not self.uses_vector(t[0])], expr.constant_term)
        total = self._lanes(uniform, lanes, scalar_type) if uniform is not constant(0) else None
        for term, factor in varying:
            value = self._lanes(term, lanes, scalar_type)
            if factor != 1:
                value = builder.mul(value, const_int(value.type, factor))
            total = value if total is None else builder.add(total, value)
        assert total is not None
        return total


def _emit_floor_division(builder: IRBuilder, expr: AffineExpr, lhs: Value, nonnegative: bool) -> Value:
    """Emits `lhs floordiv c` or `lhs mod c` for the divisor of `expr`, scalar or per lane."""
    quotient = expr.kind is AffineExprKind.FLOORDIV
    if expr.rhs & (expr.rhs - 1) == 0:  # shifts and masks floor for negative numbers, too
        if quotient:
            return builder.ashr(lhs, const_int(lhs.type, expr.rhs.bit_length() - 1))
        return builder.and_(lhs, const_int(lhs.type, expr.rhs - 1))
    divisor = const_int(lhs.type, expr.rhs)
    if nonnegative:
        return builder.udiv(lhs, divisor) if quotient else builder.urem(lhs, divisor)
    remainder = builder.srem(lhs, divisor)
    negative = builder.icmp_signed("<", remainder, const_int(lhs.type, 0))
    if not quotient:
        return builder.select(negative, builder.add(remainder, divisor), remainder)
    truncated = builder.sdiv(lhs, divisor)
    return builder.select(negative, builder.sub(truncated, const_int(lhs.type, 1)), truncated)
