"""Computes what is the same in every trip of a loop once, in front of it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, Trait
from xjit.hlo import attributes as at
from xjit.passes.analysis.loop_evaluation import ends_after_a_trip, trip_count
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.analysis.while_loop_analysis import initial_value
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.loops.hoisting_gain import hoisting_gains
from xjit.passes.loops.loop_state import invariant_elements, loops_to_change, resize

DISABLED = "_xla_disable_loop_instr_hoisting"
"""A frontend attribute of loops that keeps everything inside, whatever its value."""

_BARRIERS = frozenset({"SPMDFullToShardShape", "SPMDShardShapeToFull", "MoveToHost", "MoveToDevice"})
"""Custom-calls whose place in a body has a meaning: nothing is hoisted from beside them, nor from beside a domain."""

MOVEMENT = frozenset({"bitcast", "broadcast", "iota", "reshape", "reverse", "slice", "transpose"})
"""Not worth an element of the state on their own: they compute nothing, and may well be fused into what reads them."""

STAYS = frozenset({"parameter", "tuple", "while", "conditional", "call", "custom-call"})
"""What is not hoisted: the structure of the body, and what may take long, or for ever, if the loop does not run."""

MAX_ADDED_ELEMENTS = 256
"""Elements that a run adds to one loop's state at most: each costs time in every pass that follows."""


@dataclass
class WhileLoopInvariantCodeMotion(HloModulePass):
    """Moves instructions that read only loop-invariant elements and constants out of the body.

    Their values become new, invariant elements of the state. What only moves elements (MOVEMENT) and constants go
    along where something that was hoisted needs them, and alone with `hoist_reshapes` (reshapes) and `hoist_constants`.
    `hoist_other=False` leaves all else inside. An instruction other than a constant stays whose result is larger than
    `hoist_size_inflation_ratio` times its operands; with `only_gains` also what is computed in less time than it is
    read, as masks are (`hoisting_gain.py`). Side effects, collectives, calls and random numbers stay, and all
    of loops of one trip at most, without an invariant array (but for constants), or with domains, shardings by hand or
    moves to another memory in them.
    """

    name = "while-loop-invariant-code-motion"
    hoist_constants: bool = False
    hoist_reshapes: bool = False
    hoist_other: bool = True
    hoist_size_inflation_ratio: float = math.inf
    only_gains: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Hoists out of inner loops first; True if something was."""
        changed = False
        for loop in loops_to_change(module, execution_threads):
            if DISABLED in loop.frontend_attributes or not self._hoisted(loop)[0] or _runs_once(loop):
                continue
            own_computations(loop)
            hoisted, carried = self._hoisted(loop)
            _hoist(loop, hoisted, carried)
            changed = True
        return changed

    def _hoisted(self, loop: HloInstruction) -> tuple[list[HloInstruction], list[HloInstruction]]:
        """Returns what is to be hoisted, in post order: what is worth it, and what that reads; and what is worth it."""
        body = loop.while_body
        assert loop.module is not None
        effects = analyses.get(SideEffects, loop.module)
        elements = loop.shape.tuple_shapes
        state, invariant = body.parameter_instructions[0], {i for i in invariant_elements(loop) if elements[i].is_array}
        if not (invariant or self.hoist_constants) or any(map(_is_barrier, body.instructions)):
            return [], []
        known: set[HloInstruction] = set()
        candidates: list[HloInstruction] = []
        for instruction in body.make_instruction_post_order():
            if instruction.opcode == "get-tuple-element" and instruction.operand(0) is state:
                if element_index(instruction) in invariant:
                    known.add(instruction)
            elif known.issuperset(instruction.operands) and self._may_hoist(instruction, effects):
                known.add(instruction)
                candidates.append(instruction)
        gains = hoisting_gains(candidates) if self.only_gains else {i for i in candidates if _computes_array(i)}
        worth = [i for i in candidates if i.user_count and self._is_worth_hoisting(i, i in gains)]
        needed = set(worth[:MAX_ADDED_ELEMENTS])
        for instruction in reversed(candidates):
            if instruction in needed:
                needed.update(instruction.operands)
        hoisted = [i for i in candidates if i in needed]
        return hoisted, [i for i in hoisted if self._is_worth_hoisting(i, i in gains)]

    def _may_hoist(self, instruction: HloInstruction, effects: SideEffects) -> bool:
        if instruction.opcode == "get-tuple-element":
            return self.hoist_other and instruction.shape.is_array  # of several results that were hoisted
        if instruction.opcode in STAYS or has_control_dependencies(instruction):
            return False
        if any(shape.is_token for _, shape in instruction.shape.leaves()):
            return False
        if instruction.op.has(Trait.COLLECTIVE) or effects.of_instruction(instruction):
            return False
        if not self.hoist_other and instruction.opcode not in ("constant", "reshape"):
            return False
        ratio = self.hoist_size_inflation_ratio
        if ratio == math.inf or instruction.opcode == "constant":
            return True
        return _bytes_of(instruction) <= ratio * sum(map(_bytes_of, instruction.operands))

    def _is_worth_hoisting(self, instruction: HloInstruction, gains: bool) -> bool:
        if instruction.opcode == "constant":
            return self.hoist_constants
        if instruction.opcode == "reshape":
            return self.hoist_reshapes
        return self.hoist_other and gains


def _computes_array(instruction: HloInstruction) -> bool:
    return instruction.shape.is_array and instruction.opcode not in MOVEMENT


def _bytes_of(instruction: HloInstruction) -> int:
    return sum(shape.byte_size for _, shape in instruction.shape.leaves())


def _is_barrier(instruction: HloInstruction) -> bool:
    if instruction.opcode == "custom-call":
        return instruction.attributes_as(at.CustomCallAttributes).custom_call_target in _BARRIERS
    return instruction.opcode == "domain"


def _runs_once(loop: HloInstruction) -> bool:
    """Whether a loop is known to run once at most."""
    trips = trip_count(loop, max_evaluated_trips=1)
    return (trips is not None and trips <= 1) or ends_after_a_trip(loop)


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
