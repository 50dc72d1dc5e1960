"""Who runs this: the number of the thread in its block, of its warp and of its lane, and loops over them.

Threads are numbered along x only. All values are i64, read once, at the start of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.emitters.loops.loop_levels import VectorVariable
from xjit.emitters.loops.loop_nest import LoopBody, LoopNest
from xjit.emitters.schedule.statements import Role
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import I32, I64
from xjit.llvm.values import Value, const_int


def special_register(nest: LoopNest, name: str) -> Value:
    """Emits the read of a special register such as "tid.x", as i64."""
    raw = nest.builder.intrinsic(f"nvvm.read.ptx.sreg.{name}", I32, (), overloads=())
    return nest.builder.zext(raw, I64)


class Threads:
    """The threads of a block, a power of two of whole warps."""

    def __init__(self, nest: LoopNest, count: int) -> None:
        assert count % WARP_SIZE == 0 and count & (count - 1) == 0, f"{count} threads are no power of two of warps"
        self._nest = nest
        builder = nest.builder
        self.thread = special_register(nest, "tid.x")
        self.lane = builder.and_(self.thread, const_int(I64, WARP_SIZE - 1))
        self.warp = builder.lshr(self.thread, const_int(I64, WARP_SIZE.bit_length() - 1))
        self.num_warps = count // WARP_SIZE
        self._of: Mapping[Role, tuple[Value, int]] = {
            Role.THREAD: (self.thread, count),
            Role.WARP: (self.warp, self.num_warps),
            Role.LANE: (self.lane, WARP_SIZE),
        }

    def who(self, role: Role) -> tuple[Value, int]:
        """Returns the number of this thread (or warp, or lane) and how many there are."""
        return self._of[role]

    def is_first(self, roles: frozenset[Role]) -> Value | None:
        """Returns whether, of threads that only `roles` tell apart, this is the first; None if those tell all apart."""
        if Role.THREAD in roles or roles >= {Role.WARP, Role.LANE}:
            return None
        number = self.lane if Role.WARP in roles else self.warp if Role.LANE in roles else self.thread
        return self._nest.builder.icmp_signed("==", number, const_int(I64, 0))

    def loop(
        self, role: Role, position: int, width: int, body: LoopBody, accumulators: Sequence[Value] = ()
    ) -> list[Value]:
        """Emits a loop whose steps threads (warps, lanes) take in turn: number n does the steps n, n + count, ...

        A step is `width` values of the variable, a vector, which must divide their number; 0: one value.
        """
        nest = self._nest
        number, count = self.who(role)
        bounds = nest.intervals[position]
        steps, rest = divmod(nest.table.size(position), width or 1)
        assert rest == 0, "threads take whole vectors"
        begin = self._begin(number, width, bounds.lower)
        vector = VectorVariable(position, width) if width else None

        def once(values: Sequence[Value]) -> Sequence[Value]:
            return nest.once(position, begin, body, values, vector)

        if steps == count:
            return list(once(accumulators))
        if steps < count:
            return nest.where(nest.builder.icmp_signed("<", number, const_int(I64, steps)), once, accumulators)
        end = const_int(I64, bounds.upper + 1)
        return nest.loop(position, body, accumulators, begin, end, count * (width or 1), width, name="t")

    def clamped(self, role: Role, position: int, width: int, body: LoopBody) -> None:
        """Emits the body once for all threads: those that have no step of their own do the last one, too.

        So they can meet the others in it.
        """
        nest = self._nest
        number, count = self.who(role)
        bounds = nest.intervals[position]
        steps, rest = divmod(nest.table.size(position), width or 1)
        assert rest == 0 and steps <= count, "not one step for each"
        if steps < count:
            last = const_int(I64, steps - 1)
            number = nest.builder.select(nest.builder.icmp_signed("<", number, last), number, last)
        begin = self._begin(number, width, bounds.lower)
        nest.once(position, begin, body, (), VectorVariable(position, width) if width else None)

    def _begin(self, number: Value, width: int, lower: int) -> Value:
        builder = self._nest.builder
        begin = builder.mul(number, const_int(I64, width), nsw=True) if width > 1 else number
        return builder.add(begin, const_int(I64, lower), nsw=True) if lower else begin
