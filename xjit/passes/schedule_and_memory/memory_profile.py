"""How many bytes are live at each instruction of a scheduled computation.

A buffer is one array leaf of the instruction that computes it. Tuples, their elements and bitcasts compute nothing:
their leaves are buffers of others. A loop's result stands in the buffers of its initial state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.forwarding import element_leaves, forwarded_leaves
from xjit.passes.schedule_and_memory.growing_order import GrowingOrder

ShapeSize = Callable[[Shape], int]
"""Bytes of an array of a shape."""

Profile = npt.NDArray[np.int64]
"""Live bytes by position in the sequence."""

FORWARDS = frozenset({"tuple", "get-tuple-element", "bitcast"})
"""What stands for buffers of its operands and can be written again elsewhere for nothing."""


@dataclass(eq=False, slots=True)
class Buffer:
    """One array in memory. `readers` run; what only forwards the buffer is none of them.

    A `pinned` buffer belongs to something larger - a caller, a result, a loop's state - and is not recomputed. An
    `outliving` one is there all the time. The `overwriter` is the loop that writes another value there; of the state
    of the loop whose body this is, the body's parameter.
    """

    definition: HloInstruction
    byte_size: int
    readers: dict[HloInstruction, None] = field(default_factory=dict[HloInstruction, None])
    last_reader: HloInstruction | None = None
    pinned: bool = False
    outliving: bool = False
    overwriter: HloInstruction | None = None


Leaves = tuple["Buffer | None", ...]
"""Buffers of an instruction, one per leaf of its shape; None for tokens and opaques."""


class MemoryProfile:
    """The buffers of a computation and the profile of its sequence; kept while instructions are added.

    `inner_peaks` are the bytes that called computations need at most.
    """

    def __init__(
        self,
        computation: HloComputation,
        order: Sequence[HloInstruction],
        inner_peaks: Mapping[HloComputation, int],
        byte_size: ShapeSize = physical_byte_size,
    ) -> None:
        self.computation = computation
        self._order = GrowingOrder(order)
        self._byte_size = byte_size
        self._inner_peaks = inner_peaks
        self._leaves: dict[HloInstruction, Leaves] = {}
        callers = computation.caller_instructions()
        self._is_entry = computation.is_entry_computation()
        self._in_loop = any(c.opcode == "while" and c.while_body is computation for c in callers)
        for instruction in self.order:
            self._add(instruction)
        for buffer in self._leaves[computation.root_instruction]:
            if buffer is not None:
                buffer.pinned = True
                self._note(buffer, self.order[-1])
                if not self._is_entry and not self._in_loop and not buffer.outliving:
                    buffer.byte_size = 0  # the call's result, which the caller counts
        self.totals = self._sum()

    @property
    def order(self) -> Sequence[HloInstruction]:
        """The instructions as they run."""
        return self._order.instructions

    def position(self, instruction: HloInstruction) -> int:
        """Returns where an instruction stands in the order."""
        return self._order.position(instruction)

    def leaves(self, instruction: HloInstruction) -> Leaves:
        """Returns the buffers behind an instruction."""
        return self._leaves[instruction]

    def buffers(self, instruction: HloInstruction) -> list[Buffer]:
        """Returns the buffers that an instruction itself computes."""
        return [b for b in self._leaves[instruction] if b is not None and b.definition is instruction]

    def first(self, buffer: Buffer) -> int:
        """Returns the position from which a buffer is live."""
        return 0 if buffer.outliving else self.position(buffer.definition)

    def last(self, buffer: Buffer) -> int:
        """Returns the position up to which a buffer is live: of its last reader."""
        return len(self.order) - 1 if buffer.outliving else self.position(buffer.last_reader or buffer.definition)

    def last_before(self, buffer: Buffer, place: int) -> int:
        """Returns the position of a buffer's last reader in front of a place; of its definition if none is there."""
        positions = (self.position(r) for r in buffer.readers)
        return max((p for p in positions if p < place), default=self.position(buffer.definition))

    def is_read_at(self, value: HloInstruction, place: int) -> bool:
        """Whether what runs at a place reads one of a value's buffers."""
        return any(self.order[place] in b.readers for b in self.buffers(value))

    def readers_behind(self, value: HloInstruction, place: int) -> list[HloInstruction]:
        """Returns what reads a value's buffers behind a place, in order."""
        positions = {self.position(r): r for b in self.buffers(value) for r in b.readers}
        return [positions[p] for p in sorted(positions) if p > place]

    def own_bytes(self, instruction: HloInstruction) -> int:
        """Returns what an instruction computes, and what the computations that it calls take."""
        return self.inner_peak(instruction) + sum(b.byte_size for b in self.buffers(instruction) if not b.outliving)

    def entering(self, place: int) -> int:
        """Returns the bytes live in front of the instruction at a place."""
        return int(self.totals[place]) - self.own_bytes(self.order[place])

    def inner_peak(self, instruction: HloInstruction) -> int:
        """Returns what the neediest computation takes that an instruction runs; 0 if it runs none."""
        if not instruction.op.has(Trait.CONTROL_FLOW):
            return 0
        return max((self._inner_peaks.get(c, 0) for c in instruction.called_computations), default=0)

    def insert(self, new: Mapping[int, Sequence[HloInstruction]], totals: Mapping[HloInstruction, int]) -> None:
        """Takes in new instructions, each list in front of a position; `totals` are live bytes at some of them."""
        places = [place for place in new for _ in new[place]]
        inserted = [totals.get(i, 0) for instructions in new.values() for i in instructions]
        self.totals = np.insert(self.totals, places, inserted)
        for place in sorted(new, reverse=True):
            self._order.insert(place, new[place])
        for place in sorted(new):
            for instruction in new[place]:
                self._add(instruction)

    def read(self, reader: HloInstruction) -> None:
        """Notes what an instruction reads."""
        for operand in reader.unique_operands():
            for buffer in self._leaves[operand]:
                if buffer is not None:
                    self._note(buffer, reader)

    def forget_readers(self, buffer: Buffer, readers: Sequence[HloInstruction]) -> None:
        """Notes that some instructions read a buffer no more."""
        for reader in readers:
            buffer.readers.pop(reader, None)
        buffer.last_reader = max(buffer.readers, key=self.position, default=None)

    def _note(self, buffer: Buffer, reader: HloInstruction) -> None:
        buffer.readers[reader] = None
        if buffer.last_reader is None or self.position(reader) > self.position(buffer.last_reader):
            buffer.last_reader = reader

    def _add(self, instruction: HloInstruction) -> None:
        if instruction.opcode in FORWARDS:
            self._leaves[instruction] = forwarded_leaves(instruction, self._leaves.__getitem__)
            return
        self.read(instruction)
        for operand in instruction.operands if instruction.op.has(Trait.ASYNC) else ():
            self._pin(self._leaves[operand])
        if instruction.opcode == "while":
            state = self._leaves[instruction] = self._leaves[instruction.operand(0)]
            self._pin(state)
            _note_overwriter(state, instruction.while_body, instruction)
        else:
            self._leaves[instruction] = tuple(self._define(instruction, leaf) for _, leaf in instruction.shape.leaves())
            if instruction.opcode == "parameter" and self._in_loop:
                _note_overwriter(self._leaves[instruction], self.computation, instruction)

    def _pin(self, leaves: Leaves) -> None:
        for buffer in leaves:
            if buffer is not None:
                buffer.pinned = True

    def _define(self, instruction: HloInstruction, shape: Shape) -> Buffer | None:
        if not shape.is_array:
            return None
        buffer = Buffer(instruction, self._byte_size(shape))
        if instruction.opcode == "parameter":
            buffer.pinned = buffer.outliving = True
            if not self._is_entry:
                buffer.byte_size = 0  # an operand of the call, which the caller counts
        elif instruction.opcode == "constant":
            buffer.pinned = buffer.outliving = True
        return buffer

    def _sum(self) -> Profile:
        steps = np.zeros(len(self.order) + 1, np.int64)
        for instruction in self.order:
            for buffer in self.buffers(instruction):
                steps[self.first(buffer)] += buffer.byte_size
                steps[self.last(buffer) + 1] -= buffer.byte_size
        totals = np.cumsum(steps)[:-1]
        for place, instruction in enumerate(self.order):
            totals[place] += self.inner_peak(instruction)
        return totals


def _note_overwriter(state: Leaves, body: HloComputation, overwriter: HloInstruction) -> None:
    """Notes what overwrites the elements of a loop's state, but for those that the body passes through."""
    root, parameter = body.root_instruction, body.parameter_instruction(0)
    for number in range(len(parameter.shape.leaf_offsets) - 1):
        if not (root.opcode == "tuple" and _is_element(root.operand(number), parameter, number)):
            for buffer in element_leaves(parameter.shape, number, state):
                if buffer is not None and buffer.overwriter is None:
                    buffer.overwriter = overwriter


def _is_element(value: HloInstruction, whole: HloInstruction, number: int) -> bool:
    if value.opcode != "get-tuple-element" or value.operand(0) is not whole:
        return False
    return value.attributes_as(at.GetTupleElementAttributes).index == number
