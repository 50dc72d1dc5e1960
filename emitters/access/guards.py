"""Guards: where an access is allowed - under a scalar condition, a condition per lane, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr, Interval
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I1, vector
from xjit.llvm.values import Value, const_int, const_vector


@dataclass(frozen=True, slots=True)
class Guard:
    """Where a value is needed. `scalar` is an i1, `lanes` a vector of i1; None means everywhere.

    `known`: the present lanes, where they are the same in every vector.
    """

    scalar: Value | None = None
    lanes: Value | None = None
    depth: int = 0
    known: tuple[bool, ...] | None = None

    @property
    def key(self) -> object:
        """What distinguishes guards in caches."""
        return (self.scalar.text if self.scalar else None, self.lanes.text if self.lanes else None)


EVERYWHERE = Guard()


def restrict(nest: LoopNest, guard: Guard, conditions: Sequence[tuple[AffineExpr, Interval]]) -> Guard | None:
    """Returns the guard that also demands the conditions; None if they can never hold."""
    for expr, interval in conditions:
        if interval.is_empty:
            return None
        expr = nest.simplify(expr)
        bounds = nest.interval(expr)
        if interval.lower <= bounds.lower and bounds.upper <= interval.upper:
            continue
        if bounds.upper < interval.lower or interval.upper < bounds.lower:
            return None
        guard = _restrict_one(nest, guard, expr, interval)
    return guard


def _restrict_one(nest: LoopNest, guard: Guard, expr: AffineExpr, interval: Interval) -> Guard:
    key = ("guard", guard.key, expr, interval)
    found = nest.lookup(key)
    if found is not None:
        return found
    depth = max(nest.depth_of(expr), guard.depth)
    builder = nest.levels[depth].builder
    if nest.uses_vector(expr) and not _is_one_for_all(nest, expr):
        inside, known = _lanes_inside(nest, builder, expr, interval)
        if guard.lanes is not None:
            inside = builder.and_(guard.lanes, inside)
            known = known and guard.known and tuple(a and b for a, b in zip(known, guard.known, strict=True))
        result = Guard(guard.scalar, inside, depth, known)
    else:
        inside = _in_interval(builder, nest.index_value(expr), interval, nest.interval(expr))
        scalar = inside if guard.scalar is None else builder.and_(guard.scalar, inside)
        result = Guard(scalar, guard.lanes, depth, guard.known)
    nest.levels[depth].cache[key] = result
    return result


def _lanes_inside(
    nest: LoopNest, builder: IRBuilder, expr: AffineExpr, interval: Interval
) -> tuple[Value, tuple[bool, ...] | None]:
    """Which lanes have a value in an interval, and the same as constants, where it is."""
    lanes, constants = nest.vector, nest.lane_constants(expr)
    if lanes is None or constants is None:
        return _in_interval(builder, nest.lane_values(expr), interval, nest.interval(expr)), None
    known = tuple(interval.lower <= value <= interval.upper for value in constants)
    absent = (False,) * (lanes.width - len(known))
    return const_vector(vector(I1, lanes.width), (*known, *absent)), known


def _is_one_for_all(nest: LoopNest, expr: AffineExpr) -> bool:
    """Whether all lanes have one value of an expression, where vectors are whole: a condition is then a single one."""
    pattern = nest.lane_pattern(expr) if nest.target.has_aligned_vectors else None
    return pattern is not None and not any(pattern)


def _in_interval(builder: IRBuilder, value: Value, interval: Interval, bounds: Interval) -> Value:
    if interval.lower <= bounds.lower:
        return builder.icmp_signed("<=", value, const_int(value.type, interval.upper))
    if bounds.upper <= interval.upper:
        return builder.icmp_signed(">=", value, const_int(value.type, interval.lower))
    if interval.lower == interval.upper:
        return builder.icmp_signed("==", value, const_int(value.type, interval.lower))
    shifted = builder.sub(value, const_int(value.type, interval.lower)) if interval.lower else value
    return builder.icmp_unsigned("<=", shifted, const_int(value.type, interval.upper - interval.lower))


def first_lane(guard: Guard, builder: IRBuilder) -> Guard:
    """The guard of lane 0 alone."""
    if guard.lanes is None:
        return guard
    wanted = builder.extract_element(guard.lanes, 0)
    return Guard(wanted if guard.scalar is None else builder.and_(guard.scalar, wanted), None, guard.depth)
