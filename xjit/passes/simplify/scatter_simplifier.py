"""Scatters of whole windows, one after the other, by a matrix of indices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ScatterAttributes
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.passes.expand.index_rows import IndexRows, index_matrix
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion


@dataclass
class ScatterSimplifier(OpExpander):
    """Writes a scatter's indices as `[rows, entries]` and its updates as `[rows, window]`.

    A window has all dimensions of the operand, in their order: those that were inserted have size 1. The one update of
    a scalar is the scatter's computation itself. Batching dimensions must have gone before
    (`batched-gather-scatter-normalizer`).
    """

    name = "scatter-simplifier"
    opcodes = frozenset({"scatter"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the result; None for one of that form, with batching dimensions, or of unknown size."""
        a, count = instruction.attributes_as(ScatterAttributes), instruction.operand_count // 2
        known = all(o.shape.is_static_array for o in instruction.operands)
        known = known and all(instruction.operand(0).shape.dimensions[d] for d in a.inserted_window_dims)
        if not known or a.input_batching_dims or _is_simplified(instruction):
            return None
        if not instruction.operand(0).shape.rank:
            return _of_scalar(instruction, into)
        writer, rows = Writer(into), IndexRows.of_scatter(instruction)
        rank = instruction.operand(0).shape.rank
        plain = replace(a, update_window_dims=tuple(range(1, 1 + rank)), inserted_window_dims=(), index_vector_dim=1)
        indices = index_matrix(writer, instruction.operand(count), a.index_vector_dim)
        updates = [_windows(writer, u, a, rows.count) for u in instruction.operands[count + 1 :]]
        operands = [*instruction.operands[:count], indices, *updates]
        called, name = instruction.called_computations, instruction.name
        return into.add(HloInstruction.create("scatter", instruction.shape, operands, plain, called, name))


def _windows(writer: Writer, updates: HloInstruction, a: ScatterAttributes, count: int) -> HloInstruction:
    """Returns updates as `[count, window]`."""
    rank, windows = updates.shape.rank, a.update_window_dims
    order = [*(d for d in range(rank) if d not in windows), *windows]
    window = [updates.shape.dimensions[d] for d in windows]
    rows = writer.reshape(writer.transpose(updates, order), [count, *window])
    for d in sorted(a.inserted_window_dims):
        window.insert(d, 1)
    return writer.reshape(rows, [count, *window])


def _of_scalar(scatter: HloInstruction, into: Expansion) -> HloInstruction | None:
    """Returns the computation of scalars and their only updates; None if there is not one update, or more than that."""
    count, computation = scatter.operand_count // 2, scatter.to_apply
    arrays = [*scatter.operands[:count], *scatter.operands[count + 1 :]]
    kinds = [p.shape.element_type for p in computation.parameter_instructions]
    if any(x.shape.rank for x in arrays) or [x.shape.element_type for x in arrays] != kinds:
        return None
    scalars = computation.clone_instructions(
        into.computation, dict(zip(computation.parameter_instructions, arrays, strict=True))
    )
    for clone in scalars.values():
        if clone not in arrays:
            inherit_annotations(clone, scatter)
            into.made.append(clone)
    return scalars[computation.root_instruction]


def _is_simplified(scatter: HloInstruction) -> bool:
    a, count = scatter.attributes_as(ScatterAttributes), scatter.operand_count // 2
    operand, indices, updates = scatter.operand(0), scatter.operand(count), scatter.operand(count + 1)
    whole = bool(operand.shape.rank) and not a.inserted_window_dims and 0 not in a.update_window_dims
    one_row_dimension = updates.shape.rank - len(a.update_window_dims) <= 1
    return whole and one_row_dimension and a.index_vector_dim == 1 and indices.shape.rank == 2
