"""Computes what is the same in every trip of a loop once, in front of it."""

from __future__ import annotations

import math
from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, Trait
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.analysis.while_loop_analysis import initial_value
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.loops.loop_state import invariant_elements, loops_to_change, resize

DISABLED = "_xla_disable_loop_instr_hoisting"
"""A frontend attribute of loops whose value "true" keeps everything inside."""

MOVEMENT = frozenset({"bitcast", "broadcast", "iota", "reshape", "reverse", "slice", "transpose"})
"""Not worth an element of the state on their own: they compute nothing, and may well be fused into what reads them."""

STAYS = frozenset({"parameter", "tuple", "get-tuple-element", "while", "conditional", "call", "custom-call"})
"""What is not hoisted: the structure of the body, and what may take long, or for ever, if the loop does not run."""

MAX_ADDED_ELEMENTS = 256
"""Elements that a run adds to one loop's state at most: each costs time in every pass that follows."""


@dataclass
class WhileLoopInvariantCodeMotion(HloModulePass):
    """Moves instructions that read only loop-invariant elements and constants out of the body.

    Their values become new, invariant elements of the state. What only moves elements (MOVEMENT) and constants go
    along where something that was hoisted needs them, and alone with `hoist_reshapes` (reshapes) and `hoist_constants`.
    `hoist_other=False` leaves all else inside. An instruction stays whose result is larger than
    `hoist_size_inflation_ratio` times its operands. Side effects, collectives, calls and random numbers stay.
    """

    name = "while-loop-invariant-code-motion"
    hoist_constants: bool = False
    hoist_reshapes: bool = False
    hoist_other: bool = True
    hoist_size_inflation_ratio: float = math.inf

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Hoists out of inner loops first; True if something was."""
        changed = False
        for loop in loops_to_change(module, execution_threads):
            if loop.frontend_attributes.get(DISABLED) == "true" or not self._hoisted(loop):
                continue
            own_computations(loop)
            hoisted = self._hoisted(loop)
            _hoist(loop, hoisted, [i for i in hoisted if self._is_worth_hoisting(i)])
            changed = True
        return changed

    def _hoisted(self, loop: HloInstruction) -> list[HloInstruction]:
        """Returns what is to be hoisted, in post order: what is worth it, and what that reads."""
        body = loop.while_body
        assert loop.module is not None
        effects = analyses.get(SideEffects, loop.module)
        state, invariant = body.parameter_instructions[0], set(invariant_elements(loop))
        known: set[HloInstruction] = set()
        candidates: list[HloInstruction] = []
        for instruction in body.make_instruction_post_order():
            if instruction.opcode == "get-tuple-element" and instruction.operand(0) is state:
                if element_index(instruction) in invariant:
                    known.add(instruction)
            elif known.issuperset(instruction.operands) and self._may_hoist(instruction, effects):
                known.add(instruction)
                candidates.append(instruction)
        worth = [i for i in candidates if i.user_count and self._is_worth_hoisting(i)][:MAX_ADDED_ELEMENTS]
        needed = set(worth)
        for instruction in reversed(candidates):
            if instruction in needed:
                needed.update(instruction.operands)
        return [i for i in candidates if i in needed]

    def _may_hoist(self, instruction: HloInstruction, effects: SideEffects) -> bool:
        if instruction.opcode in STAYS or not instruction.shape.is_array or has_control_dependencies(instruction):
            return False
        if instruction.op.has(Trait.COLLECTIVE) or effects.of_instruction(instruction):
            return False
        ratio = self.hoist_size_inflation_ratio
        if ratio == math.inf or instruction.opcode in MOVEMENT or not instruction.operand_count:
            return True
        read = sum(o.shape.byte_size for o in instruction.unique_operands())
        return instruction.shape.byte_size <= ratio * read

    def _is_worth_hoisting(self, instruction: HloInstruction) -> bool:
        if instruction.opcode == "constant":
            return self.hoist_constants
        if instruction.opcode == "reshape":
            return self.hoist_reshapes
        return self.hoist_other and instruction.opcode not in MOVEMENT


def _hoist(loop: HloInstruction, hoisted: list[HloInstruction], carried: list[HloInstruction]) -> None:
    """Clones instructions in front of a loop; what stays in the body reads those `carried` from new elements."""
    computation = loop.parent
    assert computation is not None
    outside: dict[HloInstruction, HloInstruction] = {}

    def value(operand: HloInstruction) -> HloInstruction:
        if operand in outside:
            return outside[operand]
        index = element_index(operand)
        element = initial_value(loop, index)
        if element is None:
            element = computation.add_instruction(HloInstruction.create_get_tuple_element(loop.while_init, index))
        return outside.setdefault(operand, element)

    for old in hoisted:
        operands = [value(o) for o in old.operands]
        outside[old] = computation.add_instruction(old.clone_with_new_operands(old.shape, operands))
    moved = set(hoisted)
    read = [i for i in carried if any(user not in moved for user in i.users)]
    count = len(loop.shape.tuple_shapes)
    new = resize(loop, range(count), [outside[i] for i in read])
    root = new.while_body.root_instruction
    for position, old in enumerate(read):
        old.replace_all_uses_with(root.operand(count + position))
    for old in reversed(hoisted):
        if not old.user_count and old.parent is new.while_body:  # not gone already, with what was dead in the body
            new.while_body.remove_instruction(old)
