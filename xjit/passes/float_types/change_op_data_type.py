"""Some opcodes in another element type."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import OPCODES, HloInstruction, PrimitiveType
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.primitive_type import BY_TEXT
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class ChangeOpDataType(OpExpander):
    """Computes in `to_type` the opcodes of `names`, with `|` between them, whose arrays are all of `from_type`.

    InvalidArgument for what is no element type or no opcode of arrays that calls nothing.
    """

    name = "change-op-data-type"
    from_type: str = "f16"
    to_type: str = "f32"
    names: str = "dot|convolution"

    def __post_init__(self) -> None:
        for text in (self.from_type, self.to_type):
            if text not in BY_TEXT or not BY_TEXT[text].is_array:
                raise InvalidArgument(f"{self.name}: '{text}' is no element type of arrays")
        self.opcodes = frozenset(self.names.split("|"))
        if unknown := sorted(self.opcodes - OPCODES.keys()):
            raise InvalidArgument(f"{self.name}: '{unknown[0]}' is no opcode")

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the converted result; None if an array is of another type, or a computation would have to change."""
        old, new = (BY_TEXT[text] for text in (self.from_type, self.to_type))
        if instruction.called_computations or not instruction.operand_count or not _is_of(instruction, old):
            return None
        operands = [into.add(build.convert(o, new)) for o in instruction.operands]
        shape = instruction.shape.with_element_type(new)
        changed = into.add(instruction.clone_with_new_operands(shape, operands))
        return into.like_source("convert", [changed])


def _is_of(instruction: HloInstruction, kind: PrimitiveType) -> bool:
    return all(i.shape.is_array and i.shape.element_type is kind for i in (instruction, *instruction.operands))
