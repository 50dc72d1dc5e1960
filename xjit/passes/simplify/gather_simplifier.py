"""Gathers of whole windows, one after the other, by a matrix of indices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import GatherAttributes
from xjit.passes.expand.index_rows import IndexRows, index_matrix, without
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer, in_layout
from xjit.passes.framework.expansion import Expansion


@dataclass
class GatherSimplifier(OpExpander):
    """Writes a gather as one of `[rows, window]`, then a reshape and a transpose to the dimensions it had.

    Its indices are `[rows, entries]`, no dimension of a window is collapsed, and the windows' dimensions come last.
    Windows of no element are zeros, windows of a scalar its broadcast. Batching dimensions must have gone before
    (`batched-gather-scatter-normalizer`).
    """

    name = "gather-simplifier"
    opcodes = frozenset({"gather"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the result; None for a gather of that form, with batching dimensions or of unknown size."""
        a, (operand, indices) = instruction.attributes_as(GatherAttributes), instruction.operands
        known = all(i.shape.is_static_array for i in (instruction, operand, indices))
        if not known or a.operand_batching_dims or _is_simplified(instruction):
            return None
        if 0 in a.slice_sizes:
            return into.full(instruction.shape, 0)
        writer, rows = Writer(into), IndexRows.of_gather(instruction)
        if not operand.shape.rank:
            return in_layout(into, writer.broadcast(operand, instruction.shape.dimensions))
        windows = tuple(range(1, 1 + operand.shape.rank))
        plain = replace(a, offset_dims=windows, collapsed_slice_dims=(), index_vector_dim=1)
        matrix = index_matrix(writer, indices, a.index_vector_dim)
        gather = writer.make("gather", operand, matrix, attributes=plain)
        window = without(a.slice_sizes, a.collapsed_slice_dims)
        collapsed = writer.reshape(gather, [rows.count, *window])
        expanded = writer.reshape(collapsed, [*rows.sizes, *window])
        batch = (d for d in range(instruction.shape.rank) if d not in a.offset_dims)
        order = [*batch, *a.offset_dims]  # result dimension of each dimension of `expanded`
        return in_layout(into, writer.transpose(expanded, [order.index(d) for d in range(len(order))]))


def _is_simplified(gather: HloInstruction) -> bool:
    a, (operand, indices) = gather.attributes_as(GatherAttributes), gather.operands
    whole = bool(operand.shape.rank) and not a.collapsed_slice_dims
    return whole and indices.shape.rank == 2 and a.index_vector_dim == 1 and 0 not in a.offset_dims
