"""Copies constants that a loop's state carries unchanged into its body and condition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations

MAX_STEPS = 32
"""Instructions that compute an array that is copied."""
_OF_POSITIONS = frozenset((
    "add", "and", "bitcast", "broadcast", "compare", "convert", "copy", "iota", "maximum", "minimum", "multiply",
    "negate", "not", "or", "reshape", "select", "subtract", "transpose", "xor",
))  # fmt: skip
"""What computes one; it costs less than to read it from memory."""


@dataclass
class WhileLoopConstantSinking(HloModulePass):
    """Makes condition and body read a constant instead of the loop-invariant element that starts as it.

    Elements of tuples in the state are elements, too. They stay in the state, for the simplifier of loops to remove.
    With `sink_broadcast_of_constants` also broadcasts of constants are copied, with `sink_only_scalar_constants`
    nothing else but scalars. With `sink_positions` arrays are copied, too, that a few comparisons, sums and the like
    compute from positions and scalar constants, as masks are, where they are read element by element: they take no
    memory then, and what they are read in knows them. It undoes hoisting of constants: don't combine it with that.
    """

    name = "while-loop-constant-sinking"
    opcodes = frozenset({"while"})
    sink_broadcast_of_constants: bool = False
    sink_only_scalar_constants: bool = False
    sink_positions: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Sinks into outer loops first, for inner ones to start as the copies; True if a constant was copied."""
        changed = False
        loops = [
            i
            for c in reversed(selected_computations(module, execution_threads))
            for i in c.instructions
            if i.opcode == "while" and i.shape.is_tuple and i.while_body.root_instruction.opcode == "tuple"
        ]
        for loop in loops:
            uses = [_uses(callee) for callee in loop.called_computations]
            constants = {
                place: value
                for place, value in _invariant_values(loop)
                if self._may_sink(value, [user for found in uses for user, _ in found.get(place, ())])
            }
            if any(found.keys() & constants.keys() for found in uses):
                own_computations(loop)
                _sink(loop.while_condition, constants)
                _sink(loop.while_body, constants)
                changed = True
        return changed

    def _may_sink(self, value: HloInstruction, users: Sequence[HloInstruction]) -> bool:
        is_array = value.shape.is_array and not value.shape.is_scalar
        if self.sink_positions and is_array and all(map(_reads_elements, users)) and _is_of_positions(value):
            return True
        if value.opcode == "broadcast" and self.sink_broadcast_of_constants and not self.sink_only_scalar_constants:
            return value.operand(0).opcode == "constant"
        return value.opcode == "constant" and (value.shape.is_scalar or not self.sink_only_scalar_constants)


def _reads_elements(user: HloInstruction) -> bool:
    """Whether an instruction reads arrays element by element, or is what another loop starts with."""
    if user.opcode == "tuple":
        return bool(user.users) and all(u.opcode == "while" for u in user.users)
    return user.op.has(Trait.ELEMENTWISE)


def _is_of_positions(value: HloInstruction) -> bool:
    """Whether an array is computed from positions and scalar constants alone, in a few cheap steps."""
    stack, seen = [value], {value}
    while stack:
        instruction = stack.pop()
        is_number = instruction.opcode == "constant" and instruction.shape.is_scalar
        if not (is_number or instruction.opcode in _OF_POSITIONS) or has_control_dependencies(instruction):
            return False
        stack += [o for o in dict.fromkeys(instruction.operands) if o not in seen]
        seen.update(instruction.operands)
        if len(seen) > MAX_STEPS:
            return False
    return True


def _invariant_values(loop: HloInstruction) -> Iterator[tuple[ShapeIndex, HloInstruction]]:
    """Yields what the elements start as that the body passes on unchanged, with their places."""
    state = loop.while_body.parameter_instructions[0]
    stack: list[tuple[ShapeIndex, HloInstruction, HloInstruction | None]] = [
        ((), loop.while_init, loop.while_body.root_instruction)
    ]
    while stack:
        place, start, following = stack.pop()
        if following is not None and following.latest_non_gte_ancestor_and_index() == (state, place):
            following = None  # this passes through, with all that is in it
        if start.opcode == "tuple" and (following is None or following.opcode == "tuple"):
            parts = [None] * start.operand_count if following is None else following.operands
            stack += [((*place, i), s, f) for i, (s, f) in enumerate(zip(start.operands, parts, strict=False))]
        elif following is None:
            yield place, start


def _reads(computation: HloComputation) -> Iterator[tuple[ShapeIndex, HloInstruction]]:
    """Yields the instructions that read elements of the state, with the places of these."""
    stack: list[tuple[ShapeIndex, HloInstruction]] = [((), computation.parameter_instructions[0])]
    while stack:
        place, value = stack.pop()
        for read in reversed(value.users):
            if read.opcode == "get-tuple-element":
                stack.append(((*place, element_index(read)), read))
                yield stack[-1]


def _passed_on(root: HloInstruction) -> dict[tuple[HloInstruction, int], ShapeIndex]:
    """Returns for each operand, by tuple and number, of the tuples that a body's root is made of, its place."""
    found: dict[tuple[HloInstruction, int], ShapeIndex] = {}
    stack: list[tuple[ShapeIndex, HloInstruction]] = [((), root)]
    while stack:
        place, value = stack.pop()
        if value.opcode == "tuple":
            for i, operand in enumerate(value.operands):
                found[value, i] = (*place, i)
                stack.append(((*place, i), operand))
    return found


def _uses(computation: HloComputation) -> dict[ShapeIndex, list[tuple[HloInstruction, int]]]:
    """Returns where elements are read, as user and operand number, by place; but for the root that passes them on."""
    passed_on = _passed_on(computation.root_instruction)
    uses: dict[ShapeIndex, list[tuple[HloInstruction, int]]] = {}
    for place, read in _reads(computation):
        for user in read.users:
            for position, operand in enumerate(user.operands):
                if operand is read and passed_on.get((user, position)) != place:
                    uses.setdefault(place, []).append((user, position))
    return uses


def _sink(computation: HloComputation, constants: Mapping[ShapeIndex, HloInstruction]) -> None:
    """Makes all uses of elements read copies of their values."""
    uses = _uses(computation)
    for place in [place for place in constants if place in uses]:
        copy = _copy_into(computation, constants[place], {})
        for user, position in uses[place]:
            user.replace_operand_with(position, copy)
    for place, read in list(_reads(computation)):
        is_free = not (read.user_count or read.is_root() or has_control_dependencies(read))
        if is_free and place in constants:
            computation.remove_instruction_and_unused_operands(read)


def _copy_into(
    computation: HloComputation, value: HloInstruction, copies: dict[HloInstruction, HloInstruction]
) -> HloInstruction:
    if value not in copies:
        operands = [_copy_into(computation, operand, copies) for operand in value.operands]
        copies[value] = computation.add_instruction(value.clone_with_new_operands(value.shape, operands))
    return copies[value]
