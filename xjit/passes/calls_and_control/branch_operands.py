"""What makes an operand of a conditional is computed in the branch that is given it, and not at all if another runs."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction


def sink_into_branch(conditional: HloInstruction, number: int, cone: Sequence[HloInstruction]) -> None:
    """Computes a branch's operand, and what else is in `cone` (operands first), in the branch, which is its own.

    The branch gets what that reads, as a tuple.
    """
    computation, branch = conditional.parent, conditional.branch_computations[number]
    assert computation is not None
    operand, leaves = conditional.operand(number + 1), _leaves(cone)
    given = computation.add_instruction(HloInstruction.create_tuple(leaves))
    parameter = branch.parameter_instructions[0]
    readers, is_root = parameter.users, parameter.is_root()
    parameter.mutable_shape = given.shape
    value = _recompute(branch, parameter, leaves, cone)[operand]
    for reader in readers:
        for position, read in enumerate(reader.operands):
            if read is parameter:
                reader.replace_operand_with_different_shape(position, value)
    if is_root:
        branch.set_root_instruction(value, accept_different_shape=True)
    conditional.replace_operand_with_different_shape(number + 1, given)
    if not operand.user_count and not operand.is_root():
        computation.remove_instruction_and_unused_operands(operand)


def _leaves(cone: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Returns what the instructions of a cone read from outside of it."""
    inside = set(cone)
    return list(dict.fromkeys(o for i in cone for o in i.operands if o not in inside))


def _recompute(
    branch: HloComputation, parameter: HloInstruction, leaves: Sequence[HloInstruction], cone: Sequence[HloInstruction]
) -> dict[HloInstruction, HloInstruction]:
    """Returns what stands for the instructions of a cone in a branch whose parameter is the tuple of its leaves."""
    values = {
        leaf: branch.add_instruction(HloInstruction.create_get_tuple_element(parameter, n))
        for n, leaf in enumerate(leaves)
    }
    for i in cone:
        clone = i.clone_with_new_operands(i.shape, [values[o] for o in i.operands])
        values[i] = branch.add_instruction(clone)
    return values
