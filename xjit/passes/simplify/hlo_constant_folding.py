"""Evaluates constant expressions at compile time, within a budget."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.hlo import HloInstruction, HloModule, Literal, Trait, Unsupported
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.evaluation.table import EVALUATORS
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.simplify.constants_from_callers import constants_from_callers

FOLDABLE = frozenset(
    {"reshape", "transpose", "reverse", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad"}
    | {"gather", "reduce", "dot"}
)
"""What is folded besides elementwise opcodes. Broadcast and iota are not: the constant would only be larger."""

CALLS = frozenset({"call", "fusion"})


@dataclass
class HloConstantFolding(HloModulePass):
    """Replaces an instruction whose operands are constants, or broadcasts of constants, by its value.

    At least one operand must be a constant; others may be iotas. So are calls and fusions without side effects, all of
    whose operands are constants, and what a computation computes of a parameter for which all callers give the same
    constant. A result may be larger than the constants that it replaces only up to
    `max_growth_elements`; no result has more than `max_result_elements` elements and no evaluation more than
    `max_work` elementary operations. An expression that cannot be evaluated stays.
    """

    name = "hlo-constant-folding"
    aliases = ("constant-folding",)
    is_local = True
    max_growth_elements: int = 256
    max_result_elements: int = 1 << 20
    max_work: int = 1 << 24
    fold_transcendentals: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Folds in post order, so that chains fold in one run; True if anything was folded."""
        interpreter = Interpreter()
        work_left = 16 * self.max_work
        effects = analyses.get(SideEffects, module)
        changed = constants_from_callers(module, execution_threads)
        for computation in self.unsettled(selected_computations(module, execution_threads)):
            for instruction in computation.make_instruction_post_order():
                if instruction.parent is not computation or not self._may_fold(instruction):
                    continue
                if instruction.called_computations and effects.below(instruction):
                    continue
                work = _work(instruction)
                if work > min(self.max_work, work_left):
                    continue
                work_left -= work
                literal = _evaluate(interpreter, instruction)
                if literal is not None:
                    constant = HloInstruction.create_constant(literal, instruction.name)
                    replace(instruction, computation.add_instruction(constant))
                    changed = True
        return changed

    def _may_fold(self, instruction: HloInstruction) -> bool:
        constants = [o for o in instruction.operands if o.opcode == "constant"]
        if not constants:
            return False
        op = instruction.op
        if not (op.has(Trait.ELEMENTWISE) or op.name in FOLDABLE or op.name in CALLS):
            return False
        if not instruction.shape.is_array or not instruction.shape.is_static or has_control_dependencies(instruction):
            return False
        if instruction.is_dead() or (op.has(Trait.TRANSCENDENTAL) and not self.fold_transcendentals):
            return False
        if not all(o.is_constant() or (op.name not in CALLS and _is_cheap(o)) for o in instruction.operands):
            return False
        elements = instruction.shape.num_elements
        freed = sum(o.shape.num_elements for o in dict.fromkeys(constants) if o.user_count == 1)
        return elements <= self.max_result_elements and elements <= max(freed, self.max_growth_elements)


def _is_cheap(instruction: HloInstruction) -> bool:
    """Whether an operand is a value that is better not written out: an iota, or a broadcast of a constant."""
    if instruction.opcode == "broadcast":
        return instruction.operand(0).is_constant()
    return instruction.opcode == "iota"


def _work(instruction: HloInstruction) -> int:
    elements = max([instruction.shape.num_elements, *(o.shape.num_elements for o in instruction.operands)])
    if instruction.opcode == "dot":
        lhs = instruction.operand(0).shape
        contracted = [lhs.dimensions[d] for d in instruction.attributes_as(at.DotAttributes).lhs_contracting_dims]
        return max(elements, instruction.shape.num_elements * int(np.prod(contracted, dtype=object)))
    if instruction.opcode == "reduce":
        return 4 * elements
    if instruction.opcode in CALLS:
        return sum(_work(i) for i in instruction.called_computations[0].instructions)
    return elements


def _evaluate(interpreter: Interpreter, instruction: HloInstruction) -> Literal | None:
    """Returns the value in the layout of the instruction, or None if the evaluator does not support it."""
    evaluator = EVALUATORS.get(instruction.opcode)
    if evaluator is None:
        return None
    try:
        with np.errstate(all="ignore"):
            values = [_value(interpreter, o) for o in instruction.operands]
            result = evaluator(interpreter, instruction, values)
    except Unsupported:  # the emitters may know how, or report it with its place
        return None
    array = np.asarray(result)
    if array.dtype != instruction.shape.dtype or array.shape != instruction.shape.dimensions:
        return None
    return Literal(instruction.shape.with_default_layouts(), np.array(array, order="C"))


def _value(interpreter: Interpreter, operand: HloInstruction) -> Any:
    if operand.is_constant():
        return operand.attributes_as(at.ConstantAttributes).literal.array
    return EVALUATORS[operand.opcode](interpreter, operand, [_value(interpreter, o) for o in operand.operands])
