"""Grouping values into buffers: values that must, or may, share memory become one class unless their lives overlap.

*Must* are the ties of control flow: a loop's initial value, its loop-carried element and the body's result; the roots
of branches and the result of the conditional; the root of the entry and the result buffers of the caller. A tie that
cannot be kept is a conflict, which copy insertion resolves with a copy. *May* are in-place updates.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from xjit.hlo import HloInstruction
from xjit.passes.analysis.dataflow import HloDataflow, HloValue
from xjit.passes.analysis.in_place import in_place_pairs, updates_in_place
from xjit.passes.analysis.linear_order import CALLS, EventKind
from xjit.passes.analysis.liveness import Liveness, call_result_pairs


@dataclass(eq=False, slots=True)
class BufferClass:
    """Values that share one buffer. `result` is the result leaf that the buffer is, if any."""

    size: int
    read_only: bool
    result: int | None = None
    values: list[HloValue] = field(default_factory=list)
    intervals: list[tuple[int, int, int]] = field(default_factory=list)  # (first step, last step, value id), sorted

    def hull(self) -> tuple[int, int]:
        """Returns the first and last step of the whole class."""
        return self.intervals[0][0], max(end for _, end, _ in self.intervals)


@dataclass(frozen=True, slots=True)
class Tie:
    """A leaf that must lie in a certain buffer: where a copy would go if it cannot.

    kind: "init" (leaf of the operand of `instruction`, a while), "body" (leaf of the root of its body), "branch" (leaf
    of the root of computation `branch` of a call) or "result" (leaf of the entry's root).
    """

    kind: str
    instruction: HloInstruction
    leaf: int
    branch: int
    value: HloValue
    target: HloValue | None


class BufferClasses:
    """The classes of all values, and the conflicts that are left."""

    def __init__(self, flow: HloDataflow, live: Liveness, entry_root: HloInstruction) -> None:
        self.flow = flow
        self.live = live
        self.entry_root = entry_root
        self.shareable: dict[tuple[int, int], int] = {}  # (value that ends, value that starts) -> time
        self.conflicts: list[Tie] = []
        self._class_of: list[BufferClass] = [self._single(v) for v in flow.all_values]
        self._in_place: list[tuple[HloValue, HloValue]] = []
        self._branch_begins: dict[tuple[HloInstruction, int], int] = {}
        self._find_shareable()
        for tie in self._ties():
            if not self._keep(tie):
                self.conflicts.append(tie)

    def class_of(self, value: HloValue) -> BufferClass:
        """Returns the class of a (resolved) value."""
        return self._class_of[value.id]

    def classes(self) -> list[BufferClass]:
        """Returns all classes of values that exist, by first value."""
        resolved = (v for v in self.flow.all_values if v.forward is None)
        return list(dict.fromkeys(self._class_of[v.id] for v in resolved))

    def share_in_place(self) -> None:
        """Merges what may share: updates in place first, then elementwise results with operands that die there."""
        for operand, result in self._in_place:
            a, b = self._class_of[operand.id], self._class_of[result.id]
            if a is not b and operand.byte_size == result.byte_size and operand.byte_size > 0:
                self.try_merge(a, b)

    def try_merge(self, a: BufferClass, b: BufferClass) -> bool:
        """Merges two classes if sizes, roles and live ranges allow it."""
        if a is b:
            return True
        if a.read_only or b.read_only or a.size != b.size or (a.result is not None and b.result is not None):
            return False
        small, large = sorted((a, b), key=lambda c: len(c.values))
        if any(self._overlaps(large, interval) for interval in small.intervals):
            return False
        large.values.extend(small.values)
        large.result = a.result if a.result is not None else b.result
        for interval in small.intervals:
            insort(large.intervals, interval)
        for value in small.values:
            self._class_of[value.id] = large
        return True

    def share_with_parameter(self, parameter: HloValue, result: int) -> bool:
        """Reserves the buffer of a result leaf for a parameter of the entry as well, if their lives allow it.

        Slices stay as they are: at run time both may be the same memory, or not. A copy of the parameter to that very
        result leaves it as it is.
        """
        target = next((c for c in self.classes() if c.result == result), None)
        if target is None or target.size != parameter.byte_size or target.read_only:
            return False
        if not self.live.use_times[parameter.id]:
            return True
        interval = (0, self.live.intervals[parameter.id][0][1], parameter.id)
        copies = [v for v in target.values if self._is_copy(v, parameter)]
        if len(copies) > 1:
            return False
        rest = [i for i in target.intervals if all(i[2] != c.id for c in copies)]
        others = BufferClass(target.size, False, result, [], rest)
        if self._overlaps(others, interval):
            return False
        insort(target.intervals, interval)
        return True

    def _is_copy(self, value: HloValue, source: HloValue) -> bool:
        copy = value.instruction
        return copy.opcode == "copy" and not value.index and self.flow.values(copy.operand(0))[0] is source

    # -- internals

    def _single(self, value: HloValue) -> BufferClass:
        intervals = [(begin, end, value.id) for begin, end in self.live.intervals[value.id]]
        return BufferClass(value.byte_size, value.is_read_only, None, [value], intervals)

    def _overlaps(self, other: BufferClass, interval: tuple[int, int, int]) -> bool:
        """Whether a value's interval meets one of a class other than by taking over from it in place.

        Intervals of a class are disjoint but for such hand-overs of two steps, so few neighbours need a look.
        """
        begin, end, value = interval
        rows = other.intervals
        at = bisect_left(rows, (begin, -1, -1))
        for i in range(at, len(rows)):
            if rows[i][0] > end:
                break
            if not self._hands_over(interval, rows[i]):
                return True
        for i in range(at - 1, max(-1, at - 4), -1):
            if rows[i][1] >= begin and not self._hands_over(rows[i], interval):
                return True
        del value
        return False

    def _hands_over(self, a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
        """Whether the two intervals only share the event at which one value ends and the other takes its place."""
        begin, end = max(a[0], b[0]), min(a[1], b[1])
        if end - begin != 1 or begin % 2:
            return False
        ends, starts = (a, b) if a[1] == end and b[0] == begin else (b, a)
        if ends[1] != end or starts[0] != begin:
            return False
        time = begin // 2
        return self.shareable.get((ends[2], starts[2])) == time or self.shareable.get((starts[2], ends[2])) == time

    def _find_shareable(self) -> None:
        elementwise: list[tuple[HloValue, HloValue]] = []
        for time, event in enumerate(self.flow.events):
            instruction = event.instruction
            if event.kind is EventKind.RUN:
                pairs = self._in_place_values(instruction)
                for operand, result in pairs:
                    self.shareable[operand.id, result.id] = time
                (self._in_place if updates_in_place(instruction) else elementwise).extend(pairs)
            elif event.kind is EventKind.WHILE_BEGIN:
                for value, phi in self._phis(instruction, instruction.operand(0)):
                    self.shareable[value.id, phi.id] = time
            elif event.kind is EventKind.WHILE_END:
                for value, phi in self._phis(instruction, instruction.while_body.root_instruction):
                    self.shareable.setdefault((value.id, phi.id), time)
        self._in_place.extend(elementwise)

    def _in_place_values(self, instruction: HloInstruction) -> list[tuple[HloValue, HloValue]]:
        """Returns the (operand, result) values that may share; an operand read in another role, too, may not."""
        pairs = in_place_pairs(instruction)
        if not pairs:
            return []
        results = self.flow.values(instruction)
        readers: dict[int, set[tuple[int, int]]] = {}
        for n, operand in enumerate(instruction.operands):
            for leaf, value in enumerate(self.flow.values(operand)):
                if value is not None:
                    readers.setdefault(value.id, set()).add((n, leaf))
        found: list[tuple[HloValue, HloValue]] = []
        for pair in pairs:
            operand = self.flow.values(instruction.operand(pair.operand))[pair.operand_leaf]
            result = results[pair.result_leaf]
            if operand is None or result is None or operand.byte_size != result.byte_size:
                continue
            allowed = {(p.operand, p.operand_leaf) for p in pairs if p.result_leaf == pair.result_leaf}
            if readers[operand.id] <= allowed:
                found.append((operand, result))
        return found

    def _phis(self, loop: HloInstruction, source: HloInstruction) -> Iterator[tuple[HloValue, HloValue]]:
        for value, phi in zip(self.flow.values(source), self.flow.values(loop), strict=True):
            if value is not None and phi is not None and phi.phi and phi.instruction is loop:
                yield value, phi

    def _ties(self) -> Iterator[Tie]:
        """Yields what control flow ties together: inner constructs first, each back edge before its entry edge."""
        for time, event in enumerate(self.flow.events):
            instruction = event.instruction
            if event.kind is EventKind.BRANCH_BEGIN:
                self._branch_begins[instruction, event.branch] = time
            elif event.kind is EventKind.WHILE_END:
                phis = self.flow.values(instruction)
                for kind, source in (
                    ("body", instruction.while_body.root_instruction),
                    ("init", instruction.operand(0)),
                ):
                    for leaf, (value, phi) in enumerate(zip(self.flow.values(source), phis, strict=True)):
                        if value is not None and phi is not None and phi.phi and phi.instruction is instruction:
                            yield Tie(kind, instruction, leaf, 0, value, phi)
            elif event.kind is EventKind.CALL_END and instruction.opcode in CALLS:
                yield from self._call_ties(instruction)
        number = 0
        for leaf, value in enumerate(self.flow.values(self.entry_root)):
            if value is not None:
                yield Tie("result", self.entry_root, leaf, number, value, None)
                number += 1

    def _call_ties(self, caller: HloInstruction) -> Iterator[Tie]:
        per_branch = len(call_result_pairs(self.flow, caller)) // max(1, len(caller.called_computations))
        for n, (inner, outer) in enumerate(call_result_pairs(self.flow, caller)):
            branch, _ = divmod(n, max(1, per_branch))
            root = caller.called_computations[branch].root_instruction
            leaves = [leaf for leaf, v in enumerate(self.flow.values(root)) if v is not None]
            yield Tie("branch", caller, leaves[n % per_branch], branch, inner, outer)

    def _keep(self, tie: Tie) -> bool:
        if tie.kind == "branch" and tie.value.time < self._branch_begins[tie.instruction, tie.branch]:
            return False  # a branch that passes on what it was given: other branches may still read that
        if tie.target is not None:
            return self.try_merge(self.class_of(tie.value), self.class_of(tie.target))
        target = self.class_of(tie.value)
        if target.read_only or target.result is not None:
            return False
        target.result = tie.branch
        return True
