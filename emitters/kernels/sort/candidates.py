"""The first k elements of a long line in total order, where k is too large for a sorted list.

What beats the worst of the best k so far is appended to these. Where there may be no room for another segment of the
line, and at its end, all pairs (key, position) are sorted, and k are kept: of a random line, few more than k are.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.emitters.kernels.loops.lines import Line
from xjit.emitters.kernels.sort.best_list import VECTOR_LANES, any_better, load_key
from xjit.emitters.kernels.sort.merge_sort import store_record
from xjit.emitters.kernels.sort.pair_sort import emit_pair_sort
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I32, I64, int_type
from xjit.llvm.values import Value, const_int

SEGMENT = 256
"""Elements that are looked at before it is asked whether there is room for as many more."""
ROOM = 4
"""Times k: of the best ones so far, and those to be sorted with them."""
LONG_LINE = 4
"""Times the room: shorter lines are sorted as they are."""


def room_for(k: int) -> int:
    """Returns how many pairs there is room for."""
    return max(ROOM * k, 4 * SEGMENT)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The best `k` of `size` elements of a line. Scratch memory: `pairs` and `other` for `room_for(k)` keys and
    positions, `work` for their sort, `count` and `worst` for one i64 and one key.
    """

    source: Line
    k: int
    size: int
    largest: bool
    pairs: Sequence[Line]
    other: Sequence[Line]
    count: Line
    worst: Line
    work: Value

    def emit(self, builder: StructuredBuilder) -> Sequence[Line]:
        """Emits the loops; returns the lines whose first k records are the result."""
        nothing, size = builder.i64(0), builder.i64(self.size)
        self.count.store_raw(builder, nothing, nothing)
        self.worst.store_raw(builder, nothing, const_int(int_type(8 * self.worst.kind.byte_width), -1))
        with builder.loop(nothing, size, SEGMENT, name="segment") as first:
            stop = builder.min(builder.add(first, builder.i64(SEGMENT)), size)
            self._append_better(builder, first, stop)
            is_full = builder.icmp_unsigned(">", self._count(builder), builder.i64(room_for(self.k) - SEGMENT))
            is_last = builder.icmp_signed("==", stop, size)
            with builder.when(builder.or_(is_full, is_last)):
                self._keep_best(builder)
        return self.pairs

    def _keep_best(self, builder: StructuredBuilder) -> None:
        nothing, k, room = builder.i64(0), builder.i64(self.k), room_for(self.k)
        with builder.loop(self._count(builder), builder.i64(room), name="empty") as i:
            behind = [const_int(int_type(8 * line.kind.byte_width), -1) for line in self.pairs]
            store_record(builder, self.pairs, i, behind)
        best = emit_pair_sort(builder, room, self.pairs, self.other, self.work)
        if best[0] is not self.pairs[0]:
            with builder.loop(nothing, k, name="best") as i:
                store_record(builder, self.pairs, i, [line.load_raw(builder, i) for line in best])
        self.count.store_raw(builder, nothing, k)
        self.worst.store_raw(builder, nothing, self.pairs[0].load_raw(builder, builder.i64(self.k - 1)))

    def _append_better(self, builder: StructuredBuilder, first: Value, stop: Value) -> None:
        """Appends those elements of a segment that beat the worst, and any as long as there are fewer than k."""
        whole = first
        if self.source.stride == 1:
            lanes = builder.i64(VECTOR_LANES)
            whole = builder.sub(stop, builder.urem(builder.sub(stop, first), lanes))
            with builder.loop(first, whole, VECTOR_LANES, name="block") as block:
                better = any_better(builder, self.source, block, self._worst(builder), self.largest)
                better = builder.or_(better, self._has_too_few(builder))
                with builder.when(better), builder.loop(block, builder.add(block, lanes), name="lane") as i:
                    self._append(builder, i)
        with builder.loop(whole, stop, name="rest") as i:
            self._append(builder, i)

    def _append(self, builder: StructuredBuilder, position: Value) -> None:
        key = load_key(builder, self.source, position, self.largest)
        better = builder.icmp_unsigned("<", key, self._worst(builder))
        with builder.when(builder.or_(better, self._has_too_few(builder))):
            count = self._count(builder)
            store_record(builder, self.pairs, count, [key, builder.trunc(position, I32)])
            self.count.store_raw(builder, const_int(I64, 0), builder.add(count, builder.i64(1)))

    def _count(self, builder: StructuredBuilder) -> Value:
        return self.count.load_raw(builder, builder.i64(0))

    def _worst(self, builder: StructuredBuilder) -> Value:
        return self.worst.load_raw(builder, builder.i64(0))

    def _has_too_few(self, builder: StructuredBuilder) -> Value:
        return builder.icmp_unsigned("<", self._count(builder), builder.i64(self.k))
