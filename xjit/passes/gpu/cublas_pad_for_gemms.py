"""Matrix products get the sizes that tensor cores want: zeros are added and the result is sliced."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import DotAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion
from xjit.passes.gpu.conv_calls import grown


@dataclass
class CublasPadForGemms(OpExpander):
    """Pads both matrices of dots of `datatype` up to multiples of `pad_to_multiple_of`, and slices the result.

    The dots are those with leading batch dimensions and one contracting and one free dimension behind them.
    """

    name = "cublas-pad-for-gemms"
    opcodes = frozenset({"dot"})
    datatype: str = "f16"
    pad_to_multiple_of: int = 8

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the slice of the larger dot; None if the sizes are right or the dot is another one."""
        if has_control_dependencies(instruction) or not self._is_matrix_product(instruction):
            return None
        lhs, rhs = instruction.operands
        sizes = [self._rounded(o.shape.dimensions) for o in (lhs, rhs)]
        if sizes == [list(lhs.shape.dimensions), list(rhs.shape.dimensions)]:
            return None
        attributes = instruction.attributes_as(DotAttributes)
        dot = build.make_dot(
            grown(into, lhs, sizes[0]), grown(into, rhs, sizes[1]), attributes, instruction.shape.element_type
        )
        limits = instruction.shape.dimensions
        dot = into.add(dot)
        if dot.shape.dimensions != limits:
            dot = into.add(build.slice_(dot, [0] * len(limits), limits))
        dot.mutable_shape = instruction.shape  # with its layout
        return dot

    def _rounded(self, sizes: Sequence[int]) -> list[int]:
        multiple = self.pad_to_multiple_of
        return [*sizes[:-2], *(-(-n // multiple) * multiple for n in sizes[-2:])]

    def _is_matrix_product(self, dot: HloInstruction) -> bool:
        attributes = dot.attributes_as(DotAttributes)
        if attributes.sparsity or any(
            not o.shape.is_static_array or o.shape.element_type.text != self.datatype for o in dot.operands
        ):
            return False
        lhs, rhs = (o.shape for o in dot.operands)
        batch = tuple(range(lhs.rank - 2))
        return (
            lhs.rank == rhs.rank >= 2
            and attributes.lhs_batch_dims == attributes.rhs_batch_dims == batch
            and len(attributes.lhs_contracting_dims) == len(attributes.rhs_contracting_dims) == 1
            and bool(lhs.num_elements and rhs.num_elements)
        )
