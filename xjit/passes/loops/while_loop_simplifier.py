"""Takes loops apart that run never or once, and removes elements of loops' states."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.edit.replacing import replace
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.loop_evaluation import trip_count
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.analysis.while_loop_analysis import initial_value
from xjit.passes.calls_and_control.call_inliner import INLINED_LATE
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, calls_any, has_control_dependencies, selected_computations
from xjit.passes.loops.decided_compares import decide_compares
from xjit.passes.loops.equal_elements import equal_elements
from xjit.passes.loops.flat_state import flatten_state
from xjit.passes.loops.lockstep_counters import merge_counters
from xjit.passes.loops.loop_state import element_reads, has_elements, passes_through, resize
from xjit.passes.loops.while_loop_unroller import unroll
from xjit.passes.simplify.hlo_dce import KEPT_LOOPS, HloDCE, has_true_attribute
from xjit.passes.simplify.tuple_simplifier import TupleSimplifier

KEEPS_ONE_TRIP = "skip-simplify-while-loops_trip-count-one"
"""The frontend attribute, XLA's, of loops that stay though they run once."""

_TRANSFERS = frozenset({"send", "send-done", "recv", "recv-done"})
_DOMAINS = frozenset({"domain"})


@dataclass
class WhileLoopSimplifier(HloModulePass):
    """A loop of no trip becomes its initial state, one of one trip its body.

    Of other loops the state is flattened to one level, scalars that never change from the constant they start as are
    constants in the loop, and elements go that only compute themselves, that never change, that are set to the constant
    they start as, that are equal to another element from the start on, and that count in lockstep with another one.
    What is left over is cleaned up.

    Loops stay that have no tuple as state, a sharding, control edges, or computations that others call, too, unless
    `shared_computations` says to copy these; with side effects their trips stay. A transfer to another program keeps
    all trips, counters and constants. Frontend attributes keep loops, or one trip.
    """

    name = "while-loop-simplifier"
    opcodes = frozenset({"while"})
    simplify_compare_instrs: bool = False
    """Comparisons of what a loop counts with constants, which its trips decide, are done."""
    shared_computations: bool = False
    max_nesting: int = 64
    """Loops of one trip stay in modules nested deeper: each round takes the outermost one away only."""

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Simplifies inner loops first, until nothing changes; True if a loop did."""
        changed = False
        while self._run_once(module, execution_threads):
            changed = True
            TupleSimplifier().run(module)
            HloDCE().run(module)
        return changed

    def _run_once(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        may_unroll = analyses.get(CallGraph, module).nesting[module.entry_computation] <= self.max_nesting
        changed = False
        for computation in selected_computations(module, execution_threads):
            for loop in [i for i in computation.instructions if i.opcode == "while"]:
                if loop.parent is None:
                    continue  # its last reader was a loop that is listed before it, and took it along
                if self._may_change(loop):
                    if self.simplify_compare_instrs:
                        changed |= decide_compares(loop)
                    changed |= _simplify(loop, module, may_unroll)
        return changed

    def _may_change(self, loop: HloInstruction) -> bool:
        if not loop.shape.is_tuple or loop.sharding is not None or has_control_dependencies(loop):
            return False
        if has_true_attribute(loop, KEPT_LOOPS):
            return False
        return self.shared_computations or all(c.caller_count == 1 for c in loop.called_computations)


def _simplify(loop: HloInstruction, module: HloModule, may_unroll: bool) -> bool:
    transfers = calls_any(loop, _TRANSFERS)
    trips = trip_count(loop, max_evaluated_trips=1) if may_unroll and not transfers else None
    if trips is not None and trips <= 1 and not _must_stay(loop, trips, analyses.get(SideEffects, module)):
        unroll(loop, trips)
        return True
    changed = False
    flat = flatten_state(loop)
    if flat is not None:
        loop, changed = flat, True
    steps = [_sink_constants, _remove_copies, _remove_invariants, _remove_dead]
    if not transfers:
        steps.insert(1, _propagate_constants)
        if not calls_any(loop, _DOMAINS):
            steps.insert(3, merge_counters)
    for step in steps:
        if not has_elements(loop):
            break
        smaller = step(loop)
        if loop.parent is None and smaller is None:
            return True  # nobody reads what is left: it went with its last reader
        if smaller is not None:
            loop, changed = smaller, True
    return changed


def _must_stay(loop: HloInstruction, trips: int, effects: SideEffects) -> bool:
    """Whether what runs has side effects, which a loop keeps in order, or one trip is asked to stay one."""
    told = loop.frontend_attributes
    if trips and (told.get(KEEPS_ONE_TRIP) == "true" or told.get("inlineable") in INLINED_LATE):
        return True
    return effects.below(loop) if trips else any(i.has_side_effect() for i in loop.while_condition.instructions)


def _propagate_constants(loop: HloInstruction) -> HloInstruction | None:
    """Makes what reads a scalar in the loop that never changes from the constant it starts as read a constant there."""
    constants = {
        i: value
        for i, shape in enumerate(loop.shape.tuple_shapes)
        if shape.is_scalar and passes_through(loop, i)
        if (value := initial_value(loop, i)) is not None and value.opcode == "constant"
    }
    if not constants:
        return None
    changed = False
    own_computations(loop)
    root = loop.while_body.root_instruction
    for callee in (loop.while_condition, loop.while_body):
        for index, reads in element_reads(callee.parameter_instructions[0]).items():
            for read in reads if index in constants else ():
                uses = [(u, n) for u in read.users for n, o in enumerate(u.operands) if o is read]
                uses = [(u, n) for u, n in uses if u is not root or n != index]
                copy = callee.add_instruction(constants[index].clone()) if uses else read
                for user, position in uses:
                    user.replace_operand_with(position, copy)
                changed |= bool(uses)
    return loop if changed else None


def _sink_constants(loop: HloInstruction) -> HloInstruction | None:
    """Makes an element that starts as a constant, and that the body sets to the same, one that passes through: what
    reads it in the loop reads a constant there. If that is all, and does nothing else, the loop is its initial state.
    """
    module = loop.module
    assert module is not None
    indices = [i for i in range(len(loop.shape.tuple_shapes)) if _is_constant(loop, i)]
    if indices and len(indices) == len(loop.shape.tuple_shapes) and not analyses.get(SideEffects, module).below(loop):
        replace(loop, loop.while_init)
        return None
    if not indices:
        return None
    own_computations(loop)
    body = loop.while_body
    reads = {c: element_reads(c.parameter_instructions[0]) for c in (loop.while_condition, body)}
    for index in indices:
        constant = body.root_instruction.operand(index)
        for callee, by_index in reads.items():
            for read in by_index[index]:
                replace(read, constant if callee is body else callee.add_instruction(constant.clone()))
        state = body.parameter_instructions[0]
        read = body.add_instruction(HloInstruction.create_get_tuple_element(state, index))
        body.root_instruction.replace_operand_with(index, read)
    return loop


def _is_constant(loop: HloInstruction, index: int) -> bool:
    first, following = initial_value(loop, index), loop.while_body.root_instruction.operand(index)
    if first is None or not first.opcode == following.opcode == "constant":
        return False
    return first.attributes == following.attributes and first.shape == following.shape


def _remove_dead(loop: HloInstruction) -> HloInstruction | None:
    """Removes the elements that neither the condition nor an element that stays nor anything behind the loop reads."""
    count = len(loop.shape.tuple_shapes)
    keep = _needed(loop)
    if len(keep) == count or (not keep and _is_read_whole(loop)):
        return None

    def value_after(_new: HloInstruction, index: int) -> HloInstruction:
        value = initial_value(loop, index)
        assert value is not None
        return value

    return resize(loop, keep, (), value_after)


def _is_read_whole(loop: HloInstruction) -> bool:
    return loop.is_root() or any(user.opcode != "get-tuple-element" for user in loop.users)


def _needed(loop: HloInstruction) -> list[int]:
    """Returns the elements that are needed: the least set that has those of the condition, of what is read behind the
    loop, of side effects, and what these are computed of. What reads the loop whole needs no loop to have what passes
    through it.
    """
    condition, body, module = loop.while_condition, loop.while_body, loop.module
    assert module is not None
    effects = analyses.get(SideEffects, module)
    count = len(loop.shape.tuple_shapes)
    state, root = body.parameter_instructions[0], body.root_instruction
    readers = (*loop.users, *condition.parameter_instructions[0].users)
    needed = {element_index(user) for user in readers if user.opcode == "get-tuple-element"}
    if _is_read_whole(loop):
        needed |= {i for i in range(count) if initial_value(loop, i) is None or not passes_through(loop, i)}
    seen: set[HloInstruction] = set()
    stack = [i for i in body.instructions if effects.of_instruction(i) or has_control_dependencies(i)]
    stack += [root.operand(element) for element in needed]
    while stack:
        instruction = stack.pop()
        if instruction in seen:
            continue
        seen.add(instruction)
        for operand in instruction.operands:
            if operand is not state:
                stack.append(operand)
            elif (element := element_index(instruction)) not in needed:
                needed.add(element)
                stack.append(root.operand(element))
    return sorted(needed)


def _remove_invariants(loop: HloInstruction) -> HloInstruction | None:
    """Makes what reads an element that never changes behind the loop read its initial value; scalar and other constants
    are copied into the loop by constant sinking.
    """
    changed = False
    computation = loop.parent
    assert computation is not None
    for read in [u for u in loop.users if u.opcode == "get-tuple-element"]:
        value = initial_value(loop, element_index(read)) if passes_through(loop, element_index(read)) else None
        if value is not None and not has_control_dependencies(read):
            replace(read, value)
            changed = True
    return loop if changed and loop.parent is not None else None


def _remove_copies(loop: HloInstruction) -> HloInstruction | None:
    """Removes elements that are equal to an earlier one in every trip; what reads them reads that one."""
    first = equal_elements(loop)
    if all(i == index for index, i in enumerate(first)):
        return None
    own_computations(loop)
    keep = sorted(set(first))
    place = {element: n for n, element in enumerate(keep)}
    states = (loop, *(c.parameter_instructions[0] for c in (loop.while_condition, loop.while_body)))
    for read in (user for state in states for user in state.users):
        if read.opcode == "get-tuple-element" and first[element_index(read)] != element_index(read):
            read.update_attributes(index=first[element_index(read)])

    def value_after(new: HloInstruction, index: int) -> HloInstruction:
        assert new.parent is not None
        return new.parent.add_instruction(HloInstruction.create_get_tuple_element(new, place[first[index]]))

    return resize(loop, keep, (), value_after)
