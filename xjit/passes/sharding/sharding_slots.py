"""Slots: what is known of the sharding of each array of each instruction while shardings are propagated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding, read_sharding
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes import GetTupleElementAttributes


class Slot:
    """One array of a value. A `fixed` slot keeps its sharding; slots that must agree have one representative."""

    __slots__ = ("_same", "fixed", "free_dimensions", "is_even", "shape", "sharding")

    def __init__(self, shape: Shape, sharding: DeviceSharding | None = None, *, fixed: bool = False) -> None:
        self.shape = shape
        self.sharding = sharding
        self.fixed = fixed
        self.free_dimensions: frozenset[int] | None = None  # only these may be split further; None: all
        self.is_even = False  # takes only tiles of one size
        self._same: Slot | None = None

    @property
    def representative(self) -> Slot:
        """The slot that stands for all that agree with this one."""
        slot = self
        while slot._same is not None:
            slot = slot._same
        return slot

    def agree_with(self, other: Slot) -> bool:
        """Lets both have one sharding from now on, unless both are fixed; True if that is new."""
        a, b = self.representative, other.representative
        if a is b or (a.fixed and b.fixed):
            return False
        if a.fixed:
            a, b = b, a
        if not b.fixed:
            b.sharding = b.sharding or a.sharding
        a._same = b
        return True


Link = tuple[Sequence[Slot], Sequence[Slot]]


@dataclass(frozen=True, slots=True, eq=False)
class DataFlowEdge:
    """An array of a loop's state, or of branches' results: what it is on one path or another, and the array itself."""

    sources: tuple[Slot, ...]
    target: Slot

    @property
    def is_closed(self) -> bool:
        """Whether the array is the same on all paths."""
        return all(source is self.target for source in self.sources)


def leaf_shapes(shape: Shape) -> Iterator[Shape]:
    """Yields what may have a sharding of its own: all that is no tuple, and empty tuples, left to right."""
    stack = [shape]
    while stack:
        top = stack.pop()
        if top.is_tuple and top.tuple_shapes:
            stack.extend(reversed(top.tuple_shapes))
        else:
            yield top


def leaves_of(sharding: HloSharding) -> Iterator[HloSharding]:
    """Yields the shardings of arrays within that of a tuple, left to right."""
    stack = [sharding]
    while stack:
        top = stack.pop()
        if top.elements:
            stack.extend(reversed(top.elements))
        else:
            yield top


def by_leaf(given: Sequence[DeviceSharding], shapes: Sequence[Shape]) -> list[DeviceSharding] | None:
    """Returns the elements of a sharding by leaf (`leaf_shapes`); None if there are not as many.

    One element is for all leaves. Empty tuples within tuples have no element.
    """
    if len(given) in (1, len(shapes)):
        return list(given) * (len(shapes) // len(given))
    if len(given) != sum(not shape.is_tuple for shape in shapes):
        return None
    rest = iter(given)
    return [DeviceSharding("unknown") if shape.is_tuple else next(rest) for shape in shapes]


def annotated_shapes(instruction: HloInstruction) -> list[Shape]:
    """The shapes that the sharding of an instruction has elements for: an outfeed's are of what it sends, too."""
    sent = leaf_shapes(instruction.operands[0].shape) if instruction.opcode == "outfeed" else ()
    return [*sent, *leaf_shapes(instruction.shape)]


class ShardingSlots:
    """The slots of some computations, with their given shardings; while loops, branches and callees agree already.

    With `has_edges`, as in Shardy, what a loop begins with and what its body and branches end with may have shardings
    of their own. Tuples, and the parameters of branches, are other names of their arrays then, and so is what a loop
    hands on.
    """

    def __init__(self, module: HloModule, computations: Sequence[HloComputation], *, has_edges: bool = False) -> None:
        self.computations = computations
        self.has_edges = has_edges
        self.entry = module.entry_computation
        self.slots = {i: _given_slots(i) for c in computations for i in c.instructions}
        for instruction in self.slots:
            self._agree((*self._agreements(instruction), *(self._names(instruction) if has_edges else ())))
        while has_edges and any(self._agree(self._handed_on(i)) for i in self.slots if i.opcode == "while"):
            pass
        self.edges = {i: self._edges(i) for i in self.slots if has_edges and i.opcode in ("while", "conditional")}
        self.links = {i: [pair for link in self._links(i) for pair in zip(*link)] for i in self.slots}
        """(Operand's slot, slot of the same array) for each array that passes through an instruction unchanged."""

    def __getitem__(self, instruction: HloInstruction) -> list[Slot]:
        return [slot.representative for slot in self.slots[instruction]]

    @staticmethod
    def _agree(pairs: Iterable[Link]) -> bool:
        """Lets slots agree; True if some did not before."""
        found = [a.agree_with(b) for one, other in pairs for a, b in zip(one, other)]
        return any(found)

    def _agreements(self, instruction: HloInstruction) -> Iterator[Link]:
        """Yields lists of slots that are of one value on every path: loop states, and results of callees."""
        callees = [c for c in instruction.called_computations if c.root_instruction in self.slots]
        own = self.slots[instruction]
        if instruction.opcode == "while" and len(callees) == 2:
            condition, body = callees
            yield self.slots[body.parameter_instruction(0)], own
            if not self.has_edges:
                yield self.slots[body.root_instruction], own
            yield self.slots[condition.parameter_instruction(0)], own
        elif instruction.opcode == "call" or (instruction.opcode == "conditional" and not self.has_edges):
            for callee in callees:
                yield self.slots[callee.root_instruction], own

    def _names(self, instruction: HloInstruction) -> Iterator[Link]:
        """Yields lists of slots that are of one array under two names; the entry's result has shardings of its own."""
        is_result = instruction is self.entry.root_instruction
        if instruction.opcode == "get-tuple-element" or (instruction.opcode == "tuple" and not is_result):
            yield from self._links(instruction)
        elif instruction.opcode in ("conditional", "call"):
            yield from self._callee_links(instruction)

    def _handed_on(self, loop: HloInstruction) -> Iterator[Link]:
        """Yields slots of a loop's state that its body leaves as they are, with those of what the loop begins with."""
        root = loop.while_body.root_instruction
        if root in self.slots:
            for first, own, last in zip(self[loop.operand(0)], self[loop], self[root]):
                if own is last:
                    yield [first], [own]

    def _edges(self, instruction: HloInstruction) -> list[DataFlowEdge]:
        """The edges of a loop, or of branches, in order."""
        callees = [c for c in instruction.called_computations if c.root_instruction in self.slots]
        if instruction.opcode == "while":
            callees = callees[1:] if len(callees) == 2 else []
        sources = [self[instruction.operand(0)]] if instruction.opcode == "while" else []
        sources += [self[callee.root_instruction] for callee in callees]
        return [
            DataFlowEdge(some, target) for *some_, target in zip(*sources, self[instruction]) if (some := tuple(some_))
        ]

    def _links(self, instruction: HloInstruction) -> Iterator[Link]:
        own, operands = self[instruction], instruction.operands
        opcode = instruction.opcode
        if opcode == "tuple":
            yield self.of_all(operands), own
        elif opcode == "get-tuple-element":
            before = operands[0].shape.tuple_shapes[: instruction.attributes_as(GetTupleElementAttributes).index]
            start = sum(1 for shape in before for _ in leaf_shapes(shape))
            yield self._part(operands[0], start, len(own)), own
        elif opcode == "while" and self.has_edges:
            return
        elif opcode in ("while", "opt-barrier", "add-dependency", "domain", "outfeed", "async-update"):
            yield self[operands[0]], own
        elif opcode == "async-start":
            yield from self._async_links(instruction)
        elif opcode == "async-done":
            start = sum(1 for _ in leaf_shapes(operands[0].shape.tuple_shapes[0]))
            yield self._part(operands[0], start, len(own)), own
        elif opcode == "copy" and instruction.shape.is_tuple:
            yield self[operands[0]], own
        elif opcode in ("conditional", "call"):
            yield from self._callee_links(instruction)

    def _callee_links(self, instruction: HloInstruction) -> Iterator[Link]:
        for i, callee in enumerate(instruction.called_computations):
            if callee.root_instruction in self.slots:
                given = (
                    instruction.operands if instruction.opcode != "conditional" else instruction.operands[i + 1 :][:1]
                )
                for operand, parameter in zip(given, callee.parameter_instructions):
                    yield self[operand], self[parameter]

    def _async_links(self, instruction: HloInstruction) -> Iterator[Link]:
        given = self.of_all(instruction.operands)
        own = self[instruction]
        yield given, own
        callee = instruction.called_computations[0]
        if callee.root_instruction in self.slots:
            yield given, self.of_all(callee.parameter_instructions)
            yield self[callee.root_instruction], own[len(given) :]

    def _part(self, instruction: HloInstruction, start: int, count: int) -> list[Slot]:
        return [slot.representative for slot in self.slots[instruction][start : start + count]]

    def of_all(self, instructions: Iterable[HloInstruction]) -> list[Slot]:
        """Returns the slots of several values, one after the other."""
        return list(chain.from_iterable(map(self.__getitem__, instructions)))

    def complete_tuples(self) -> bool:
        """Replicates what is left of tuples that are known in part; True if there was something."""
        changed = False
        for instruction in self.slots:
            slots = self[instruction]
            if any(slot.sharding for slot in slots):
                for slot in slots:
                    changed |= slot.sharding is None
                    slot.sharding = slot.sharding or REPLICATED
        return changed

    def write(self, chosen: Iterable[HloInstruction]) -> bool:
        """Annotates instructions with what is known of them; True if an annotation changed."""
        changed = False
        for instruction in chosen:
            slots = self[instruction]
            shardings = [slot.sharding for slot in slots if not slot.shape.is_tuple] or [slots[0].sharding]
            if not any(shardings) or any(s is not None and s.kind == "opaque" for s in shardings):
                continue
            parts = tuple(HloSharding(str(s)) for s in shardings)
            new = HloSharding(elements=parts) if instruction.shape.is_tuple else parts[0]
            if not _says(instruction.sharding, shardings):
                instruction.sharding = new
                changed = True
        return changed


def _says(given: HloSharding | None, shardings: Sequence[DeviceSharding | None]) -> bool:
    """Whether an annotation says the same already, whatever its spelling."""
    if given is None:
        return False
    told = [read_sharding(leaf).without_origin() for leaf in leaves_of(given)]
    told = told * len(shardings) if len(told) == 1 else told
    return told == [s and s.without_origin() for s in shardings]


def _given_slots(instruction: HloInstruction) -> list[Slot]:
    shapes = annotated_shapes(instruction)
    if instruction.sharding is None:
        return [Slot(shape) for shape in shapes]
    given = by_leaf([read_sharding(leaf) for leaf in leaves_of(instruction.sharding)], shapes)
    if given is None:
        given = [DeviceSharding("opaque")] * len(shapes)
    return [Slot(s) if g.kind == "unknown" else Slot(s, g, fixed=True) for s, g in zip(shapes, given)]
