"""Instructions remember what they were before other passes change them."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.annotations.original_value import origin_of, origin_of_element, origin_of_tuple
from xjit.hlo.attributes import GetTupleElementAttributes
from xjit.passes.framework.base import HloModulePass


@dataclass
class AddOriginalValue(HloModulePass):
    """Gives every instruction an original value: its own name, or what the elements of tuples are.

    A value that an instruction has already stays.
    """

    name = "add-original-value"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Writes them, producers first; True if one had none."""
        changed = False
        for computation in module.computations(execution_threads or None):
            for instruction in computation.make_instruction_post_order():
                if not instruction.origin and (origin := _origin(instruction)):
                    instruction.origin = origin
                    changed = True
        return changed


def _origin(instruction: HloInstruction) -> str:
    if instruction.opcode == "get-tuple-element":
        index = instruction.attributes_as(GetTupleElementAttributes).index
        return origin_of_element(instruction.operand(0).origin, index)
    if instruction.opcode == "tuple" and instruction.operands and all(o.origin for o in instruction.operands):
        return origin_of_tuple([o.origin for o in instruction.operands])
    return origin_of(instruction.name, instruction.shape)
