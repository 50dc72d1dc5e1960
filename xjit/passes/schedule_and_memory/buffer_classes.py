"""Grouping values into buffers: values that must, or may, share memory become one class unless their lives overlap.

What must and may share is for the alias analysis to say. A tie that live ranges forbid is a conflict, which copy
insertion resolves with a copy.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.passes.analysis.alias_analysis import HloAliasAnalysis, Tie
from xjit.passes.analysis.hlo_value import HloValue
from xjit.passes.analysis.linear_order import BRANCH_BEGIN, RUN, WHILE_BEGIN, WHILE_END
from xjit.passes.analysis.liveness import Liveness


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


class BufferClasses:
    """The classes of all values, and the conflicts that are left."""

    def __init__(self, alias: HloAliasAnalysis, live: Liveness) -> None:
        self.flow = alias.flow
        self.live = live
        self.shareable: dict[tuple[int, int], int] = {}  # (value that ends, value that starts) -> time
        self.conflicts: list[Tie] = []
        self._class_of: list[BufferClass] = [self._single(v) for v in self.flow.all_values]
        self._of_result: dict[int, BufferClass] = {}
        self._updates = alias.updates
        self._branch_begins: dict[tuple[HloInstruction, int], int] = {}
        self._find_shareable(alias)
        for tie in alias.ties:
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
        for update in sorted(self._updates, key=lambda u: not u.partial):
            a, b = self._class_of[update.operand.id], self._class_of[update.result.id]
            if a is not b and update.operand.byte_size > 0:
                self.try_merge(a, b)

    def try_merge(self, a: BufferClass, b: BufferClass) -> bool:
        """Merges two classes if sizes, roles and live ranges allow it."""
        if a is b:
            return True
        if a.read_only or b.read_only or a.size != b.size or (a.result is not None and b.result is not None):
            return False
        small, large = (a, b) if len(a.values) <= len(b.values) else (b, a)
        for interval in small.intervals:
            if self._overlaps(large, interval):
                return False
        large.values.extend(small.values)
        large.result = a.result if a.result is not None else b.result
        if large.result is not None:
            self._of_result[large.result] = large
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
        target = self._of_result.get(result)
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

    def _find_shareable(self, alias: HloAliasAnalysis) -> None:
        """Notes when one value may take the place of another: at updates, and at both ends of loops."""
        times: dict[tuple[str, HloInstruction], int] = {}
        for time, event in enumerate(self.flow.events):
            if event.kind is RUN:
                continue
            if event.kind is WHILE_BEGIN:
                times["init", event.instruction] = time
            elif event.kind is WHILE_END:
                times["body", event.instruction] = time
            elif event.kind is BRANCH_BEGIN:
                self._branch_begins[event.instruction, event.branch] = time
        for update in alias.updates:
            self.shareable[update.operand.id, update.result.id] = update.time
        for kind in ("init", "body"):
            for tie in alias.ties:
                if tie.kind == kind and tie.target is not None:
                    self.shareable.setdefault((tie.value.id, tie.target.id), times[kind, tie.instruction])

    def _keep(self, tie: Tie) -> bool:
        if tie.kind == "branch" and tie.value.time < self._branch_begins[tie.instruction, tie.branch]:
            return False  # a branch that passes on what it was given: other branches may still read that
        if tie.target is not None:
            return self.try_merge(self.class_of(tie.value), self.class_of(tie.target))
        target = self.class_of(tie.value)
        if target.read_only or target.result is not None:
            return False
        target.result = tie.branch
        self._of_result[tie.branch] = target
        return True
