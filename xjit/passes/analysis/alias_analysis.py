"""Which values must, and which may, lie in one buffer, in any order of execution. XLA's HloAliasAnalysis.

*Must*: a loop's initial value, its loop-carried element and the body's result; the results of branches and that of
their conditional; each leaf of the entry's root has a buffer of its own. These are `ties`. *May*: what an instruction
can update in place. Whether live ranges allow it is for the buffer classes to say, and copies to mend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.analysis.hlo_value import HloValue
from xjit.passes.analysis.in_place import InPlacePair, in_place_pairs, updates_in_place
from xjit.passes.analysis.linear_order import CALL_END, RUN, WHILE_END
from xjit.passes.framework import analyses


@dataclass(frozen=True, slots=True)
class Tie:
    """A leaf that must lie in a certain buffer: where a copy would go if it cannot.

    kind: "init" (leaf of the operand of `instruction`, a while), "body" (leaf of the root of its body), "branch" (leaf
    of the root of computation `branch` of a conditional) or "result" (leaf of the entry's root; `branch` numbers the
    results).
    """

    kind: str
    instruction: HloInstruction
    leaf: int
    branch: int
    value: HloValue
    target: HloValue | None


@dataclass(frozen=True, slots=True)
class InPlaceUpdate:
    """A value that an instruction may overwrite with one of its results at a time.

    A `partial` update writes only some elements: a copy would cost more than the instruction itself.
    """

    time: int
    operand: HloValue
    result: HloValue
    partial: bool


@dataclass(frozen=True, slots=True)
class HloBuffer:
    """Values that must share memory, by id."""

    id: int
    values: tuple[HloValue, ...]

    def __str__(self) -> str:
        return f"buffer {self.id}: {', '.join(map(str, self.values))}"


class HloAliasAnalysis:
    """What a module's values share. `ties` come inner constructs first, each back edge before its entry edge."""

    @classmethod
    def of(cls, module: HloModule) -> HloAliasAnalysis:
        """Analyses what runs in sequence."""
        return cls(analyses.get(HloDataflowAnalysis, module))

    def __init__(self, flow: HloDataflowAnalysis) -> None:
        self.flow = flow
        self.ties: Sequence[Tie] = tuple(_ties(flow))
        self.updates: Sequence[InPlaceUpdate] = tuple(_updates(flow))
        self._buffers: dict[HloValue, HloBuffer] | None = None

    def buffers(self) -> list[HloBuffer]:
        """Returns the buffers by their first value: what ties and partial updates put together."""
        return list(dict.fromkeys(self._buffer_of().values()))

    def buffer_containing(self, value: HloValue) -> HloBuffer:
        """Returns the buffer of a value."""
        return self._buffer_of()[value.resolved()]

    def unique_buffer_at(self, instruction: HloInstruction, index: ShapeIndex = ()) -> HloBuffer:
        """Returns the buffer of a leaf. KeyError where there is no value."""
        return self.buffer_containing(self.flow.unique_value_at(instruction, index))

    def to_text(self) -> str:
        """Returns a readable dump: each buffer with its values and all places where they stand."""
        lines = [f"HloAliasAnalysis of {self.flow.module.name}: {len(self.buffers())} buffers"]
        for buffer in self.buffers():
            lines.append(str(buffer))
            lines += [f"  at {position}" for value in buffer.values for position in self.flow.positions(value)]
        return "\n".join(lines) + "\n"

    def _buffer_of(self) -> dict[HloValue, HloBuffer]:
        if self._buffers is None:
            together = {v: [v] for v in self.flow.all_values if v.forward is None}
            pairs = [(t.value, t.target) for t in self.ties if t.target is not None]
            pairs += [(u.operand, u.result) for u in self.updates if u.partial]
            for a, b in pairs:
                small, large = sorted((together[a], together[b]), key=len)
                if small is not large:
                    large.extend(small)
                    together.update(dict.fromkeys(small, large))
            groups = {id(values): values for values in together.values()}
            found = (tuple(sorted(values, key=lambda v: v.id)) for values in groups.values())
            self._buffers = {v: buffer for buffer in map(HloBuffer, count(), found) for v in buffer.values}
        return self._buffers


def _joined(
    flow: HloDataflowAnalysis, joint: HloInstruction, source: HloInstruction
) -> Iterator[tuple[int, HloValue, HloValue]]:
    """Yields (leaf, value of `source`, phi) for what a loop or conditional joins."""
    for leaf, (value, phi) in enumerate(zip(flow.values(source), flow.values(joint), strict=True)):
        if value is not None and phi is not None and phi.phi and phi.instruction is joint:
            yield leaf, value, phi


def _ties(flow: HloDataflowAnalysis) -> Iterator[Tie]:
    for event in flow.events:
        instruction = event.instruction
        if event.kind is WHILE_END:
            for kind, source in (("body", instruction.while_body.root_instruction), ("init", instruction.operand(0))):
                for leaf, value, phi in _joined(flow, instruction, source):
                    yield Tie(kind, instruction, leaf, 0, value, phi)
        elif event.kind is CALL_END and instruction.opcode == "conditional":
            for branch, computation in enumerate(instruction.called_computations):
                for leaf, value, phi in _joined(flow, instruction, computation.root_instruction):
                    yield Tie("branch", instruction, leaf, branch, value, phi)
    root, number = flow.module.entry_computation.root_instruction, 0
    for leaf, value in enumerate(flow.values(root)):
        if value is not None:
            yield Tie("result", root, leaf, number, value, None)
            number += 1


def _updates(flow: HloDataflowAnalysis) -> Iterator[InPlaceUpdate]:
    for time, event in enumerate(flow.events):
        if event.kind is RUN and (pairs := in_place_pairs(event.instruction)):
            values = _in_place_values(flow, event.instruction, pairs)
            partial = bool(values) and updates_in_place(event.instruction)
            for operand, result in values:
                yield InPlaceUpdate(time, operand, result, partial)


def _in_place_values(
    flow: HloDataflowAnalysis, instruction: HloInstruction, pairs: Sequence[InPlacePair]
) -> list[tuple[HloValue, HloValue]]:
    """Returns the (operand, result) values that may share; an operand read in another role, too, may not."""
    results = flow.values(instruction)
    read = [flow.values(operand) for operand in instruction.operands]
    places: dict[HloValue, list[tuple[int, int]]] = {}
    for n, values in enumerate(read):
        for leaf, value in enumerate(values):
            if value is not None:
                places.setdefault(value, []).append((n, leaf))
    found: list[tuple[HloValue, HloValue]] = []
    for pair in pairs:
        operand, result = read[pair.operand][pair.operand_leaf], results[pair.result_leaf]
        if operand is None or result is None or operand.byte_size != result.byte_size:
            continue
        if len(places[operand]) > 1:
            allowed = {(p.operand, p.operand_leaf) for p in pairs if p.result_leaf == pair.result_leaf}
            if not allowed.issuperset(places[operand]):
                continue
        found.append((operand, result))
    return found
