"""The structs that rewritten kernels, the scheduler, the checker and Python share."""

from __future__ import annotations

import enum

from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import I32, I64, PTR

WARP_SIZE = 32
MAX_THREADS = 1024
"""Threads of a block, at most: what every GPU takes, and what a record of the sanitizer has bits for."""


MATRIX_REGISTERS = 10
"""Registers of a lane that a matrix unit takes, at most."""


class ThreadState(enum.IntEnum):
    """What a thread does next."""

    RUNNABLE = 0
    AT_BARRIER = 1  # waits for the block
    AT_WARP = 2  # waits for the lanes of its mask
    EXITED = 3


class WarpOp(enum.IntEnum):
    """What lanes, or at a barrier the threads of a block, do together when all of them are there."""

    SYNC = 0
    SHUFFLE_UP = 1
    SHUFFLE_DOWN = 2
    SHUFFLE_BUTTERFLY = 3
    SHUFFLE_INDEX = 4
    VOTE_ALL = 5
    VOTE_ANY = 6
    VOTE_UNIFORM = 7
    BALLOT = 8
    ADD = 9
    MIN = 10
    MAX = 11
    UNSIGNED_MIN = 12
    UNSIGNED_MAX = 13
    AND = 14
    OR = 15
    XOR = 16
    MATCH_ANY = 17
    COUNT = 18  # of true predicates
    MATRIX = 19  # `value` is the address of what multiplies


_AXES = ("x", "y", "z")

THREAD = StructLayout(
    "Thread",
    (
        *((f"{fact}.{axis}", I32) for fact in ("tid", "ntid", "ctaid", "nctaid") for axis in _AXES),
        ("index", I32),  # in its block: x fastest, then y, z
        ("state", I32),
        ("site", I32),  # where it waits: a number of `SimulatedKernel.sites`
        ("op", I32),  # a WarpOp
        ("mask", I32),  # of lanes, or the barrier's number
        ("operand", I32),  # of a shuffle: lanes to go, or the source
        ("clamp", I32),  # of a shuffle: PTX's operand c
        ("flag", I32),  # of a shuffle: whether the source is in range
        ("value", I64),
        ("result", I64),
        ("handle", PTR),  # of the coroutine, null before the first run
        ("frame", PTR),  # memory of the coroutine; null asks for its size only
        ("frame_size", I64),
        ("launch", PTR),
        ("warp_clock", I32),  # meetings of the whole warp in this barrier interval
        ("fenced", I32),  # no plain global write since the last fence
        ("did_atomic", I32),  # a global atomic since the last fence
        ("acquired", I32),  # a fence behind a global atomic: sees what other blocks released
        *((f"register.{number}", I64) for number in range(MATRIX_REGISTERS)),  # of a matrix unit: left, right, sums
    ),
)
"""One thread of the block that runs. Rewritten kernels get its address."""

LAUNCH = StructLayout(
    "Launch",
    (
        ("start", PTR),  # ptr (ptr thread, ptr arguments): runs a thread to its end or first wait
        ("arguments", PTR),  # eight bytes each
        *((f"nctaid.{axis}", I64) for axis in _AXES),
        *((f"ntid.{axis}", I64) for axis in _AXES),
        ("reverse", I64),  # blocks, warps and lanes from the last to the first
        ("threads", PTR),  # a THREAD each
        ("frames", PTR),
        ("frame_stride", I64),
        ("objects", PTR),  # an OBJECT each
        ("num_objects", I64),
        ("ordinal", I64),  # blocks that ran before
        ("interval", I64),  # barriers that this block passed
        ("released", PTR),  # of each block by ordinal, the record of its last release
        ("acquire_pending", I32),  # a thread acquired in this interval
        ("block_acquired", I32),  # one did so before the last barrier
        ("findings", PTR),  # a FINDING each
        ("num_findings", I64),
        ("max_findings", I64),
        ("scratch", PTR),  # where wrong accesses go instead
        ("sanitize", I64),
    ),
)
"""One launch."""

OBJECT = StructLayout("Object", (("base", PTR), ("size", I64), ("shadow", PTR), ("is_shared", I64)))
"""A buffer slice, a shared variable or a constant: what a pointer may point into."""

SHADOW = StructLayout(
    "Shadow",
    (
        ("write", I64),  # the last plain write, as a `shadow_record`
        ("atomic", I64),  # the last atomic operations
        ("read", I64),  # the last plain reads
        ("earlier_read", I64),  # the last ones of another, earlier block
        ("earlier_atomic", I64),
    ),
)
"""What the sanitizer knows of one byte."""

FINDING = StructLayout(
    "Finding",
    (
        ("kind", I32),
        ("site", I32),
        ("thread", I32),
        ("ordinal", I32),
        ("object", I32),
        ("other_thread", I32),
        ("other_ordinal", I32),
        ("other_access", I32),
        ("offset", I64),  # bytes from the object's begin; of an absent lane its number
        ("bytes", I64),
    ),
)
"""Something wrong that was seen: `FindingKind` says what."""
