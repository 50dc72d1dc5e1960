"""Which dimensions may be split while an instruction runs on tiles: the rows of the propagation, less what mixes.

A row gives dimensions of operands and results numbers (factors). A factor may be split if each tile of the result
needs that tile of the operands alone, or, for a contracted one, if the tiles' results can be combined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.ops.reducers import reduction_identity, selected_extremum
from xjit.passes.sharding.collective_factors import COLLECTIVES, collective_factors
from xjit.passes.sharding.dimension_factors import factors_of
from xjit.passes.sharding.factor_rows import Dims


@dataclass(frozen=True, slots=True)
class LocalRow:
    """Factors of the dimensions of each operand and of each array of the result; NO_FACTOR: must be whole.

    `contracted` ones are of operands only: the results of their tiles are combined.
    """

    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    contracted: frozenset[int] = frozenset()

    @property
    def factors(self) -> Dims:
        """All factors, in order."""
        found = {f for dims in (*self.operands, *self.results) for f in dims if f != NO_FACTOR}
        return tuple(sorted(found))


def _batch_row(instruction: HloInstruction, whole: int) -> LocalRow:
    """All dimensions but the last `whole` ones of arrays of equal rank are alike."""
    rank = instruction.operand(0).shape.rank
    dims = tuple(d if d < rank - whole else NO_FACTOR for d in range(rank))
    return LocalRow((dims,) * instruction.operand_count, (dims,))


def _collective_row(instruction: HloInstruction) -> LocalRow:
    """Dimensions that a collective does not gather, scatter or split are alike."""
    row = collective_factors(instruction)
    return LocalRow(tuple(d or () for d in row.operands), tuple(d or () for d in row.results))


OTHER_ROWS: Mapping[str, Callable[[HloInstruction], LocalRow]] = {
    **dict.fromkeys(COLLECTIVES, _collective_row),
    "cholesky": lambda i: _batch_row(i, 2),
    "fft": lambda i: _batch_row(i, len(i.attributes_as(at.FftAttributes).fft_length)),
    "triangular-solve": lambda i: _batch_row(i, 2),
}
"""Opcodes that the propagation passes by, but whose batches are independent."""


def _window_dims(instruction: HloInstruction) -> frozenset[int]:
    """Dimensions along which windows do more than to read one element each."""
    window = instruction.attributes_as(at.WindowAttributes).window
    return frozenset(d for d, w in enumerate(window.dimensions) if w != at.WindowDimension())


def _padded_dims(instruction: HloInstruction) -> frozenset[int]:
    padding = instruction.attributes_as(at.PadAttributes).padding
    return frozenset(d for d, p in enumerate(padding) if p != at.PaddingDimension())


def _reversed_dims(instruction: HloInstruction) -> frozenset[int]:
    return frozenset(instruction.attributes_as(at.DimensionsAttributes).dimensions)


def _concatenated_dims(instruction: HloInstruction) -> frozenset[int]:
    return frozenset({instruction.attributes_as(at.ConcatenateAttributes).dimension})


def _sliced_dims(instruction: HloInstruction) -> frozenset[int]:
    sizes = instruction.operand(0).shape.dimensions
    slices = instruction.attributes_as(at.SliceAttributes).slice
    return frozenset(d for d, s in enumerate(slices) if (s.start, s.limit, s.stride) != (0, sizes[d], 1))


def _mixed_result_dims(instruction: HloInstruction) -> frozenset[int]:
    """Result dimensions whose elements are made of several elements along them."""
    rule = _MIXED.get(instruction.opcode)
    return rule(instruction) if rule is not None else frozenset()


_MIXED: Mapping[str, Callable[[HloInstruction], frozenset[int]]] = {
    "concatenate": _concatenated_dims,
    "pad": _padded_dims,
    "reduce-window": _window_dims,
    "reverse": _reversed_dims,
    "select-and-scatter": _window_dims,
    "slice": _sliced_dims,
}


def _convolution_whole(instruction: HloInstruction) -> frozenset[int]:
    """Result dimensions of a convolution that stay whole: space, and with groups all features and batches."""
    a = instruction.attributes_as(at.ConvolutionAttributes)
    labels = a.dim_labels
    whole = set(labels.output_spatial_dimensions)
    if a.feature_group_count > 1 or a.batch_group_count > 1:
        whole.add(labels.output_feature_dimension)
    if a.batch_group_count > 1:
        whole.add(labels.output_batch_dimension)
    return frozenset(whole)


def _indexed_whole(instruction: HloInstruction, operands: tuple[Dims, ...]) -> frozenset[int]:
    """Factors of gather and scatter that cannot be split: their indices count from the array's start."""
    count = 1 if instruction.opcode == "gather" else instruction.operand_count // 2
    shared = set(operands[0]) & set(operands[count])
    if instruction.opcode == "gather":
        batching = instruction.attributes_as(at.GatherAttributes).operand_batching_dims
        return frozenset(shared - {operands[0][d] for d in batching})
    a = instruction.attributes_as(at.ScatterAttributes)
    kept = {operands[0][d] for d in (*a.input_batching_dims, *inserted_dims(instruction))}
    indexed = set(operands[0]) - set(operands[count + 1])
    return frozenset(((shared | indexed) - kept) | (set(operands[count]) - set(operands[0])))


def inserted_dims(scatter: HloInstruction) -> list[int]:
    """Dimensions that indices point into and windows have not: what is beyond a tile is another's to update."""
    a = scatter.attributes_as(at.ScatterAttributes)
    return [d for d in a.scatter_dims_to_operand_dims if d in a.inserted_window_dims]


def local_row(instruction: HloInstruction) -> LocalRow | None:
    """Returns the row of an instruction; None for what runs on whole arrays only."""
    other = OTHER_ROWS.get(instruction.opcode)
    if other is not None:
        return other(instruction)
    row = factors_of(instruction)
    shapes = [s for _, s in instruction.shape.leaves()]
    if row is None or any(d is None for d in row.results) or not all(s.is_array for s in shapes):
        return None
    results = tuple(d for d in row.results if d is not None)
    operands = tuple(
        d if d is not None else (NO_FACTOR,) * o.shape.rank for d, o in zip(row.operands, instruction.operands)
    )
    whole = {results[0][d] for d in _mixed_result_dims(instruction)} | row.changed
    if instruction.opcode == "convolution":
        whole |= {results[0][d] for d in _convolution_whole(instruction)}
        labels = instruction.attributes_as(at.ConvolutionAttributes).dim_labels
        whole |= {operands[0][d] for d in labels.input_spatial_dimensions}  # windows have sizes, also over all of it
    if instruction.opcode in ("gather", "scatter"):
        whole |= _indexed_whole(instruction, operands)
    read = {f for dims in operands for f in dims}
    if instruction.opcode == "custom-call":  # a function does not know of which tile of a result it is asked
        whole |= {f for dims in results for f in dims} - read
    contracted = read - {f for dims in results for f in dims} - whole - {NO_FACTOR}
    if not _can_combine(instruction):
        whole |= contracted
    operands, parts = _without(operands, whole), frozenset[int]()
    if instruction.opcode in PARTED:
        first = _with_parts(instruction, operands[0])
        operands, parts = (first, *operands[1:]), frozenset(first) - {*operands[0]}
    return LocalRow(operands, _without(results, whole), frozenset(contracted - whole) | parts)


def _with_parts(instruction: HloInstruction, dims: Dims) -> Dims:
    """Gives dimensions whose tiles have a part of the result each factors of their own, where the result is small."""
    operand = instruction.operand(0).shape
    if 2 * instruction.shape.num_elements > operand.num_elements:
        return dims
    parts = PARTED[instruction.opcode](instruction)
    return tuple(_PARTS + d if f == NO_FACTOR and d in parts else f for d, f in enumerate(dims))


def _pointed_dims(gather: HloInstruction) -> frozenset[int]:
    a = gather.attributes_as(at.GatherAttributes)
    return frozenset(d for d in a.start_index_map if a.slice_sizes[d] == 1)


def _cut_dims(slice_: HloInstruction) -> frozenset[int]:
    parts = slice_.attributes_as(at.SliceAttributes).slice
    return frozenset(range(len(parts))) if all(part.stride == 1 for part in parts) else frozenset()


PARTED: Mapping[str, Callable[[HloInstruction], frozenset[int]]] = {
    "gather": _pointed_dims,
    "slice": _cut_dims,
}
"""Opcodes whose results are sums of parts, and the dimensions of the operand whose tiles have one each."""

_PARTS = 1 << 20  # beyond all other factors


def _without(rows: tuple[Dims, ...], whole: set[int]) -> tuple[Dims, ...]:
    return tuple(tuple(NO_FACTOR if f in whole else f for f in dims) for dims in rows)


def _can_combine(instruction: HloInstruction) -> bool:
    """Whether results of tiles can be combined: sums of products, and reductions of a known kind."""
    if instruction.opcode in ("dot", "convolution"):
        return True
    if instruction.opcode != "reduce":
        return False
    reducer = instruction.to_apply
    return (instruction.operand_count == 2 and reduction_identity(reducer) is not None) or selected_extremum(
        reducer
    ) is not None
