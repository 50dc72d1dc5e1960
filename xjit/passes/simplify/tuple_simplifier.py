"""Removes tuples that are taken apart again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations


@dataclass
class TupleSimplifier(HloModulePass):
    """get-tuple-element(tuple(a, b), i) = operand i; tuple(t{0}, ..., t{n-1}) = t if that is all of t, in order."""

    name = "tuple-simplifier"
    exclude_entry_computation: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Simplifies in post order (operands are simple already), so one walk reaches the fixed point."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            if self.exclude_entry_computation and computation.is_entry_computation():
                continue
            for instruction in computation.make_instruction_post_order():
                if instruction.parent is not computation:
                    continue  # removed together with its last user
                simpler = _simpler(instruction)
                if simpler is not None:
                    _replace(instruction, simpler)
                    changed = True
        return changed


def _simpler(instruction: HloInstruction) -> HloInstruction | None:
    if instruction.opcode not in ("get-tuple-element", "tuple") or has_control_dependencies(instruction):
        return None
    if instruction.opcode == "get-tuple-element":
        operand = instruction.operand(0)
        return (
            operand.operand(instruction.attributes_as(at.GetTupleElementAttributes).index)
            if operand.opcode == "tuple"
            else None
        )
    if not instruction.operand_count:
        return None
    first = instruction.operand(0)
    if first.opcode != "get-tuple-element":
        return None
    source = first.operand(0)
    if source.shape != instruction.shape:
        return None
    covered = all(
        o.opcode == "get-tuple-element"
        and o.operand(0) is source
        and o.attributes_as(at.GetTupleElementAttributes).index == i
        for i, o in enumerate(instruction.operands)
    )
    return source if covered else None


def _replace(instruction: HloInstruction, simpler: HloInstruction) -> None:
    computation = instruction.parent
    assert computation is not None
    instruction.replace_all_uses_with_different_shape(simpler)
    computation.remove_instruction_and_unused_operands(instruction)
