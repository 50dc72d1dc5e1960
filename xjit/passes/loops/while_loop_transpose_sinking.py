"""Moves transposes in front of a loop into it, behind the slices that the body takes of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.analysis.while_loop_analysis import initial_value
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.framework.expansion import Expansion
from xjit.passes.loops.loop_state import element_reads, invariant_elements, loops_to_change, resize


@dataclass
class WhileLoopTransposeSinking(HloModulePass):
    """Makes a loop slice an array, and not its transpose: no transpose of all of it is made in front of the loop.

    The element of the state passes through, and the body only takes dynamic slices of it, whose transpose moves
    nothing: of one layer of stacked weights, say. The transpose stays for others that read it.
    """

    name = "while-loop-transpose-sinking"
    opcodes = frozenset({"while"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Sinks into inner loops first; True if a loop changed."""
        changed = False
        for loop in loops_to_change(module, execution_threads):
            if sunk := _sinkable(loop):
                _sink(loop, sunk)
                changed = True
        return changed


def _sinkable(loop: HloInstruction) -> list[int]:
    """Returns the elements that start as transposes, pass through, and are only sliced, by slices that move nothing."""
    transposes = {i: v for i in invariant_elements(loop) if (v := initial_value(loop, i)) and _is_transpose(v)}
    if not transposes:
        return []
    in_condition, in_body = (
        element_reads(c.parameter_instructions[0]) for c in (loop.while_condition, loop.while_body)
    )
    found: list[int] = []
    for index, transpose in transposes.items():
        slices = _slices(loop, index, in_body[index])
        order = transpose.attributes_as(at.DimensionsAttributes).dimensions
        moves_nothing = slices and all(s is not None and _moves_nothing(s, order) for s in slices)
        if moves_nothing and not in_condition[index]:
            found.append(index)
    return found


def _is_transpose(value: HloInstruction) -> bool:
    return value.opcode == "transpose" and value.shape.is_static and not has_control_dependencies(value)


def _slices(loop: HloInstruction, index: int, reads: Sequence[HloInstruction]) -> list[HloInstruction | None]:
    """What the body reads of an element, by these reads: dynamic slices of it, None for anything else."""
    root = loop.while_body.root_instruction
    found: list[HloInstruction | None] = []
    for read in reads:
        uses = [(user, n) for user in read.users for n, operand in enumerate(user.operands) if operand is read]
        for user, position in uses:
            if user is root and position == index:
                continue
            found.append(user if user.opcode == "dynamic-slice" and position == 0 else None)
    return list(dict.fromkeys(found))


def _moves_nothing(dynamic_slice: HloInstruction, order: tuple[int, ...]) -> bool:
    """Whether dimensions of more than one element keep their order under the transpose."""
    sizes = dynamic_slice.shape.dimensions
    wide = [source for source, size in zip(order, sizes, strict=True) if size != 1]
    splits = dynamic_slice.operand_count == 1 + len(sizes)  # a vector of starts has no dimension to name
    return splits and wide == sorted(wide) and not has_control_dependencies(dynamic_slice)


def _sink(loop: HloInstruction, sunk: list[int]) -> None:
    """Lets the state carry the operands of the transposes behind all other elements."""
    own_computations(loop)
    state = loop.while_body.parameter_instructions[0]
    count = len(loop.shape.tuple_shapes)
    values = {i: loop.while_init.operand(i) for i in sunk}
    reads = element_reads(state)
    for position, (index, transpose) in enumerate(values.items()):
        source = transpose.operand(0)
        order = transpose.attributes_as(at.DimensionsAttributes).dimensions
        attributes = at.GetTupleElementAttributes(count + position)
        read = HloInstruction.create("get-tuple-element", source.shape, [state], attributes, name=source.name)
        loop.while_body.add_instruction(read)
        for dynamic_slice in _slices(loop, index, reads[index]):
            assert dynamic_slice is not None
            _slice_source(dynamic_slice, read, order)
    keep = [i for i in range(count) if i not in values]
    resize(loop, keep, [v.operand(0) for v in values.values()], lambda _, index: values[index])
    for transpose in dict.fromkeys(values.values()):
        computation = transpose.parent
        if computation is not None and not transpose.user_count and not transpose.is_root():
            computation.remove_instruction(transpose)


def _slice_source(dynamic_slice: HloInstruction, source: HloInstruction, order: tuple[int, ...]) -> None:
    """Puts a slice of the transpose's operand, reshaped, in the place of a slice of the transpose."""
    into = Expansion(dynamic_slice)
    places = [order.index(d) for d in range(len(order))]
    starts = [dynamic_slice.operand(1 + d) for d in places]
    sizes = tuple(dynamic_slice.shape.dimensions[d] for d in places)
    part = into.make("dynamic-slice", source, *starts, attributes=at.DynamicSliceAttributes(sizes))
    into.replace_source(into.add(build.reshape(part, dynamic_slice.shape.dimensions)))
