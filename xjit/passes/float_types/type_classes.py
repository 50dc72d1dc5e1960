"""Leaves of values that must have one element type: what tuples, loops and fusions hand on is what they are given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import parse_aliases
from xjit.hlo.types.shape_index import ShapeIndex
from xjit.passes.analysis.forwarding import forwarded_leaves

Leaf = tuple[HloInstruction, int]
"""An instruction, and the number of a leaf of its shape."""

_HANDS_ON = frozenset({"tuple", "get-tuple-element"})
_OWN_COMPUTATIONS = frozenset({"while", "fusion"})


class TypeClasses:
    """The leaves of a module in classes of one type.

    A class with a leaf that is `fixed` keeps its type: the signatures of the entry, of computations that kernels apply,
    and of those that have a caller more, or another one than a while or fusion that owns all that it calls; tuples that
    an instruction makes; what is asynchronous. With `execution_threads`, all that runs in others.

    Where a tuple takes in a parameter that is fixed, the element is another class: a conversion may stand between. So
    it is where the step of a scan gives what is stacked; its carries and slices are fixed.
    """

    def __init__(self, module: HloModule, execution_threads: Collection[str]) -> None:
        self._above: dict[Leaf, Leaf] = {}
        self._fixed: set[Leaf] = set()
        self._threads = execution_threads
        for computation in module.computations():
            for instruction in computation.instructions:
                for a, b in _ties(instruction):
                    self._join(a, b)
        fixed = [leaf for c in module.computations() for leaf in self._fixed_leaves(c)]
        self._fixed = {self.of(leaf) for leaf in fixed}

    def of(self, leaf: Leaf) -> Leaf:
        """Returns the leaf that stands for the class of a leaf."""
        top = leaf
        while (above := self._above.get(top, top)) is not top:
            top = above
        while (above := self._above.get(leaf, leaf)) is not top and above is not leaf:
            self._above[leaf] = top
            leaf = above
        return top

    def is_fixed(self, representative: Leaf) -> bool:
        """Whether a class keeps its type."""
        return representative in self._fixed

    def _join(self, a: Leaf, b: Leaf) -> None:
        a, b = self.of(a), self.of(b)
        if a != b:
            self._above[a] = b

    def _fixed_leaves(self, computation: HloComputation) -> Iterator[Leaf]:
        is_selected = not self._threads or computation.execution_thread in self._threads
        root = computation.root_instruction
        if not _may_change_signature(computation):
            stacked = _stacked_count(computation)
            for parameter in computation.parameter_instructions:
                yield from leaves(parameter)
            yield from leaves(root)[stacked:]
            yield from (leaf for operand in root.operands[:stacked] for leaf in leaves(operand))
        for i in computation.instructions:
            makes_tuple = i.shape.is_tuple and i.opcode != "parameter" and not hands_on(i)
            if makes_tuple or i.op.has(Trait.ASYNC) or not is_selected:
                yield from leaves(i)
            if i.op.has(Trait.ASYNC):
                yield from (leaf for o in i.operands for leaf in leaves(o))
            elif i.opcode == "while" and not hands_on(i):
                yield from leaves(i.while_init)


def hands_on(instruction: HloInstruction) -> bool:
    """Whether the leaves of an instruction are those of others, whose types it takes."""
    if instruction.opcode in _OWN_COMPUTATIONS:
        return all(c.caller_count == 1 for c in instruction.called_computations)
    if instruction.opcode == "parameter":
        return instruction.parent is not None and _may_change_signature(instruction.parent)
    if instruction.opcode == "scan":
        return _stacked_count(instruction.to_apply) > 0
    return instruction.opcode in _HANDS_ON or instruction.op.has(Trait.FORWARDS)


def leaves(instruction: HloInstruction) -> tuple[Leaf, ...]:
    """Returns the leaves of an instruction."""
    return tuple((instruction, n) for n in range(instruction.shape.leaf_count))


def with_leaf_types(shape: Shape, change: Callable[[int, Shape], Shape]) -> Shape:
    """Returns a shape whose leaves are `change(number, leaf)`."""
    numbers = iter(range(shape.leaf_count))

    def changed(part: Shape) -> Shape:
        if part.is_tuple:
            return Shape.tuple_of([changed(s) for s in part.tuple_shapes])
        return change(next(numbers), part)

    return changed(shape)


def _may_change_signature(computation: HloComputation) -> bool:
    callers = computation.caller_instructions()
    return len(callers) == 1 and callers[0].opcode in _OWN_COMPUTATIONS and hands_on(callers[0])


def _stacked_count(computation: HloComputation) -> int:
    """How many results of a step are stacked, and may be of another type: of one that an associative scan owns."""
    callers, root = computation.caller_instructions(), computation.root_instruction
    if len(callers) != 1 or callers[0].opcode != "scan" or computation.caller_count != 1 or root.opcode != "tuple":
        return 0
    scan = callers[0].attributes_as(at.ScanAttributes)
    return root.operand_count - scan.num_carries if scan.is_associative == "true" else 0


def _ties(instruction: HloInstruction) -> Iterator[tuple[Leaf, Leaf]]:
    if not hands_on(instruction) or instruction.opcode == "parameter":
        return
    if instruction.opcode == "while":
        loop = (instruction.while_init, instruction.while_body.root_instruction)
        ends = (*loop, *(c.parameter_instruction(0) for c in instruction.called_computations))
        for end in ends:
            yield from zip(leaves(instruction), leaves(end), strict=True)
    elif instruction.opcode == "scan":
        step = instruction.to_apply
        yield from zip(leaves(instruction), leaves(step.root_instruction), strict=True)
        for operand, parameter in zip(instruction.operands, step.parameter_instructions, strict=True):
            yield from zip(leaves(operand), leaves(parameter), strict=True)
    elif instruction.opcode == "fusion":
        fused = instruction.fused_instructions_computation
        for operand, parameter in zip(instruction.operands, fused.parameter_instructions, strict=True):
            yield from zip(leaves(operand), leaves(parameter), strict=True)
        yield from zip(leaves(instruction), leaves(fused.root_instruction), strict=True)
        for alias in parse_aliases(instruction.attributes_as(at.FusionAttributes).output_to_operand_aliasing):
            source = _leaves_at(instruction.operand(alias.parameter_number), alias.parameter_index)
            yield from zip(_leaves_at(instruction, alias.output_index), source, strict=True)
    else:
        for leaf, source in zip(leaves(instruction), forwarded_leaves(instruction, leaves), strict=True):
            if not (instruction.opcode == "tuple" and is_converted_for_tuple(instruction, leaf[1], source[0])):
                yield leaf, source


def _leaves_at(instruction: HloInstruction, index: ShapeIndex) -> list[Leaf]:
    places = enumerate(place for place, _ in instruction.shape.leaves())
    return [(instruction, n) for n, place in places if place[: len(index)] == index]


def is_converted_for_tuple(tuple_: HloInstruction, leaf: int, operand: HloInstruction) -> bool:
    """Whether an operand of a tuple may be of another type than the element, of one leaf, that it becomes."""
    if not operand.shape.is_array:
        return False
    is_step = tuple_.is_root() and tuple_.parent is not None and leaf < _stacked_count(tuple_.parent)
    return is_step or (operand.opcode == "parameter" and not hands_on(operand))
