"""NVVM's intrinsics, and what they are on the host: facts of a thread, waits, fences, functions. Data only."""

from __future__ import annotations

import re

from xjit.dataclass import dataclass
from xjit.llvm.matrix_units import MATRIX_UNITS
from xjit.runtime.gpu_sim.records import ThreadState, WarpOp

THREAD_FACT = "llvm.nvvm.read.ptx.sreg."
"""What the names of the intrinsics that read facts begin with."""

FIELDS_OF_FACTS = {f"{fact}.{axis}" for fact in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
"""Facts that are fields of `THREAD`."""

LANE_FACTS = {
    "laneid": ("{lane} = and i32 {index}, 31", "{result} = add i32 {lane}, 0"),
    "warpid": ("{result} = lshr i32 {index}, 5",),
    "warpsize": ("{result} = add i32 32, 0",),
    "lanemask.eq": ("{lane} = and i32 {index}, 31", "{result} = shl i32 1, {lane}"),
    "lanemask.lt": ("{lane} = and i32 {index}, 31", "{bit} = shl i32 1, {lane}", "{result} = sub i32 {bit}, 1"),
    "lanemask.le": ("{lane} = and i32 {index}, 31", "{bit} = shl i32 2, {lane}", "{result} = sub i32 {bit}, 1"),
    "lanemask.ge": ("{lane} = and i32 {index}, 31", "{result} = shl i32 -1, {lane}"),
    "lanemask.gt": ("{lane} = and i32 {index}, 31", "{result} = shl i32 -2, {lane}"),
}
"""Facts that follow from a thread's index in its block, as lines of IR."""


@dataclass(frozen=True, slots=True)
class Wait:
    """An intrinsic that waits for other threads. `mask` and so on are the numbers of its operands, None for none.

    Its result is that of `xjit_sim_result`, cut to the type of the call; with `pair`, a struct of that and an i1. A
    matrix unit, `unit` of `MATRIX_UNITS`, takes all operands and gives a struct; all lanes wait for it.
    """

    state: ThreadState
    op: WarpOp
    mask: int | None
    value: int | None = None
    operand: int | None = None
    clamp: int | None = None
    is_signed: bool = False
    pair: bool = False
    unit: str | None = None


def _waits() -> dict[str, Wait]:
    waits: dict[str, Wait] = {}
    shuffles = {"up": "UP", "down": "DOWN", "bfly": "BUTTERFLY", "idx": "INDEX"}
    for mode, name in shuffles.items():
        for kind in ("i32", "f32"):
            for suffix in ("", "p"):
                waits[f"shfl.sync.{mode}.{kind}{suffix}"] = Wait(
                    ThreadState.AT_WARP, WarpOp[f"SHUFFLE_{name}"], 0, 1, 2, 3, pair=bool(suffix)
                )
    votes = {"all": WarpOp.VOTE_ALL, "any": WarpOp.VOTE_ANY, "uni": WarpOp.VOTE_UNIFORM, "ballot": WarpOp.BALLOT}
    for name, op in votes.items():
        waits[f"vote.{name}.sync"] = Wait(ThreadState.AT_WARP, op, 0, 1)
    reductions = {
        "add": WarpOp.ADD, "min": WarpOp.MIN, "max": WarpOp.MAX, "umin": WarpOp.UNSIGNED_MIN,
        "umax": WarpOp.UNSIGNED_MAX, "and": WarpOp.AND, "or": WarpOp.OR, "xor": WarpOp.XOR,
    }  # fmt: skip
    for name, op in reductions.items():
        is_signed = op in (WarpOp.MIN, WarpOp.MAX)
        waits[f"redux.sync.{name}"] = Wait(ThreadState.AT_WARP, op, 1, 0, is_signed=is_signed)
    for kind in ("i32", "i64"):
        waits[f"match.any.sync.{kind}"] = Wait(ThreadState.AT_WARP, WarpOp.MATCH_ANY, 0, 1)
    waits["bar.warp.sync"] = Wait(ThreadState.AT_WARP, WarpOp.SYNC, 0)
    at_barriers = {"popc": WarpOp.COUNT, "and": WarpOp.VOTE_ALL, "or": WarpOp.VOTE_ANY}
    for aligned in ("aligned.", ""):
        waits[f"barrier.cta.sync.{aligned}all"] = Wait(ThreadState.AT_BARRIER, WarpOp.SYNC, 0)
        for name, op in at_barriers.items():
            waits[f"barrier.cta.red.{name}.{aligned}all"] = Wait(ThreadState.AT_BARRIER, op, 0, 1)
    for unit in MATRIX_UNITS.values():
        name = unit.intrinsic.removeprefix("nvvm.")
        waits[name] = Wait(ThreadState.AT_WARP, WarpOp.MATRIX, None, unit=unit.name)
    return waits


WAITS = {f"llvm.nvvm.{name}": wait for name, wait in _waits().items()}
"""Every intrinsic that waits, by name."""

FENCES = frozenset({"llvm.nvvm.membar.gl", "llvm.nvvm.membar.sys"})
"""Intrinsics that are fences; a `fence` instruction is one, too."""

FENCES_OF_BLOCK = frozenset({"llvm.nvvm.membar.cta"})
"""Fences that other blocks do not see."""

COPY_TO_SHARED, WAIT_FOR_COPIES = "llvm.nvvm.cp.async.cg.shared.global.16.s", "llvm.nvvm.cp.async.wait.all"
"""Asynchronous copies of 16 bytes, or of zeros, and the wait for those of the thread."""

COPIED = "<4 x i32>"

_UNARY = {
    "ex2.approx": "exp2", "lg2.approx": "log2", "sqrt.rn": "sqrt", "sqrt.approx": "sqrt", "floor": "floor",
    "ceil": "ceil", "fabs": "fabs", "tanh.approx": "tanh", "sin.approx": "sin", "cos.approx": "cos",
}  # fmt: skip
_FUNCTION = re.compile(r"llvm\.nvvm\.(?P<name>\w+(?:\.(?:approx|rn))?)(?:\.ftz)?\.(?P<type>f|d|f32|f64)")
_TYPES = {"f": "f32", "f32": "f32", "d": "f64", "f64": "f64"}


def host_function(name: str) -> str | None:
    """The intrinsic of the host for a function of one operand, such as `llvm.nvvm.ex2.approx.f`; None if there is none.

    The host's result is rounded correctly, or nearly so: an approximation differs in its last bits.
    """
    match = _FUNCTION.fullmatch(name)
    if match is None or match["name"] not in _UNARY:
        return None
    return f"llvm.{_UNARY[match['name']]}.{_TYPES[match['type']]}"
