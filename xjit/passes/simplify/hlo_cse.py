"""Common subexpression elimination, constants included."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.compare.structural_key import StructuralKeys
from xjit.hlo.edit.replacing import replace
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses
from xjit.passes.framework.base import (
    HloModulePass,
    has_control_dependencies,
)


@dataclass
class HloCSE(HloModulePass):
    """Replaces an instruction by an earlier one that computes the same from the same operands.

    Constants are equal when they are bitwise (0 is not -0, a NaN equals itself). Never merged: side effects,
    parameters, collectives with a channel, asynchronous halves, different shardings or backend configs, and
    instructions with control edges unless `ignore_control_dependencies`: then the one that stays takes the edges over.
    """

    name = "hlo-cse"
    aliases = ("cse",)
    is_local = True
    is_layout_sensitive: bool = True
    only_fusion_computations: bool = False
    ignore_control_dependencies: bool = False
    should_eliminate: Callable[[HloInstruction], bool] | None = None

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Merges per computation, callees first; True if anything was merged."""
        effects = analyses.get(SideEffects, module)
        keys = StructuralKeys(self.is_layout_sensitive)
        changed = False
        for computation in self.unsettled(module.make_computation_post_order()):
            if self.only_fusion_computations and not computation.is_fusion_computation():
                continue
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            changed |= self._run_on(computation, keys, effects)
        return changed

    def _run_on(self, computation: HloComputation, keys: StructuralKeys, effects: SideEffects) -> bool:
        alone: dict[Hashable, HloInstruction] = {}
        seen: dict[Hashable, HloInstruction] = {}
        changed = False
        for instruction in computation.make_instruction_post_order():
            operands = instruction.operands
            if (
                len(operands) == 2
                and operands[0].unique_id > operands[1].unique_id
                and instruction.op.has(Trait.COMMUTATIVE)
            ):
                operands = operands[::-1]  # always in one order
            other = alone.setdefault((instruction.opcode, operands, instruction.shape.dimensions), instruction)
            if other is instruction:
                continue  # most are the only one of their opcode, operands and dimensions: they need no key
            if not self._may_merge(instruction, effects):
                continue
            if self._may_merge(other, effects):
                seen.setdefault(keys.instruction_key(other, operands), other)
            first = seen.setdefault(keys.instruction_key(instruction, operands), instruction)
            if first is not instruction:
                replace(instruction, first)
                changed = True
        return changed

    def _may_merge(self, instruction: HloInstruction, effects: SideEffects) -> bool:
        op = instruction.op
        if op.name == "parameter" or op.has(Trait.ASYNC) or (op.has(Trait.COLLECTIVE) and _has_channel(instruction)):
            return False
        if effects.of_instruction(instruction) or (op.name == "tuple" and not instruction.operand_count):
            return False
        if has_control_dependencies(instruction) and not self.ignore_control_dependencies:
            return False
        if instruction.shape.is_token or (instruction.is_dead() and not instruction.is_root()):
            return False
        return self.should_eliminate is None or self.should_eliminate(instruction)


def _has_channel(collective: HloInstruction) -> bool:
    return getattr(collective.attributes, "channel_id", None) is not None
