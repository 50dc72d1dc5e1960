"""Constants that all callers of a computation give it move into it."""

from __future__ import annotations

from collections.abc import Collection

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.compare.structural_key import content_key
from xjit.passes.framework.base import has_control_dependencies, selected_computations


def constants_from_callers(module: HloModule, execution_threads: Collection[str]) -> bool:
    """Makes what reads a parameter read a constant instead, where every call gives the same one, callers first.

    The parameters and the operands stay. Only computations that nothing but `call` instructions run are looked at.
    True if something was replaced.
    """
    changed = False
    for computation in reversed(selected_computations(module, execution_threads)):
        callers = computation.caller_instructions()
        if not callers or any(caller.opcode != "call" for caller in callers):
            continue
        for number, parameter in enumerate(computation.parameter_instructions):
            constant = _common_constant([caller.operand(number) for caller in callers])
            if constant is not None and parameter.user_count and not has_control_dependencies(parameter):
                _use_instead(computation, parameter, constant)
                changed = True
    return changed


def _common_constant(operands: list[HloInstruction]) -> HloInstruction | None:
    first = operands[0]
    if first.opcode != "constant":
        return None
    key = content_key(first)
    return first if all(o.opcode == "constant" and content_key(o) == key for o in operands) else None


def _use_instead(computation: HloComputation, parameter: HloInstruction, constant: HloInstruction) -> None:
    copy = computation.add_instruction(constant.clone_with_new_operands(constant.shape, []))
    parameter.replace_all_uses_with(copy)
