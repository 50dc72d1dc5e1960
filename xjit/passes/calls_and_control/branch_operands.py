"""What only one branch of a conditional needs is computed in that branch, and not at all if another one runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.hlo import HloComputation, HloInstruction, Trait
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import has_control_dependencies

_CHEAP = frozenset(
    {
        *("tuple", "get-tuple-element", "constant", "iota", "copy"),
        *("bitcast", "reshape", "broadcast", "convert", "transpose"),
    }
)
"""Moving nothing but these saves nothing."""


MayCross = Callable[[Sequence[HloInstruction], Sequence[HloInstruction], Sequence[HloInstruction]], bool]
"""(instructions, what a branch is given now, what it will be given) -> whether they may move into it."""


def sink_operands(conditional: HloInstruction, may_cross: MayCross) -> bool:
    """Moves what is computed for one branch only into that branch; True if there was something worth it.

    The branch gets what that reads, as a tuple.
    """
    changed = False
    for number in range(len(conditional.branch_computations)):
        operand = conditional.operand(number + 1)
        cone = _cone(conditional, operand)
        is_worth_it = any(i.opcode not in _CHEAP for i in cone)
        if is_worth_it and may_cross(cone, [operand], _leaves(cone)):
            own_computations(conditional)
            _sink(conditional, number, cone)
            changed = True
    return changed


def _cone(conditional: HloInstruction, operand: HloInstruction) -> list[HloInstruction]:
    """Returns the instructions that only one operand of a conditional needs, operands first."""
    computation = conditional.parent
    if operand.users != (conditional,) or conditional.operands.count(operand) != 1 or computation is None:
        return []
    cone = set[HloInstruction]()
    pending = [operand]
    while pending:
        instruction = pending.pop()
        is_needed_here = instruction is operand or cone.issuperset(instruction.users)
        if instruction not in cone and is_needed_here and _may_move(instruction):
            cone.add(instruction)
            pending.extend(instruction.operands)
    return [i for i in computation.make_instruction_post_order() if i in cone] if cone else []


def _may_move(instruction: HloInstruction) -> bool:
    if instruction.opcode == "parameter" or has_control_dependencies(instruction) or instruction.is_root():
        return False
    fixed = Trait.CONTROL_FLOW | Trait.COLLECTIVE | Trait.ASYNC
    return not (instruction.has_side_effect() or instruction.op.has(fixed) or instruction.sharding is not None)


def _sink(conditional: HloInstruction, number: int, cone: list[HloInstruction]) -> None:
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
    computation.remove_instruction_and_unused_operands(operand)


def _leaves(cone: list[HloInstruction]) -> list[HloInstruction]:
    """Returns what the instructions of a cone read from outside of it."""
    inside = set(cone)
    return list(dict.fromkeys(o for i in cone for o in i.operands if o not in inside))


def _recompute(
    branch: HloComputation, parameter: HloInstruction, leaves: list[HloInstruction], cone: list[HloInstruction]
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
