"""How one reduction is done: along which loops, with which accumulators.

A reduction whose innermost range walks through contiguous memory keeps one accumulator per lane and combines the lanes
at the end, when the combiner is known to be associative and commutative and has an identity. Everything else
accumulates serially; where the result is vectorised, each lane of the accumulator is one element of it. The order
depends on shapes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.access_analysis import AccessAnalysis, Accesses, Index
from xjit.emitters.loops.iteration_space import MAX_COLUMNS
from xjit.emitters.schedule.statements import Combination, Lanes, Reduction
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.element_types import PROMOTED, register_type
from xjit.llvm.target import Target
from xjit.ops.reducers import reduction_identity, selected_extremum

MIN_VECTOR_RANGE = 4
MIN_SEARCH_LANES = 8  # in rows of less than two vectors
MAX_LANES = 64
MAX_STEPS = 9  # those of windows of 3 x 3
CHAINS = ((4, 4), (2, 12))
"""Sets of accumulators, and up to how many operations per element: short work would wait for the last result."""
MAX_ROW_ELEMENTS = 16 * 1024
WORTH_KEEPING = 8  # operations
_COSTLY = frozenset(
    {"atan2", "cbrt", "cosine", "divide", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one",
     "logistic", "power", "remainder", "sine", "sqrt", "rsqrt", "tan", "tanh"}
)  # fmt: skip


def plan_reduction(
    analysis: AccessAnalysis,
    instruction: HloInstruction,
    index: Index,
    vectorised: bool,
    target: Target,
    most_lanes: int = MAX_LANES,
) -> Reduction:
    """Plans the element at an index. `vectorised`: a vector variable is in force there, so the lanes are taken.

    The loops are the analysis's range variables of the instruction; a search for an extremum gets new ones. There are
    at most `most_lanes` accumulators in a vector.
    """
    ranges = [e.position for e in range_symbols(analysis, instruction)]
    takes_lanes = target.has_vector_arithmetic and not target.scalar_loops and not vectorised
    takes_one = instruction.opcode in ("reduce", "reduce-window")  # element at a time, and no products
    by_lanes = takes_lanes and takes_one
    lanes = _lane_range(analysis, instruction, index) if by_lanes else None
    if lanes is not None and reduction_identity(instruction.to_apply) is not None:
        return _by_lanes(analysis, instruction, index, ranges[lanes], min(_width(instruction, target), most_lanes))
    if lanes is not None and len(ranges) == 1 and selects_index(instruction):
        width = _lanes_of_row(analysis.table.size(ranges[0]), min(_common_width(instruction, target), most_lanes))
        if width:
            return _select_by_lanes(analysis, instruction, index, ranges[0], width)
    written_out = 0
    if vectorised and (takes_one or instruction.opcode == "convolution"):
        written_out = _written_out(analysis, instruction, index, ranges)
    loops = len(ranges) - written_out
    numbers = (range(i.lower, i.upper + 1) for i in (analysis.table.intervals[p] for p in ranges[loops:]))
    steps = ((*_symbols(ranges[:loops]), *map(constant, step)) for step in itertools.product(*numbers))
    return Reduction(instruction.name, index, tuple(ranges[:loops]), tuple(steps))


def range_symbols(analysis: AccessAnalysis, instruction: HloInstruction) -> list[AffineExpr]:
    """Returns the range variables of a reducing instruction, in the order of its map's symbols."""
    indexing = analysis.maps.of(instruction)[0][0].indexing
    return analysis.range_variables(instruction, indexing)


def _symbols(ranges: Sequence[int]) -> tuple[AffineExpr, ...]:
    return tuple(dim(p) for p in ranges)


def _written_out(analysis: AccessAnalysis, instruction: HloInstruction, index: Index, ranges: Sequence[int]) -> int:
    """How many of the inner loops are written out: it is known then how lanes lie, and which a step does not have."""
    inner = analysis.reduced_accesses(instruction, index).reductions
    is_row = instruction.opcode == "reduce" and analysis.contiguous_range(instruction, index) is not None
    most = MAX_COLUMNS if is_row else MAX_STEPS
    count, steps = 0, 1
    for p in reversed(ranges):
        steps *= analysis.table.size(p)
        if not 0 < steps <= most or any(e.uses_dim(p) for _, place in inner for e in place):
            break
        count += 1
    return count


def _lane_range(analysis: AccessAnalysis, instruction: HloInstruction, index: Index) -> int | None:
    """The range variable to vectorise over: one that walks through contiguous memory, or any if none walks at all."""
    symbols, best = range_symbols(analysis, instruction), analysis.contiguous_range(instruction, index)
    if best is None:
        offsets = analysis.deciding_offsets(instruction, index)
        if not symbols or any(offset.uses_dim(s.position) for offset in offsets for s in symbols):
            return None
        best = len(symbols) - 1
    size = analysis.table.size(symbols[best].position)
    return best if size >= MIN_VECTOR_RANGE else None


def _by_lanes(
    analysis: AccessAnalysis, instruction: HloInstruction, index: Index, innermost: int, width: int
) -> Reduction:
    table = analysis.table
    accesses = analysis.reduced_accesses(instruction, index)
    chains = _chains(accesses, table.size(innermost), width)
    ranges = [e.position for e in range_symbols(analysis, instruction)]
    order = tuple(p for p in ranges if p != innermost)
    one_loop = all(table.intervals[p].upper == 0 for p in order)
    short = table.intervals[innermost].lower == 0 and table.intervals[innermost].upper < MAX_ROW_ELEMENTS
    keeps = tuple(i.name for i in _needed_again(instruction, analysis.leaves)) if one_loop and short else ()
    lanes = Lanes(innermost, width, chains)
    return Reduction(instruction.name, index, order, (_symbols(ranges),), Combination.TREE, lanes, keeps)


def _width(instruction: HloInstruction, target: Target) -> int:
    kind = instruction.operand(0).shape.element_type
    return target.vector_width(register_type(PROMOTED.get(kind, kind)))


def _lanes_of_row(size: int, most: int) -> int:
    """How many lanes a search in a row has, as each has a first element; 0 if the row is too short."""
    lanes = most
    while lanes > size:
        lanes //= 2
    return lanes if size >= 2 * most or lanes >= MIN_SEARCH_LANES else 0


def selects_index(instruction: HloInstruction) -> bool:
    """Whether a reduce along one dimension searches for the largest or smallest element, and its index."""
    if instruction.opcode != "reduce" or instruction.operand_count != 4:
        return False
    if len(instruction.attributes_as(at.DimensionsAttributes).dimensions) != 1:
        return False
    return selected_extremum(instruction.to_apply) is not None and _is_ascending(instruction.operand(1))


def _select_by_lanes(
    analysis: AccessAnalysis, instruction: HloInstruction, index: Index, column: int, width: int
) -> Reduction:
    table = analysis.table
    size = table.intervals[column].upper + 1
    chains = _chains(analysis.reduced_accesses(instruction, index), size, width)
    first = table.new_variable(chains * width)
    rest = table.new_variable(size - chains * width, chains * width)
    lanes = Lanes(rest, width, chains, first)
    return Reduction(instruction.name, index, (), (_symbols([rest]),), Combination.SELECT, lanes)


def _common_width(instruction: HloInstruction, target: Target) -> int:
    kinds = [o.shape.element_type for o in instruction.operands[:2]]
    return min(target.vector_width(register_type(PROMOTED.get(t, t))) for t in kinds)


def _chains(accesses: Accesses, size: int, width: int) -> int:
    """How many vectors of accumulators take turns."""
    chains = next((n for n, most in CHAINS if accesses.operations <= most), 1)
    while chains > 1 and size < 2 * chains * width:
        chains //= 2
    return chains


def _is_ascending(instruction: HloInstruction) -> bool:
    """Whether elements cannot fall along any dimension: an iota without overflow, broadcast or not."""
    while instruction.opcode in ("broadcast", "bitcast", "reshape", "copy"):
        instruction = instruction.operand(0)
    return instruction.opcode == "iota" and instruction.shape.element_type.bit_width >= 32


# -- what to keep of a row


def _needed_again(reduce: HloInstruction, leaves: Collection[HloInstruction]) -> Iterator[HloInstruction]:
    """Yields the costly instructions of a reduction's elements that are used by others, too."""
    order = _cone(reduce, leaves)
    inside = {reduce, *order}
    for item in order:
        if item.shape.is_array and any(u not in inside for u in item.users) and _cost(item, leaves) >= WORTH_KEEPING:
            yield item


def _cone(instruction: HloInstruction, leaves: Collection[HloInstruction]) -> list[HloInstruction]:
    """Returns what an instruction's elements are computed from, up to other reductions."""
    found: dict[HloInstruction, None] = {}
    stack = list(instruction.operands)
    while stack:
        item = stack.pop()
        if item in found or item in leaves or item.opcode in ("reduce", "constant"):
            continue
        found[item] = None
        stack.extend(item.operands)
    return list(found)


def _cost(instruction: HloInstruction, leaves: Collection[HloInstruction]) -> int:
    """Returns about how many operations one element takes, without those that the whole row shares."""
    size = instruction.shape.num_elements
    cone = [i for i in _cone(instruction, leaves) if i.shape.is_array and i.shape.num_elements >= size]
    return sum(WORTH_KEEPING if i.opcode in _COSTLY else 1 for i in (instruction, *cone))
