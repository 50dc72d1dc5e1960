"""The scheduler as IR: runs the blocks of a launch one after the other, and the threads of a block by turns.

Lanes run until they wait or end, warp by warp. Lanes that all wait in one exchange are served as soon as the last of
them is there; the block's barrier opens when every thread that has not ended waits at it. One order, or its reverse:
a launch is deterministic.
"""

from __future__ import annotations

from xjit.llvm import Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR, VOID, int_type
from xjit.llvm.values import Value, const_int, zero
from xjit.runtime.gpu_sim.fields import Fields, both, element, equal, i32
from xjit.runtime.gpu_sim.findings import FindingKind
from xjit.runtime.gpu_sim.records import LAUNCH, OBJECT, THREAD, WARP_SIZE, ThreadState, WarpOp

_RELEASED, _ENDED, _STUCK = 0, 1, 2
_NEVER_WRITTEN = 0xFF
"""What shared memory is filled with: a NaN, a large index."""


def define_scheduler(module: Module) -> None:
    """Defines `void xjit_sim_run(ptr launch)`, which ends early if threads wait for each other for ever.

    `module` has the functions of `exchange_ir` and `report_ir`.
    """
    _define_start_block(module)
    _define_report_stuck(module)
    _define_resume(module)
    _define_run_warp(module)
    _define_barrier(module)
    _define_run_block(module)
    _define_run(module)


def _define_run(module: Module) -> None:
    b = define(module, "xjit_sim_run", [(PTR, "launch")], linkage="")
    launch = Fields(b, LAUNCH, b.function.args[0])
    counts = [launch[f"nctaid.{axis}"] for axis in ("x", "y", "z")]
    total = b.mul(b.mul(counts[0], counts[1]), counts[2])
    with b.loop(b.i64(0), total, name="ordinal") as ordinal:
        launch["ordinal"] = ordinal
        block = _in_order(b, launch, ordinal, total)
        b.call(module.functions["xjit_sim_start_block"], [launch.base, block])
        stuck = b.call(module.functions["xjit_sim_run_block"], [launch.base])
        with b.when(equal(b, stuck, _STUCK)):
            b.ret_void()
    b.ret_void()


def _define_start_block(module: Module) -> None:
    """`void xjit_sim_start_block(launch, i64 block)`: threads that have not run, shared memory that nobody wrote."""
    b = define(module, "xjit_sim_start_block", [(PTR, "launch"), (I64, "block")])
    launch, block = Fields(b, LAUNCH, b.function.args[0]), b.function.args[1]
    launch["interval"] = 0
    launch["acquire_pending"] = 0
    launch["block_acquired"] = 0
    with b.loop(b.i64(0), launch["num_objects"], name="object") as number:
        variable = element(b, OBJECT, launch["objects"], number)
        with b.when(variable.is_("is_shared", 1)):
            b.memset(variable["base"], const_int(int_type(8), _NEVER_WRITTEN), variable["size"])
    extent = {fact: [launch[f"{fact}.{axis}"] for axis in ("x", "y", "z")] for fact in ("nctaid", "ntid")}
    with b.loop(b.i64(0), _num_threads(b, launch), name="thread") as index:
        thread = element(b, THREAD, launch["threads"], index)
        b.memset(thread.base, const_int(int_type(8), 0), b.i64(THREAD.size))
        for fact, linear, extent_fact in (("tid", index, "ntid"), ("ctaid", block, "nctaid")):
            for axis, coordinate in zip("xyz", _coordinates(b, linear, extent[extent_fact])):
                thread[f"{fact}.{axis}"] = b.trunc(coordinate, I32)
                thread[f"{extent_fact}.{axis}"] = b.trunc(extent[extent_fact]["xyz".index(axis)], I32)
        thread["index"] = b.trunc(index, I32)
        thread["launch"] = launch.base
        thread["frame"] = b.offset(launch["frames"], b.mul(index, launch["frame_stride"]))
    b.ret_void()


def _coordinates(b: StructuredBuilder, linear: Value, extents: list[Value]) -> list[Value]:
    """x, y, z of a number that counts x fastest."""
    rest = b.udiv(linear, extents[0])
    return [b.urem(linear, extents[0]), b.urem(rest, extents[1]), b.udiv(rest, extents[1])]


def _define_resume(module: Module) -> None:
    """`void xjit_sim_resume(thread)`: runs a thread to its next wait or its end."""
    b = define(module, "xjit_sim_resume", [(PTR, "thread")])
    thread = Fields(b, THREAD, b.function.args[0])
    handle = thread["handle"]
    with b.when(b.icmp_signed("==", handle, zero(PTR))):
        launch = Fields(b, LAUNCH, thread["launch"])
        thread["handle"] = b.call_pointer(launch["start"], PTR, [thread.base, launch["arguments"]])
        b.ret_void()
    b.call_pointer(b.load(PTR, handle, 8), VOID, [handle])  # a coroutine starts with the address of its resume function
    b.ret_void()


def _define_run_warp(module: Module) -> None:
    """`i32 xjit_sim_run_warp(launch, i64 first, i64 count)`: until none of the lanes can go on; whether any ran."""
    b = define(module, "xjit_sim_run_warp", [(PTR, "launch"), (I64, "first"), (I64, "count")], return_type=I32)
    launch, first, count = Fields(b, LAUNCH, b.function.args[0]), *b.function.args[1:]
    progress = b.alloca(I32, align=4, name="progress")
    b.store(i32(0), progress, 4)
    again, done = b.append_block("again"), b.append_block("done")
    b.br(again)
    b.position_at_end(again)
    with b.loop(b.i64(0), count, name="lane") as lane:
        index = b.add(first, _in_order(b, launch, lane, count))
        thread = element(b, THREAD, launch["threads"], index)
        with b.when(thread.is_("state", ThreadState.RUNNABLE)):
            b.call(module.functions["xjit_sim_resume"], [thread.base])
            b.store(i32(1), progress, 4)
    served = b.call(module.functions["xjit_sim_serve_warp"], [launch.base, first, count])
    b.cbranch(equal(b, served, 1), again, done)
    b.position_at_end(done)
    b.ret(b.load(I32, progress, 4))


def _define_run_block(module: Module) -> None:
    """`i32 xjit_sim_run_block(launch)`: _ENDED or _STUCK."""
    b = define(module, "xjit_sim_run_block", [(PTR, "launch")], return_type=I32)
    launch = Fields(b, LAUNCH, b.function.args[0])
    num_threads = _num_threads(b, launch)
    warps = b.udiv(b.add(num_threads, b.i64(WARP_SIZE - 1)), b.i64(WARP_SIZE))
    again = b.append_block("again")
    b.br(again)
    b.position_at_end(again)
    with b.loop(b.i64(0), warps, name="warp") as warp:
        first = b.mul(_in_order(b, launch, warp, warps), b.i64(WARP_SIZE))
        count = b.min(b.sub(num_threads, first), b.i64(WARP_SIZE))
        b.call(module.functions["xjit_sim_run_warp"], [launch.base, first, count])
    result = b.call(module.functions["xjit_sim_barrier"], [launch.base, num_threads])
    leave = b.append_block("leave")
    b.cbranch(equal(b, result, _RELEASED), again, leave)
    b.position_at_end(leave)
    b.ret(result)


def _define_barrier(module: Module) -> None:
    """`i32 xjit_sim_barrier(launch, i64 num_threads)`: opens the barrier if all threads that go on are there."""
    b = define(module, "xjit_sim_barrier", [(PTR, "launch"), (I64, "num_threads")], return_type=I32)
    launch, num_threads = Fields(b, LAUNCH, b.function.args[0]), b.function.args[1]
    leader, alive, waiting = (b.alloca(I64, align=8, name=name) for name in ("leader", "alive", "waiting"))
    for counter, start in ((leader, -1), (alive, 0), (waiting, 0)):
        b.store(b.i64(start), counter, 8)
    with b.loop(b.i64(0), num_threads, name="thread") as index:
        thread = element(b, THREAD, launch["threads"], index)
        with b.when(b.not_(thread.is_("state", ThreadState.EXITED))):
            _increment(b, alive)
            with b.when(equal(b, b.load(I64, leader, 8), -1)):
                b.store(index, leader, 8)
            at_barrier = thread.is_("state", ThreadState.AT_BARRIER)
            first = element(b, THREAD, launch["threads"], b.load(I64, leader, 8))
            same = both(b, thread.is_("site", first["site"]), thread.is_("mask", first["mask"]))
            with b.when(both(b, at_barrier, same)):
                _increment(b, waiting)
    with b.when(equal(b, b.load(I64, alive, 8), 0)):
        b.ret(i32(_ENDED))
    with b.when(b.icmp_signed("<", b.load(I64, waiting, 8), b.load(I64, alive, 8))):
        b.call(module.functions["xjit_sim_report_stuck"], [launch.base, num_threads])
        b.ret(i32(_STUCK))
    first = element(b, THREAD, launch["threads"], b.load(I64, leader, 8))
    with b.when(b.not_(first.is_("op", WarpOp.SYNC))):
        b.call(module.functions["xjit_sim_reduce"], [launch.base, b.i64(0), num_threads, first.base])
    with b.loop(b.i64(0), num_threads, name="thread") as index:
        thread = element(b, THREAD, launch["threads"], index)
        with b.when(thread.is_("state", ThreadState.AT_BARRIER)):
            thread["state"] = ThreadState.RUNNABLE
            thread["warp_clock"] = 0
    launch["interval"] = b.add(launch["interval"], b.i64(1))
    launch["block_acquired"] = b.or_(launch["block_acquired"], launch["acquire_pending"])
    b.ret(i32(_RELEASED))


def _define_report_stuck(module: Module) -> None:
    """`void xjit_sim_report_stuck(launch, i64 num_threads)`: one finding for each kind of wait that never ends."""
    b = define(module, "xjit_sim_report_stuck", [(PTR, "launch"), (I64, "num_threads")])
    launch, num_threads = Fields(b, LAUNCH, b.function.args[0]), b.function.args[1]
    kinds = {ThreadState.AT_BARRIER: FindingKind.DIVERGENT_BARRIER, ThreadState.AT_WARP: FindingKind.ABSENT_LANE}
    with b.loop(b.i64(0), num_threads, name="thread") as index:
        thread = element(b, THREAD, launch["threads"], index)
        for state, kind in kinds.items():
            with b.when(thread.is_("state", state)):
                arguments = [i32(kind), thread["site"], i32(-1), b.i64(-1), b.i64(0)]
                b.call(module.functions["xjit_sim_report"], [thread.base, *arguments, b.i64(0), i32(0)])
    b.ret_void()


def _num_threads(b: StructuredBuilder, launch: Fields) -> Value:
    return b.mul(b.mul(launch["ntid.x"], launch["ntid.y"]), launch["ntid.z"])


def _in_order(b: StructuredBuilder, launch: Fields, number: Value, count: Value) -> Value:
    """The item to take as number `number` of `count`: in reverse, the last comes first."""
    return b.select(launch.is_("reverse", 1), b.sub(b.sub(count, b.i64(1)), number), number)


def _increment(b: StructuredBuilder, counter: Value) -> None:
    b.store(b.add(b.load(I64, counter, 8), b.i64(1)), counter, 8)
