"""FusedIrEmitter: for each instruction of a fusion, the code of one element on demand.

`element(instruction, index)` emits whatever the element at a symbolic index needs, at the outermost loop level that
knows it, and remembers it there: two users of one element share it, and what does not vary in an inner loop is computed
before it. A scalar result serves all lanes; a vector result holds the lanes of the current vector variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xjit.affine import AffineExpr, Interval, RTVar, dim, substitute
from xjit.emitters.access.access_analysis import Accesses, Index, MapCache, apply_map, map_conditions
from xjit.emitters.access.guards import EVERYWHERE, Guard, restrict
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.elemental import ComplexValue, RegisterValue, constant_register, emit_elementwise
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested, same_width, splat_register, width_of
from xjit.emitters.reductions.contraction import emit_contraction
from xjit.emitters.reductions.lane_combining import LaneLoops, RegisterLanes
from xjit.emitters.reductions.reduction_loops import emit_reduce
from xjit.emitters.reductions.row_cache import RowCache
from xjit.emitters.schedule.statements import Combination, Memory, Reduction, Tile
from xjit.emitters.width_changes import emit_width_change
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.classification import changes_element_type
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.post_order import post_order
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.conversions import store_convert
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

MAX_NESTING = 32  # elements on the way to an element before long chains are emitted from the other end
Element = tuple[RegisterValue, int]
"""A register value and the depth of the level that holds it."""


class FusedIrEmitter:
    """Generates elements of a graph whose leaves are buffers: fusion parameters, or the operands of one instruction."""

    def __init__(self, nest: LoopNest, leaves: Mapping[HloInstruction, Buffer], maps: MapCache | None = None) -> None:
        self.nest = nest
        self.leaves = leaves
        self.foreign: dict[HloInstruction, Callable[[Index], Element]] = {}  # elements that come from elsewhere
        self.maps = maps or MapCache()
        self.memory = MemoryAccess(nest)
        self.nested = IrEmitterNested()
        self.rows = RowCache(nest)
        self.planned: Mapping[tuple[HloInstruction, Index], Reduction] = {}  # by the schedule of what is emitted
        self.given: dict[tuple[HloInstruction, Index], list[Element]] = {}  # by reductions, and products of tiles
        self.staged: dict[tuple[HloInstruction, Index], Callable[[int], Element]] = {}  # outputs in shared memory
        self.lanes: LaneLoops = RegisterLanes(nest)
        self._nesting = 0

    def element(self, instruction: HloInstruction, index: Index, guard: Guard = EVERYWHERE, output: int = 0) -> Element:
        """Emits the element of `instruction` (of its `output`-th result) at a logical index.

        Lanes outside the guard hold anything, but computing them is harmless.
        """
        key = ("element", instruction, output, index, guard.key)
        found = self.nest.lookup(key)
        if found is not None:
            return found
        self._nesting += 1
        if self._nesting % MAX_NESTING == 0:
            self._emit_far_end_first(instruction, index, guard)
        result = self._emit_element(instruction, index, guard, output)
        self._nesting -= 1
        self.nest.levels[result[1]].cache[key] = result
        return result

    def stored_element(self, instruction: HloInstruction, index: Index, guard: Guard = EVERYWHERE) -> Element:
        """Emits a real element as it is in memory, to be copied: the bits of a narrow type, which need no rounding."""
        leaf = self.leaves.get(instruction)
        if leaf is not None and instruction not in self.foreign:
            return self.memory.load(leaf, index, guard, as_stored=True), self._load_depth(leaf, index, guard)
        value, depth = self.element(instruction, index, guard)
        assert isinstance(value, Value)
        return store_convert(self.nest.levels[depth].builder, instruction.shape.element_type, value), depth

    def _emit_element(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        kept = self.rows.load(instruction, index)
        if kept is not None:
            return kept
        if instruction.shape.is_array and instruction.shape.num_elements == 0:  # a gather asks for what nobody has
            return constant_register(instruction.shape.element_type, 0), 0
        staged = self.staged.get((instruction, index))
        if staged is not None:
            return staged(output)
        given = self.given.get((instruction, index))
        if given is not None:
            return given[output]
        foreign = self.foreign.get(instruction)
        if foreign is not None:
            return foreign(index)
        leaf = self.leaves.get(instruction)
        if leaf is not None:
            assert leaf.shape.element_type is instruction.shape.element_type, f"{instruction!r} in {leaf.shape}"
            return self.memory.load(leaf, index, guard), self._load_depth(leaf, index, guard)
        rule = _RULES.get(instruction.opcode)
        if rule is None and instruction.op.has(Trait.ELEMENTWISE):
            rule = FusedIrEmitter._elementwise
        if rule is None:
            raise Unsupported(f"{instruction.opcode} '{instruction.name}' inside a fused kernel", instruction.span)
        result = rule(self, instruction, index, guard, output)
        if guard is EVERYWHERE:
            self.rows.record(instruction, index, *result)
        return result

    def _emit_far_end_first(self, instruction: HloInstruction, index: Index, guard: Guard) -> None:
        """Emits what a long chain needs from its far end on, so that recursion stays shallow at any depth."""

        def needs(element: tuple[HloInstruction, Index]) -> list[tuple[HloInstruction, Index]]:
            item, place = element
            if not item.op.has(Trait.ELEMENTWISE) and _RULES.get(item.opcode) is not FusedIrEmitter._moved:
                return []
            operands = [
                (operand, apply_map(self.nest.table, self.maps.of(item)[number][0], place))
                for number, operand in enumerate(item.operands)
            ]
            return [element for element in operands if element[0] not in self.leaves]

        order = post_order([(instruction, index)], needs)
        for item, place in order[:-1]:
            self.element(item, place, guard)

    def values_at(self, depth: int, elements: Sequence[Element]) -> list[RegisterValue]:
        """Returns the elements' values for use at one level: all scalars, or all vectors of one width."""
        width = max((width_of(v) for v, _ in elements), default=0)
        return [self.splat(e, width) for e in elements]

    def splat(self, element: Element, width: int) -> RegisterValue:
        """Returns an element as a vector of `width` (0: as it is); splats are shared, at the element's own level."""
        value, depth = element
        if width == 0 or width_of(value):
            return value
        text = value.real.text + value.imag.text if isinstance(value, ComplexValue) else value.text
        key = ("splat", text, width, str(value.real.type if isinstance(value, ComplexValue) else value.type))
        found = self.nest.lookup(key)
        if found is None:
            level = self.nest.levels[depth]
            found = level.cache[key] = splat_register(level.builder, value, width)
        return found

    def _load_depth(self, leaf: Buffer, index: Index, guard: Guard) -> int:
        depth = max((self.nest.depth_of(e) for e in index), default=0)
        return max(depth, guard.depth)

    def reductions_first(self, accesses: Accesses) -> None:
        """Emits the reductions along rows that accesses need and whose index is known already.

        What they keep of their rows (see RowCache) is then found by the elements that are emitted next.
        """
        if accesses.conditional:
            return
        nest = self.nest
        for instruction, index in reversed(accesses.row_reductions):
            if all(0 <= nest.bindings.depth(p) <= nest.level.depth for e in index for p in e.dims):
                self.element(instruction, index)

    def reduction(self, instruction: HloInstruction, reduction: Reduction) -> None:
        """Emits a reduction of a schedule, in front of what needs it."""
        if reduction.combination is Combination.SERIAL:
            self.element(instruction, reduction.index)
        else:
            emit_reduce(self, instruction, reduction.index, EVERYWHERE, reduction)

    def give(self, instruction: HloInstruction, index: Index, values: Sequence[RegisterValue]) -> None:
        """Says what an element is at the innermost level, from now on: a reduction so far, or a sum of products."""
        level = self.nest.level
        self.given[instruction, index] = [(value, level.depth) for value in values]
        for key in [k for k in level.cache if k[0] in ("element", "reduce")]:
            del level.cache[key]

    def stage(self, tile: Tile, instruction: HloInstruction, index: Index) -> None:
        """Emits an element and writes it to its tile, a row on the stack. Errors: Unsupported for other tiles."""
        if tile.memory is not Memory.STACK or len(tile.over) != 1:
            raise Unsupported(f"a tile in {tile.memory.value} over {len(tile.over)} variables: no target has them yet")
        width = self.nest.vector.width if self.nest.vector is not None else 0
        value = self.splat(self.element(instruction, index), width)
        self.rows.stage(instruction, index, value, tile.over[0])

    def bind_element(self, variable: int, source: HloInstruction, place: Index) -> None:
        """Binds a variable of the table to an element, clamped to the variable's bounds."""
        bounds = self.nest.intervals[variable]
        place = tuple(self.nest.simplify(e) for e in place)
        value, depth = self.element(source, place)
        assert isinstance(value, Value)
        level = self.nest.levels[depth]
        clamped = _clamp_index(level.builder, value, source.shape.element_type, bounds)
        self.nest.bind(variable, clamped, depth)
        level.cache["runtime", source, place, bounds, EVERYWHERE.key] = dim(variable)

    # -- rules: (self, instruction, index, guard, output) -> Element

    def _operand(
        self, instruction: HloInstruction, number: int, index: Index, guard: Guard, symbols: Sequence[AffineExpr] = ()
    ) -> Element:
        operand = self.maps.of(instruction)[number][0]
        return self.element(instruction.operand(number), apply_map(self.nest.table, operand, index, symbols), guard)

    def _elementwise(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        parts = [self._operand(instruction, i, index, guard) for i in range(instruction.operand_count)]
        depth = max((d for _, d in parts), default=0)
        value = emit_elementwise(
            self.nest.levels[depth].builder,
            instruction.opcode,
            instruction.shape.element_type,
            [o.shape.element_type for o in instruction.operands],
            self.values_at(depth, parts),
            instruction.attributes,
        )
        return value, depth

    def _bitcast_convert(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        if instruction.operand(0).shape.rank == instruction.shape.rank:
            return self._elementwise(instruction, index, guard, output)
        return emit_width_change(self, instruction, index, guard)

    def _moved(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        return self._operand(instruction, 0, index, guard)

    def _bitcast(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        if not changes_element_type(instruction):
            return self._moved(instruction, index, guard, output)
        if instruction.operand(0).shape.rank != instruction.shape.rank:  # it was a bitcast-convert
            return emit_width_change(self, instruction, index, guard)
        return self._elementwise(instruction, index, guard, output)

    def _constant(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        literal = instruction.attributes_as(at.ConstantAttributes).literal
        splat = literal.splat_value()
        if splat is None:
            raise AssertionError(f"array constant {instruction.name} must be a leaf of the kernel")
        return constant_register(instruction.shape.element_type, splat), 0

    def _iota(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        expr = self.nest.simplify(index[instruction.attributes_as(at.IotaAttributes).iota_dimension])
        return self.index_as(expr, instruction.shape.element_type)

    def index_as(self, expr: AffineExpr, kind: PrimitiveType) -> Element:
        """Emits the value of an index expression as a register of an element type."""
        nest = self.nest
        depth = nest.depth_of(expr)
        builder = nest.levels[depth].builder
        if expr.is_constant:
            return constant_register(kind, expr.value), 0
        varies = nest.uses_vector(expr)
        value = nest.lane_values(expr) if varies else nest.index_value(expr)
        source = PrimitiveType.S32 if value.type.elem.bits == 32 else PrimitiveType.S64
        return emit_elementwise(builder, "convert", kind, [source], [value], at.NO_ATTRIBUTES), depth

    def _tuple_element(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        operand = instruction.operand(0)
        return self.element(operand, index, guard, instruction.attributes_as(at.GetTupleElementAttributes).index)

    def _tuple(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        return self.element(instruction.operand(output), index, guard)

    def _pad(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        operand = self.maps.of(instruction)[0][0]
        conditions = map_conditions(operand, instruction.shape.dimensions, index)
        padding = self.element(instruction.operand(1), (), guard)
        if instruction.operand(0).shape.num_elements == 0:
            return padding
        return self.where(
            conditions, guard, lambda inner: self._operand(instruction, 0, index, inner), lambda _: padding
        )

    def where(
        self,
        conditions: Sequence[tuple[AffineExpr, Interval]],
        guard: Guard,
        inside: Callable[[Guard], Element],
        outside: Callable[[Guard], Element],
    ) -> Element:
        """Emits `inside` where the conditions hold, else `outside`."""
        inner = restrict(self.nest, guard, conditions)
        if inner is None:
            return outside(guard)
        test = restrict(self.nest, EVERYWHERE, conditions)
        assert test is not None
        if test.scalar is None and test.lanes is None:
            return inside(guard)
        parts = [inside(inner), outside(guard)]
        depth = max(test.depth, *(d for _, d in parts))
        builder = self.nest.levels[depth].builder
        width = max(width_of(v) for v, _ in parts)
        if test.lanes is not None:
            width = test.lanes.type.width
        result, other = (self.splat(p, width) for p in parts)
        if test.lanes is not None:
            result = select_register(builder, test.lanes, result, other)
        if test.scalar is not None:
            result = select_register(builder, test.scalar, result, other)
        return result, depth

    def _concatenate(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        axis = instruction.attributes_as(at.ConcatenateAttributes).dimension
        reach = self.nest.interval(self.nest.simplify(index[axis]))
        pieces: list[tuple[int, Interval]] = []
        for number in self.maps.pieces(instruction, reach):
            bounds = self.maps.of(instruction)[number][0].indexing.dim_vars[axis].bounds
            if not bounds.is_empty:
                pieces.append((number, bounds))

        in_lanes = self.nest.uses_vector(index[axis])

        def piece(number: int, bounds: Interval, inner: Guard) -> Element:
            place = apply_map(self.nest.table, self.maps.of(instruction)[number][0], index)
            within = self.nest.simplify(place[axis] % (bounds.upper - bounds.lower + 1)) if in_lanes else None
            if within is not None and self.nest.lane_pattern(within) is not None:
                # lanes of other pieces read something, too, where that makes what is read regular; else they are masked
                place = (*place[:axis], within, *place[axis + 1 :])
            return self.element(instruction.operand(number), place, inner)

        def choose(at_piece: int, inner: Guard) -> Element:
            number, bounds = pieces[at_piece]
            if at_piece == len(pieces) - 1:
                return piece(number, bounds, inner)
            upper = Interval(reach.lower, bounds.upper)
            rest = Interval(bounds.upper + 1, reach.upper)
            remaining = restrict(self.nest, inner, [(index[axis], rest)])
            return self.where(
                [(index[axis], upper)],
                inner,
                lambda g: piece(number, bounds, g),
                lambda g: choose(at_piece + 1, remaining or g),
            )

        return choose(0, guard)

    def _indexed(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        symbols = self.runtime_values(instruction, 0, index, guard)
        return self._operand(instruction, 0, index, guard, symbols)

    def _dynamic_update_slice(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        update = instruction.operand(1).shape.dimensions
        symbols = self.runtime_values(instruction, 1, index, guard)
        place = apply_map(self.nest.table, self.maps.of(instruction)[1][0], index, symbols)
        conditions = [(e, Interval(0, size - 1)) for e, size in zip(place, update, strict=True)]
        return self.where(
            conditions,
            guard,
            lambda inner: self.element(instruction.operand(1), place, inner),
            lambda outer: self._operand(instruction, 0, index, outer),
        )

    def runtime_values(
        self, instruction: HloInstruction, number: int, index: Index, guard: Guard = EVERYWHERE
    ) -> list[AffineExpr]:
        """Emits the run-time variables of an operand's map, clamped to what is feasible, as new loop variables."""
        operand = self.maps.of(instruction)[number][0]
        return [self._runtime_value(variable, index, guard) for variable in operand.indexing.rt_vars]

    def _runtime_value(self, variable: RTVar, index: Index, guard: Guard) -> AffineExpr:
        source = variable.source
        assert isinstance(source, HloInstruction)
        place = tuple(self.nest.simplify(substitute(e, index)) for e in variable.map.results)
        key = ("runtime", source, place, variable.feasible_values, guard.key)
        found = self.nest.lookup(key)
        if found is not None:
            return found
        value, depth = self.element(source, place, guard)
        assert isinstance(value, Value)
        level = self.nest.levels[depth]
        clamped = _clamp_index(level.builder, value, source.shape.element_type, variable.feasible_values)
        bounds = variable.feasible_values
        position = self.nest.new_variable(bounds.upper - bounds.lower + 1, bounds.lower)
        if clamped.type.is_vector:
            self.nest.bind_lanes(position, clamped, depth)
        else:
            self.nest.bind(position, clamped, depth)
        level.cache[key] = dim(position)
        return dim(position)

    def _map(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        parts = [self._operand(instruction, i, index, guard) for i in range(instruction.operand_count)]
        depth = max((d for _, d in parts), default=0)
        builder = self.nest.levels[depth].builder
        values = same_width(builder, self.values_at(depth, parts))
        return self.nested.inline(builder, instruction.to_apply, values)[output], depth

    def _reduce(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        return emit_reduce(self, instruction, index, guard)[output]

    def _contraction(self, instruction: HloInstruction, index: Index, guard: Guard, output: int) -> Element:
        return emit_contraction(self, instruction, index, guard)


_RULES: dict[str, Callable[[FusedIrEmitter, HloInstruction, Index, Guard, int], Element]] = {
    **dict.fromkeys(("broadcast", "reshape", "transpose", "reverse", "slice", "opt-barrier"), FusedIrEmitter._moved),
    "bitcast": FusedIrEmitter._bitcast,
    "bitcast-convert": FusedIrEmitter._bitcast_convert,
    "constant": FusedIrEmitter._constant,
    "iota": FusedIrEmitter._iota,
    "get-tuple-element": FusedIrEmitter._tuple_element,
    "tuple": FusedIrEmitter._tuple,
    "pad": FusedIrEmitter._pad,
    "concatenate": FusedIrEmitter._concatenate,
    "dynamic-slice": FusedIrEmitter._indexed,
    "dynamic-update-slice": FusedIrEmitter._dynamic_update_slice,
    "gather": FusedIrEmitter._indexed,
    "map": FusedIrEmitter._map,
    "reduce": FusedIrEmitter._reduce,
    "reduce-window": FusedIrEmitter._reduce,
    "dot": FusedIrEmitter._contraction,
    "convolution": FusedIrEmitter._contraction,
}


def select_register(builder: IRBuilder, condition: Value, yes: RegisterValue, no: RegisterValue) -> RegisterValue:
    """Emits a select of register values."""
    if isinstance(yes, ComplexValue):
        assert isinstance(no, ComplexValue)
        return ComplexValue(builder.select(condition, yes.real, no.real), builder.select(condition, yes.imag, no.imag))
    assert not isinstance(no, ComplexValue)
    return builder.select(condition, yes, no)


def _clamp_index(builder: IRBuilder, value: Value, kind: PrimitiveType, feasible: Interval) -> Value:
    """Emits an index value as i64, clamped to its feasible interval (unsigned values that are huge clamp high).

    That is done in the index's own type where it holds both bounds: twice as many lanes in a vector.
    """
    narrow = value.type.elem
    widen = builder.sext if kind.is_signed else builder.zext
    if feasible.upper >= 1 << narrow.bits - 1 or feasible.lower < -1 << narrow.bits - 1:
        value = widen(value, I64) if narrow.bits < 64 else value
    upper, lower = const_int(value.type, feasible.upper), const_int(value.type, feasible.lower)
    if kind.is_unsigned:
        too_big = builder.icmp_unsigned(">", value, upper)
        value = builder.select(too_big, upper, value)
    else:
        value = builder.select(builder.icmp_signed(">", value, upper), upper, value)
        value = builder.select(builder.icmp_signed("<", value, lower), lower, value)
    return widen(value, I64) if value.type.elem.bits < 64 else value
