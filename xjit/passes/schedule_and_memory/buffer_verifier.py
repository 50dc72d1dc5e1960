"""Proof that a buffer assignment is right: the program is run on tokens instead of numbers.

Every slice of memory holds the token of the value that was last written there. Each read must find the token of the
value it means. Loops run once; what the next iteration and the code after the loop rely on is checked at its ends. Only
the dataflow is taken from the assignment: live ranges and classes are not looked at.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.diagnostics import HloVerifyError
from xjit.passes.analysis.forwarding import forwards
from xjit.passes.analysis.hlo_value import HloValue
from xjit.passes.analysis.in_place import in_place_pairs
from xjit.passes.analysis.linear_order import CALLS, EventKind
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.thunks.buffer_slice import BufferSlice

_Place = tuple[str, int]


@dataclass(slots=True)
class _Memory:
    """Tokens by place and offset. Writing drops every token that it overlaps."""

    tokens: dict[tuple[_Place, int], tuple[int, HloValue]] = field(default_factory=dict)
    offsets: dict[_Place, list[int]] = field(default_factory=dict)
    largest: dict[_Place, int] = field(default_factory=dict)

    def copy(self) -> _Memory:
        return _Memory(dict(self.tokens), {p: list(o) for p, o in self.offsets.items()}, dict(self.largest))

    def write(self, where: BufferSlice, value: HloValue) -> None:
        if not where.size:
            return
        place = (where.kind, where.index)
        offsets = self.offsets.setdefault(place, [])
        for offset in self._overlapping(place, where):
            del self.tokens[place, offset]
            offsets.remove(offset)
        self.tokens[place, where.offset] = (where.size, value)
        self.largest[place] = max(self.largest.get(place, 0), where.size)
        insort(offsets, where.offset)

    def _overlapping(self, place: _Place, where: BufferSlice) -> list[int]:
        offsets = self.offsets[place]
        first = bisect_left(offsets, where.offset - self.largest.get(place, 0))
        last = bisect_left(offsets, where.offset + where.size)
        return [o for o in offsets[first:last] if o + self.tokens[place, o][0] > where.offset]

    def holds(self, where: BufferSlice, value: HloValue) -> bool:
        if not where.size:
            return True
        found = self.tokens.get(((where.kind, where.index), where.offset))
        return found is not None and found[0] == where.size and found[1] is value

    def keep_common(self, other: _Memory) -> None:
        """Forgets what the other memory does not hold, too."""
        for key in [k for k, v in self.tokens.items() if other.tokens.get(k) != v]:
            del self.tokens[key]
            self.offsets[key[0]].remove(key[1])


def verify_buffer_assignment(assignment: BufferAssignment) -> None:
    """Raises HloVerifyError naming the instruction that would read, or overwrite, the wrong thing."""
    _Replay(assignment).run()


class _Replay:
    def __init__(self, assignment: BufferAssignment) -> None:
        self.assignment = assignment
        self.flow = assignment.flow
        self.memory = _Memory()
        self.outer_reads: list[dict[tuple[BufferSlice, HloValue], HloInstruction]] = []  # per open loop
        self.loop_begins: list[int] = []
        self.branches: list[tuple[_Memory, list[_Memory]]] = []  # per open call: before, after each branch

    def run(self) -> None:
        for value in self.flow.all_values:
            if value.forward is None and value.is_read_only:
                self._initialize(value)
        steps = {
            EventKind.RUN: self._run_instruction,
            EventKind.WHILE_BEGIN: self._begin_loop,
            EventKind.WHILE_BODY: self._begin_body,
            EventKind.WHILE_END: self._end_loop,
            EventKind.CALL_END: self._end_call,
        }
        for time, event in enumerate(self.flow.events):
            if event.kind is EventKind.BRANCH_BEGIN:
                self._begin_branch(event.instruction, event.branch)
            elif event.kind is EventKind.BRANCH_END:
                self._end_branch(event.instruction, event.branch)
            else:
                steps[event.kind](event.instruction, time)
        self._check_results()

    def _leaves(self, instruction: HloInstruction) -> list[tuple[BufferSlice, HloValue]]:
        slices = self.assignment.leaf_slices(instruction)
        values = self.flow.values(instruction)
        return [(s, v) for s, v in zip(slices, values, strict=True) if v is not None]

    def _initialize(self, value: HloValue) -> None:
        for where, found in self._leaves(value.instruction):
            if found is value and where.kind not in ("parameter", "constant"):
                raise HloVerifyError(f"buffers: {value!r} is read-only, but lies in {where}")

    def _read(self, where: BufferSlice, value: HloValue, reader: HloInstruction) -> None:
        if where.size != value.byte_size:
            raise HloVerifyError(
                f"buffers: {reader.name} reads {where.size} bytes of {value!r}, which has {value.byte_size}"
            )
        if where.kind in ("parameter", "constant"):
            if not value.is_read_only:
                raise HloVerifyError(f"buffers: {reader.name} expects {value!r} in {where}")
            return
        if not self.memory.holds(where, value):
            raise HloVerifyError(f"buffers: {reader.name} reads {value!r} from {where}, where something else lies")
        for reads, begin in zip(self.outer_reads, self.loop_begins, strict=True):
            if value.time < begin:
                reads[where, value] = reader

    def _write(self, where: BufferSlice, value: HloValue, writer: HloInstruction) -> None:
        if where.kind not in ("arena", "result"):
            raise HloVerifyError(f"buffers: {writer.name} writes to {where}, which is read-only")
        if where.kind == "arena" and where.offset + where.size > self.assignment.arena_size:
            raise HloVerifyError(f"buffers: {writer.name} writes to {where}, beyond the arena")
        self.memory.write(where, value)

    def _run_instruction(self, instruction: HloInstruction, time: int) -> None:
        del time
        if forwards(instruction) or instruction.opcode in ("parameter", "constant"):
            return
        results = [(s, v) for s, v in self._leaves(instruction) if v.instruction is instruction]
        for operand in instruction.unique_operands():
            for where, value in self._leaves(operand):
                self._read(where, value, instruction)
        self._check_overlaps(instruction, results)
        for where, value in results:
            self._write(where, value, instruction)

    def _check_overlaps(self, instruction: HloInstruction, results: list[tuple[BufferSlice, HloValue]]) -> None:
        """Results overlap neither each other nor an operand, except for operands that are updated in place."""
        # (offset, number of the result), sorted: none overlaps another
        written: dict[_Place, list[tuple[int, int]]] = {}
        for n, (where, _) in enumerate(results):
            if where.size:
                written.setdefault((where.kind, where.index), []).append((where.offset, n))
        for places in written.values():
            places.sort()
            for (_, before), (_, n) in itertools.pairwise(places):
                if results[n][0].overlaps(results[before][0]):
                    raise HloVerifyError(f"buffers: two results of {instruction.name} lie in {results[n][0]}")
        allowed = {(p.operand, p.operand_leaf, p.result_leaf) for p in in_place_pairs(instruction)}
        for number, operand in enumerate(instruction.operands):
            for leaf, source in enumerate(self.assignment.leaf_slices(operand)):
                places = written.get((source.kind, source.index), [])
                first = max(bisect_left(places, (source.offset, 0)) - 1, 0)
                for _, n in places[first : bisect_left(places, (source.offset + source.size, 0))]:
                    where = results[n][0]
                    if where.overlaps(source) and ((number, leaf, n) not in allowed or where != source):
                        raise HloVerifyError(
                            f"buffers: {instruction.name} overwrites its operand {operand.name} in {where} "
                            f"while reading it"
                        )

    # -- control flow

    def _phis(self, loop: HloInstruction) -> list[tuple[int, BufferSlice, HloValue]]:
        slices, values = self.assignment.leaf_slices(loop), self.flow.values(loop)
        return [
            (n, s, v)
            for n, (s, v) in enumerate(zip(slices, values, strict=True))
            if v is not None and v.phi and v.instruction is loop
        ]

    def _enter_phis(self, loop: HloInstruction, source: HloInstruction) -> None:
        slices, values = self.assignment.leaf_slices(source), self.flow.values(source)
        for n, where, _ in self._phis(loop):
            value = values[n]
            assert value is not None
            self._read(slices[n], value, loop)
            if slices[n] != where:
                raise HloVerifyError(f"buffers: {value!r} lies in {slices[n]}, element {n} of {loop.name} in {where}")
        for _, where, phi in self._phis(loop):
            self._write(where, phi, loop)

    def _begin_loop(self, loop: HloInstruction, time: int) -> None:
        self._enter_phis(loop, loop.operand(0))
        self.outer_reads.append({})
        self.loop_begins.append(time)

    def _begin_body(self, loop: HloInstruction, time: int) -> None:
        del time
        for where, value in self._leaves(loop.while_condition.root_instruction):
            self._read(where, value, loop)
        for _, where, phi in self._phis(loop):
            self._read(where, phi, loop)  # the condition must leave the state alone: the loop may end here

    def _end_loop(self, loop: HloInstruction, time: int) -> None:
        del time
        self._enter_phis(loop, loop.while_body.root_instruction)
        self.loop_begins.pop()
        for (where, value), reader in self.outer_reads.pop().items():
            if not self.memory.holds(where, value):
                raise HloVerifyError(
                    f"buffers: {value!r} in {where}, which {reader.name} reads again in the next iteration of "
                    f"{loop.name}, "
                    "is overwritten before"
                )

    def _begin_branch(self, caller: HloInstruction, branch: int) -> None:
        if branch == 0:
            for operand in caller.operands if caller.opcode != "conditional" else caller.operands[:1]:
                for where, value in self._leaves(operand):
                    self._read(where, value, caller)
            self.branches.append((self.memory.copy(), []))
        self.memory = self.branches[-1][0].copy()

    def _end_branch(self, caller: HloInstruction, branch: int) -> None:
        root = caller.called_computations[branch].root_instruction
        inner = self._leaves(root)
        outer = self._leaves(caller)[-len(inner) :] if inner else []
        for (where, value), (target, _) in zip(inner, outer, strict=True):
            self._read(where, value, caller)
            if where != target:
                raise HloVerifyError(f"buffers: {value!r} lies in {where}, the result of {caller.name} in {target}")
        self.branches[-1][1].append(self.memory)

    def _end_call(self, caller: HloInstruction, time: int) -> None:
        del time
        assert caller.opcode in CALLS
        _, after = self.branches.pop()
        self.memory = after[0]
        for other in after[1:]:
            self.memory.keep_common(other)
        for where, value in self._leaves(caller):
            if value.instruction is caller:
                self._write(where, value, caller)

    def _check_results(self) -> None:
        root = self.assignment.module.entry_computation.root_instruction
        for number, (where, value) in enumerate(self._leaves(root)):
            self._read(where, value, root)
            if where.kind != "result" or where.index != number:
                raise HloVerifyError(f"buffers: result {number}, {value!r}, lies in {where}")
