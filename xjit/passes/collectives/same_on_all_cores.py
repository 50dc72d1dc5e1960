"""Whether two instructions of one module, each for another core, compute the same value."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at

Pair = tuple[HloInstruction, HloInstruction]


class SameValues:
    """Proofs of equality by structure. A pair that is being proven counts as equal: loops carry it on."""

    def __init__(self) -> None:
        self._seen: set[Pair] = set()

    def same(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether both compute one value. Annotations don't count, and all-reduces of one channel are one.

        Parameters are only equal to themselves, but elements of tuples are looked up where the tuples are made.
        """
        waiting = [(a, b)]
        while waiting:
            a, b = waiting.pop()
            if a is b or (a, b) in self._seen or (b, a) in self._seen:
                continue
            if a.op is not b.op or a.operand_count != b.operand_count:
                return False
            if a.opcode == "all-reduce" and a.channel_id is not None:
                if not _alike(a, b):
                    return False
                continue
            self._seen.add((a, b))
            found = self._needed(a, b)
            if found is None:
                return False
            waiting += found
        return True

    def _needed(self, a: HloInstruction, b: HloInstruction) -> list[Pair] | None:
        """What else must be equal if two instructions are; None if they are not."""
        operands = list(zip(a.operands, b.operands, strict=True))
        if a.opcode == "parameter":
            return None
        if a.opcode != "get-tuple-element":
            return operands if _alike(a, b) else None
        i, j = (e.attributes_as(at.GetTupleElementAttributes).index for e in (a, b))
        if i == j:
            return operands
        tuples = _tuples(a.operand(0), set())
        if tuples is None:
            return None
        return [*operands, *((t.operand(i), t.operand(j)) for t in tuples)]


def _alike(a: HloInstruction, b: HloInstruction) -> bool:
    callees = zip(a.called_computations, b.called_computations, strict=True)
    return a.shape.compatible(b.shape) and a.attributes == b.attributes and all(x is y or x == y for x, y in callees)


def _tuples(instruction: HloInstruction, seen: set[HloInstruction]) -> list[HloInstruction] | None:
    """The `tuple` instructions that a tuple-shaped value can come from; None if there are others."""
    found: list[HloInstruction] = []
    waiting = [instruction]
    while waiting:
        item = waiting.pop()
        if item in seen:
            continue
        seen.add(item)
        if item.opcode == "tuple":
            found.append(item)
            continue
        sources = _sources(item, seen)
        if sources is None:
            return None
        waiting += sources
    return found


def _sources(item: HloInstruction, seen: set[HloInstruction]) -> Sequence[HloInstruction] | None:
    """What a value is handed on from; None for an instruction that makes it."""
    if item.opcode == "domain":
        return [item.operand(0)]
    if item.opcode == "while":
        return [item.while_init, item.while_body.root_instruction]
    if item.opcode == "conditional":
        return [c.root_instruction for c in item.called_computations]
    if item.opcode == "get-tuple-element":
        tuples = _tuples(item.operand(0), seen)
        index = item.attributes_as(at.GetTupleElementAttributes).index
        return None if tuples is None else [t.operand(index) for t in tuples]
    if item.opcode == "parameter" and item.parent is not None and not item.parent.is_entry_computation():
        return _passed(item)
    return None


def _passed(parameter: HloInstruction) -> list[HloInstruction] | None:
    """What the one loop or conditional around a computation passes to its parameter."""
    computation = parameter.parent
    assert computation is not None
    callers = computation.caller_instructions()
    if len(callers) != 1:
        return None
    caller = callers[0]
    places = [i for i, called in enumerate(caller.called_computations) if called is computation]
    if len(places) != 1:
        return None
    if caller.opcode == "while":
        return [caller.while_init, caller.while_body.root_instruction]
    if caller.opcode == "conditional":
        return [caller.operand(1 + places[0])]
    return None
