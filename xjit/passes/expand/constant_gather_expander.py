"""Gathers along one dimension by constant indices: the slices that they are.

`x[..., [2, 1, 0]]` turns pixels around; every second column may come as a gather, too. Of slices, reverses and
concatenates it is known at compile time where each element comes from: vectors take several short rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ConstantAttributes, DimensionsAttributes, GatherAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer, in_layout
from xjit.passes.framework.expansion import Expansion


@dataclass(frozen=True, slots=True)
class _Run:
    """Elements `start`, `start + step`, ... of a dimension, `count` of them."""

    start: int
    step: int
    count: int

    def write(self, writer: Writer, operand: HloInstruction, dimension: int) -> HloInstruction:
        """Writes the part of the operand that has these elements along a dimension."""
        first, last = sorted((self.start, self.start + (self.count - 1) * self.step))
        sizes = operand.shape.dimensions
        starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
        starts[dimension], limits[dimension], strides[dimension] = first, last + 1, max(1, abs(self.step))
        part = operand if (first, last) == (0, sizes[dimension] - 1) and self.step in (1, -1) else None
        part = part or writer.add(build.slice_(operand, starts, limits, strides))
        return writer.make("reverse", part, attributes=DimensionsAttributes((dimension,))) if self.step < 0 else part


@dataclass
class ConstantGatherExpander(OpExpander):
    """Writes a gather of one element along one dimension, all of the others, by constants as slices and reverses.

    A single run of equal steps is one slice. Others are concatenated: at most `max_runs`, of rows of at most `max_row`
    elements, which lie close enough to be picked from a few vectors.
    """

    name = "constant-gather-expander"
    opcodes = frozenset({"gather"})
    max_runs: int = 8
    max_row: int = 32

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the elements; None if they are not known, or too scattered."""
        a, (operand, indices) = instruction.attributes_as(GatherAttributes), instruction.operands
        if indices.opcode != "constant" or len(a.start_index_map) != 1 or a.operand_batching_dims:
            return None
        if not operand.shape.is_static_array or not instruction.shape.num_elements:
            return None
        (dimension,), sizes = a.start_index_map, operand.shape.dimensions
        if a.slice_sizes != (*sizes[:dimension], 1, *sizes[dimension + 1 :]):
            return None
        runs = _runs(indices.attributes_as(ConstantAttributes).literal.array, sizes[dimension])
        if len(runs) > 1 and (len(runs) > self.max_runs or math.prod(sizes[dimension:]) > self.max_row):
            return None
        writer = Writer(into)
        rows = writer.concatenate([run.write(writer, operand, dimension) for run in runs], dimension)
        return in_layout(into, _as_gathered(writer, rows, instruction, dimension))


def _runs(indices: np.ndarray, size: int) -> list[_Run]:
    """Cuts indices, which are clamped to the dimension, into runs of equal steps, each as long as it gets."""
    runs: list[_Run] = []
    for place in np.clip(indices.astype(object).reshape(-1), 0, size - 1).tolist():
        last = runs[-1] if runs else _Run(place, 0, 0)
        if last.count == 1 and place != last.start:
            runs[-1] = _Run(last.start, place - last.start, 2)
        elif last.count > 1 and place == last.start + last.count * last.step:
            runs[-1] = _Run(last.start, last.step, last.count + 1)
        else:
            runs.append(_Run(place, 1, 1))
    return runs


def _as_gathered(writer: Writer, rows: HloInstruction, gather: HloInstruction, dimension: int) -> HloInstruction:
    """The rows of the operand along `dimension`, with the dimensions of the gather's result, in their order."""
    a, indices = gather.attributes_as(GatherAttributes), gather.operand(1).shape.dimensions
    batch = [size for d, size in enumerate(indices) if d != a.index_vector_dim]
    kept = [] if dimension in a.collapsed_slice_dims else [1]
    sizes, offsets = rows.shape.dimensions, a.offset_dims
    batch_dims = [d for d in range(gather.shape.rank) if d not in offsets]
    dims = [*offsets[:dimension], *batch_dims, *offsets[dimension:]]  # of the result, in the order of `apart`
    apart = writer.reshape(rows, [*sizes[:dimension], *batch, *kept, *sizes[dimension + 1 :]])
    return writer.permute(apart, [dims.index(d) for d in range(len(dims))])
