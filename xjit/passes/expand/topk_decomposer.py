"""topk as a sort of values and positions, of which the first are kept."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import CompareAttributes, CustomCallAttributes, IotaAttributes, SortAttributes, TopKAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class TopkDecomposer(OpExpander):
    """Sorts in total order, equal elements by their position. Custom calls to TopK, too."""

    name = "topk-decomposer"
    opcodes = frozenset({"topk", "custom-call"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the values and positions, or None for another custom call."""
        attributes, largest = instruction.attributes, True
        if isinstance(attributes, CustomCallAttributes) and attributes.custom_call_target != "TopK":
            return None
        if isinstance(attributes, TopKAttributes):
            largest = attributes.largest
        if instruction.operand_count != 1 or not instruction.shape.is_tuple or len(instruction.shape.tuple_shapes) != 2:
            return None
        operand = instruction.operand(0)
        last, dimensions = operand.shape.rank - 1, operand.shape.dimensions
        places = Shape.array(PrimitiveType.S32, dimensions)
        iota = into.make("iota", attributes=IotaAttributes(last), shape=places)
        order = into.embed(_comparator(operand.shape.element_type, largest))
        sort = into.make("sort", operand, iota, attributes=SortAttributes((last,), True), called=[order])
        limits = instruction.shape.tuple_shapes[0].dimensions
        kept = [into.add(build.slice_(into.element(sort, i), [0] * (last + 1), limits)) for i in range(2)]
        return into.tuple_of(*kept)


def _comparator(kind: PrimitiveType, largest: bool) -> HloComputation:
    """Returns the comparator of values, with positions that it does not look at."""
    builder = HloComputation.Builder("topk_order")
    shapes = [Shape.array(k) for k in (kind, kind, PrimitiveType.S32, PrimitiveType.S32)]
    a, b, *_ = [builder.add_instruction(HloInstruction.create_parameter(i, s, f"p{i}")) for i, s in enumerate(shapes)]
    order = CompareAttributes("GT" if largest else "LT", "TOTALORDER" if kind.is_float else "")
    root = builder.add_instruction(build.make("compare", a, b, attributes=order))
    return builder.build(root)
