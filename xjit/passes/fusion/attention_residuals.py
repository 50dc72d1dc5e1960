"""The gradient of attention in loops over layers: scores are made again, instead of being kept for each trip.

A loop that is differentiated (jax.lax.scan) keeps the weights of each layer's attention for the loop of its gradient:
memory for all scores of all layers. The products that scores are made from keep their operands anyway, which are short.
So the second loop makes the scores from those, and `attention-fusion` finds there what it finds in a program without
loops: a gradient whose scores are never in memory. Only where it does is anything changed, but for exponents, which
are those of a softmax first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.analysis.attention.products import is_elementwise, is_of_products
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.analysis.while_loop_analysis import counted_loop, initial_value, state_element
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.fusion.attention_limits import AttentionLimits
from xjit.passes.fusion.exponents import state_exponents
from xjit.passes.fusion.shared_keys import split_sums
from xjit.passes.loops.loop_state import loops_to_change, passes_through, resize
from xjit.passes.loops.stacked_values import Stack, StackReads, stack_reads, stacks_of

MAX_STEPS = 400
"""Instructions that are looked at for one attention."""
_RESHAPES = ("bitcast", "reshape")


@dataclass
class AttentionResiduals(AttentionLimits, HloModulePass):
    """Makes the scores of attention again in the loop of its gradient, where a loop before kept them for each trip.

    For the limits see `AttentionLimits`: they are those of `attention-fusion`, which is to fuse what this leaves.
    """

    name = "attention-residuals"
    opcodes = frozenset({"while"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Changes loops that read what others before them keep; True if one was changed."""
        loops = loops_to_change(module, execution_threads)
        stated = [self._state_exponents(loop) for loop in loops]
        changed = any(stated)
        for producer in loops:
            if producer.parent is None or not self._weights(producer):
                continue  # it was changed itself: the loop in its place is for the next run
            inits = {init for read in producer.users for init in read.users if init.opcode == "tuple"}
            for loop in [i for i in loops if i.parent is not None and i.while_init in inits]:
                is_shared = loop.while_body.caller_count > 1 or producer.while_body is loop.while_body
                changed |= not is_shared and self._run_on(producer, loop)
        return changed

    def _state_exponents(self, loop: HloInstruction) -> bool:
        """Gives exponentials of scores the exponents of a softmax, where they have others; True if some had."""
        body = loop.while_body
        powers = [i for i in body.instructions if i.opcode in ("exponential", "power") and self.may_have_gradient(i)]
        return state_exponents(body, [i for i in powers if is_of_products(i)], keep_factors=True)

    def _weights(self, producer: HloInstruction) -> list[HloInstruction]:
        exponentials = [i for i in producer.while_body.instructions if i.opcode == "exponential"]
        return [i for i in exponentials if self.may_have_gradient(i)]

    def _run_on(self, producer: HloInstruction, loop: HloInstruction) -> bool:
        """Changes a loop that reads what `producer` keeps of scores; False, and nothing is changed, if it does not."""
        stacks = stacks_of(producer)
        reads = stack_reads(loop, producer, stacks)
        added: list[HloInstruction] = []
        changed = False
        for weights in self._weights(producer):
            region = _Region.of(weights)
            wanted = [] if region is None else [r for r in reads if r.slices and r.stack.value in region.values]
            if region is None or all(r.stack.value.shape.num_elements < weights.shape.num_elements for r in wanted):
                continue
            start = _start_of(wanted)
            if start is None:
                continue
            kept = [stack for stack in stacks.values() if stack.value not in region.values]
            remaking = _Remaking(producer, loop, region, kept, start, list(added))
            if self._make_again(remaking, weights, wanted):
                changed, added = True, remaking.added
        if added:
            resize(loop, range(len(loop.shape.tuple_shapes)), added)
        return changed

    def _make_again(self, remaking: _Remaking, weights: HloInstruction, wanted: Sequence[StackReads]) -> bool:
        """Makes what slices read, if attention fuses that then."""
        made = [remaking.value(read.stack.value) for read in wanted]
        values = [value for value in made if value is not None]
        again = remaking.value(weights)
        if again is None or len(values) < len(made):
            remaking.remove()
            return False
        uses = [
            (user, number, part, value)
            for read, value in zip(wanted, values, strict=True)
            for part in read.slices
            for user in part.users
            for number, operand in enumerate(user.operands)
            if operand is part
        ]
        for user, number, _, value in uses:
            user.replace_operand_with(number, value)
        if not self._becomes_gradient(again):
            for user, number, part, _ in uses:
                user.replace_operand_with(number, part)
            remaking.remove()
            return False
        for part in [part for read in wanted for part in read.slices]:
            remaking.body.remove_instruction_and_unused_operands(part)
        return True

    def _becomes_gradient(self, weights: HloInstruction) -> bool:
        """Whether attention fuses the gradient that reads these exponentials, now or with sums over heads apart."""
        if self.gradient_of(weights) is not None:
            return True
        assert weights.parent is not None
        splits = split_sums(weights.parent, weights)
        found = bool(splits) and self.gradient_of(weights) is not None
        for split in splits:
            split.undo()
        return found


@dataclass(frozen=True, slots=True)
class _Region:
    """The products that the scores of an attention are made from, and what of a body is computed from these alone,
    element by element or by sums and maxima of rows.
    """

    dots: frozenset[HloInstruction]
    values: frozenset[HloInstruction]

    @staticmethod
    def of(weights: HloInstruction) -> _Region | None:
        """Returns the region of some exponentials; None if it is too large, or nothing multiplies there."""
        behind = _reached([weights], lambda i: i.operands if i.opcode != "dot" else ())
        dots = frozenset(i for i in behind or () if i.opcode == "dot")
        values = _reached(dots, lambda i: [u for u in i.users if _is_of_scores(u)])
        return None if values is None or not dots or weights not in values else _Region(dots, frozenset(values))


def _is_of_scores(instruction: HloInstruction) -> bool:
    if instruction.opcode == "reduce":
        return instruction.operand_count == 2 and not has_control_dependencies(instruction)
    return is_elementwise(instruction)


def _reached(
    start: Iterable[HloInstruction], following: Callable[[HloInstruction], Iterable[HloInstruction]]
) -> set[HloInstruction] | None:
    """Returns what is reached from some instructions, through those that may be of scores; None if that is too much."""
    stack = list(start)
    found = set(stack)
    while stack:
        instruction = stack.pop()
        if instruction.opcode != "dot" and not _is_of_scores(instruction):
            continue
        new = [i for i in following(instruction) if i not in found]
        found.update(new)
        stack += dict.fromkeys(new)
        if len(found) > MAX_STEPS:
            return None
    return found


def _start_of(reads: Sequence[StackReads]) -> HloInstruction | None:
    """Returns where all slices that are read start; None if that is not one number that is computed from numbers."""
    starts = {part.operand(1 + read.stack.dimension) for read in reads for part in read.slices}
    if len(starts) != 1:
        return None
    (start,) = starts
    stack, seen = [start], {start}
    while stack:
        instruction = stack.pop()
        if not instruction.shape.is_scalar:
            return None
        operands = () if instruction.opcode == "get-tuple-element" else instruction.operands
        stack += [o for o in operands if o not in seen]
        seen.update(operands)
    return start


def _same_numbers(stack: Stack) -> Iterator[tuple[HloInstruction, tuple[HloInstruction, ...]]]:
    """Yields what a stack keeps, and what that is moved from: with the instructions that are to be undone, the last one
    first.
    """
    value = stack.value
    undone: tuple[HloInstruction, ...] = ()
    yield value, undone
    while value.opcode in _RESHAPES or value.opcode == "transpose":
        undone = (*undone, value)
        value = value.operand(0)
        yield value, undone
    if value.opcode == "broadcast":
        kept = _wide_dimensions(value)
        for other in value.operand(0).users:
            if other.opcode == "broadcast" and _wide_dimensions(other) == kept:
                yield other, undone


def _wide_dimensions(broadcast: HloInstruction) -> list[tuple[int, int | None]]:
    """Returns the size of each dimension that has more than one element, and which one of the operand it is."""
    dimensions = broadcast.attributes_as(at.DimensionsAttributes).dimensions
    sizes = enumerate(broadcast.shape.dimensions)
    return [(size, dimensions.index(d) if d in dimensions else None) for d, size in sizes if size > 1]


class _Remaking:
    """Values of a loop's body, made again in the body of another loop, of the trip that some slices there are of."""

    def __init__(
        self,
        producer: HloInstruction,
        loop: HloInstruction,
        region: _Region,
        kept: Iterable[Stack],
        start: HloInstruction,
        added: list[HloInstruction],
    ) -> None:
        self.producer = producer
        self.loop = loop
        self.body = loop.while_body
        self.region = region
        self.start = start
        self.added = added
        """What the loop's state has to have besides."""
        self.made: dict[HloInstruction, HloInstruction | None] = {}
        self._new: list[HloInstruction] = []
        self._kept: dict[HloInstruction, tuple[Stack, tuple[HloInstruction, ...]]] = {}
        for stack in kept:
            for value, undone in _same_numbers(stack):
                self._kept.setdefault(value, (stack, undone))

    def value(self, instruction: HloInstruction) -> HloInstruction | None:
        """Returns what an instruction is in the loop at hand; None if it cannot be made there."""
        stack = [] if instruction in self.made else [instruction]
        while stack:  # chains may be longer than Python's stack is deep
            needed = next((o for o in self._made_before(stack[-1]) if o not in self.made), None)
            if needed is None:
                made = stack.pop()
                self.made[made] = self._make(made)
            elif len(self.made) + len(stack) < MAX_STEPS:
                stack.append(needed)
            else:
                return None
        return self.made[instruction]

    def remove(self) -> None:
        """Removes all that was made."""
        for instruction in reversed(self._new):
            self.body.remove_instruction(instruction)

    def _add(self, instruction: HloInstruction) -> HloInstruction:
        self._new.append(instruction)
        return self.body.add_instruction(instruction)

    def _make(self, instruction: HloInstruction) -> HloInstruction | None:
        if instruction.opcode == "constant":
            return self._add(instruction.clone_with_new_operands(instruction.shape, []))
        if instruction in self._kept:
            stack, undone = self._kept[instruction]
            return self._undo(self._slice(stack), undone, instruction)
        element = state_element(instruction)
        if element is not None:
            return self._invariant(element)
        if instruction.opcode == "dynamic-slice":
            return self._slice_of_invariant(instruction)
        if not self._is_made_of_operands(instruction):
            return None
        operands = [self.made[operand] for operand in instruction.operands]
        found = [operand for operand in operands if operand is not None]
        if len(found) < len(operands):
            return None
        return self._add(instruction.clone_with_new_operands(instruction.shape, found))

    def _made_before(self, instruction: HloInstruction) -> Sequence[HloInstruction]:
        """What has to be made before an instruction."""
        if instruction.opcode == "constant" or instruction in self._kept or state_element(instruction) is not None:
            return ()
        if instruction.opcode == "dynamic-slice":
            return [instruction.operand(0), *(o for o in instruction.operands[1:] if o.opcode == "constant")]
        return instruction.operands if self._is_made_of_operands(instruction) else ()

    def _is_made_of_operands(self, instruction: HloInstruction) -> bool:
        if instruction.opcode == "reduce":
            return instruction in self.region.values
        return instruction in self.region.dots or _is_of_scores(instruction)

    def _slice(self, stack: Stack) -> HloInstruction:
        """What was kept of the trip."""
        assert self.producer.parent is not None
        shape = self.producer.shape.tuple_shapes[stack.element]
        read = next(
            (u for u in self.producer.users if u.opcode == "get-tuple-element" and element_index(u) == stack.element),
            None,
        )
        if read is None:
            read = HloInstruction.create_get_tuple_element(self.producer, stack.element)
            self.producer.parent.add_instruction(read)
        whole = self._element(read)
        zero = self._add(build.make_constant(0, self.start.shape.element_type))
        starts = [self.start if d == stack.dimension else zero for d in range(shape.rank)]
        sizes = at.DynamicSliceAttributes(stack.value.shape.dimensions)
        return self._add(build.make("dynamic-slice", whole, *starts, attributes=sizes))

    def _undo(
        self, part: HloInstruction, undone: Sequence[HloInstruction], instruction: HloInstruction
    ) -> HloInstruction:
        """Moves what was kept to where it is moved from: transposes are undone, the rest is the order of dimensions."""
        for move in undone:
            if move.opcode != "transpose":
                continue
            order = move.attributes_as(at.DimensionsAttributes).dimensions
            part = self._reshaped(part, move.shape.dimensions)
            part = self._add(build.transpose(part, [order.index(d) for d in range(len(order))]))
        return self._reshaped(part, instruction.shape.dimensions)

    def _reshaped(self, value: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        return value if value.shape.dimensions == tuple(dimensions) else self._add(build.reshape(value, dimensions))

    def _invariant(self, element: int) -> HloInstruction | None:
        """An element of the other loop's state, if that never changes."""
        if not passes_through(self.producer, element):
            return None
        start = initial_value(self.producer, element)
        return None if start is None else self._element(start)

    def _slice_of_invariant(self, instruction: HloInstruction) -> HloInstruction | None:
        """What another trip takes of an array that has a slice for each."""
        counted = counted_loop(self.producer)
        whole = self.made[instruction.operand(0)]
        starts = instruction.operands[1:]
        if counted is None or whole is None or len(starts) != whole.shape.rank:
            return None
        if any(start.shape.element_type is not self.start.shape.element_type for start in starts):
            return None
        made: list[HloInstruction] = []
        for d, start in enumerate(starts):
            counts = state_element(start) == counted.index and whole.shape.dimensions[d] == counted.trip_count
            if not (counts and instruction.shape.dimensions[d] == 1) and start.opcode != "constant":
                return None
            value = self.start if counts else self.made[start]
            assert value is not None
            made.append(value)
        return self._add(instruction.clone_with_new_operands(instruction.shape, [whole, *made]))

    def _element(self, value: HloInstruction) -> HloInstruction:
        """Reads a value from outside of the loop in its body; if the state has it not, it is added."""
        state, init, count = (
            self.body.parameter_instructions[0],
            self.loop.while_init,
            len(self.loop.shape.tuple_shapes),
        )
        elements = init.operands if init.opcode == "tuple" else ()
        for number, start in enumerate(elements):
            if start is value and passes_through(self.loop, number):
                break
        else:
            if value not in self.added:
                self.added.append(value)
            number = count + self.added.index(value)
        index = at.GetTupleElementAttributes(number)
        return self._add(HloInstruction.create("get-tuple-element", value.shape, [state], index, name=value.name))
