"""Scatters of windows with short rows become those of windows with longer ones.

A window's rows that follow each other in the operand and in the updates are one row: f32[500,64,28,28] scattered into
f32[8,64,28,28] along the first dimension, as f32[500,64,784] into f32[8,64,784]. So vectors are whole. Rows of columns
that indices move, f32[16,7,33] along the last dimension, are more rows to share out: those of f32[112,33].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ScatterAttributes
from xjit.ops.build import make, reshape
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

Groups = list[list[int]]


@dataclass
class ScatterDimensionGrouper(OpExpander):
    """Merges neighbouring dimensions of a window that no index moves, where the updates have all elements of the inner
    ones: the last ones until there are at least `min_row` elements, others all.

    Arrays must be row-major.
    """

    name = "scatter-dimension-grouper"
    opcodes = frozenset({"scatter"})
    min_row: int = 256

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the result of the scatter of merged windows, or None if there is nothing to merge."""
        arrays = (instruction, *instruction.operands)
        if instruction.operand_count != 3 or not all(array.shape.is_row_major for array in arrays):
            return None
        groups, update_groups = self._groups(instruction)
        operand, indices, updates = instruction.operands
        if len(groups) == operand.shape.rank:
            return None
        a = instruction.attributes_as(ScatterAttributes)
        merged = replace(
            a,
            update_window_dims=_renumbered(update_groups, a.update_window_dims),
            inserted_window_dims=_renumbered(groups, a.inserted_window_dims),
            scatter_dims_to_operand_dims=_renumbered(groups, a.scatter_dims_to_operand_dims),
            input_batching_dims=_renumbered(groups, a.input_batching_dims),
        )
        operands = _merged(into, operand, groups), indices, _merged(into, updates, update_groups)
        result = into.add(make("scatter", *operands, attributes=merged, called=[instruction.to_apply]))
        return into.add(reshape(result, instruction.shape.dimensions))

    def _groups(self, scatter: HloInstruction) -> tuple[Groups, Groups]:
        """The dimensions of the operand, and of the updates, that become one each."""
        operand, _, updates = (o.shape for o in scatter.operands)
        a = scatter.attributes_as(ScatterAttributes)
        dropped = {*a.inserted_window_dims, *a.input_batching_dims}
        window_dims = iter(a.update_window_dims)
        window = {d: next(window_dims) for d in range(operand.rank) if d not in dropped}
        free = window.keys() - {*a.scatter_dims_to_operand_dims}
        groups: Groups = []
        for d in reversed(range(operand.rank)):
            last = groups[-1] if groups else []
            follows = bool(last) and d in free and last[0] in free and window[d] + 1 == window[last[0]]
            if follows and all(updates.dimensions[window[e]] == operand.dimensions[e] for e in last):
                is_row = last[-1] == operand.rank - 1
                if not is_row or math.prod(operand.dimensions[e] for e in last) < self.min_row:
                    last.insert(0, d)
                    continue
            groups.append([d])
        groups.reverse()
        inner = {window[d] for group in groups for d in group[1:]}
        update_groups: Groups = []
        for d in range(updates.rank):
            if d in inner:
                update_groups[-1].append(d)
            else:
                update_groups.append([d])
        return groups, update_groups


def _renumbered(groups: Groups, dims: Sequence[int]) -> tuple[int, ...]:
    """The numbers of the groups that dimensions are in, each once."""
    number = {d: n for n, group in enumerate(groups) for d in group}
    return tuple(dict.fromkeys(number[d] for d in dims))


def _merged(into: Expansion, array: HloInstruction, groups: Groups) -> HloInstruction:
    sizes = [math.prod(array.shape.dimensions[d] for d in group) for group in groups]
    return array if len(groups) == array.shape.rank else into.add(reshape(array, sizes))
