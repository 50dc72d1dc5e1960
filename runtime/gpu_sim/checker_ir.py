"""The sanitizer as IR: is an access inside its object, aligned, written before, and free of races?

Each byte of an object has a `Shadow`. Two accesses of one byte race if one writes, not both are atomic, and nothing
orders them: inside a block a barrier between them, or a meeting of all lanes of their warp; between blocks a fence and
an atomic operation behind the first, and an atomic operation and a fence in front of the second. Which atomic variable
it was is not looked at: blocks run one after the other, and see all that was released before.

Shared memory is a block's own: what earlier blocks left there counts as not written.
"""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.llvm import Module
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I1, I32, I64, PTR
from xjit.llvm.values import Value, zero
from xjit.runtime.gpu_sim.fields import FALSE, TRUE, Fields, both, either, element, equal, has_bits, i32
from xjit.runtime.gpu_sim.findings import Access, FindingKind
from xjit.runtime.gpu_sim.records import LAUNCH, OBJECT, SHADOW, THREAD
from xjit.runtime.gpu_sim.shadow_record import (
    SEVERAL_LANES,
    SEVERAL_WARPS,
    clock_of,
    interval_of,
    is_of_several,
    ordinal_of,
    record_of,
    thread_of,
    warp_of,
)

LOCAL_OBJECT = -2
"""The number for pointers to a thread's own stack: not checked."""

UNKNOWN_OBJECT = -1
"""The number for pointers of unknown origin: any object that they point into will do."""

_CHECK_PARAMS = (
    (PTR, "thread"),
    (PTR, "address"),
    (I64, "bytes"),
    (I64, "align"),
    (I32, "access"),
    (I32, "site"),
    (I32, "object"),
)


def define_checker(module: Module) -> None:
    """Defines what instrumented kernels call. `module` has `xjit_sim_report`.

    `ptr xjit_sim_access(thread, address, i64 bytes, i64 align, i32 access, i32 site, i32 object)`: the address, or that
    of scratch memory if the access is wrong. `i64 xjit_sim_range(...)`, same parameters: `bytes`, or 0.
    """
    _define_find_object(module)
    _define_ordered(module)
    _define_conflict(module)
    _define_merge(module)
    _define_check_byte(module)
    _define_note_order(module)
    _define_check(module)
    for name, kind in (("xjit_sim_access", PTR), ("xjit_sim_range", I64)):
        b = define(module, name, _CHECK_PARAMS, linkage="", return_type=kind)
        thread, address, size = b.function.args[:3]
        passed = b.call(module.functions["xjit_sim_check"], b.function.args)
        scratch = Fields(b, LAUNCH, Fields(b, THREAD, thread)["launch"])["scratch"]
        b.ret(b.select(passed, address, scratch) if kind is PTR else b.select(passed, size, b.i64(0)))
    _define_fence(module)


def _define_find_object(module: Module) -> None:
    """`ptr xjit_sim_find_object(launch, address, i64 bytes, i32 object)`: the object it lies in, or null."""
    params = [(PTR, "launch"), (PTR, "address"), (I64, "bytes"), (I32, "object")]
    b = define(module, "xjit_sim_find_object", params, return_type=PTR)
    launch, (address, size, wanted) = Fields(b, LAUNCH, b.function.args[0]), b.function.args[1:]
    with b.loop(b.i64(0), launch["num_objects"], name="object") as number:
        candidate = element(b, OBJECT, launch["objects"], number)
        begin = b.sub(b.ptrtoint(address, I64), b.ptrtoint(candidate["base"], I64))
        inside = both(
            b,
            b.icmp_signed(">=", begin, b.i64(0)),
            b.icmp_signed("<=", b.add(begin, size), candidate["size"]),
            either(b, equal(b, wanted, UNKNOWN_OBJECT), equal(b, wanted, b.trunc(number, I32))),
        )
        with b.when(inside):
            b.ret(candidate.base)
    b.ret(zero(PTR))


def _define_ordered(module: Module) -> None:
    """`i1 xjit_sim_ordered(thread, i64 record)`: whether the access of an earlier block was released and acquired."""
    b = define(module, "xjit_sim_ordered", [(PTR, "thread"), (I64, "record")], return_type=I1)
    thread, record = Fields(b, THREAD, b.function.args[0]), b.function.args[1]
    launch = Fields(b, LAUNCH, thread["launch"])
    acquired = either(b, thread.is_("acquired", 1), launch.is_("block_acquired", 1))
    slot = b.sub(ordinal_of(b, record), b.i64(1))
    released = b.load(I64, b.offset(launch["released"], b.mul(slot, b.i64(8))), 8)
    same_interval = equal(b, interval_of(b, record), interval_of(b, released))
    same_thread = equal(b, thread_of(b, record), thread_of(b, released))
    by_thread = either(b, same_thread, is_of_several(b, released, SEVERAL_LANES))
    later = b.icmp_unsigned(">", interval_of(b, released), interval_of(b, record))
    b.ret(both(b, acquired, either(b, later, both(b, same_interval, by_thread))))


def _define_conflict(module: Module) -> None:
    """`i32 xjit_sim_conflict(thread, i64 now, i64 record, i32 is_shared)`: a FindingKind, or -1 if they are ordered."""
    params = [(PTR, "thread"), (I64, "now"), (I64, "record"), (I32, "is_shared")]
    b = define(module, "xjit_sim_conflict", params, return_type=I32)
    thread, now, record, is_shared = b.function.args
    none = i32(-1)
    with b.when(equal(b, record, 0)):
        b.ret(none)
    with b.when(b.not_(equal(b, ordinal_of(b, record), ordinal_of(b, now)))):
        ordered = b.call(module.functions["xjit_sim_ordered"], [thread, record])
        fine = either(b, equal(b, is_shared, 1), ordered)
        b.ret(b.select(fine, none, i32(FindingKind.RACE_OF_BLOCKS)))
    several_warps = is_of_several(b, record, SEVERAL_WARPS)
    several_lanes = is_of_several(b, record, SEVERAL_LANES)
    own = both(b, equal(b, thread_of(b, record), thread_of(b, now)), b.not_(several_lanes))
    same_warp = equal(b, warp_of(b, record), warp_of(b, now))
    met = both(b, same_warp, b.not_(equal(b, clock_of(b, record), clock_of(b, now))))
    apart = b.not_(equal(b, interval_of(b, record), interval_of(b, now)))
    fine = either(b, apart, both(b, b.not_(several_warps), either(b, own, met)))
    b.ret(b.select(fine, none, i32(FindingKind.RACE)))


def _define_merge(module: Module) -> None:
    """`i64 xjit_sim_merge(i64 record, i64 now)`: the record of what was done before, and now."""
    b = define(module, "xjit_sim_merge", [(I64, "record"), (I64, "now")], return_type=I64)
    record, now = b.function.args
    with b.when(b.not_(equal(b, interval_of(b, record), interval_of(b, now)))):
        b.ret(now)
    with b.when(b.not_(equal(b, warp_of(b, record), warp_of(b, now)))):
        b.ret(b.or_(record, b.i64(SEVERAL_WARPS)))
    others = b.and_(record, b.i64(SEVERAL_WARPS))
    with b.when(b.not_(equal(b, clock_of(b, record), clock_of(b, now)))):
        b.ret(b.or_(now, others))
    lanes = b.select(equal(b, thread_of(b, record), thread_of(b, now)), b.i64(0), b.i64(SEVERAL_LANES))
    b.ret(b.or_(record, lanes))


@dataclass(frozen=True, slots=True)
class _Rule:
    """What the shadow's `field` notes conflicts with accesses that have one of the bits of `by` and none of `but`."""

    field: str
    by: Access
    but: Access
    what: Access


_READ_OR_WRITE = Access.READ | Access.WRITE
_RULES = (
    _Rule("write", _READ_OR_WRITE, Access(0), Access.WRITE),
    _Rule("atomic", _READ_OR_WRITE, Access.ATOMIC, Access.ATOMIC),
    _Rule("earlier_atomic", _READ_OR_WRITE, Access.ATOMIC, Access.ATOMIC),
    _Rule("read", Access.WRITE, Access(0), Access.READ),
    _Rule("earlier_read", Access.WRITE, Access(0), Access.READ),
)


def _define_check_byte(module: Module) -> None:
    """`void xjit_sim_check_byte(thread, shadow, i64 now, access, site, object, i64 offset, is_shared)`."""
    names = (("access", I32), ("site", I32), ("object", I32), ("offset", I64), ("is_shared", I32))
    params = [(PTR, "thread"), (PTR, "shadow"), (I64, "now"), *((kind, name) for name, kind in names)]
    b = define(module, "xjit_sim_check_byte", params)
    thread, address, now, access, site, number, offset, is_shared = b.function.args
    shadow = Fields(b, SHADOW, address)

    def report(kind: Value, other: Value, what: Access) -> None:
        arguments = [thread, kind, site, number, offset, b.i64(1), other, i32(what)]
        b.call(module.functions["xjit_sim_report"], arguments)

    for rule in _RULES:
        with b.when(both(b, has_bits(b, access, rule.by), b.not_(has_bits(b, access, rule.but)))):
            record = shadow[rule.field]
            found = b.call(module.functions["xjit_sim_conflict"], [thread, now, record, is_shared])
            with b.when(b.icmp_signed(">=", found, i32(0))):
                report(found, record, rule.what)
    mine = ordinal_of(b, now)
    written = either(b, *(equal(b, ordinal_of(b, shadow[field]), mine) for field in ("write", "atomic")))
    with b.when(both(b, equal(b, is_shared, 1), has_bits(b, access, Access.READ), b.not_(written))):
        report(i32(FindingKind.UNINITIALIZED), b.i64(0), Access(0))
    _emit_update(module, shadow, now, access)
    b.ret_void()


def _emit_update(module: Module, shadow: Fields, now: Value, access: Value) -> None:
    """Notes the access: a plain write replaces, reads and atomic operations add up."""
    b = shadow.builder
    is_atomic, is_write = has_bits(b, access, Access.ATOMIC), has_bits(b, access, Access.WRITE)
    with b.when(both(b, is_write, b.not_(is_atomic))):
        shadow["write"] = now
    for field, condition in (("atomic", is_atomic), ("read", b.not_(either(b, is_atomic, is_write)))):
        with b.when(condition):
            before = shadow[field]
            ordinal = ordinal_of(b, before)
            with b.when(both(b, b.not_(equal(b, ordinal, 0)), b.not_(equal(b, ordinal, ordinal_of(b, now))))):
                shadow[f"earlier_{field}"] = before
            shadow[field] = b.call(module.functions["xjit_sim_merge"], [before, now])


def _define_note_order(module: Module) -> None:
    """`void xjit_sim_note_order(thread, i64 now, i32 access)`: what an access of global memory orders."""
    b = define(module, "xjit_sim_note_order", [(PTR, "thread"), (I64, "now"), (I32, "access")])
    thread, now, access = Fields(b, THREAD, b.function.args[0]), *b.function.args[1:]
    launch = Fields(b, LAUNCH, thread["launch"])
    is_atomic, is_write = has_bits(b, access, Access.ATOMIC), has_bits(b, access, Access.WRITE)
    with b.when(both(b, is_write, b.not_(is_atomic))):
        thread["fenced"] = 0
    with b.when(is_atomic):
        thread["did_atomic"] = 1
        with b.when(has_bits(b, access, Access.ACQUIRE)):
            _emit_acquire(launch, thread)
        with b.when(both(b, is_write, either(b, thread.is_("fenced", 1), has_bits(b, access, Access.RELEASE)))):
            slot = b.offset(launch["released"], b.mul(launch["ordinal"], b.i64(8)))
            before = b.load(I64, slot, 8)
            same_interval = equal(b, interval_of(b, before), interval_of(b, now))
            alone = either(b, b.not_(same_interval), equal(b, thread_of(b, before), thread_of(b, now)))
            b.store(b.select(alone, now, b.or_(now, b.i64(SEVERAL_LANES))), slot, 8)
    b.ret_void()


def _emit_acquire(launch: Fields, thread: Fields) -> None:
    thread["acquired"] = 1
    launch["acquire_pending"] = 1


def _define_check(module: Module) -> None:
    """`i1 xjit_sim_check(...)`, the parameters of `xjit_sim_access`: whether the access may be done."""
    b = define(module, "xjit_sim_check", _CHECK_PARAMS, return_type=I1)
    thread, address, size, align, access, site, wanted = b.function.args
    with b.when(either(b, equal(b, wanted, LOCAL_OBJECT), equal(b, size, 0))):
        b.ret(TRUE)
    launch = Fields(b, LAUNCH, Fields(b, THREAD, thread)["launch"])
    found = b.call(module.functions["xjit_sim_find_object"], [launch.base, address, size, wanted])
    place = b.ptrtoint(address, I64)

    def refuse(kind: FindingKind, offset: Value, number: Value) -> None:
        arguments = [thread, i32(kind), site, number, offset, size, b.i64(0), i32(0)]
        b.call(module.functions["xjit_sim_report"], arguments)
        b.ret(FALSE)

    with b.when(b.icmp_signed("==", found, zero(PTR))):
        known = b.icmp_signed(">=", wanted, i32(0))
        meant = element(b, OBJECT, launch["objects"], b.select(known, b.sext(wanted, I64), b.i64(0)))
        offset = b.select(known, b.sub(place, b.ptrtoint(meant["base"], I64)), b.i64(0))
        refuse(FindingKind.OUT_OF_BOUNDS, offset, wanted)
    target = Fields(b, OBJECT, found)
    offset = b.sub(place, b.ptrtoint(target["base"], I64))
    distance = b.sub(b.ptrtoint(found, I64), b.ptrtoint(launch["objects"], I64))
    number = b.trunc(b.udiv(distance, b.i64(OBJECT.size)), I32)
    with b.when(b.not_(equal(b, b.and_(place, b.sub(align, b.i64(1))), 0))):
        refuse(FindingKind.MISALIGNED, offset, number)
    shadow = target["shadow"]
    no_shadow = b.icmp_signed("==", shadow, zero(PTR))
    with b.when(both(b, no_shadow, has_bits(b, access, Access.WRITE))):
        refuse(FindingKind.READ_ONLY, offset, number)
    with b.when(no_shadow):
        b.ret(TRUE)
    now = record_of(b, launch, Fields(b, THREAD, thread))
    is_shared = b.trunc(target["is_shared"], I32)
    with b.loop(b.i64(0), size, name="byte") as byte:
        at = b.add(offset, byte)
        entry = b.offset(shadow, b.mul(at, b.i64(SHADOW.size)))
        arguments = [thread, entry, now, access, site, number, at, is_shared]
        b.call(module.functions["xjit_sim_check_byte"], arguments)
    with b.when(equal(b, is_shared, 0)):
        b.call(module.functions["xjit_sim_note_order"], [thread, now, access])
    b.ret(TRUE)


def _define_fence(module: Module) -> None:
    """`void xjit_sim_fence(thread)`: a fence that other blocks see."""
    b = define(module, "xjit_sim_fence", [(PTR, "thread")], linkage="")
    thread = Fields(b, THREAD, b.function.args[0])
    thread["fenced"] = 1
    with b.when(thread.is_("did_atomic", 1)):
        _emit_acquire(Fields(b, LAUNCH, thread["launch"]), thread)
    b.ret_void()
