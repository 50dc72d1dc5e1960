"""What a fused graph reads for one element of its root: offsets into the leaves, as affine expressions.

This walks the same indexing maps as FusedIrEmitter but emits nothing. Kernel emitters use it to choose loop order,
splits, collapses and the vector variable before any code exists.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xjit.affine import AffineExpr, IndexingMap, Interval, constant, dim, ranges_from_zero, substitute, substitute_all
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.loops.variables import VariableTable
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.indexing.output_to_input import operand_maps

Index = tuple[AffineExpr, ...]
_NEVER = (constant(0), Interval(1, 1))  # a condition that does not hold


@dataclass(frozen=True, slots=True)
class OperandMap:
    """How one operand is read, and what need not be computed: identities give the index back, most maps always hold."""

    indexing: IndexingMap
    is_identity: bool
    has_conditions: bool


class MapCache:
    """The output-to-input maps of instructions, computed once."""

    def __init__(self) -> None:
        self._maps: dict[HloInstruction, list[tuple[OperandMap, ...]]] = {}
        self._limits: dict[HloInstruction, list[int]] = {}  # of a concatenate: where each operand ends

    def of(self, instruction: HloInstruction) -> list[tuple[OperandMap, ...]]:
        """Returns the maps of every operand."""
        maps = self._maps.get(instruction)
        if maps is None:
            shape = instruction.shape.tuple_shapes[0] if instruction.shape.is_tuple else instruction.shape
            computed = operand_maps(instruction)
            maps = [tuple(_classify(m, shape.dimensions) for m in per_operand) for per_operand in computed]
            self._maps[instruction] = maps
        return maps

    def pieces(self, concatenate: HloInstruction, reach: Interval) -> range:
        """Returns the numbers of the operands that hold elements of an interval along the concatenated dimension."""
        limits = self._limits.get(concatenate)
        if limits is None:
            axis = concatenate.attributes_as(at.ConcatenateAttributes).dimension
            sizes = [o.shape.dimensions[axis] for o in concatenate.operands]
            limits = self._limits[concatenate] = list(itertools.accumulate(sizes))
        last = min(bisect.bisect_right(limits, reach.upper), len(limits) - 1)
        return range(bisect.bisect_right(limits, reach.lower), last + 1)


@functools.cache
def _dims(rank: int) -> tuple[AffineExpr, ...]:
    return tuple(map(dim, range(rank)))


def _classify(indexing: IndexingMap, sizes: Sequence[int]) -> OperandMap:
    if indexing.is_unknown:
        return OperandMap(indexing, False, False)
    indexing = ranges_from_zero(indexing)
    bounds = [(v.bounds.lower, v.bounds.upper) for v in indexing.dim_vars]
    narrowed = bounds != [(0, n - 1) for n in sizes]
    conditional = narrowed or indexing.is_known_empty or bool(indexing.constraints)
    if narrowed and not indexing.is_known_empty:  # a piece of one element: where the map holds, its place is known
        known = {p: constant(a) for p, ((a, b), n) in enumerate(zip(bounds, sizes, strict=True)) if a == b and n > 1}
        indexing = indexing.replace(map=indexing.substitute(known, {}).map) if known else indexing
    identity = indexing.map.results == _dims(len(sizes))
    return OperandMap(indexing, identity, conditional)


def apply_map(table: VariableTable, operand: OperandMap, index: Index, symbols: Sequence[AffineExpr] = ()) -> Index:
    """Returns the operand index that a map gives for an output index, simplified."""
    if operand.is_identity:
        return index
    results = operand.indexing.map.results
    if not results:
        return ()
    return tuple(table.simplify(e) for e in substitute_all(results, index, symbols))


def map_conditions(
    operand: OperandMap, sizes: Sequence[int], index: Sequence[AffineExpr], symbols: Sequence[AffineExpr] = ()
) -> list[tuple[AffineExpr, Interval]]:
    """Returns the conditions under which a map applies: bounds narrower than the output, and constraints."""
    if not operand.has_conditions:
        return []
    indexing = operand.indexing
    if indexing.is_known_empty:
        return [_NEVER]
    conditions: list[tuple[AffineExpr, Interval]] = []
    for i, variable in enumerate(indexing.dim_vars):
        if variable.bounds != Interval(0, sizes[i] - 1):
            conditions.append((index[i], variable.bounds))
    conditions += [(substitute(e, index, symbols), interval) for e, interval in indexing.constraints]
    return conditions


@dataclass(slots=True)
class Accesses:
    """Everything index-like that one element of a graph needs."""

    offsets: list[AffineExpr] = field(default_factory=list)  # into leaves
    others: list[AffineExpr] = field(default_factory=list)  # iota values and conditions
    reductions: list[tuple[HloInstruction, Index]] = field(default_factory=list)  # of any kind, users first
    row_reductions: list[tuple[HloInstruction, Index]] = field(default_factory=list)  # those along rows
    conditional: bool = False  # whether some of it is needed only under conditions
    sure: set[tuple[HloInstruction, Index]] = field(default_factory=set)  # reductions that are needed without any
    loads: dict[HloInstruction, int] = field(default_factory=dict)  # elements read, per leaf
    reads: list[tuple[HloInstruction, Index]] = field(default_factory=list)  # which, in the order of `offsets`
    known: list[tuple[HloInstruction, Index]] = field(default_factory=list)  # what was there already
    operations: int = 0
    evaluations: dict[int, int] = field(default_factory=dict)  # operations by the bit set of variables they depend on


_Element = tuple[HloInstruction, Index]
_Need = tuple[_Element, bool]
"""What an element is computed from, and whether only under a condition."""


def _surely_needed(root: _Element, needs: Mapping[_Element, Sequence[_Need]]) -> set[_Element]:
    """Returns what an element is computed from whatever conditions hold."""
    found, stack = {root}, [root]
    while stack:
        more = [needed for needed, conditional in needs.get(stack.pop(), ()) if not conditional and needed not in found]
        found.update(more)
        stack += more
    return found


def _users_first(root: _Element, needs: Mapping[_Element, Sequence[_Need]]) -> list[_Element]:
    """Returns everything that an element needs, each before all that it needs itself."""
    ended: list[_Element] = []
    seen: set[_Element] = set()
    stack = [(root, False)]
    while stack:
        item, ends = stack.pop()
        if ends:
            ended.append(item)
        elif item not in seen:
            seen.add(item)
            stack.append((item, True))
            stack += [(needed, False) for needed, _ in reversed(needs.get(item, ()))]
    return ended[::-1]


MAX_STEP = 4
"""Elements from one to the next along a row, in either direction: so many are still loaded as vectors."""
WALKS = frozenset(["reduce", "reduce-window", "dot", "convolution"])
"""Opcodes that take a step for every value of the range variables of their first operand."""


@dataclass(frozen=True, slots=True)
class RuntimeValue:
    """An integer element of an instruction, clamped to bounds: part of an index that is read at run time."""

    source: HloInstruction
    place: Index
    bounds: Interval


class AccessAnalysis:
    """Collects the accesses of graphs over one kernel's variables.

    `range_mask` is the bit set of the variables that reductions walk over.
    """

    def __init__(self, table: VariableTable, leaves: Mapping[HloInstruction, Shape], maps: MapCache) -> None:
        self.table = table
        self.leaves = leaves
        self.maps = maps
        self.range_mask = 0
        self.runtime: dict[int, RuntimeValue] = {}  # what variables stand for that are read at run time
        self._range_variables: dict[HloInstruction, list[int]] = {}
        self._runtime_variables: dict[RuntimeValue, int] = {}

    def range_variables(self, instruction: HloInstruction, indexing: IndexingMap) -> list[AffineExpr]:
        """Returns free variables for the ranges of an instruction's maps: the same ones at every request."""
        if not indexing.range_vars:
            return []
        positions = self._range_variables.get(instruction)
        if positions is None:
            bounds = [v.bounds for v in indexing.range_vars]
            positions = [self.table.new_variable(b.upper - b.lower + 1, b.lower) for b in bounds]
            self._range_variables[instruction] = positions
            for position in positions:
                self.range_mask |= 1 << position
        return [dim(p) for p in positions]

    def runtime_variables(self, indexing: IndexingMap, index: Index) -> list[AffineExpr]:
        """Returns variables for what a map at an index reads at run time: the same ones for the same elements."""
        found: list[AffineExpr] = []
        for variable in indexing.rt_vars:
            assert isinstance(variable.source, HloInstruction)
            place = tuple(self.table.simplify(e) for e in substitute_all(variable.map.results, index))
            value = RuntimeValue(variable.source, place, variable.feasible_values)
            position = self._runtime_variables.get(value)
            if position is None:
                bounds = value.bounds
                position = self.table.new_variable(bounds.upper - bounds.lower + 1, bounds.lower)
                self.stands_for(position, value)
            found.append(dim(position))
        return found

    def stands_for(self, variable: int, value: RuntimeValue) -> None:
        """Says that a variable of the table is an element that is read at run time."""
        self.runtime[variable] = value
        self._runtime_variables[value] = variable

    def collect(
        self, root: HloInstruction, index: Index, known: Container[tuple[HloInstruction, Index]] = ()
    ) -> Accesses:
        """Returns the accesses for the root at an index; every (instruction, index) is visited once.

        What is `known` has been computed before: nothing is read for it.
        """
        result = Accesses()
        seen: set[_Element] = set()
        needs: dict[_Element, list[_Need]] = {}
        stack: list[_Element] = [(root, index)]
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            if item in known:
                result.known.append(item)
                continue
            instruction, place = item
            leaf = self.leaves.get(instruction)
            if leaf is not None:
                result.offsets.append(physical_offset(self.table, leaf, place))
                result.reads.append(item)
                result.loads[instruction] = result.loads.get(instruction, 0) + 1
                continue
            needs[item] = self._visit(instruction, place, result)
            stack += [needed for needed, _ in needs[item]]
        if result.reductions:
            surely = _surely_needed((root, index), needs) if result.conditional else seen
            result.sure.update(surely.intersection(result.reductions))
        if len(result.reductions) > 1:
            order = {item: n for n, item in enumerate(_users_first((root, index), needs))}
            result.reductions.sort(key=order.__getitem__)
            result.row_reductions.sort(key=order.__getitem__)
        return result

    def _visit(self, instruction: HloInstruction, index: Index, result: Accesses) -> list[_Need]:
        """Adds what an element is to the accesses, and returns what it needs."""
        result.operations += 1
        mask = self._variables(instruction, index)
        result.evaluations[mask] = result.evaluations.get(mask, 0) + 1
        if instruction.opcode == "iota":
            result.others.append(index[instruction.attributes_as(at.IotaAttributes).iota_dimension])
        if instruction.opcode in ("get-tuple-element", "tuple"):
            return [((operand, index), False) for operand in instruction.operands]
        needs: list[_Need] = []
        shape = instruction.shape.tuple_shapes[0] if instruction.shape.is_tuple else instruction.shape
        for number, maps in self._numbered_maps(instruction, index):
            for operand in maps:
                conditional = operand.has_conditions or operand.indexing.is_unknown
                result.conditional |= conditional
                if operand.indexing.is_unknown:
                    continue
                symbols = self.range_variables(instruction, operand.indexing)
                if operand.indexing.rt_vars:
                    symbols = [*symbols, *self.runtime_variables(operand.indexing, index)]
                place = apply_map(self.table, operand, index, symbols)
                needs.append(((instruction.operand(number), place), conditional))
                result.others += [e for e, _ in map_conditions(operand, shape.dimensions, index, symbols)]
                for variable in operand.indexing.rt_vars:
                    assert isinstance(variable.source, HloInstruction)
                    needs.append(((variable.source, substitute_all(variable.map.results, index)), conditional))
        if instruction.opcode in WALKS:
            result.reductions.append((instruction, index))
        if instruction.opcode == "reduce" and self._is_row(instruction, index):
            result.row_reductions.append((instruction, index))
        return needs

    def _variables(self, instruction: HloInstruction, index: Index) -> int:
        """Returns the bit set of the variables for whose values the instruction does something of its own."""
        mask = 0
        for expr in index:
            mask |= expr.dim_mask
        if instruction.opcode in WALKS:
            for symbol in self.range_variables(instruction, self.maps.of(instruction)[0][0].indexing):
                mask |= symbol.dim_mask
        return mask

    def _numbered_maps(self, instruction: HloInstruction, index: Index) -> Iterable[tuple[int, tuple[OperandMap, ...]]]:
        """Yields the maps of the operands that an index may read; of a concatenate's, only those within reach."""
        maps = self.maps.of(instruction)
        if instruction.opcode != "concatenate":
            return enumerate(maps)
        axis = instruction.attributes_as(at.ConcatenateAttributes).dimension
        numbers = self.maps.pieces(instruction, self.table.interval(self.table.simplify(index[axis])))
        return [(number, maps[number]) for number in numbers]

    def _is_row(self, instruction: HloInstruction, index: Index) -> bool:
        return self.contiguous_range(instruction, index) is not None

    def reduced_accesses(self, instruction: HloInstruction, index: Index) -> Accesses:
        """Returns the accesses of the elements that a reduction combines for one element of its result."""
        operand = self.maps.of(instruction)[0][0]
        symbols = self.range_variables(instruction, operand.indexing)
        return self.collect(instruction.operand(0), apply_map(self.table, operand, index, symbols))

    def deciding_offsets(self, instruction: HloInstruction, index: Index) -> list[AffineExpr]:
        """Returns where a reduction reads the largest arrays, which decide how it walks: what is broadcast along a
        dimension is read again and again.
        """
        inner = self.reduced_accesses(instruction, index)
        sizes = [leaf.shape.num_elements for leaf, _ in inner.reads]
        return [offset for offset, size in zip(inner.offsets, sizes, strict=True) if size == max(sizes)]

    def contiguous_range(self, instruction: HloInstruction, index: Index) -> int | None:
        """Returns which range variable of a reduction walks through contiguous memory, or None."""
        operand = self.maps.of(instruction)[0][0]
        symbols = self.range_variables(instruction, operand.indexing)
        votes = [0] * len(symbols)
        for offset in self.deciding_offsets(instruction, index):
            for k, symbol in enumerate(symbols):
                if any(term is symbol and abs(factor) <= MAX_STEP for term, factor in offset.terms):
                    votes[k] += 1
        best = max(range(len(votes)), key=lambda k: votes[k], default=0)
        return best if votes and votes[best] else None
