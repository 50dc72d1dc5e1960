"""Which computations, and so which instructions that call them, have side effects."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import OPCODES, HloComputation, HloInstruction, HloModule
from xjit.passes.framework.base import has_opcodes

_MAY_HAVE_ONE = frozenset(name for name, op in OPCODES.items() if op.may_have_side_effect)


@dataclass(frozen=True, slots=True)
class SideEffects:
    """`computations` are those in which, or below which, something has a side effect."""

    computations: frozenset[HloComputation]

    @classmethod
    def of(cls, module: HloModule) -> SideEffects:
        """Finds them, callees first."""
        found: set[HloComputation] = set()
        for computation in module.make_computation_post_order():
            asked = computation.calling_instructions()
            if has_opcodes(computation, _MAY_HAVE_ONE):
                asked = computation.instructions
            if any(_has_one(i, found) for i in asked):
                found.add(computation)
        return cls(frozenset(found))

    def of_instruction(self, instruction: HloInstruction) -> bool:
        """Whether an instruction has a side effect, itself or through what it calls."""
        return _has_one(instruction, self.computations)

    def below(self, instruction: HloInstruction) -> bool:
        """Whether what an instruction calls has a side effect."""
        return not self.computations.isdisjoint(instruction.called_computations)


def _has_one(instruction: HloInstruction, effectful: set[HloComputation] | frozenset[HloComputation]) -> bool:
    op = instruction.op
    if op.called and effectful and not effectful.isdisjoint(instruction.called_computations):
        return True
    return op.may_have_side_effect and instruction.has_side_effect_no_recurse()
