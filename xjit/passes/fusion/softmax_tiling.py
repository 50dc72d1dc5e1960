"""Softmax over rows too long for the cache: maximum and sum of each tile of a row first, then of the row.

A sum of exponentials exp(x - c), where c comes from the row's maximum, needs the row twice: x would go through memory
for the maximum and again for the sum. Tile by tile, with the tile's own maximum m, both are known while the tile is in
the cache: the row's sum is that of exp(m - c) * sum(exp(x - m)), whatever c is. This is the merge of
`linalg_ext.softmax`, with all tiles side by side: threads share them out.

            tile 0       tile 1       tile 2
    row |============|============|============|      sum 0 of exp(x - m0), sum 1 of exp(x - m1), ...
        m0, sum 0    m1, sum 1    m2, sum 2           m = max(m0, m1, m2), sum = exp(m0 - m) * sum 0 + ...

Quotients by the sum then take two exponentials per element, as none is kept in memory: instead of a division they get
a product with the sum's reciprocal (a sum of at least 1: no bits but the last change), and it pays only where the array
goes through memory.

A tile without a finite maximum sums exp(x) itself, 0 or inf or NaN; what follows is what the plain sum gives: NaN where
an infinity is subtracted from itself, and nothing of tiles that are all -inf.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.affine import dim
from xjit.hlo import HloInstruction, HloModule, PrimitiveType
from xjit.hlo.attributes import DimensionsAttributes
from xjit.hlo.types.physical import physical_byte_size
from xjit.ops.build import binary, broadcast, make_reduce, reshape, select, slice_, unary
from xjit.passes.analysis.attention.places import Place, Space
from xjit.passes.analysis.attention.softmax import find_softmax
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion

_TYPES = (PrimitiveType.F32, PrimitiveType.F64)


@dataclass(frozen=True, slots=True)
class _LongRows:
    """A sum of exp(x - shift) along the last dimension, and the maximum of x that the shift comes from."""

    total: HloInstruction
    maximum: HloInstruction
    x: HloInstruction
    shift: HloInstruction


@dataclass
class SoftmaxTiling(HloModulePass):
    """Cuts the rows of softmax into tiles of at most `max_tile_bytes`.

    Rows of more than `max_row_elements`, which no fusion keeps in the cache, are cut, and shorter ones where there are
    at most `few_rows` in an array of `min_elements`: threads share out tiles, of which there are at least `min_tiles`.
    Where exponentials are needed again, arrays of less than `min_quotient_bytes` are left: they stay in the cache.
    """

    name = "softmax-tiling"
    max_tile_bytes: int = 1 << 16
    max_row_elements: int = 1 << 16
    few_rows: int = 32
    min_elements: int = 1 << 17
    min_tiles: int = 64
    min_quotient_bytes: int = 1 << 23

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every computation that is no fusion; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                rows = _find(instruction) if instruction.opcode == "reduce" else None
                tiles = self._tiles(rows) if rows is not None else 1
                if rows is not None and tiles > 1:
                    _cut(rows, tiles)
                    changed = True
        return changed

    def _tiles(self, found: _LongRows) -> int:
        """Returns into how many tiles rows are cut, as few as fit; 1 if they stay, or no divisor is near."""
        shape = found.x.shape
        if found.total.operand(0).user_count > 1 and physical_byte_size(shape) < self.min_quotient_bytes:
            return 1
        length = shape.dimensions[-1]
        rows = shape.num_elements // max(length, 1)
        is_few = rows <= self.few_rows and shape.num_elements >= self.min_elements
        if not rows or (length <= self.max_row_elements and not is_few):
            return 1
        fewest = max(-(-length * shape.element_type.byte_width // self.max_tile_bytes), -(-self.min_tiles // rows), 2)
        return next((n for n in range(fewest, 4 * fewest + 1) if length % n == 0), 1)


def _find(total: HloInstruction) -> _LongRows | None:
    """Returns what a reduce sums, if it is exponentials below the maximum of their rows, element by element."""
    terms, dimensions = total.operand(0), total.attributes_as(DimensionsAttributes).dimensions
    shape = terms.shape
    if terms.opcode != "exponential" or dimensions != (shape.rank - 1,) or shape.element_type not in _TYPES:
        return None
    if not shape.is_static_array or not shape.is_row_major or terms.operand(0).opcode != "subtract":
        return None
    x, shift = terms.operand(0).operands
    if not x.shape.is_row_major:
        return None
    space = Space(shape.dimensions)
    row = tuple(space.simplify(dim(d)) for d in range(shape.rank - 1))
    found = find_softmax(space, space.identity(terms), Place(total, row), dim(shape.rank - 1))
    if found is None or found.maximum.index != row or found.maximum.instruction.shape != total.shape:
        return None
    maximum = found.maximum.instruction
    if maximum.operand(0) is not x or any(has_control_dependencies(i) for i in (total, maximum)):
        return None
    return _LongRows(total, maximum, x, shift)


def _cut(rows: _LongRows, tiles: int) -> None:
    """Replaces the maximum by that of the tiles' maxima, and the sum by that of their sums, which follow it."""
    sizes = rows.x.shape.dimensions
    last = len(sizes) - 1
    into = Expansion(rows.maximum)
    add = into.add
    cut = add(reshape(rows.x, [*sizes[:last], tiles, sizes[last] // tiles]))
    maximum, low = rows.maximum.to_apply, rows.maximum.operand(1)
    maxima = add(make_reduce(cut, low, [last + 1], maximum))
    into.replace_source(add(make_reduce(maxima, low, [last], maximum)))

    into = Expansion(rows.total)
    add, summed, zero = into.add, rows.total.to_apply, rows.total.operand(1)
    zeros = into.full(maxima.shape, 0.0)
    below = add(select(add(unary("is-finite", maxima)), maxima, zeros))
    below = add(broadcast(below, cut.shape, range(last + 1)))
    exponentials = add(unary("exponential", add(binary("subtract", cut, below))))
    sums = add(make_reduce(exponentials, zero, [last + 1], summed))
    shift = add(slice_(rows.shift, [0] * (last + 1), [*sizes[:last], 1]))
    shift = add(broadcast(add(reshape(shift, sizes[:last])), maxima.shape, range(last)))
    factors = add(unary("exponential", add(binary("subtract", maxima, shift))))
    weights = rows.total.operand(0)
    total = add(make_reduce(add(binary("multiply", sums, factors)), zero, [last], summed))
    into.replace_source(total)
    _multiply_by_reciprocal(weights, total)


def _multiply_by_reciprocal(weights: HloInstruction, total: HloInstruction) -> None:
    """Replaces quotients of exponentials by their sum."""
    for quotient in list(weights.users):
        if quotient.opcode != "divide" or quotient.operand(0) is not weights:
            continue
        totals = quotient.operand(1)
        if totals.opcode != "broadcast" or totals.operand(0) is not total or has_control_dependencies(quotient):
            continue
        into = Expansion(quotient)
        reciprocal = into.add(binary("divide", into.full(total.shape, 1.0), total))
        dimensions = totals.attributes_as(DimensionsAttributes).dimensions
        factors = into.add(broadcast(reciprocal, weights.shape, dimensions))
        into.replace_source(into.add(binary("multiply", weights, factors)))
