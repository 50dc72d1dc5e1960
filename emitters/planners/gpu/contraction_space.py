"""A dot or convolution as a product of matrices: which loops number its batches, rows, columns and steps.

A loop over results that only one operand's elements depend on numbers rows of that operand; one that both depend on
numbers batches. What the instruction sums over are steps. All of it is read off the operands' indexing maps, so a
convolution of any kind is such a product, too: its rows are windows.
"""

from __future__ import annotations

import math

from xjit.affine import AffineExpr, constant, delinearize, dim, substitute
from xjit.dataclass import dataclass
from xjit.emitters.access.access_analysis import Accesses, Index, apply_map
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.coalescing import are_vectors, lane_steps
from xjit.emitters.planners.gpu.spaces import merge_loops
from xjit.emitters.planners.reduction import range_symbols
from xjit.hlo.ir.instruction import HloInstruction

VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class ContractionSpace:
    """The product of one space: `batch`, `rows`, `columns` and `steps` are variables that number all of each.

    `index` is the element of the instruction, `stored` that of the results, `symbols` what it sums over. Rows are those
    of operand `operands[0]`, columns those of the other one.
    """

    instruction: HloInstruction
    batch: int
    rows: int
    columns: int
    steps: int
    index: Index
    stored: Index
    symbols: tuple[AffineExpr, ...]
    operands: tuple[int, int]

    def row_of(self, operand: int) -> int:
        """The variable that numbers the rows of an operand."""
        return self.rows if operand == self.operands[0] else self.columns

    def operand_index(self, operand: int) -> Index:
        """The element of the instruction for what depends on one operand alone: the other one's row does not matter."""
        other = self.columns if operand == self.operands[0] else self.rows
        return tuple(substitute(e, {other: constant(0)}) for e in self.index)


def contraction_space(planning: LoopPlanning, space: IterationSpace) -> ContractionSpace | None:
    """Returns the product that a space of results is; None if it is no single one."""
    hero = planning.view.hero
    found = {item for accesses in planning.accesses(space) for item in accesses.reductions}
    if len(found) != 1:
        return None
    ((instruction, index),) = found
    if instruction is not hero:
        return None
    groups = _grouped(planning, space, index)
    if groups is None:
        return None
    batches, rows, columns = groups
    operands = (0, 1)
    if space.loops and space.loops[-1] in rows:
        rows, columns, operands = columns, rows, (1, 0)
    ordered = IterationSpace(space.table, [*batches, *rows, *columns], space.index)
    for first, count in ((len(batches) + len(rows), len(columns)), (len(batches), len(rows)), (0, len(batches))):
        ordered = merge_loops(ordered, first, first + count)
    left = iter(ordered.loops)
    batch, row, column = (next(left) if group else planning.table.new_variable(1) for group in (batches, rows, columns))
    index = next(iter({place for a in planning.accesses(ordered) for _, place in a.reductions}))
    steps, symbols = _steps(planning, hero, index)
    return ContractionSpace(hero, batch, row, column, steps, index, ordered.index, symbols, operands)


def _grouped(
    planning: LoopPlanning, space: IterationSpace, index: Index
) -> tuple[list[int], list[int], list[int]] | None:
    """Returns the loops that number batches, left rows and right ones (columns); None if some loop numbers none."""
    hero = planning.view.hero
    symbols = range_symbols(planning.analysis, hero)
    maps = planning.context.maps.of(hero)
    used = [{p for e in apply_map(planning.table, maps[i][0], index, symbols) for p in e.dims} for i in range(2)]
    batches = [p for p in space.loops if p in used[0] and p in used[1]]
    rows = [p for p in space.loops if p in used[0] and p not in used[1]]
    columns = [p for p in space.loops if p in used[1] and p not in used[0]]
    return (batches, rows, columns) if len(batches) + len(rows) + len(columns) == len(space.loops) else None


def _steps(planning: LoopPlanning, hero: HloInstruction, index: Index) -> tuple[int, tuple[AffineExpr, ...]]:
    """Returns one variable that numbers the steps, and the symbols in terms of it: what is contiguous goes fastest."""
    table = planning.table
    symbols = range_symbols(planning.analysis, hero)
    offsets = [e for i in range(2) for e in operand_accesses(planning, hero, i, index, tuple(symbols)).offsets]

    def stride(symbol: AffineExpr) -> int:
        return min((abs(factor_of(offset, symbol.position) or 0) or 1 << 62 for offset in offsets), default=1 << 62)

    order = sorted(range(len(symbols)), key=lambda i: -stride(symbols[i]))
    sizes = [table.size(symbols[i].position) for i in order]
    steps = table.new_variable(math.prod(sizes))
    values = delinearize(dim(steps), sizes)
    by_symbol = dict(zip(order, values, strict=True))
    return steps, tuple(table.simplify(by_symbol[i]) for i in range(len(symbols)))


def operand_accesses(
    planning: LoopPlanning, instruction: HloInstruction, operand: int, index: Index, symbols: tuple[AffineExpr, ...]
) -> Accesses:
    """Returns what is read for the element of an operand that a step multiplies."""
    place = apply_map(planning.table, planning.context.maps.of(instruction)[operand][0], index, symbols)
    return planning.analysis.collect(instruction.operand(operand), place)


def contiguous_lanes(planning: LoopPlanning, accesses: Accesses, variable: int, element_bytes: int) -> int:
    """Returns how many steps of a variable, from a multiple on, lie next to each other: 0 for none, 1 for unaligned.

    At most as many as make one access of 128 bits, and so many that they divide the variable's values.
    """
    table = planning.table
    if not any(
        factor_of(offset, variable) == 1 or _advances(planning, offset, variable) for offset in accesses.offsets
    ):
        return 0
    width = VECTOR_BYTES // element_bytes
    while width > 1:
        if table.size(variable) % width == 0 and _are_vectors(planning, accesses, variable, width):
            return width
        width //= 2
    return 1


def _are_vectors(planning: LoopPlanning, accesses: Accesses, variable: int, width: int) -> bool:
    """Whether each array is read in one aligned vector, or one element; and conditions hold for all lanes or none."""
    if not are_vectors(planning.table, accesses.offsets, variable, width):
        return False
    same = tuple([0] * width)
    return not accesses.conditional or all(
        lane_steps(planning.table, e, variable, width) == same for e in accesses.others
    )


def _advances(planning: LoopPlanning, offset: AffineExpr, variable: int) -> bool:
    """Whether two steps from an even one are neighbours in memory."""
    size = planning.table.size(variable)
    return size % 2 == 0 and lane_steps(planning.table, offset, variable, 2) == (0, 1)
