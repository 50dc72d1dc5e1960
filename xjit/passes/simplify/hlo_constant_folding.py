"""Evaluates constant expressions at compile time, within a budget."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloError, HloInstruction, HloModule, Literal, Trait
from xjit.hlo import attributes as at
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.evaluation.table import EVALUATORS
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, PassWarning, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.constants_from_callers import constants_from_callers
from xjit.passes.simplify.folding_cost import elements_of, folding_cost

CALLS = frozenset({"call", "fusion"})

_EVALUATIONS = 16
"""How many evaluations of the largest cost one run takes: a second or two in all."""

_ALARM_SECONDS = 1.0
"""Evaluations that take longer are told of. Each alarm doubles it, as in XLA."""


@dataclass
class HloConstantFolding(HloModulePass):
    """Replaces an instruction whose operands are constants, or broadcasts of constants, by its value.

    At least one operand must be a constant; others may be iotas. So are calls and fusions without side effects, all of
    whose operands are constants, and what a computation computes of a parameter for which all callers give the same
    constant. A result may be larger than the constants that it replaces only up to
    `max_growth_elements`; no result has more than `max_result_elements` elements and no evaluation costs more than
    `max_work` elementary operations (see `folding_cost`; 4 million take 80 ms). What cannot be evaluated stays.
    """

    name = "hlo-constant-folding"
    aliases = ("constant-folding",)
    is_local = True
    max_growth_elements: int = 256
    max_result_elements: int = 1 << 20
    max_work: int = 1 << 22
    fold_transcendentals: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Folds in post order, so that chains fold in one run; True if anything was folded."""
        interpreter = Interpreter()
        work_left, alarm = _EVALUATIONS * self.max_work, _ALARM_SECONDS
        effects = analyses.get(SideEffects, module)
        changed = constants_from_callers(module, execution_threads)
        self.unfinished = unfinished = set[HloComputation]()
        for computation in self.unsettled(selected_computations(module, execution_threads)):
            for instruction in computation.make_instruction_post_order():
                if instruction.parent is not computation or not self._may_fold(instruction):
                    continue
                if instruction.called_computations and effects.below(instruction):
                    continue
                cost = folding_cost(instruction, interpreter)
                if cost is None or cost > self.max_work:
                    continue
                if cost > work_left:
                    unfinished.add(computation)
                    continue
                work_left -= cost
                start = time.perf_counter()
                literals = _evaluate(interpreter, instruction)
                alarm = _look_at_the_clock(instruction, time.perf_counter() - start, alarm)
                if literals:
                    _replace(instruction, literals)
                    changed = True
        return changed

    def _may_fold(self, instruction: HloInstruction) -> bool:
        constants = [o for o in instruction.operands if o.opcode == "constant"]
        if not constants:
            return False
        op, leaves = instruction.op, [leaf for _, leaf in instruction.shape.leaves()]
        if not leaves or not all(leaf.is_static_array for leaf in leaves) or has_control_dependencies(instruction):
            return False
        if instruction.shape.is_tuple and len(leaves) != len(instruction.shape.tuple_shapes):
            return False
        if instruction.is_dead() or (op.has(Trait.TRANSCENDENTAL) and not self.fold_transcendentals):
            return False
        if not all(o.is_constant() or (op.name not in CALLS and _is_cheap(o)) for o in instruction.operands):
            return False
        elements = elements_of(instruction.shape)
        freed = sum(o.shape.num_elements for o in dict.fromkeys(constants) if o.user_count == 1)
        return elements <= self.max_result_elements and elements <= max(freed, self.max_growth_elements)


def _look_at_the_clock(instruction: HloInstruction, seconds: float, alarm: float) -> float:
    """Warns of an evaluation that took longer than the alarm is set to; returns what it is set to then."""
    if seconds <= alarm:
        return alarm
    warnings.warn(f"constant folding of {instruction.name} took {seconds:.1f} s", PassWarning, stacklevel=3)
    return 2 * alarm


def _is_cheap(instruction: HloInstruction) -> bool:
    """Whether an operand is a value that is better not written out: an iota, or a broadcast of a constant."""
    if instruction.opcode == "broadcast":
        return instruction.operand(0).is_constant()
    return instruction.opcode == "iota"


def _evaluate(interpreter: Interpreter, instruction: HloInstruction) -> list[Literal]:
    """Returns the arrays of the value in the layouts of the instruction; none if the evaluator does not support it."""
    evaluator = EVALUATORS.get(instruction.opcode)
    if evaluator is None:
        return []
    try:
        with np.errstate(all="ignore"):
            values = [_value(interpreter, o) for o in instruction.operands]
            result = evaluator(interpreter, instruction, values)
    except HloError:  # the emitters may know how, or report it with its place
        return []
    arrays = [np.asarray(a) for a in (result if instruction.shape.is_tuple else [result])]
    shapes = [leaf.with_default_layouts() for _, leaf in instruction.shape.leaves()]
    if [(a.dtype, a.shape) for a in arrays] != [(s.dtype, s.dimensions) for s in shapes]:
        return []
    return [Literal(s, np.array(a, order="C")) for s, a in zip(shapes, arrays, strict=True)]


def _replace(instruction: HloInstruction, literals: list[Literal]) -> None:
    """Puts a constant in the place of an instruction, or a tuple of constants."""
    into = Expansion(instruction)
    constants = [into.add(HloInstruction.create_constant(literal, instruction.name)) for literal in literals]
    into.replace_source(into.tuple_of(*constants) if instruction.shape.is_tuple else constants[0])


def _value(interpreter: Interpreter, operand: HloInstruction) -> Any:
    if operand.is_constant():
        return operand.attributes_as(at.ConstantAttributes).literal.array
    return EVALUATORS[operand.opcode](interpreter, operand, [_value(interpreter, o) for o in operand.operands])
