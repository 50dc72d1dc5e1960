"""The root is the last instruction of every schedule."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.passes.framework.base import HloModulePass, selected_computations


@dataclass
class RootInstructionSinker(HloModulePass):
    """Appends a new root where the old one is not last in the sequence: a bitcast of an array, a tuple of a tuple's
    elements, a token after a token. All others keep their order. InvalidArgument for a module without a schedule.
    """

    name = "root-instruction-sinker"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Sinks roots; True if one was not last."""
        if not module.has_schedule():
            raise InvalidArgument(f"{self.name}: module {module.name} has no schedule")
        changed = False
        for computation in selected_computations(module, execution_threads):
            sequence = module.schedule.sequence(computation)
            if sequence[-1] is not computation.root_instruction:
                added = _append_root(computation)
                module.schedule.set_sequence(computation, [*sequence, *added])
                changed = True
        return changed


def _append_root(computation: HloComputation) -> list[HloInstruction]:
    """Adds a root that is the old one's value; returns what was added, in order."""
    old = computation.root_instruction
    if old.shape.is_tuple:
        added = [HloInstruction.create_get_tuple_element(old, i) for i in range(len(old.shape.tuple_shapes))]
        added.append(HloInstruction.create_tuple(added))
    else:
        opcode = "after-all" if old.shape.is_token else "bitcast"
        added = [HloInstruction.create(opcode, old.shape, [old])]
    for instruction in added:
        computation.add_instruction(instruction)
        inherit_annotations(instruction, old)
    computation.set_root_instruction(added[-1])
    return added
