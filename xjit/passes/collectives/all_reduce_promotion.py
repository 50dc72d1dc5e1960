"""all-reduce in a wider type."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.primitive_type import BY_TEXT
from xjit.ops import build
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.algebra.kinds import embeds


@dataclass
class AllReducePromotion(OpExpander):
    """Reduces what devices have of `from_type` in `to_type`, by the same operation, and converts the result back.

    InvalidArgument for a type that does not hold every value of the other. Reductions by more than an operation stay.
    """

    name = "all-reduce-promotion"
    opcodes = frozenset({"all-reduce"})
    from_type: str = "s16"
    to_type: str = "s32"

    def __post_init__(self) -> None:
        self._types()

    def _types(self) -> tuple[PrimitiveType, PrimitiveType]:
        for text in (self.from_type, self.to_type):
            if text not in BY_TEXT:
                raise InvalidArgument(f"{self.name}: '{text}' is no element type")
        narrow, wide = BY_TEXT[self.from_type], BY_TEXT[self.to_type]
        if narrow is wide or not embeds(narrow, wide):
            raise InvalidArgument(f"{self.name}: {wide.text} does not hold every {narrow.text}, or is the same")
        return narrow, wide

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the reduction, a tuple of reductions for several operands; None for other types and reducers."""
        narrow, wide = self._types()
        opcode = simple_opcode(instruction.to_apply)
        if opcode is None or any(o.shape.element_type is not narrow for o in instruction.operands):
            return None
        operands = [into.add(build.convert(o, wide)) for o in instruction.operands]
        clone = into.add(instruction.clone_with_new_operands(_wide(instruction.shape, wide), operands))
        clone.set_called_computation(0, into.embed(build.make_binary_computation(opcode, wide)))
        if not instruction.shape.is_tuple:
            return into.like_source("convert", [clone])
        elements = [into.element(clone, i) for i in range(len(operands))]
        return into.tuple_of(*(into.add(build.convert(e, narrow)) for e in elements))


def _wide(shape: Shape, kind: PrimitiveType) -> Shape:
    if shape.is_tuple:
        return Shape.tuple_of([s.with_element_type(kind) for s in shape.tuple_shapes])
    return shape.with_element_type(kind)
