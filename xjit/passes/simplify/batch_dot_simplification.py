"""Dots lose batch dimensions of size 1."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import DotAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class BatchDotSimplification(OpExpander):
    """Reshapes the operands of a dot to drop batch dimensions of size 1, and the result to have them again.

    The batch dimensions must lead on both sides in one order, and there must be one contracting dimension. Sparse dots
    and dynamic shapes stay.
    """

    name = "batch-dot-simplification"
    opcodes = frozenset({"dot"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the reshaped dot, or None if no batch dimension can go."""
        attributes = instruction.attributes_as(DotAttributes)
        leading = tuple(range(len(attributes.lhs_batch_dims)))
        lhs, rhs = instruction.operands[:2]
        gone = [d for d in leading if lhs.shape.dimensions[d] == 1]
        if not gone or attributes.sparsity or not lhs.shape.is_static_array or not rhs.shape.is_static_array:
            return None
        if not attributes.lhs_batch_dims == attributes.rhs_batch_dims == leading:
            return None
        if len(attributes.lhs_contracting_dims) != 1:
            return None
        kept = leading[: len(leading) - len(gone)]
        smaller = replace(
            attributes,
            lhs_batch_dims=kept,
            rhs_batch_dims=kept,
            lhs_contracting_dims=(attributes.lhs_contracting_dims[0] - len(gone),),
            rhs_contracting_dims=(attributes.rhs_contracting_dims[0] - len(gone),),
        )
        operands = [into.add(build.reshape(o, _without(o.shape.dimensions, gone))) for o in (lhs, rhs)]
        dot = into.add(build.make_dot(operands[0], operands[1], smaller, instruction.shape.element_type))
        dot.raw_backend_config = instruction.raw_backend_config
        return into.like_source("reshape", [dot])


def _without(dimensions: Sequence[int], gone: Collection[int]) -> list[int]:
    return [size for d, size in enumerate(dimensions) if d not in gone]
