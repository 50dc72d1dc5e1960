"""Sums over heads that share keys and values are taken apart: each head's own sum first, then that of the heads.

Where several heads have the same keys (grouped queries), the gradients of these are sums over queries and over heads at
once. The scores of one head are a matrix; those of several are not, so a product that sums over both is none with
scores. Taken apart, what heads have apiece is as large as keys and values that are not shared.
"""

from __future__ import annotations

import dataclasses

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.gradient import dots_of_scores
from xjit.passes.analysis.attention.places import MATRIX_TYPES


@dataclass(frozen=True, slots=True)
class SplitSum:
    """A dot whose users now use something else; both are there until one of them is chosen."""

    dot: HloInstruction
    value: HloInstruction
    reducer: HloComputation

    def keep(self) -> None:
        """Removes the dot."""
        replace(self.dot, self.value)

    def undo(self) -> None:
        """Removes what was made."""
        replace(self.value, self.dot)
        module = self.reducer.parent
        assert module is not None
        module.remove_embedded_computation(self.reducer)


def split_sums(computation: HloComputation, weights: HloInstruction) -> list[SplitSum]:
    """Takes apart the sums over several dimensions that read what is computed from the exponentials of a softmax."""
    found: list[SplitSum] = []
    for dot in dots_of_scores(weights):
        numbers = dot.attributes_as(at.DotAttributes)
        sizes = [dot.operand(0).shape.dimensions[d] for d in numbers.lhs_contracting_dims]
        if sum(size > 1 for size in sizes) > 1 and _can_split(dot):
            found.append(_split(computation, dot, sizes.index(max(sizes))))
    return found


def _can_split(dot: HloInstruction) -> bool:
    shape = dot.shape
    is_row_major = shape.minor_to_major == tuple(reversed(range(shape.rank)))
    is_free = not dot.control_predecessors and not dot.control_successors
    return is_free and is_row_major and shape.element_type in MATRIX_TYPES


def _split(computation: HloComputation, dot: HloInstruction, kept: int) -> SplitSum:
    """Makes all but one of the dimensions that are summed over further ones of the batch, and sums over those."""
    module = computation.parent
    assert module is not None
    numbers = dot.attributes_as(at.DotAttributes)
    left, right = list(numbers.lhs_contracting_dims), list(numbers.rhs_contracting_dims)
    summed = (left.pop(kept),), (right.pop(kept),)
    split = dataclasses.replace(
        numbers,
        lhs_batch_dims=(*numbers.lhs_batch_dims, *left),
        lhs_contracting_dims=summed[0],
        rhs_batch_dims=(*numbers.rhs_batch_dims, *right),
        rhs_contracting_dims=summed[1],
    )
    product = computation.add_instruction(build.make_dot(dot.operand(0), dot.operand(1), split, PrimitiveType.F32))
    zero = computation.add_instruction(build.make_constant(0.0, PrimitiveType.F32))
    add = build.make_binary_computation("add", PrimitiveType.F32)
    reducer = module.add_embedded_computation(add, computation)
    first = len(numbers.lhs_batch_dims)
    value = build.make_reduce(product, zero, tuple(range(first, first + len(left))), reducer)
    value = computation.add_instruction(value)
    if value.shape.element_type is not dot.shape.element_type:
        value = computation.add_instruction(build.convert(value, dot.shape.element_type))
    dot.replace_all_uses_with(value)
    return SplitSum(dot, value, reducer)
