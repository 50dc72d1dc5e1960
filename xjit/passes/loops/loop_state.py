"""The state of a while loop, as elements: which pass through, and the same loop with elements dropped or added.

These loops have a tuple as state, which condition and body read element by element, and of which the body's root
builds the next one. Other loops are left alone by the passes that ask here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.original_value import origin_of_elements
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework import analyses
from xjit.passes.framework.base import has_control_dependencies, selected_computations
from xjit.passes.simplify.hlo_dce import remove_dead_instructions

ValueAfter = Callable[[HloInstruction, int], HloInstruction]


def has_elements(loop: HloInstruction) -> bool:
    """Whether the state is a tuple that condition and body read element by element and the body builds anew."""
    return (
        loop.shape.is_tuple
        and loop.while_body.root_instruction.opcode == "tuple"
        and all(_reads_elements(c) for c in (loop.while_condition, loop.while_body))
    )


def _reads_elements(computation: HloComputation) -> bool:
    state = computation.parameter_instructions[0]
    return not state.is_root() and all(user.opcode == "get-tuple-element" for user in state.users)


def element_reads(tuple_shaped: HloInstruction) -> defaultdict[int, list[HloInstruction]]:
    """Returns the get-tuple-elements by index, in the order of the users."""
    reads: defaultdict[int, list[HloInstruction]] = defaultdict(list)
    for user in tuple_shaped.users:
        if user.opcode == "get-tuple-element":
            reads[element_index(user)].append(user)
    return reads


def passes_through(loop: HloInstruction, index: int) -> bool:
    """Whether the body passes an element on unchanged."""
    state, following = loop.while_body.parameter_instructions[0], loop.while_body.root_instruction.operand(index)
    return (
        following.opcode == "get-tuple-element" and following.operand(0) is state and element_index(following) == index
    )


def invariant_elements(loop: HloInstruction) -> list[int]:
    """Returns the indices of the elements that the body passes on unchanged."""
    return [i for i in range(len(loop.shape.tuple_shapes)) if passes_through(loop, i)]


def resize(
    loop: HloInstruction,
    keep: Sequence[int],
    added: Sequence[HloInstruction],
    value_after: ValueAfter | None = None,
) -> HloInstruction:
    """Puts a loop in the place of `loop` whose state has the elements `keep` and then loop-invariant ones, `added`.

    Elements that go must not be read in condition and body, except to build what they become next. Of the new loop and
    the index of one that goes, `value_after` makes what takes its place behind the loop. `loop` is removed, the new one
    returned.
    """
    own_computations(loop)
    computation, module = loop.parent, loop.module
    assert computation is not None and module is not None
    old_init = loop.while_init
    kept = [_initial_element(old_init, i) for i in keep]
    init = computation.add_instruction(HloInstruction.create_tuple([*kept, *added]))
    inherit_annotations(init, old_init if old_init.opcode == "tuple" else loop)
    _resize_root(loop.while_body, keep, added)
    effects = analyses.get(SideEffects, module)
    for callee in (loop.while_condition, loop.while_body):
        remove_dead_instructions(callee, effects)  # reads of elements that go, too
        _resize_parameter(callee, keep, init.shape)
    new = HloInstruction.create_while(init.shape, loop.while_condition, loop.while_body, init)
    computation.add_instruction(new)
    new.metadata, new.place = loop.metadata, loop.place
    new.frontend_attributes = dict(loop.frontend_attributes)
    new.backend_config = loop.backend_config
    new.origin = origin_of_elements(loop.origin, keep, len(added))
    if old_init.opcode == "tuple":
        init.origin = origin_of_elements(old_init.origin, keep, len(added))
    _replace_loop(loop, new, {old: position for position, old in enumerate(keep)}, value_after)
    return new


def _initial_element(init: HloInstruction, index: int) -> HloInstruction:
    if init.opcode == "tuple":
        return init.operand(index)
    assert init.parent is not None
    return init.parent.add_instruction(HloInstruction.create_get_tuple_element(init, index))


def _resize_parameter(computation: HloComputation, keep: Sequence[int], shape: Shape) -> None:
    """Changes the state's shape, and the numbers of the elements that are read. Added elements have theirs already."""
    state = computation.parameter_instructions[0]
    positions = {old: new for new, old in enumerate(keep)}
    last = len(state.shape.tuple_shapes)
    for read in state.users:
        index = element_index(read)
        read.update_attributes(index=positions[index] if index < last else len(keep) + index - last)
    state.mutable_shape = shape


def _resize_root(body: HloComputation, keep: Sequence[int], added: Sequence[HloInstruction]) -> None:
    """Builds the next state of the elements that stay and of those added, which are numbered behind all old ones."""
    old, state = body.root_instruction, body.parameter_instructions[0]
    last = len(old.operands)
    passed_on = [
        body.add_instruction(
            HloInstruction.create(
                "get-tuple-element", value.shape, [state], at.GetTupleElementAttributes(last + i), name=value.name
            )
        )
        for i, value in enumerate(added)
    ]
    new = body.add_instruction(HloInstruction.create_tuple([*(old.operand(i) for i in keep), *passed_on]))
    inherit_annotations(new, old)
    body.set_root_instruction(new, accept_different_shape=True)
    body.remove_instruction_and_unused_operands(old)


def _replace_loop(
    old: HloInstruction,
    new: HloInstruction,
    positions: Mapping[int, int],
    value_after: ValueAfter | None,
) -> None:
    """What reads elements of the old loop reads those of the new one; what reads it whole, a tuple of them."""
    computation = old.parent
    assert computation is not None

    def element(index: int) -> HloInstruction:
        if index in positions:
            return computation.add_instruction(HloInstruction.create_get_tuple_element(new, positions[index]))
        assert value_after is not None
        return value_after(new, index)

    for user in old.users:
        if user.opcode == "get-tuple-element":
            value = element(element_index(user))
            inherit_annotations(value, user)
            value.copy_all_control_deps_from(user)
            user.drop_all_control_deps()
            user.replace_all_uses_with_different_shape(value)
            computation.remove_instruction(user)
    if old.user_count or old.is_root():
        whole = HloInstruction.create_tuple([element(i) for i in range(len(old.shape.tuple_shapes))])
        computation.add_instruction(whole)
        inherit_annotations(whole, old)
        old.replace_all_uses_with_different_shape(whole)
    computation.remove_instruction_and_unused_operands(old)


def loops_to_change(module: HloModule, execution_threads: Collection[str]) -> list[HloInstruction]:
    """Returns the loops whose state may be rebuilt, inner ones first: those of elements that no control edge and no
    sharding touches.
    """
    return [
        i
        for c in selected_computations(module, execution_threads)
        for i in c.instructions
        if i.opcode == "while" and has_elements(i) and i.sharding is None and not has_control_dependencies(i)
    ]
