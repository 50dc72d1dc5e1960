"""How instructions read their operands: what fusion, updates in place and cost ask, answered from the indexing maps.

An array's elements are numbered in row-major order. Most questions are about one map between such numbers: element i
of the result reads element i of the operand, or element i floordiv n (one per row of n), or a whole row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xjit.affine import (
    AffineExpr,
    AffineExprKind,
    IndexingMap,
    Interval,
    delinearize,
    dim,
    linearize,
    nodes_of,
    range_context,
    substitute_all,
    symbol,
)
from xjit.dataclass import dataclass
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.cached_property import cached_property
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.indexing.maps import Maps, array_shape
from xjit.ops.indexing.output_to_input import operand_maps


@dataclass(frozen=True)
class OperandRead:
    """What one element of an instruction's (first) result reads of one operand.

    `sizes` are the result's dimensions, `operand` is the operand's shape.
    """

    maps: Maps
    sizes: tuple[int, ...]
    operand: Shape

    @cached_property
    def always(self) -> IndexingMap | None:
        """The map, if it is one that holds for every element of the result."""
        if len(self.maps) != 1 or self.maps[0].is_unknown or self.maps[0].is_known_empty:
            return None
        m = self.maps[0]
        whole = all(b == Interval(0, n - 1) for b, n in zip(m.dim_bounds, self.sizes, strict=True))
        return m if whole and not m.constraints else None

    @cached_property
    def is_identity(self) -> bool:
        """Whether the operand is read at just the index of the result."""
        if self.operand.dimensions != self.sizes:
            return False
        m = self.always
        return m is not None and all(e is dim(i) for i, e in enumerate(m.map.results))

    @cached_property
    def divides(self) -> bool:
        """Whether indices are divided on the way to the operand."""
        nodes = nodes_of([e for m in self.maps if not m.is_unknown for e in m.map.results])
        return any(n.kind in (AffineExprKind.FLOORDIV, AffineExprKind.MOD) for n in nodes)

    @cached_property
    def number(self) -> AffineExpr | None:
        """The number of the operand's element over d0, the number of the result's, and the map's range variables.

        None where the map does not always hold, or positions are data.
        """
        m = self.always
        if m is None or m.rt_vars or 0 in self.sizes:
            return None
        if self.is_identity:
            return dim(0)
        index = substitute_all(m.map.results, delinearize(dim(0), self.sizes))
        bounds = [Interval(0, self.elements - 1)]
        return range_context(bounds, m.symbol_bounds).simplify(linearize(index, self.operand.dimensions))

    @cached_property
    def elements(self) -> int:
        """Number of elements of the result."""
        return math.prod(self.sizes)

    @cached_property
    def keeps_number(self) -> bool:
        """Whether element i reads element i, whatever the dimensions: identities, reshapes, what only adds ones."""
        return self.operand.num_elements == self.elements and self._number_is(dim(0))

    @cached_property
    def keeps_index(self) -> bool:
        """Whether the operand is read at the index of the result, but for dimensions of size 1."""
        return self.is_identity or (self.keeps_number and not self.divides)

    def reads_its_row(self, length: int) -> bool:
        """Whether the operand has an element for each row of `length` elements, and element i reads its row's."""
        return 0 < self.elements == self.operand.num_elements * length and self._is_one_per_row

    @cached_property
    def _is_one_per_row(self) -> bool:
        """Whether element i reads element i floordiv n, with n elements of the result for each of the operand."""
        return self._number_is(dim(0).floordiv(self.elements // self.operand.num_elements))

    def reads_whole_row(self, length: int) -> bool:
        """Whether element i reads, one after the other, just the elements of row i of `length` elements."""
        return self._whole_row == length

    @cached_property
    def _whole_row(self) -> int | None:
        """The length of the rows of the operand of which each element of the result reads one, if that is so."""
        m = self.always
        if m is None or not m.range_vars or any(v.bounds.lower for v in m.range_vars):
            return None
        ranges = [v.bounds.upper + 1 for v in m.range_vars]
        length = math.prod(ranges)
        row = dim(0) * length + linearize([symbol(i) for i in range(len(ranges))], ranges)
        return length if self._number_is(row) else None

    def _number_is(self, expected: AffineExpr) -> bool:
        """Whether the number of the operand's element is that expression, for every element."""
        m = self.always
        if m is None or self.number is None:
            return False
        context = range_context([Interval(0, self.elements - 1)], m.symbol_bounds)
        return context.interval(context.simplify(self.number - expected)) == Interval(0, 0)

    @cached_property
    def evaluations(self) -> float:
        """How many elements of the operand are read per element of the result, on average; an estimate."""
        return sum(_points(m, self.operand.dimensions) for m in self.maps) / max(1, self.elements)

    def walks_across(self, minor: int, operand_minor: int) -> bool:
        """Whether steps along dimension `minor` of the result leave the line along `operand_minor` of the operand."""
        m = self.always
        if m is None:
            return False
        results = m.map.results
        return any(e.uses_dim(minor) for e in results) and not results[operand_minor].uses_dim(minor)


def _points(m: IndexingMap, sizes: Sequence[int]) -> float:
    """How many pairs of elements a map makes: points of its domain, by the share of them that lies in the operand.

    Run-time positions are thought to be anywhere; UNKNOWN counts as every element, once.
    """
    if m.is_unknown:
        return float(math.prod(sizes))
    if m.is_known_empty:
        return 0.0
    points = float(math.prod(b.size for b in m.dim_bounds) * math.prod(v.bounds.size for v in m.range_vars))
    if not points:
        return 0.0
    context = range_context(m.dim_bounds, [*(v.bounds for v in m.range_vars), *[Interval(0, 0) for _ in m.rt_vars]])
    for expr, size in zip(m.map.results, sizes, strict=True):
        points *= min(1.0, size / context.interval(expr).size)
    for expr, allowed in m.constraints:
        points *= min(1.0, allowed.size / context.interval(expr).size)
    return points


_MAX_KEPT = 20_000
_kept: dict[Any, tuple[OperandRead, ...]] = {}


def reads_of(instruction: HloInstruction) -> tuple[OperandRead, ...]:
    """Returns how an instruction reads each of its operands. Equal instructions on equal shapes share the answer."""
    operands = instruction.operands
    if not operands:
        return ()
    shapes = [o.shape for o in operands]
    if instruction.op.has(Trait.ELEMENTWISE):  # which of them it is makes no difference
        key = (instruction.shape.dimensions, *shapes)
    else:
        key = (instruction.opcode, instruction.attributes, instruction.shape, *shapes)
    found = _kept.get(key)
    if found is None:
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()
        sizes = array_shape(instruction.shape).dimensions
        maps = zip(operand_maps(instruction), shapes, strict=True)
        found = _kept[key] = tuple(OperandRead(_without_sources(m), sizes, shape) for m, shape in maps)
    return found


def _without_sources(maps: Maps) -> Maps:
    """The maps without the instructions that run-time positions come from, which must not be kept alive."""
    return tuple(
        m if m.is_unknown or not m.rt_vars else m.replace(rt_vars=tuple(replace(v, source=None) for v in m.rt_vars))
        for m in maps
    )


class OperandReads:
    """Reads of instructions that nobody changes meanwhile, found by identity."""

    def __init__(self) -> None:
        self._reads: dict[HloInstruction, tuple[OperandRead, ...]] = {}

    def of(self, instruction: HloInstruction) -> tuple[OperandRead, ...]:
        """Returns how every operand is read."""
        found = self._reads.get(instruction)
        if found is None:
            found = self._reads[instruction] = reads_of(instruction)
        return found
