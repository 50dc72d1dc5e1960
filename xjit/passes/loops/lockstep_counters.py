"""Integers of a loop's state that count in lockstep become one: the others follow from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo.edit.replacing import inherit_annotations, replace
from xjit.ops import build
from xjit.ops.reducers import integer_limits
from xjit.passes.analysis.while_loop_analysis import counted_loop, initial_number, step_of
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.loops.loop_state import element_reads, resize

_TYPES = frozenset(PrimitiveType.from_text(name) for name in ("s8", "u8", "s32", "u32", "s64", "u64"))
"""The types whose counters are merged: XLA's choice."""


@dataclass(frozen=True, slots=True)
class _Follower:
    """Element `index` is `factor * (element base) + offset` in every trip, in the arithmetic of its type.

    If it `starts` as no constant, what it starts as is added, and stays in the state in its place.
    """

    index: int
    base: int
    factor: int
    offset: int
    starts: bool


def merge_counters(loop: HloInstruction) -> HloInstruction | None:
    """Computes elements from another one, their base, where they are read; None if there is none.

    The base starts as a constant, and the steps of the others are multiples of its own. Those that start as constants,
    too, are removed, the others become loop-invariant. Several of these without a base get one, which counts trips.
    """
    if loop.while_init.opcode != "tuple":
        return None
    loop = _with_trip_counters(loop)
    followers = _followers(loop)
    if not followers:
        return None
    own_computations(loop)
    for callee in (loop.while_condition, loop.while_body):
        state = callee.parameter_instructions[0]
        reads = element_reads(state)
        for follower in followers:
            if reads[follower.index]:
                value = _value(callee, state, follower, follower.base, reads[follower.index][0])
                for read in reads[follower.index]:
                    read.replace_all_uses_with(value)
    _keep_starts(loop, [follower for follower in followers if follower.starts])
    by_index = {follower.index: follower for follower in followers if not follower.starts}
    keep = [i for i in range(len(loop.shape.tuple_shapes)) if i not in by_index]
    positions = {old: new for new, old in enumerate(keep)}

    def value_after(new: HloInstruction, index: int) -> HloInstruction:
        assert new.parent is not None
        return _value(new.parent, new, by_index[index], positions[by_index[index].base], new)

    return resize(loop, keep, (), value_after) if by_index else loop


def _keep_starts(loop: HloInstruction, followers: Sequence[_Follower]) -> None:
    """Makes elements loop-invariant, and corrects what reads them behind the loop."""
    if not followers:
        return
    computation, body = loop.parent, loop.while_body
    assert computation is not None
    state = body.parameter_instructions[0]
    reads = element_reads(loop)
    whole = [user for user in loop.users if user.opcode != "get-tuple-element"]
    values: dict[int, HloInstruction] = {}
    for follower in followers:
        start = body.add_instruction(HloInstruction.create_get_tuple_element(state, follower.index))
        body.root_instruction.replace_operand_with(follower.index, start)
        if reads[follower.index] or whole or loop.is_root():
            values[follower.index] = _value(computation, loop, follower, follower.base, loop)
        for read in reads[follower.index]:
            replace(read, values[follower.index])
    if whole or loop.is_root():
        _replace_whole(loop, whole, values)


def _replace_whole(loop: HloInstruction, users: Sequence[HloInstruction], values: dict[int, HloInstruction]) -> None:
    """Makes what reads a loop whole read a tuple of its elements, some of them computed."""
    computation = loop.parent
    assert computation is not None
    elements = [
        values.get(i) or computation.add_instruction(HloInstruction.create_get_tuple_element(loop, i))
        for i in range(len(loop.shape.tuple_shapes))
    ]
    tuple_of_all = computation.add_instruction(HloInstruction.create_tuple(elements))
    inherit_annotations(tuple_of_all, loop)
    for user in users:
        for position, operand in enumerate(user.operands):
            if operand is loop:
                user.replace_operand_with(position, tuple_of_all)
    if loop.is_root():
        computation.set_root_instruction(tuple_of_all)


def _with_trip_counters(loop: HloInstruction) -> HloInstruction:
    """Adds what counts trips for each type with several counters, none of which starts as a constant."""
    starts: defaultdict[PrimitiveType, list[int | None]] = defaultdict(list)
    for index, (start, _) in _counters(loop).items():
        starts[loop.shape.tuple_shapes[index].element_type].append(start)
    missing = [kind for kind, found in starts.items() if len(found) > 1 and all(start is None for start in found)]
    if not missing:
        return loop
    computation, count = loop.parent, len(loop.shape.tuple_shapes)
    assert computation is not None
    zeros = [computation.add_instruction(build.make_constant(0, kind)) for kind in missing]
    new = resize(loop, range(count), zeros)
    body = new.while_body
    for position in range(count, count + len(missing)):
        trip = body.root_instruction.operand(position)
        one = body.add_instruction(build.make_constant(1, trip.shape.element_type))
        body.root_instruction.replace_operand_with(position, body.add_instruction(build.make("add", trip, one)))
    return new


def _followers(loop: HloInstruction) -> list[_Follower]:
    counted = counted_loop(loop)
    steps = _counters(loop)
    order = sorted(steps, key=lambda i: (counted is None or i != counted.index, steps[i][0] is None, i))
    bases: dict[PrimitiveType, tuple[int, int, int]] = {}
    followers: list[_Follower] = []
    for index in order:
        kind, (start, step) = loop.shape.tuple_shapes[index].element_type, steps[index]
        if kind not in bases:
            if start is not None:
                bases[kind] = index, start, step
            continue
        base, base_start, base_step = bases[kind]
        if step % base_step == 0:
            factor = step // base_step
            offset = (start or 0) - factor * base_start
            followers.append(_Follower(index, base, factor, offset, start is None))
    return followers


def _counters(loop: HloInstruction) -> dict[int, tuple[int | None, int]]:
    """Returns what the elements that count start at, None if that is no constant, and their steps."""
    found: dict[int, tuple[int | None, int]] = {}
    for index, shape in enumerate(loop.shape.tuple_shapes):
        if shape.is_scalar and shape.element_type in _TYPES:
            step = step_of(loop, index)
            if step:
                found[index] = initial_number(loop, index), step
    return found


def _value(
    computation: HloComputation, state: HloInstruction, follower: _Follower, position: int, like: HloInstruction
) -> HloInstruction:
    """Adds what computes an element of its base, which is element `position`; it inherits the annotations of `like`."""

    def add(instruction: HloInstruction) -> HloInstruction:
        inherit_annotations(computation.add_instruction(instruction), like)
        return instruction

    value = add(HloInstruction.create_get_tuple_element(state, position))
    for opcode, number, neutral in (("multiply", follower.factor, 1), ("add", follower.offset, 0)):
        if number != neutral:
            value = add(build.make(opcode, value, add(_number(number, value.shape.element_type))))
    if follower.starts:
        value = add(build.make("add", add(HloInstruction.create_get_tuple_element(state, follower.index)), value))
    return value


def _number(value: int, kind: PrimitiveType) -> HloInstruction:
    """A constant, wrapped around as arithmetic of its type does."""
    lowest = integer_limits(kind)[0]
    return build.make_constant((value - lowest) % (1 << kind.bit_width) + lowest, kind)
