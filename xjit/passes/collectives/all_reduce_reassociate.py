"""Sums of sums over devices as one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion

_OPCODES = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


@dataclass
class AllReduceReassociate(HloModulePass):
    """op(all-reduce(x), all-reduce(y)) = all-reduce(op(x, y)) for the operation that both reduce by.

    Nothing else reads the two, and both are over the same devices. Sums of floats are rounded in another order.
    """

    name = "all-reduce-reassociate"
    opcodes = frozenset({"all-reduce"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites, producers first, so that chains become one reduction; True if there were two to join."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode in _OPCODES and _are_joined(instruction):
                    _join(instruction)
                    changed = True
        return changed


def _are_joined(instruction: HloInstruction) -> bool:
    lhs, rhs = instruction.operands
    if lhs is rhs or any(o.opcode != "all-reduce" or o.operand_count != 1 for o in (lhs, rhs)):
        return False
    if any(o.user_count != 1 or has_control_dependencies(o) for o in (lhs, rhs)):
        return False
    opcodes = {simple_opcode(o.to_apply) for o in (lhs, rhs)}
    is_alike = lhs.attributes == rhs.attributes and lhs.shape == rhs.shape
    return opcodes == {instruction.opcode} and is_alike and not has_control_dependencies(instruction)


def _join(instruction: HloInstruction) -> None:
    into, (lhs, rhs) = Expansion(instruction), instruction.operands
    joined = into.make(instruction.opcode, lhs.operand(0), rhs.operand(0))
    into.replace_source(into.add(lhs.clone_with_new_operands(lhs.shape, [joined])))
