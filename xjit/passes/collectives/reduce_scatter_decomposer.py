"""reduce-scatter as an all-reduce of which each device keeps its part."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.collectives.all_gather_decomposer import place_in_group
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class ReduceScatterDecomposer(OpExpander):
    """Reduces whole arrays on all devices of a group and cuts out the device's part."""

    name = "reduce-scatter-decomposer"
    opcodes = frozenset({"reduce-scatter"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the part; None for several operands and sizes that are not static."""
        operand, shape = instruction.operand(0), instruction.shape
        if not shape.is_static_array or not operand.shape.is_static_array:
            return None
        a = instruction.attributes_as(at.CollectiveAttributes)
        (axis,) = a.dimensions
        reduced = HloInstruction.create(
            "all-reduce", operand.shape, [operand], replace(a, dimensions=()), instruction.called_computations
        )
        size = into.add(build.make_constant(shape.dimensions[axis], PrimitiveType.U32))
        start = into.make("multiply", place_in_group(instruction, into), size)
        zero = into.add(build.make_constant(0, PrimitiveType.U32))
        starts = [start if d == axis else zero for d in range(shape.rank)]
        sizes = at.DynamicSliceAttributes(shape.dimensions)
        return into.like_source("dynamic-slice", [into.add(reduced), *starts], sizes)
