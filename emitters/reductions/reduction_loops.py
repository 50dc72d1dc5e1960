"""Loops that accumulate: reduce and reduce-window, as elements of a fusion.

How it is done is a `Reduction` of a schedule, or planned when the element is reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from xjit.affine import AffineExpr, dim
from xjit.emitters.access.access_analysis import AccessAnalysis, Index, apply_map, map_conditions
from xjit.emitters.access.guards import EVERYWHERE, Guard, restrict
from xjit.emitters.elemental import (
    ComplexValue,
    RegisterValue,
    constant_register,
    emit_elementwise,
    round_to_type,
)
from xjit.emitters.loops.loop_levels import VectorVariable
from xjit.emitters.nested import IrEmitterNested, splat_register, width_of
from xjit.emitters.planners.reduction import plan_reduction
from xjit.emitters.reductions.lane_combining import CombinePair
from xjit.emitters.schedule.statements import Combination, Lanes, Reduction
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.element_types import PROMOTED
from xjit.llvm.values import Value
from xjit.ops.reducers import independent_identities, single_operation

if TYPE_CHECKING:
    from xjit.emitters.fused import Element, FusedIrEmitter

Values = Sequence[RegisterValue]


def flatten(values: Sequence[RegisterValue]) -> list[Value]:
    """Returns register values as plain LLVM values (complex ones as two)."""
    return [part for v in values for part in ((v.real, v.imag) if isinstance(v, ComplexValue) else (v,))]


def unflatten(parts: Sequence[Value], like: Sequence[RegisterValue]) -> list[RegisterValue]:
    """Inverse of flatten, given values of the same kinds."""
    rest = iter(parts)
    return [ComplexValue(next(rest), next(rest)) if isinstance(v, ComplexValue) else next(rest) for v in like]


def emit_reduce(
    fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard, planned: Reduction | None = None
) -> list[Element]:
    """Emits one element (or vector of elements) of every result of a reduce or reduce-window.

    With `planned`, whoever planned it has seen to what its elements need in front of its loops.
    """
    key = ("reduce", instruction, index, guard.key)
    found = fused.nest.lookup(key) or fused.given.get((instruction, index))
    if found is not None:
        return found
    nest = fused.nest
    depth = max([nest.depth_of(e) for e in index] + [guard.depth])
    inputs = instruction.operand_count // 2
    with nest.at_depth(depth):
        inits = [fused.element(instruction.operand(inputs + i), (), guard) for i in range(inputs)]
        start = [fused.splat(e, 0) for e in inits]
        plan = planned or _plan(fused, instruction, index, guard)
        values = Accumulation(fused, instruction, plan, guard).emit(start)
        results = round_promoted(nest.builder, [o.shape.element_type for o in instruction.operands[:inputs]], values)
    elements = [(v, depth) for v in results]
    nest.levels[depth].cache[key] = elements
    return elements


def accumulate(
    fused: FusedIrEmitter, instruction: HloInstruction, plan: Reduction, values: Sequence[RegisterValue]
) -> list[RegisterValue]:
    """Takes the elements of a plan into accumulators, which are not rounded; returns the new ones."""
    return Accumulation(fused, instruction, plan, EVERYWHERE).emit(list(values))


def _plan(fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard) -> Reduction:
    """How to do a reduction that was reached on the way to an element: as planned before, or now.

    Emits the reductions that its elements need in front of the loops.
    """
    nest = fused.nest
    analysis = AccessAnalysis(nest.table, {i: b.shape for i, b in fused.leaves.items()}, fused.maps)
    vectorised = nest.vector is not None or any(nest.uses_vector(e) for e in index)
    plan = fused.planned.get((instruction, index))
    if plan is None:
        plan = plan_reduction(analysis, instruction, index, vectorised, nest.target)
    if plan.combination is Combination.SELECT and not _lets_all_pass(guard):
        indexing = fused.maps.of(instruction)[0][0].indexing
        ranges = tuple(nest.new_variable(v.bounds.upper - v.bounds.lower + 1) for v in indexing.range_vars)
        plan = Reduction(plan.instruction, index, ranges, (tuple(dim(p) for p in ranges),))
    if plan.combination is Combination.TREE:
        fused.reductions_first(analysis.reduced_accesses(instruction, index))
    return plan


class Accumulation:
    """The elements of one plan on their way into accumulators."""

    def __init__(self, fused: FusedIrEmitter, instruction: HloInstruction, plan: Reduction, guard: Guard) -> None:
        self.fused = fused
        self.nest = fused.nest
        self.instruction = instruction
        self.plan = plan
        self.index = plan.index
        self.guard = guard
        self.inputs = instruction.operand_count // 2
        # narrow floats are added up in f32; what other combiners compute is rounded at every step
        simple = instruction.opcode == "reduce" and single_operation(instruction.to_apply) is not None
        self.combiner = IrEmitterNested(promote=simple)
        self.operand = fused.maps.of(instruction)[0][0]
        shape = instruction.shape
        self.sizes = (shape.tuple_shapes[0] if shape.is_tuple else shape).dimensions
        self.types = [o.shape.element_type for o in instruction.operands[: self.inputs]]
        self.flipped = self._gains_by_minima()
        self.in_any_order = self._may_reorder()

    def _gains_by_minima(self) -> bool:
        """Whether maxima are kept as minima with the other sign: CPUs have neither with NaNs and signs of zeros, an or
        of two minima is one that has them, and a maximum would be negated there and back at each step.
        """
        of_cpu = self.plan.combination is not Combination.SELECT and self.nest.target.gpu is None
        return of_cpu and self.types[0].is_float and single_operation(self.instruction.to_apply) == "maximum"

    def _may_reorder(self) -> bool:
        """Whether elements may be combined with each other first. Narrow floats are rounded step by step, as in XLA."""
        opcode, kind = single_operation(self.instruction.to_apply), self.types[0]
        is_rounded = kind.is_float and kind.bit_width < 32 and not self.combiner.promote
        return opcode is not None and (opcode in ("maximum", "minimum") or not is_rounded)

    def emit(self, values: list[RegisterValue]) -> list[RegisterValue]:
        """Returns the accumulators with all elements of the plan in them."""
        nest = self.nest
        if nest.vector is not None and any(nest.uses_vector(e) for e in self.index):
            values = [splat_register(nest.builder, v, nest.vector.width) for v in values]
        if self.plan.combination is not Combination.SERIAL:
            return self._by_lanes(values)
        start = [self._flip(value) for value in values] if self.flipped else values
        found = unflatten(self._loops(flatten(start), start), start)
        return [self._flip(value) for value in found] if self.flipped else found

    def _lanes(self) -> Lanes:
        assert self.plan.lanes is not None
        return self.plan.lanes

    def _by_lanes(self, values: list[RegisterValue]) -> list[RegisterValue]:
        rows, lanes = self.fused.rows, self._lanes()
        with rows.recording(self.plan.keeps, lanes.variable) if self.plan.keeps else nullcontext():
            sets = self.lane_sets()
        return self.completed(values, self.fused.lanes.combine(lanes, sets, self.combine_lanes))

    def completed(self, start: Values, total: Values) -> list[RegisterValue]:
        """Combines the initial values with what the lanes were combined to."""
        if not self.flipped:
            return self.combined(start, total)
        return list(
            self.combiner.inline(self.nest.builder, self.instruction.to_apply, [*start, *map(self._flip, total)])
        )

    def _flip(self, value: RegisterValue) -> RegisterValue:
        assert isinstance(value, Value)
        return self.nest.builder.fneg(value)

    @property
    def combine_lanes(self) -> CombinePair:
        """Combines the accumulators of lanes; which has the lower index matters where a search finds two NaNs."""
        in_order = self.plan.combination is Combination.SELECT and self.types[0].is_float
        return self._earlier_first if in_order else self.combined

    def lane_sets(self) -> list[list[RegisterValue]]:
        """Returns the accumulators of all lanes: a vector for each chain and input."""
        if self.plan.combination is Combination.SELECT:
            return self._selected_sets()
        nest, lanes = self.nest, self._lanes()
        identities = independent_identities(self.instruction.to_apply)
        assert identities is not None
        kinds = [PROMOTED.get(kind, kind) if self.combiner.promote else kind for kind in self.types]
        neutral = [
            splat_register(nest.builder, constant_register(kind, identity), self._width(lanes))
            for kind, identity in zip(kinds, identities, strict=True)
        ]
        neutral = [self._flip(n) for n in neutral] if self.flipped else neutral
        start = neutral * lanes.chains
        parts = unflatten(self._loops(flatten(start), neutral), start)
        return [parts[i : i + self.inputs] for i in range(0, len(parts), self.inputs)]

    def _width(self, lanes: Lanes) -> int:
        """Lanes of an accumulator's register: of the loop, or else of the vector variable that the index uses."""
        vector = self.nest.vector
        if lanes.width > 1 or vector is None or not any(self.nest.uses_vector(e) for e in self.index):
            return lanes.width if lanes.width > 1 else 0
        return vector.width

    def _selected_sets(self) -> list[list[RegisterValue]]:
        """Each lane starts with an element of its own. What lanes found is combined in the order of the indices."""
        nest, fused, lanes = self.nest, self.fused, self._lanes()
        first, width = lanes.first, self._width(lanes)
        assert first is not None
        operands = self.instruction.operands[: self.inputs]

        def elements(_: Sequence[Value]) -> Sequence[Value]:
            place = apply_map(nest.table, self.operand, self.index, [dim(first)])
            return flatten([fused.splat(fused.element(o, place), width) for o in operands])

        start: list[Value] = []
        variable = VectorVariable(first, lanes.width) if lanes.width > 1 else None
        for chain in range(lanes.chains):
            start += nest.once(first, fused.lanes.first(lanes, chain), elements, (), variable)
        parts = self._loops(start, start[: self.inputs])
        return [list[RegisterValue](parts[i : i + self.inputs]) for i in range(0, len(parts), self.inputs)]

    def _earlier_first(self, a: Values, b: Values) -> list[RegisterValue]:
        """Combines two (value, index) pairs, the lower index as the first operand."""
        builder = self.nest.builder
        i, j = flatten([a[1]])[0], flatten([b[1]])[0]
        ordered = builder.icmp_signed("<", i, j) if self.types[1].is_signed else builder.icmp_unsigned("<", i, j)
        parts_a, parts_b = flatten(a), flatten(b)
        first = [builder.select(ordered, x, y) for x, y in zip(parts_a, parts_b, strict=True)]
        second = [builder.select(ordered, y, x) for x, y in zip(parts_a, parts_b, strict=True)]
        return self.combined(first, second)

    def combined(self, a: Values, b: Values) -> list[RegisterValue]:
        """Applies the combiner to two sets of accumulators."""
        if self.flipped:
            kind = PROMOTED.get(self.types[0], self.types[0])
            return [emit_elementwise(self.nest.builder, "minimum", kind, [kind, kind], [*a, *b], at.NO_ATTRIBUTES)]
        return list(self.combiner.inline(self.nest.builder, self.instruction.to_apply, [*a, *b]))

    def _loops(self, start: list[Value], like: Values) -> list[Value]:
        """Nests the plan's loops and returns the accumulators after them."""
        nest, lanes = self.nest, self.plan.lanes

        def steps(accumulators: Sequence[Value]) -> Sequence[Value]:
            width = self._width(lanes) if lanes is not None else 0
            together: list[Values] = []
            for symbols in self.plan.steps:
                accumulators = self._step(symbols, accumulators, like, width, together)
            while len(together) > 1:  # a tree: each step of a chain would wait for the one before
                pairs = zip(together[::2], together[1::2], strict=False)
                together = [self.combined(a, b) for a, b in pairs] + together[len(together) // 2 * 2 :]
            return flatten(self.combined(unflatten(accumulators, like), together[0])) if together else accumulators

        def innermost(accumulators: Sequence[Value]) -> Sequence[Value]:
            if lanes is None:
                return steps(accumulators)
            return self.fused.lanes.loop(lanes, steps, accumulators)

        return nest.loops(self.plan.loops, innermost, start)

    def _step(
        self,
        symbols: Sequence[AffineExpr],
        accumulators: Sequence[Value],
        like: Values,
        width: int,
        together: list[Values],
    ) -> Sequence[Value]:
        """Combines one element (or vector) into the accumulators; where the guard fails they stay as they are.

        One of several steps that is always wanted is added to `together` instead, if the order does not matter.
        """
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
        new = [self._flip(value) for value in new] if self.flipped else new
        masks = [test.scalar, test.lanes]
        if width and nest.vector is not None and self._lanes_are_ranges(symbols):
            masks.append(nest.vector.mask)
        if len(self.plan.steps) > 1 and self.in_any_order and not any(masks):
            together.append(new)
            return accumulators
        combined = flatten(self.combined(old, new))
        for mask in masks:
            if mask is not None:
                combined = [builder.select(mask, c, a) for c, a in zip(combined, accumulators, strict=True)]
        return combined

    def _lanes_are_ranges(self, symbols: Sequence[AffineExpr]) -> bool:
        lanes = self.nest.vector
        return lanes is not None and any(s.uses_dim(lanes.position) for s in symbols)


def round_promoted(
    builder: IRBuilder, types: Sequence[PrimitiveType], values: Sequence[RegisterValue]
) -> list[RegisterValue]:
    """Rounds promoted accumulators to the types of the results."""
    return [round_to_type(builder, t, v) if t in PROMOTED else v for t, v in zip(types, values, strict=True)]


def _lets_all_pass(guard: Guard) -> bool:
    """Whether a guard lets everything pass."""
    return guard.scalar is None and guard.lanes is None
