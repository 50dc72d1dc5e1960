"""Run-time variables that are none: their source computes a constant or an affine function of an iota.

A source is followed through opcodes that move elements and through integer arithmetic, as long as no value can leave
the range of its type. What cannot be followed stays a run-time variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from xjit.affine import (
    INT64_MAX,
    INT64_MIN,
    AffineExpr,
    AffineMap,
    IndexingMap,
    Interval,
    RangeContext,
    constant,
    range_context,
    substitute,
    substitute_all,
)
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops.indexing.output_to_input import operand_maps

Index = tuple[AffineExpr, ...]
_MAX_NODES: Final = 64
_MAX_DEPTH: Final = 24


def type_range(kind: PrimitiveType) -> Interval:
    """Returns the values of an integer type (pred included), as far as int64 goes; empty for other types."""
    if kind is PrimitiveType.PRED:
        return Interval(0, 1)
    if not kind.is_integer:
        return Interval(0, -1)
    if kind.is_signed:
        return Interval(-(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1)
    return Interval(0, min((1 << kind.bit_width) - 1, INT64_MAX))


class _Follower:
    """Expresses one element of an instruction as an affine expression of the map's variables."""

    def __init__(self, context: RangeContext) -> None:
        self.context = context
        self.nodes = 0

    def value(self, source: HloInstruction, index: Index, depth: int = 0) -> AffineExpr | None:
        """Returns the value of element `index`, or None if it is not known to be affine."""
        for _ in range(_MAX_NODES):
            self.nodes += 1
            if self.nodes > _MAX_NODES or depth > _MAX_DEPTH or not source.shape.is_array:
                return None
            moved = self._move(source, index)
            if moved is None:
                return self._checked(source, self._compute(source, index, depth))
            source, index = moved
        return None

    def _checked(self, source: HloInstruction, value: AffineExpr | None) -> AffineExpr | None:
        """The value if it surely is in the range of its type (no wrapping)."""
        if value is None:
            return None
        value = self.context.simplify(value)
        low, high = self.context.range_of(value)
        allowed = type_range(source.shape.element_type)
        return value if allowed.lower <= low and high <= allowed.upper else None

    def _move(self, source: HloInstruction, index: Index) -> tuple[HloInstruction, Index] | None:
        """One step through an opcode that only moves elements, or into the operand of the enclosing fusion."""
        if source.opcode == "parameter":
            computation = source.parent
            callers = computation.caller_instructions() if computation is not None else ()
            if len(callers) == 1 and callers[0].opcode in ("fusion", "call"):
                return callers[0].operand(source.attributes_as(at.ParameterAttributes).parameter_number), index
            return None
        same_type = source.operand_count == 1 and (source.operand(0).shape.element_type is source.shape.element_type)
        if not same_type or not (source.op.has(Trait.INDEX_ONLY) or source.opcode == "copy"):
            return None
        (maps,) = operand_maps(source)
        if len(maps) != 1 or maps[0].is_unknown or maps[0].num_symbols or maps[0].constraints:
            return None
        return source.operand(0), substitute_all(maps[0].results, index)

    def _compute(self, source: HloInstruction, index: Index, depth: int) -> AffineExpr | None:
        if not source.shape.element_type.is_integer:
            return None
        if source.opcode == "iota":
            return index[source.attributes_as(at.IotaAttributes).iota_dimension]
        if source.opcode == "constant":
            return _constant_element(source, [self.context.simplify(e) for e in index])
        if source.opcode not in ("convert", "negate", "add", "subtract", "multiply", "clamp"):
            return None
        values: list[AffineExpr] = []
        for operand in source.operands:
            value = self.value(operand, index if operand.shape.rank else (), depth + 1)
            if value is None:
                return None
            values.append(value)
        return self._combine(source.opcode, values)

    def _combine(self, opcode: str, values: list[AffineExpr]) -> AffineExpr | None:
        if opcode == "convert":
            return values[0]
        if opcode == "negate":
            return -values[0]
        if opcode == "add":
            return values[0] + values[1]
        if opcode == "subtract":
            return values[0] - values[1]
        if opcode == "multiply":
            a, b = values
            if not (a.is_constant or b.is_constant):
                return None
            return a * b.value if b.is_constant else b * a.value
        low, x, high = values
        least, most = self.context.range_of(x)
        if low.is_constant and high.is_constant and low.value <= least and most <= high.value:
            return x
        if low.is_constant and high.is_constant and x.is_constant:
            return constant(min(max(x.value, low.value), high.value))
        return None


def _constant_element(source: HloInstruction, index: Sequence[AffineExpr]) -> AffineExpr | None:
    literal = source.attributes_as(at.ConstantAttributes).literal
    if all(e.is_constant for e in index):
        place = tuple([e.value for e in index])
        if any(not 0 <= p < n for p, n in zip(place, literal.shape.dimensions, strict=True)):
            return None
        return _fitting(int(literal.array[place]))
    splat = literal.splat_value()
    return None if splat is None else _fitting(int(np.asarray(splat).item()))


def _fitting(value: int) -> AffineExpr | None:
    return constant(value) if INT64_MIN < value < INT64_MAX else None


def replace_known_values(m: IndexingMap) -> IndexingMap:
    """Returns the map with each run-time variable whose source is known replaced by its value; simplified.

    A known value outside the feasible ones is clamped if it is a constant, else the variable stays.
    """
    if not m.rt_vars or m.is_known_empty:
        return m
    context = range_context(m.dim_bounds, m.symbol_bounds)
    first = len(m.range_vars)
    values: dict[int, AffineExpr] = {}
    for i, variable in enumerate(m.rt_vars):
        if not isinstance(variable.source, HloInstruction):
            continue
        value = _Follower(context).value(variable.source, variable.map.results)
        if value is None or value.symbol_mask >> first:
            continue
        feasible = variable.feasible_values
        if value.is_constant:
            value = constant(min(max(value.value, feasible.lower), feasible.upper))
        low, high = context.range_of(value)
        if feasible.lower <= low and high <= feasible.upper:
            values[first + i] = value
    return _substituted(m, values).simplify() if values else m


def _substituted(m: IndexingMap, values: dict[int, AffineExpr]) -> IndexingMap:
    replaced = m.substitute({}, values)
    rt_vars = [
        v
        if not any(e.symbol_mask for e in v.map.results)
        else type(v)(v.feasible_values, v.source, _in_map(v.map, values))
        for v in replaced.rt_vars
    ]
    return replaced.replace(rt_vars=tuple(rt_vars))


def _in_map(m: AffineMap, values: dict[int, AffineExpr]) -> AffineMap:
    return AffineMap(m.num_dims, m.num_symbols, tuple([substitute(e, None, values) for e in m.results]))
