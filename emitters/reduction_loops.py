"""Loops that accumulate: reduce, reduce-window, and the plain form of dot and convolution, as elements of a fusion.

A reduction whose innermost range walks through contiguous memory keeps one accumulator per lane and combines the lanes
at the end, when the combiner is known to be associative and commutative and has an identity. Everything else
accumulates serially; when the output is vectorised, each lane of the accumulator is one output element. The order of
accumulation depends on shapes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from xjit.affine import AffineExpr, dim
from xjit.emitters.access_analysis import AccessAnalysis, Accesses, Index, apply_map, map_conditions
from xjit.emitters.elemental import (
    ComplexValue,
    RegisterValue,
    constant_register,
    emit_elementwise,
    register_type,
    round_to_type,
)
from xjit.emitters.loop_levels import VectorVariable
from xjit.emitters.memory import Guard, restrict
from xjit.emitters.nested import PROMOTED, IrEmitterNested, splat_register, width_of
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int
from xjit.ops.reducers import reduction_identity, selected_extremum

if TYPE_CHECKING:
    from xjit.emitters.fused import Element, FusedIrEmitter

MIN_VECTOR_RANGE = 4
CHAINS = ((4, 4), (2, 12))
"""Sets of accumulators, and up to how many operations per element."""


def flatten(values: Sequence[RegisterValue]) -> list[Value]:
    """Returns register values as plain LLVM values (complex ones as two)."""
    return [part for v in values for part in ((v.real, v.imag) if isinstance(v, ComplexValue) else (v,))]


def unflatten(parts: Sequence[Value], like: Sequence[RegisterValue]) -> list[RegisterValue]:
    """Inverse of flatten, given values of the same kinds."""
    rest = iter(parts)
    return [ComplexValue(next(rest), next(rest)) if isinstance(v, ComplexValue) else next(rest) for v in like]


def emit_reduce(fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard) -> list[Element]:
    """Emits one element (or vector of elements) of every result of a reduce or reduce-window."""
    key = ("reduce", instruction, index, guard.key)
    found = fused.nest.lookup(key)
    if found is not None:
        return found
    nest = fused.nest
    depth = max([nest.depth_of(e) for e in index] + [guard.depth])
    inputs = instruction.operand_count // 2
    with nest.at_depth(depth):
        inits = [fused.element(instruction.operand(inputs + i), (), guard) for i in range(inputs)]
        results = _Reduction(fused, instruction, index, guard).emit([fused.splat(e, 0) for e in inits])
    elements = [(v, depth) for v in results]
    nest.levels[depth].cache[key] = elements
    return elements


class _Reduction:
    """One reduction being emitted."""

    def __init__(self, fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard) -> None:
        self.fused = fused
        self.nest = fused.nest
        self.instruction = instruction
        self.index = index
        self.guard = guard
        self.inputs = instruction.operand_count // 2
        # XLA adds 16-bit floats up in f32; what other combiners compute is rounded at every step
        simple = instruction.opcode == "reduce" and reduction_identity(instruction.to_apply) is not None
        self.combiner = IrEmitterNested(promote=simple)
        self.operand = fused.maps.of(instruction)[0][0]
        shape = instruction.shape
        self.sizes = (shape.tuple_shapes[0] if shape.is_tuple else shape).dimensions
        leaves = {i: b.shape for i, b in fused.leaves.items()}
        self.analysis = AccessAnalysis(self.nest.table, leaves, fused.maps)
        self.types = [o.shape.element_type for o in instruction.operands[: self.inputs]]

    def emit(self, inits: list[RegisterValue]) -> list[RegisterValue]:
        nest = self.nest
        varies = any(nest.uses_vector(e) for e in self.index)
        if varies and nest.vector is not None:
            inits = [splat_register(nest.builder, v, nest.vector.width) for v in inits]
        ranges = [nest.new_variable(v.bounds.upper - v.bounds.lower + 1) for v in self.operand.indexing.range_vars]
        lanes = None if varies or nest.vector is not None else self._lane_range(ranges)
        identity = reduction_identity(self.instruction.to_apply)
        if lanes is not None and identity is not None:
            return self._by_lanes(ranges, lanes, identity[1], inits)
        if lanes is not None and _lets_all_pass(self.guard) and self._selects(ranges):
            return self._select_by_lanes(ranges[0], inits)
        order = self._order(ranges, None)
        values = self._loops(order, None, flatten(inits), inits)
        return self._rounded(unflatten(values, inits))

    def _lane_range(self, ranges: list[int]) -> int | None:
        """The range variable to vectorise over: one that walks through contiguous memory."""
        analysis = self.analysis
        best = analysis.contiguous_range(self.instruction, self.index)
        if best is None or self.nest.intervals[ranges[best]].upper + 1 < MIN_VECTOR_RANGE:
            return None
        return ranges[best]

    def _order(self, ranges: list[int], innermost: int | None) -> list[int]:
        return [p for p in ranges if p != innermost]

    def _by_lanes(
        self, ranges: list[int], innermost: int, identity: object, inits: list[RegisterValue]
    ) -> list[RegisterValue]:
        nest, fused = self.nest, self.fused
        kind = PROMOTED.get(self.types[0], self.types[0])
        width = nest.target.vector_width(register_type(kind))
        neutral = splat_register(nest.builder, constant_register(kind, identity), width)
        accesses = self.analysis.reduced_accesses(self.instruction, self.index)
        chains = self._chains(accesses, nest.intervals[innermost].upper + 1, width)
        start = [neutral] * chains
        order = self._order(ranges, innermost)
        fused.reductions_first(accesses)
        one_loop = all(nest.intervals[p].upper == 0 for p in order)
        with fused.rows.recording(self.instruction, fused.leaves, innermost) if one_loop else nullcontext():
            values = unflatten(self._loops(order, (innermost, width), flatten(start), [neutral]), start)
        while len(values) > 1:
            half = len(values) // 2
            values = [self._combined(a, b) for a, b in zip(values[:half], values[half:], strict=True)]
        total = self._combine_lanes(values[0], width)
        return self._rounded([self._combined(inits[0], total)])

    def _selects(self, ranges: list[int]) -> bool:
        """Whether this is a search for the largest or smallest element and its index, in a row that is long enough."""
        if self.inputs != 2 or len(ranges) != 1 or selected_extremum(self.instruction.to_apply) is None:
            return False
        long_enough = self.nest.intervals[ranges[0]].upper + 1 >= 2 * self._common_width()
        return long_enough and _is_ascending(self.instruction.operand(1))

    def _common_width(self) -> int:
        kinds = [register_type(PROMOTED.get(t, t)) for t in self.types]
        return min(self.nest.target.vector_width(kind) for kind in kinds)

    def _select_by_lanes(self, column: int, inits: list[RegisterValue]) -> list[RegisterValue]:
        """Each lane starts with an element of its own. What lanes found is combined in the order of the indices."""
        nest, fused = self.nest, self.fused
        width, size = self._common_width(), nest.intervals[column].upper + 1
        chains = self._chains(self.analysis.reduced_accesses(self.instruction, self.index), size, width)
        head = nest.new_variable(chains * width)
        rest = nest.new_variable(size - chains * width, chains * width)
        operands = self.instruction.operands[: self.inputs]

        def elements(_: Sequence[Value]) -> Sequence[Value]:
            place = apply_map(nest.table, self.operand, self.index, [dim(head)])
            return flatten([fused.splat(fused.element(o, place), width) for o in operands])

        start: list[Value] = []
        for chain in range(chains):
            first = const_int(I64, chain * width)
            start += nest.once(head, first, elements, (), VectorVariable(head, width))
        parts = self._loops([], (rest, width), start, start[: self.inputs])
        found = [list[RegisterValue](parts[i : i + self.inputs]) for i in range(0, len(parts), self.inputs)]
        while len(found) > 1:
            half = len(found) // 2
            found = [self._earlier_first(a, b) for a, b in zip(found[:half], found[half:], strict=True)]
        best = found[0]
        while width > 1:
            width //= 2
            low, high = ([_lanes_of(v, first, width, nest.builder) for v in best] for first in (0, width))
            best = self._earlier_first(low, high)
        return self._rounded(list(self.combiner.inline(nest.builder, self.instruction.to_apply, [*inits, *best])))

    def _earlier_first(self, a: list[RegisterValue], b: list[RegisterValue]) -> list[RegisterValue]:
        """Combines two (value, index) pairs, the lower index as the first operand."""
        builder = self.nest.builder
        i, j = flatten([a[1]])[0], flatten([b[1]])[0]
        ordered = builder.icmp_signed("<", i, j) if self.types[1].is_signed else builder.icmp_unsigned("<", i, j)
        parts_a, parts_b = flatten(a), flatten(b)
        first = [builder.select(ordered, x, y) for x, y in zip(parts_a, parts_b, strict=True)]
        second = [builder.select(ordered, y, x) for x, y in zip(parts_a, parts_b, strict=True)]
        return list(self.combiner.inline(builder, self.instruction.to_apply, [*first, *second]))

    def _chains(self, accesses: Accesses, size: int, width: int) -> int:
        """How many vectors of accumulators take turns: short work per element would wait for the last result."""
        chains = next((n for n, most in CHAINS if accesses.operations <= most), 1)
        while chains > 1 and size < 2 * chains * width:
            chains //= 2
        return chains

    def _combined(self, a: RegisterValue, b: RegisterValue) -> RegisterValue:
        return self.combiner.inline(self.nest.builder, self.instruction.to_apply, [a, b])[0]

    def _combine_lanes(self, value: RegisterValue, width: int) -> RegisterValue:
        """Halves the vector until one lane is left: always the same tree."""
        builder = self.nest.builder
        while width > 1:
            width //= 2
            low, high = (_lanes_of(value, first, width, builder) for first in (0, width))
            value = self._combined(low, high)
        return value

    def _loops(
        self, order: list[int], lanes: tuple[int, int] | None, start: list[Value], like: Sequence[RegisterValue]
    ) -> list[Value]:
        """Nests the loops and returns the accumulators after them."""
        nest = self.nest

        def innermost(accumulators: Sequence[Value]) -> Sequence[Value]:
            if lanes is None:
                return step(accumulators)
            chains = len(accumulators) // len(flatten(like))
            return nest.interleaved_vector_loop(*lanes, chains, step, accumulators)

        symbols = [dim(p) for p in ([*order, lanes[0]] if lanes else order)]
        by_position = {s.position: s for s in symbols}
        ranges = [by_position[p] for p in sorted(by_position)]

        def step(accumulators: Sequence[Value]) -> Sequence[Value]:
            return self._step(ranges, accumulators, like, lanes[1] if lanes else 0)

        return nest.loops(order, innermost, start)

    def _step(
        self, symbols: list[AffineExpr], accumulators: Sequence[Value], like: Sequence[RegisterValue], width: int
    ) -> Sequence[Value]:
        """Combines one element (or vector) into the accumulators; where the guard fails they stay as they are."""
        nest, fused = self.nest, self.fused
        conditions = map_conditions(self.operand, self.sizes, self.index, symbols)
        guard = restrict(nest, self.guard, conditions)
        if guard is None:
            return accumulators
        test = restrict(nest, Guard(), conditions)
        assert test is not None
        place = apply_map(nest.table, self.operand, self.index, symbols)
        elements = [fused.element(o, place, guard) for o in self.instruction.operands[: self.inputs]]
        builder = nest.builder
        old = unflatten(accumulators, like)
        width = max([width] + [width_of(v) for v in old])
        new = [fused.splat(e, width) for e in elements]
        combined = flatten(self.combiner.inline(builder, self.instruction.to_apply, [*old, *new]))
        masks = [test.scalar, test.lanes]
        if width and nest.vector is not None and self._lanes_are_ranges(symbols):
            masks.append(nest.vector.mask)
        for mask in masks:
            if mask is not None:
                combined = [builder.select(mask, c, a) for c, a in zip(combined, accumulators, strict=True)]
        return combined

    def _lanes_are_ranges(self, symbols: list[AffineExpr]) -> bool:
        lanes = self.nest.vector
        return lanes is not None and any(s.position == lanes.position for s in symbols)

    def _rounded(self, values: list[RegisterValue]) -> list[RegisterValue]:
        return round_promoted(self.nest.builder, self.types, values)


def round_promoted(
    builder: IRBuilder, types: Sequence[PrimitiveType], values: Sequence[RegisterValue]
) -> list[RegisterValue]:
    """Rounds promoted accumulators to the types of the results."""
    return [round_to_type(builder, t, v) if t in PROMOTED else v for t, v in zip(types, values, strict=True)]


def _lets_all_pass(guard: Guard) -> bool:
    """Whether a guard lets everything pass."""
    return guard.scalar is None and guard.lanes is None


def _is_ascending(instruction: HloInstruction) -> bool:
    """Whether elements cannot fall along any dimension: an iota without overflow, broadcast or not."""
    while instruction.opcode in ("broadcast", "bitcast", "reshape", "copy"):
        instruction = instruction.operand(0)
    return instruction.opcode == "iota" and instruction.shape.element_type.bit_width >= 32


def _lanes_of(value: RegisterValue, first: int, count: int, builder: IRBuilder) -> RegisterValue:
    if count == 1:
        return _map_parts(value, lambda v: builder.extract_element(v, first))
    return _map_parts(value, lambda v: builder.shuffle_vector(v, None, list(range(first, first + count))))


def _map_parts(value: RegisterValue, function: Callable[[Value], Value]) -> RegisterValue:
    if isinstance(value, ComplexValue):
        return ComplexValue(function(value.real), function(value.imag))
    return function(value)


def emit_contraction(fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard) -> Element:
    """Emits one element of a dot or convolution as a sum over its range variables: any type, any dimension numbers."""
    nest = fused.nest
    depth = max([nest.depth_of(e) for e in index] + [guard.depth])
    declared = instruction.shape.element_type
    kind = PROMOTED.get(declared, declared)
    with nest.at_depth(depth):
        width = nest.vector.width if nest.vector is not None and any(nest.uses_vector(e) for e in index) else 0
        zero = splat_register(nest.builder, constant_register(kind, 0), width)
        lhs_map = fused.maps.of(instruction)[0][0]
        ranges = [nest.new_variable(v.bounds.upper - v.bounds.lower + 1) for v in lhs_map.indexing.range_vars]

        def step(accumulators: Sequence[Value]) -> Sequence[Value]:
            total = unflatten(accumulators, [zero])[0]
            return flatten([_multiply_add(fused, instruction, index, guard, ranges, total, kind)])

        values = nest.loops(ranges, step, flatten([zero]))
        result = unflatten(values, [zero])[0]
        if declared in PROMOTED:
            result = round_to_type(nest.builder, declared, result)
    return result, depth


def _multiply_add(
    fused: FusedIrEmitter,
    instruction: HloInstruction,
    index: Index,
    guard: Guard,
    ranges: list[int],
    total: RegisterValue,
    kind: PrimitiveType,
) -> RegisterValue:
    nest = fused.nest
    symbols = [dim(p) for p in ranges]
    maps = [fused.maps.of(instruction)[i][0] for i in range(2)]
    conditions = map_conditions(maps[0], instruction.shape.dimensions, index, symbols)
    inner = restrict(nest, guard, conditions)
    if inner is None:
        return total
    test = restrict(nest, Guard(), conditions)
    assert test is not None
    elements = [
        fused.element(instruction.operand(i), apply_map(nest.table, maps[i], index, symbols), inner) for i in range(2)
    ]
    builder = nest.builder
    width = max([width_of(total)] + [width_of(v) for v, _ in elements])
    factors = [
        _convert(builder, instruction.operand(i).shape.element_type, kind, fused.splat(e, width))
        for i, e in enumerate(elements)
    ]
    product = emit_elementwise(builder, "multiply", kind, [kind, kind], factors, at.NO_ATTRIBUTES)
    added = emit_elementwise(builder, "add", kind, [kind, kind], [total, product], at.NO_ATTRIBUTES)
    parts = flatten([added])
    for mask in (test.scalar, test.lanes):
        if mask is not None:
            parts = [builder.select(mask, p, t) for p, t in zip(parts, flatten([total]), strict=True)]
    return unflatten(parts, [total])[0]


def _convert(builder: IRBuilder, source: PrimitiveType, kind: PrimitiveType, value: RegisterValue) -> RegisterValue:
    if PROMOTED.get(source, source) is kind:
        return value
    return emit_elementwise(builder, "convert", kind, [source], [value], at.NO_ATTRIBUTES)
