"""Rewrites of library calls, reductions and fusions keep control edges, or leave what has them alone."""

from __future__ import annotations

import pytest

from tests.support.pass_cases import PassCase, all_cases
from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

THEMES = ("cpu", "gpu", "reductions/reductions", "fusion/fusion_merger")


def _cases() -> list[PassCase]:
    found = [c for c in all_cases() if c.after is not None and c.id.startswith(THEMES)]
    return [c for c in found if "is_scheduled" not in c.before]  # there the new instruction would have no place


def _with_guard(case: PassCase, number: int, is_before: bool) -> tuple[HloModule, HloInstruction]:
    """The module, with an instruction that runs before, or behind, an instruction of its entry."""
    module = parse_hlo(case.before)
    instruction = module.entry_computation.instructions[number]
    guard = HloInstruction.create("after-all", Shape.token(), [], name="guard")
    module.entry_computation.add_instruction(guard)
    first, second = (guard, instruction) if is_before else (instruction, guard)
    first.add_control_dependency_to(second)
    return module, guard


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case.id)
def test_an_edge_to_any_instruction_is_kept(case: PassCase) -> None:
    instructions = parse_hlo(case.before).entry_computation.instructions
    for number, instruction in enumerate(instructions):
        if instruction.opcode in ("parameter", "constant"):
            continue
        for is_before in (True, False):
            module, guard = _with_guard(case, number, is_before)
            for item in case.passes():
                item.run(module)
            verify_module(module)
            assert guard.parent is not None, f"the guard of {instruction.name} is gone"
            edges = guard.control_successors if is_before else guard.control_predecessors
            assert edges, f"{instruction.name} has lost its edge"
