"""One row per opcode: which dimensions of operands and results are split alike.

Dimensions of one instruction's operands and results that have the same number (factor) take the same tiles. Both
directions of the propagation follow from the row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.hlo.attributes.opcodes import Trait
from xjit.passes.sharding.factor_rows import Dims, Factors
from xjit.passes.sharding.gather_factors import gather_factors, scatter_factors
from xjit.passes.sharding.op_sharding_rule import rule_factors


def same_factors(instruction: HloInstruction, level: int = 0) -> Factors:
    """Equal shapes: dimension i is factor i. Operands of another rank (scalars) say nothing."""
    shapes = [shape for _, shape in instruction.shape.leaves()]
    rank = shapes[0].rank if shapes else 0
    dims = tuple(range(rank))
    operands = [dims if o.shape.is_array and o.shape.rank == rank else None for o in instruction.operands]
    return Factors(operands, [dims if s.is_array and s.rank == rank else None for s in shapes], level)


def _same_from_round_1(instruction: HloInstruction) -> Factors:
    return same_factors(instruction, 1)


def _resized(instruction: HloInstruction, level: int, operands: int) -> Factors:
    """As `same_factors` for the first operands; dimensions of other sizes are marked, further operands say nothing."""
    row = same_factors(instruction, level)
    result = instruction.shape
    changed = {
        d
        for o in instruction.operands[:operands]
        if o.shape.rank == result.rank
        for d in range(result.rank)
        if o.shape.dimensions[d] != result.dimensions[d]
    }
    kept = [dims if i < operands else None for i, dims in enumerate(row.operands)]
    return Factors(kept, row.results, level, changed=frozenset(changed))


def _slice(instruction: HloInstruction) -> Factors:
    return _resized(instruction, 1, 1)


def _dynamic_slice(instruction: HloInstruction) -> Factors:
    """Dimensions that are cut have to be whole: the start is known late."""
    sizes = zip(instruction.operand(0).shape.dimensions, instruction.shape.dimensions, strict=True)
    kept = tuple(d if size == part else NO_FACTOR for d, (size, part) in enumerate(sizes))
    operands: list[Dims | None] = [kept, *(None for _ in instruction.operands[1:])]
    return Factors(operands, [kept], level=0)


def _dynamic_update_slice(instruction: HloInstruction) -> Factors:
    return _resized(instruction, 0, 2)


def _concatenate(instruction: HloInstruction) -> Factors:
    return _resized(instruction, 0, instruction.operand_count)


def _broadcast(instruction: HloInstruction) -> Factors:
    dims = instruction.attributes_as(at.DimensionsAttributes).dimensions
    return Factors([dims], [tuple(range(instruction.shape.rank))])


def _bitcast_convert(instruction: HloInstruction) -> Factors:
    """Between types of different widths, one side has a last dimension more: the pieces of an element stay together."""
    ranks = instruction.operand(0).shape.rank, instruction.shape.rank
    operand, result = ((*range(min(ranks)), *[NO_FACTOR] * (rank - min(ranks))) for rank in ranks)
    return Factors([operand], [result])


def _transpose(instruction: HloInstruction) -> Factors:
    dims = instruction.attributes_as(at.DimensionsAttributes).dimensions
    return Factors([tuple(range(len(dims)))], [dims], level=0)


def _reduce(instruction: HloInstruction) -> Factors:
    reduced = instruction.attributes_as(at.DimensionsAttributes).dimensions
    count = instruction.operand_count // 2
    rank = instruction.operands[0].shape.rank
    kept = tuple(d for d in range(rank) if d not in reduced)
    operands: list[Dims | None] = [*(tuple(range(rank)) for _ in range(count)), *(() for _ in range(count))]
    return Factors(operands, [kept] * count)


def _windowed(instruction: HloInstruction) -> Factors:
    row = same_factors(instruction, 1)
    return Factors([d if d or not row.results[0] else None for d in row.operands], row.results)


def _sort(instruction: HloInstruction) -> Factors:
    along = instruction.attributes_as(at.SortAttributes).sort_dimension
    dims = tuple(NO_FACTOR if d == along else d for d in range(instruction.operands[0].shape.rank))
    return Factors([dims] * instruction.operand_count, [dims] * instruction.operand_count)


def _topk(instruction: HloInstruction) -> Factors:
    dims = (*range(instruction.operand(0).shape.rank - 1), NO_FACTOR)
    return Factors([dims], [dims, dims])


def _dot(instruction: HloInstruction) -> Factors:
    a = instruction.attributes_as(at.DotAttributes)
    lhs, rhs = instruction.operands[0].shape.rank, instruction.operands[1].shape.rank
    left, right = list(range(lhs)), [lhs + d for d in range(rhs)]
    pairs = [*zip(a.lhs_batch_dims, a.rhs_batch_dims), *zip(a.lhs_contracting_dims, a.rhs_contracting_dims)]
    for i, j in pairs:
        right[j] = left[i]
    taken_left = {*a.lhs_batch_dims, *a.lhs_contracting_dims}
    taken_right = {*a.rhs_batch_dims, *a.rhs_contracting_dims}
    result = [left[d] for d in a.lhs_batch_dims]
    result += [left[d] for d in range(lhs) if d not in taken_left]
    result += [right[d] for d in range(rhs) if d not in taken_right]
    first = frozenset(left[d] for d in a.lhs_batch_dims)
    operands: list[Dims | None] = [tuple(left), tuple(right), *(None for _ in instruction.operands[2:])]
    return Factors(operands, [tuple(result)], first=first, siblings=True)


def _convolution(instruction: HloInstruction) -> Factors:
    a = instruction.attributes_as(at.ConvolutionAttributes)
    labels = a.dim_labels
    fresh = itertools.count()
    lhs, rhs, out = ([NO_FACTOR] * o.rank for o in (*(x.shape for x in instruction.operands), instruction.shape))
    first: set[int] = set()
    if a.batch_group_count == 1:
        lhs[labels.input_batch_dimension] = out[labels.output_batch_dimension] = next(fresh)
    rhs[labels.kernel_output_feature_dimension] = out[labels.output_feature_dimension] = next(fresh)
    if a.feature_group_count == a.batch_group_count == 1:
        lhs[labels.input_feature_dimension] = rhs[labels.kernel_input_feature_dimension] = next(fresh)
    spatial = zip(labels.input_spatial_dimensions, labels.kernel_spatial_dimensions, labels.output_spatial_dimensions)
    for (i, k, o), window in zip(spatial, a.window.dimensions, strict=True):
        factor = next(fresh)
        sizes = (instruction.operands[0].shape.dimensions[i], window.size, instruction.shape.dimensions[o])
        roles = _spatial_roles(sizes, window)
        if roles == (True, True, True):
            first.add(factor)
        for dims, d, present in zip((lhs, rhs, out), (i, k, o), roles):
            if present:
                dims[d] = factor
    return Factors([tuple(lhs), tuple(rhs)], [tuple(out)], first=frozenset(first), siblings=True)


def _spatial_roles(sizes: tuple[int, int, int], window: at.WindowDimension) -> tuple[bool, bool, bool]:
    """Which of operand, kernel and result share a spatial dimension: it may stand for one of a dot's."""
    size, kernel, result = sizes
    if size == kernel == result > 1 and window.base_dilation == size and window.stride == max(size - 1, 1):
        return True, True, True  # a batch dimension
    if size == kernel > 1 and result == 1:
        return True, True, False  # a contracted one
    if size == 1 and result == kernel > 1:
        return False, True, True  # the kernel's own
    return True, False, True  # slides along the operand


ROWS: Mapping[str, Callable[[HloInstruction], Factors]] = {
    "all-reduce": _same_from_round_1,
    "bitcast-convert": _bitcast_convert,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "convolution": _convolution,
    "copy": same_factors,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": gather_factors,
    "map": same_factors,
    "pad": _slice,
    "reduce": _reduce,
    "reduce-window": _windowed,
    "reverse": _same_from_round_1,
    "scatter": scatter_factors,
    "select-and-scatter": _windowed,
    "slice": _slice,
    "sort": _sort,
    "topk": _topk,
    "transpose": _transpose,
}
"""Opcodes that are not elementwise, or not always."""

PASSED_CUSTOM_CALLS = frozenset(
    {"LayoutConstraint", "MoveToDevice", "MoveToHost", "Sharding", "annotate_device_placement"}
)
"""Targets of custom-calls whose result is their operand."""


def factors_of(instruction: HloInstruction) -> Factors | None:
    """Returns the row of an instruction; None for what no sharding passes through dimension by dimension."""
    row = ROWS.get(instruction.opcode)
    if row is not None:
        return row(instruction)
    if instruction.opcode == "custom-call":
        target = instruction.attributes_as(at.CustomCallAttributes).custom_call_target
        return same_factors(instruction) if target in PASSED_CUSTOM_CALLS else rule_factors(instruction)
    if instruction.op.has(Trait.ELEMENTWISE) and instruction.shape.is_array and instruction.operands:
        return same_factors(instruction)
    return None
