"""What threads do together, as IR: shuffles, votes, reductions and matches of a warp; counts at a block's barrier.

A kernel leaves its operands in its `Thread` (`xjit_sim_post`) and waits. Threads that wait at one site with one mask
are a group; it is served when every lane of the mask that has not ended is in it.
"""

from __future__ import annotations

from collections.abc import Callable

from xjit.llvm import Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR, VOID
from xjit.llvm.values import Value
from xjit.runtime.gpu_sim.fields import FALSE, TRUE, Fields, both, either, element, equal, i32, widened
from xjit.runtime.gpu_sim.findings import FindingKind
from xjit.runtime.gpu_sim.records import LAUNCH, THREAD, WARP_SIZE, ThreadState, WarpOp

_POSTED = ("state", "site", "op", "mask", "value", "operand", "clamp")
_LANE_BITS = WARP_SIZE - 1
_UNDEFINED = 0xFFFFFFFF
"""What a shuffle gives for a lane that is not there: a NaN."""

_SHUFFLES = (WarpOp.SHUFFLE_UP, WarpOp.SHUFFLE_DOWN, WarpOp.SHUFFLE_BUTTERFLY, WarpOp.SHUFFLE_INDEX)


def define_exchange(module: Module) -> None:
    """Defines what kernels call, and what serves groups. `module` has `xjit_sim_report`."""
    _define_post(module)
    _define_exit(module)
    for field in ("result", "flag"):
        b = define(module, f"xjit_sim_{field}", [(PTR, "thread")], linkage="", return_type=THREAD.type_of(field))
        b.ret(Fields(b, THREAD, b.function.args[0])[field])
    _define_is_member(module)
    _define_release(module)
    _define_reduce(module)
    _define_match(module)
    _define_shuffle(module)
    _define_is_complete(module)
    _define_serve_warp(module)


def _define_post(module: Module) -> None:
    """`void xjit_sim_post(thread, state, site, op, mask, i64 value, operand, clamp)`. A lane must be in its mask."""
    params = [(PTR, "thread"), *((THREAD.type_of(field), field) for field in _POSTED)]
    b = define(module, "xjit_sim_post", params, linkage="")
    thread = Fields(b, THREAD, b.function.args[0])
    given = dict(zip(_POSTED, b.function.args[1:]))
    for field, value in given.items():
        thread[field] = value
    own = b.shl(i32(1), _lane(b, thread))
    at_warp = equal(b, given["state"], ThreadState.AT_WARP)
    with b.when(both(b, at_warp, equal(b, b.and_(given["mask"], own), 0))):
        arguments = [i32(FindingKind.NOT_IN_MASK), given["site"], i32(-1), b.i64(-1), b.i64(0), b.i64(0), i32(0)]
        b.call(module.functions["xjit_sim_report"], [thread.base, *arguments])
        thread["mask"] = b.or_(given["mask"], own)
    b.ret_void()


def _define_exit(module: Module) -> None:
    b = define(module, "xjit_sim_exit", [(PTR, "thread")], linkage="")
    Fields(b, THREAD, b.function.args[0])["state"] = ThreadState.EXITED
    b.ret_void()


def _define_is_member(module: Module) -> None:
    """`i1 xjit_sim_is_member(thread, leader)`: whether they wait in one group."""
    b = define(module, "xjit_sim_is_member", [(PTR, "thread"), (PTR, "leader")], return_type=TRUE.type)
    thread, leader = (Fields(b, THREAD, argument) for argument in b.function.args)
    b.ret(both(b, *(thread.is_(field, leader[field]) for field in ("state", "site", "mask"))))


class _Group:
    """The parameters `(launch, i64 first, i64 count, leader)` of a function, and the members among those threads."""

    def __init__(self, module: Module, name: str) -> None:
        params = [(PTR, "launch"), (I64, "first"), (I64, "count"), (PTR, "leader")]
        self.module = module
        self.builder = b = define(module, name, params)
        self.launch = Fields(b, LAUNCH, b.function.args[0])
        self.first, self.count, self.leader = *b.function.args[1:3], Fields(b, THREAD, b.function.args[3])

    def thread(self, number: Value) -> Fields:
        """Thread number `number` (i64) of the range."""
        return element(self.builder, THREAD, self.launch["threads"], self.builder.add(self.first, number))

    def is_member(self, thread: Fields) -> Value:
        """Whether a thread is in the group, as an i1."""
        return self.builder.call(self.module.functions["xjit_sim_is_member"], [thread.base, self.leader.base])

    def for_each(self, do: Callable[[Fields], object]) -> None:
        """Emits code for every member."""
        b = self.builder
        with b.loop(b.i64(0), self.count, name="member") as number:
            thread = self.thread(number)
            with b.when(self.is_member(thread)):
                do(thread)


def _define_release(module: Module) -> None:
    """`void xjit_sim_release(...)`: the members may go on. A meeting of all lanes of a warp orders their accesses."""
    group = _Group(module, "xjit_sim_release")
    b = group.builder
    outside = b.alloca(I32, align=4, name="outside")
    b.store(i32(0), outside, 4)
    with b.loop(b.i64(0), group.count, name="lane") as number:
        thread = group.thread(number)
        goes_on = b.not_(thread.is_("state", ThreadState.EXITED))
        with b.when(both(b, goes_on, b.not_(group.is_member(thread)))):
            b.store(i32(1), outside, 4)
    orders = both(b, group.leader.is_("op", WarpOp.SYNC), equal(b, b.load(I32, outside, 4), 0))
    state, site, mask = (group.leader[field] for field in ("state", "site", "mask"))
    with b.loop(b.i64(0), group.count, name="lane") as number:
        thread = group.thread(number)
        member = both(b, thread.is_("state", state), thread.is_("site", site), thread.is_("mask", mask))
        with b.when(member):
            thread["state"] = ThreadState.RUNNABLE
            thread["warp_clock"] = b.add(thread["warp_clock"], b.zext(orders, I32))
    b.ret_void()


def _combiners(b: StructuredBuilder) -> dict[WarpOp, tuple[int, Callable[[Value, Value], Value]]]:
    """First value and step of each reduction, on i64: signed operands are sign-extended, others zero-extended."""

    def choose(compare: Callable[..., Value], op: str) -> Callable[[Value, Value], Value]:
        return lambda x, y: b.select(compare(op, x, y), x, y)

    return {
        WarpOp.ADD: (0, b.add),
        WarpOp.AND: (-1, b.and_),
        WarpOp.OR: (0, b.or_),
        WarpOp.XOR: (0, b.xor),
        WarpOp.MIN: ((1 << 63) - 1, choose(b.icmp_signed, "<")),
        WarpOp.MAX: (-(1 << 63), choose(b.icmp_signed, ">")),
        WarpOp.UNSIGNED_MIN: (-1, choose(b.icmp_unsigned, "<")),
        WarpOp.UNSIGNED_MAX: (0, choose(b.icmp_unsigned, ">")),
    }


def _define_reduce(module: Module) -> None:
    """`void xjit_sim_reduce(...)`: gives every member the reduction of the members' values."""
    group = _Group(module, "xjit_sim_reduce")
    b = group.builder
    combiners = _combiners(b)
    totals = {op: b.alloca(I64, align=8, name=op.name.lower()) for op in combiners}
    ballot, members = (b.alloca(I64, align=8, name=name) for name in ("ballot", "members"))
    for op, (start, _) in combiners.items():
        b.store(b.i64(start), totals[op], 8)
    for counter in (ballot, members):
        b.store(b.i64(0), counter, 8)

    def take(thread: Fields) -> None:
        value = thread["value"]
        for op, (_, combine) in combiners.items():
            b.store(combine(b.load(I64, totals[op], 8), value), totals[op], 8)
        bit = b.shl(b.and_(value, b.i64(1)), widened(b, _lane(b, thread)))
        b.store(b.or_(b.load(I64, ballot, 8), bit), ballot, 8)
        b.store(b.add(b.load(I64, members, 8), b.i64(1)), members, 8)

    group.for_each(take)
    results = {op: b.load(I64, total, 8) for op, total in totals.items()}
    results[WarpOp.BALLOT] = b.load(I64, ballot, 8)
    results[WarpOp.COUNT] = count = results[WarpOp.ADD]
    results[WarpOp.VOTE_ALL], results[WarpOp.VOTE_ANY] = results[WarpOp.AND], results[WarpOp.OR]
    uniform = either(b, equal(b, count, 0), equal(b, count, b.load(I64, members, 8)))
    results[WarpOp.VOTE_UNIFORM] = widened(b, uniform)
    wanted, result = group.leader["op"], b.i64(0)
    for op, value in results.items():
        result = b.select(equal(b, wanted, op), value, result)
    group.for_each(lambda thread: thread.__setitem__("result", result))
    b.ret_void()


def _define_match(module: Module) -> None:
    """`void xjit_sim_match(...)`: gives every member the mask of the members with its value."""
    group = _Group(module, "xjit_sim_match")
    b = group.builder
    mask = b.alloca(I64, align=8, name="mask")

    def match(thread: Fields) -> None:
        b.store(b.i64(0), mask, 8)

        def take(other: Fields) -> None:
            same = widened(b, other.is_("value", thread["value"]))
            bit = b.shl(same, widened(b, _lane(b, other)))
            b.store(b.or_(b.load(I64, mask, 8), bit), mask, 8)

        group.for_each(take)
        thread["result"] = b.load(I64, mask, 8)

    group.for_each(match)
    b.ret_void()


def _define_shuffle(module: Module) -> None:
    """`void xjit_sim_shuffle(...)`: gives every member the value of its source lane, by PTX's rules for `shfl`."""
    group = _Group(module, "xjit_sim_shuffle")
    b = group.builder

    def shuffle(thread: Fields) -> None:
        source, in_range = _source_lane(b, group.leader["op"], thread)
        thread["flag"] = b.zext(in_range, I32)
        thread["result"] = b.i64(_UNDEFINED)
        number = widened(b, source)
        exists = b.icmp_signed("<", number, group.count)
        other = group.thread(b.select(exists, number, b.i64(0)))
        present = both(b, exists, group.is_member(other))
        with b.when(present):
            thread["result"] = other["value"]
        with b.when(b.not_(present)):
            arguments = [i32(FindingKind.ABSENT_LANE), thread["site"], i32(-1), number, b.i64(0), b.i64(0), i32(0)]
            b.call(module.functions["xjit_sim_report"], [thread.base, *arguments])

    group.for_each(shuffle)
    b.ret_void()


def _source_lane(b: StructuredBuilder, op: Value, thread: Fields) -> tuple[Value, Value]:
    """Source lane (i32), and whether it lies in the segment (i1); a lane whose source does not reads itself."""
    lane, operand, clamp = _lane(b, thread), b.and_(thread["operand"], i32(_LANE_BITS)), thread["clamp"]
    segment = b.and_(b.lshr(clamp, i32(8)), i32(_LANE_BITS))
    begin = b.and_(lane, segment)
    outer = b.xor(segment, i32(_LANE_BITS))
    bound = b.or_(begin, b.and_(b.and_(clamp, i32(_LANE_BITS)), outer))
    sources = dict(
        zip(
            _SHUFFLES,
            (b.sub(lane, operand), b.add(lane, operand), b.xor(lane, operand), b.or_(begin, b.and_(operand, outer))),
        )
    )
    source = sources[WarpOp.SHUFFLE_UP]
    for kind in _SHUFFLES[1:]:
        source = b.select(equal(b, op, kind), sources[kind], source)
    is_up = equal(b, op, WarpOp.SHUFFLE_UP)
    in_range = b.select(is_up, b.icmp_signed(">=", source, bound), b.icmp_signed("<=", source, bound))
    return b.select(in_range, source, lane), in_range


def _define_is_complete(module: Module) -> None:
    """`i1 xjit_sim_is_complete(launch, i64 first, i64 count, leader)`: all lanes of the mask that go on are there."""
    params = [(PTR, "launch"), (I64, "first"), (I64, "count"), (PTR, "leader")]
    b = define(module, "xjit_sim_is_complete", params, return_type=TRUE.type)
    launch, leader = Fields(b, LAUNCH, b.function.args[0]), Fields(b, THREAD, b.function.args[3])
    first, count = b.function.args[1:3]
    with b.loop(b.i64(0), count, name="lane") as lane:
        thread = element(b, THREAD, launch["threads"], b.add(first, lane))
        wanted = b.and_(b.lshr(leader["mask"], b.trunc(lane, I32)), i32(1))
        member = b.call(module.functions["xjit_sim_is_member"], [thread.base, leader.base])
        goes_on = b.not_(thread.is_("state", ThreadState.EXITED))
        with b.when(both(b, equal(b, wanted, 1), goes_on, b.not_(member))):
            b.ret(FALSE)
    b.ret(TRUE)


def _define_serve_warp(module: Module) -> None:
    """`i32 xjit_sim_serve_warp(launch, i64 first, i64 count)`: serves one complete group; 0 if there is none."""
    params = [(PTR, "launch"), (I64, "first"), (I64, "count")]
    b = define(module, "xjit_sim_serve_warp", params, return_type=I32)
    launch = Fields(b, LAUNCH, b.function.args[0])
    range_arguments = list(b.function.args)
    with b.loop(b.i64(0), b.function.args[2], name="lane") as lane:
        leader = element(b, THREAD, launch["threads"], b.add(b.function.args[1], lane))
        with b.when(leader.is_("state", ThreadState.AT_WARP)):
            arguments = [*range_arguments, leader.base]
            with b.when(b.call(module.functions["xjit_sim_is_complete"], arguments)):
                op = leader["op"]
                is_shuffle = either(b, *(equal(b, op, kind) for kind in _SHUFFLES))
                is_match = equal(b, op, WarpOp.MATCH_ANY)
                with b.when(is_shuffle):
                    b.call(module.functions["xjit_sim_shuffle"], arguments)
                is_matrix = equal(b, op, WarpOp.MATRIX)
                with b.when(is_match):
                    b.call(module.functions["xjit_sim_match"], arguments)
                with b.when(is_matrix):
                    b.call_pointer(b.load(PTR, leader.pointer("value"), 8), VOID, arguments)
                with b.when(b.not_(either(b, is_shuffle, is_match, is_matrix))):
                    b.call(module.functions["xjit_sim_reduce"], arguments)
                b.call(module.functions["xjit_sim_release"], arguments)
                b.ret(i32(1))
    b.ret(i32(0))


def _lane(b: StructuredBuilder, thread: Fields) -> Value:
    return b.and_(thread["index"], i32(_LANE_BITS))
