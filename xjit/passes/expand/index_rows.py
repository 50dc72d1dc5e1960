"""Gather's and scatter's index arrays as rows: one row per window, which starts where the row says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import GatherAttributes, PadAttributes, PaddingDimension, ScatterAttributes
from xjit.passes.expand.writing import Writer


@dataclass(frozen=True)
class IndexRows:
    """The rows of one gather or scatter.

    Row i is the i-th element of the index array's other dimensions, whose sizes are `sizes`, in row-major order. Its
    entry j is the start in operand dimension `mapped[j]`. Operand dimension `batching[j]` starts at the row's place
    along `sizes[batch_places[j]]`, all others start at 0.
    """

    operand_rank: int
    mapped: tuple[int, ...]
    batching: tuple[int, ...]
    batch_places: tuple[int, ...]
    sizes: tuple[int, ...]
    index_vector_dim: int

    @staticmethod
    def of_gather(gather: HloInstruction) -> IndexRows:
        """The rows of a gather."""
        a = gather.attributes_as(GatherAttributes)
        batch = (a.operand_batching_dims, a.start_indices_batching_dims)
        return _rows(gather.operand(0), gather.operand(1), a.start_index_map, batch, a.index_vector_dim)

    @staticmethod
    def of_scatter(scatter: HloInstruction) -> IndexRows:
        """The rows of a scatter, whose index array stands behind its operands."""
        a = scatter.attributes_as(ScatterAttributes)
        batch = (a.input_batching_dims, a.scatter_indices_batching_dims)
        indices = scatter.operand(scatter.operand_count // 2)
        return _rows(scatter.operand(0), indices, a.scatter_dims_to_operand_dims, batch, a.index_vector_dim)

    @property
    def count(self) -> int:
        """Number of rows."""
        return math.prod(self.sizes)

    def lay_out(self, writer: Writer, indices: HloInstruction) -> HloInstruction:
        """Returns the index array as [count, entries], or as [count] if it has no dimension of entries.

        A type that may not hold every place along an operand becomes s32.
        """
        vector, rank = self.index_vector_dim, indices.shape.rank
        indices = _widened(writer, indices)
        if vector == rank:
            return writer.reshape(indices, [self.count])
        return index_matrix(writer, indices, vector)

    def only_start(self, writer: Writer, indices: HloInstruction) -> list[HloInstruction]:
        """Returns the start, a scalar per operand dimension, where there is one row."""
        row = _widened(writer, indices)
        starts = [writer.reshape(row, [])] if len(self.mapped) == 1 else scalars(writer, _flat(writer, row))
        entries = dict(zip(self.mapped, starts, strict=True))
        if len(entries) == self.operand_rank:
            return [entries[d] for d in range(self.operand_rank)]
        zero = writer.constant(0, row.shape.element_type)
        return [entries.get(d, zero) for d in range(self.operand_rank)]

    def start(
        self, writer: Writer, rows: HloInstruction, counter: HloInstruction, vector: HloInstruction
    ) -> HloInstruction:
        """Returns the start of the window of row `counter` as a vector: one entry per operand dimension.

        `vector` is the counter as a vector of one element.
        """
        row = read_row(writer, rows, vector)
        kind, parts = row.shape.element_type, dict[int, HloInstruction]()
        for j, d in enumerate(self.mapped):
            parts[d] = writer.slice(row, [j], [j + 1])
        for d, place in zip(self.batching, self._places(writer, writer.convert(counter, kind)), strict=True):
            parts[d] = writer.broadcast(place, [1])
        if not self.operand_rank:
            return writer.slice(row, [0], [0])
        if len(parts) < self.operand_rank:
            zero = writer.constant([0], kind)
            parts |= {d: zero for d in range(self.operand_rank) if d not in parts}
        return writer.concatenate([parts[d] for d in range(self.operand_rank)], 0)

    def _places(self, writer: Writer, counter: HloInstruction) -> list[HloInstruction]:
        """Returns where row `counter` is along the batching dimensions: the digits of the counter."""
        digits, rest = dict[int, HloInstruction](), counter
        for d in range(len(self.sizes) - 1, min(self.batch_places, default=len(self.sizes)) - 1, -1):
            size = writer.constant(self.sizes[d], counter.shape.element_type) if d else counter
            if d in self.batch_places:
                digits[d] = writer.make("remainder", rest, size) if d else rest
            if d > min(self.batch_places):
                rest = writer.make("divide", rest, size)
        return [digits[d] for d in self.batch_places]


def _rows(
    operand: HloInstruction,
    indices: HloInstruction,
    mapped: tuple[int, ...],
    batch: tuple[tuple[int, ...], tuple[int, ...]],
    vector: int,
) -> IndexRows:
    sizes = tuple(n for d, n in enumerate(indices.shape.dimensions) if d != vector)
    places = tuple(d - (d > vector) for d in batch[1])
    return IndexRows(operand.shape.rank, mapped, batch[0], places, sizes, vector)


def index_matrix(writer: Writer, indices: HloInstruction, index_vector_dim: int) -> HloInstruction:
    """Returns an index array as [rows, entries]."""
    rank = indices.shape.rank
    if index_vector_dim == rank:
        last = writer.reshape(indices, [*indices.shape.dimensions, 1])
    else:
        others = (d for d in range(rank) if d != index_vector_dim)
        last = writer.transpose(indices, [*others, index_vector_dim])
    *sizes, entries = last.shape.dimensions
    return writer.reshape(last, [math.prod(sizes), entries])


def _widened(writer: Writer, indices: HloInstruction) -> HloInstruction:
    narrow = indices.shape.element_type.bit_width < 32
    return writer.convert(indices, PrimitiveType.S32) if narrow else indices


def _flat(writer: Writer, indices: HloInstruction) -> HloInstruction:
    return writer.reshape(indices, [indices.shape.num_elements])


def read_row(writer: Writer, rows: HloInstruction, counter: HloInstruction) -> HloInstruction:
    """Returns a row of [count, entries], or the entry of [count], as a vector."""
    entries = rows.shape.dimensions[1:]
    place = place_of_row(writer, counter, rows.shape.rank)
    row = writer.dynamic_slice(rows, place, [1, *entries])
    return writer.reshape(row, entries or [1])


def place_of_row(writer: Writer, counter: HloInstruction, rank: int) -> list[HloInstruction]:
    """Returns (counter, 0, ..., 0), where a row starts in an array of some rank; the counter is a vector."""
    vector = counter
    if rank > 1:
        zero = writer.constant(0, counter.shape.element_type)
        padding = PadAttributes((PaddingDimension(0, rank - 1, 0),))
        vector = writer.make("pad", vector, zero, attributes=padding)
    return scalars(writer, vector)


def scalars(writer: Writer, vector: HloInstruction) -> list[HloInstruction]:
    """Returns the elements of a vector."""
    (size,) = vector.shape.dimensions
    return [writer.reshape(writer.slice(vector, [i], [i + 1]), []) for i in range(size)]


def without(dimensions: Sequence[int], gone: Sequence[int]) -> list[int]:
    """Returns the sizes of all dimensions but some."""
    return [n for d, n in enumerate(dimensions) if d not in gone]
