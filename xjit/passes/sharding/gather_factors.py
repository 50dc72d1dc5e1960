"""Factors of gather and scatter: batch dimensions, those that windows pass whole, and those of the indices."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.passes.sharding.factor_rows import Dims, Factors


def gather_factors(gather: HloInstruction) -> Factors:
    """The result's offset dimensions are the operand's where slices are whole; its others are the indices'."""
    a = gather.attributes_as(at.GatherAttributes)
    operand, indices = gather.operands[0].shape, gather.operands[1].shape
    batch = dict(zip(a.start_indices_batching_dims, a.operand_batching_dims, strict=True))
    batch |= _parallel_dims(gather.operands[1], a.index_vector_dim, a.start_index_map)
    hidden = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    windows = [d for d in range(operand.rank) if d not in hidden]
    whole = {d for d in windows if a.slice_sizes[d] == operand.dimensions[d]}
    over_indices = _index_factors(indices.rank, a.index_vector_dim, operand.rank)
    over_operand = _operand_factors(operand.rank, whole, batch, over_indices)
    result = _interleaved(gather.shape.rank, a.offset_dims, windows, whole, over_indices)
    return Factors([over_operand, over_indices], [result], first=frozenset(over_indices[d] for d in batch))


def scatter_factors(scatter: HloInstruction) -> Factors:
    """Operands and results are alike; window dimensions of updates are theirs, the others the indices'."""
    a = scatter.attributes_as(at.ScatterAttributes)
    count = scatter.operand_count // 2
    operand, indices, update = (scatter.operands[i].shape for i in (0, count, count + 1))
    batch = dict(zip(a.scatter_indices_batching_dims, a.input_batching_dims, strict=True))
    batch |= _parallel_dims(scatter.operands[count], a.index_vector_dim, a.scatter_dims_to_operand_dims)
    hidden = {*a.inserted_window_dims, *a.input_batching_dims}
    windows = [d for d in range(operand.rank) if d not in hidden]
    sizes = dict(zip(windows, (update.dimensions[d] for d in a.update_window_dims), strict=True))
    whole = {d for d in windows if sizes[d] == operand.dimensions[d]}
    over_indices = _index_factors(indices.rank, a.index_vector_dim, operand.rank)
    alone = {d: d for d in range(operand.rank)}
    over_operand = tuple(
        over_indices[i] if (i := _key_of(batch, d)) is not None else alone[d] for d in range(operand.rank)
    )
    updates = _interleaved(update.rank, a.update_window_dims, windows, whole, over_indices)
    operands: list[Dims | None] = [*([over_operand] * count), over_indices, *([updates] * count)]
    return Factors(operands, [over_operand] * count, first=frozenset(over_indices[d] for d in batch), siblings=True)


def _key_of(batch: dict[int, int], dimension: int) -> int | None:
    return next((i for i, d in batch.items() if d == dimension), None)


def _index_factors(rank: int, vector_dim: int, offset: int) -> Dims:
    """Factors of the indices' dimensions, beyond those of the operand's; the index vector's has none."""
    return tuple(NO_FACTOR if d == vector_dim else offset + d for d in range(rank))


def _operand_factors(rank: int, whole: set[int], batch: dict[int, int], over_indices: Dims) -> Dims:
    factors = [d if d in whole else NO_FACTOR for d in range(rank)]
    for index_dim, dimension in batch.items():
        factors[dimension] = over_indices[index_dim]
    return tuple(factors)


def _interleaved(
    rank: int, window_dims: Sequence[int], windows: list[int], whole: set[int], over_indices: Dims
) -> Dims:
    """Factors of an array whose `window_dims` are the operand's dimensions `windows`, and the others the indices'."""
    of_window = dict(zip(window_dims, windows, strict=True))
    others = iter(f for f in over_indices if f != NO_FACTOR)
    return tuple(
        (of_window[d] if of_window[d] in whole else NO_FACTOR) if d in of_window else next(others) for d in range(rank)
    )


def _parallel_dims(indices: HloInstruction, vector_dim: int, index_map: Sequence[int]) -> dict[int, int]:
    """Returns, for dimensions of the indices along which an index counts 0, 1, ..., the operand's dimension.

    Such an index is an iota, or an iota among what is concatenated along the index vector.
    """
    parts = indices.operands if indices.opcode == "concatenate" else (indices,)
    if indices.opcode == "concatenate" and indices.attributes_as(at.ConcatenateAttributes).dimension != vector_dim:
        return {}
    found: dict[int, int] = {}
    position = 0
    for part in parts:
        width = part.shape.dimensions[vector_dim] if vector_dim < part.shape.rank else 1
        if part.opcode == "iota" and width == 1 and position < len(index_map):
            along = part.attributes_as(at.IotaAttributes).iota_dimension
            if along != vector_dim:
                found[along] = index_map[position]
        position += width
    return found
