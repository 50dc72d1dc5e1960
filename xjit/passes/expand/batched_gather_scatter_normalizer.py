"""Gathers and scatters without batching dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import GatherAttributes, ScatterAttributes
from xjit.ops.reducers import integer_limits
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion


@dataclass
class BatchedGatherScatterNormalizer(OpExpander):
    """Puts the places along batching dimensions, as iotas, in front of the index array's entries.

    Indices whose type does not hold the size of a batching dimension become s32, or s64. They stay sorted if the
    batching dimensions come first in the index array, and entries are in the order of the operand's dimensions.
    """

    name = "batched-gather-scatter-normalizer"
    opcodes = frozenset({"gather", "scatter"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the gather or scatter; None if it has no batching dimensions, or shapes of unknown size."""
        if not all(o.shape.is_static_array for o in instruction.operands):
            return None
        return _gather(instruction, into) if instruction.opcode == "gather" else _scatter(instruction, into)


def _gather(gather: HloInstruction, into: Expansion) -> HloInstruction | None:
    a, (operand, indices) = gather.attributes_as(GatherAttributes), gather.operands
    batch = a.start_indices_batching_dims
    if not batch:
        return None
    mapped = (*a.operand_batching_dims, *a.start_index_map)
    attributes = replace(
        a,
        collapsed_slice_dims=tuple(sorted((*a.collapsed_slice_dims, *a.operand_batching_dims))),
        start_index_map=mapped,
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        indices_are_sorted=a.indices_are_sorted and _stay_sorted(mapped, batch, a.index_vector_dim),
    )
    entries = _with_places(Writer(into), indices, a.index_vector_dim, batch)
    return into.like_source("gather", [operand, entries], attributes)


def _scatter(scatter: HloInstruction, into: Expansion) -> HloInstruction | None:
    a, count = scatter.attributes_as(ScatterAttributes), scatter.operand_count // 2
    batch = a.scatter_indices_batching_dims
    if not batch:
        return None
    mapped = (*a.input_batching_dims, *a.scatter_dims_to_operand_dims)
    attributes = replace(
        a,
        inserted_window_dims=tuple(sorted((*a.inserted_window_dims, *a.input_batching_dims))),
        scatter_dims_to_operand_dims=mapped,
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
        indices_are_sorted=a.indices_are_sorted and _stay_sorted(mapped, batch, a.index_vector_dim),
    )
    entries = _with_places(Writer(into), scatter.operand(count), a.index_vector_dim, batch)
    operands = [*scatter.operands[:count], entries, *scatter.operands[count + 1 :]]
    called = scatter.called_computations
    return into.add(HloInstruction.create("scatter", scatter.shape, operands, attributes, called, scatter.name))


def _with_places(writer: Writer, indices: HloInstruction, vector: int, batch: Sequence[int]) -> HloInstruction:
    """Returns the index array whose entries, along dimension `vector`, start with the places along `batch`."""
    kind = _holding(indices.shape.element_type, [indices.shape.dimensions[d] for d in batch])
    indices = writer.convert(indices, kind)
    if vector == indices.shape.rank:
        indices = writer.reshape(indices, [*indices.shape.dimensions, 1])
    one = [1 if d == vector else n for d, n in enumerate(indices.shape.dimensions)]
    return writer.concatenate([*(writer.iota(kind, one, d) for d in batch), indices], vector)


def _holding(kind: PrimitiveType, sizes: Sequence[int]) -> PrimitiveType:
    """Returns the type, or s32 or s64, whichever is the first that holds all sizes."""
    kinds = (kind, PrimitiveType.S32, PrimitiveType.S64)
    return next(k for k in kinds if integer_limits(k)[1] >= max(sizes))


def _stay_sorted(mapped: Sequence[int], batch: Sequence[int], vector: int) -> bool:
    """Whether places along `batch` in front of sorted entries leave them sorted."""
    leading = [d - (d > vector) for d in batch] == list(range(len(batch)))
    return leading and list(mapped) == sorted(mapped)
