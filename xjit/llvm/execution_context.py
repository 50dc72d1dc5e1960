"""The execution context: everything that belongs to one call of a program. The first argument of all native functions.

The runtime makes one per call; emitted code reads and writes it at the offsets given here. Nothing that a call needs is
global, so calls of one program at the same time do not meet.
"""

from __future__ import annotations

import enum

from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import I32, I64, PTR

EXECUTION_CONTEXT = StructLayout(
    "ExecutionContext",
    (
        ("status", I32),  # RuntimeStatus: the first failure, set by compare-and-swap from OK
        ("failed_instruction", I32),  # its number in the program's table of instructions, -1 for none
        ("detail", I64),  # what the status says more: bytes wanted, LAPACK's info
        ("cancel", I32),  # loops end at their next back edge once this is not 0
        ("replica_id", I32),
        ("partition_id", I32),
        ("reserved", I32),
        ("run_id", I64),  # the same for all replicas and partitions of one execution
        ("rng_state_low", I64),  # rng-get-and-update-state
        ("rng_state_high", I64),
        ("profile_counters", PTR),  # one i64 of cycles per kernel call, or null
        ("infeed", PTR),
        ("outfeed", PTR),
        ("communicator", PTR),
        ("last_check_ns", I64),  # when signals were looked for, 0 for never
        ("exception_type", PTR),  # what a signal handler of Python raised during the call, or null
        ("exception_value", PTR),
        ("exception_traceback", PTR),
    ),
)
"""Its fields in order."""


class RuntimeStatus(enum.IntEnum):
    """How a call ended; the entry returns it. The names are the status codes of the error messages."""

    OK = 0
    RESOURCE_EXHAUSTED = 1  # no memory for scratch space
    FAILED_PRECONDITION = 2  # a checked requirement of the program did not hold (for example, a debug bounds check)
    INTERNAL = 3  # a library routine refused its arguments: `detail` is LAPACK's info
    CUSTOM_CALL_FAILED = 4
    ITERATION_LIMIT = 5  # a while loop ran longer than the limit compiled in
    CANCELLED = 6
    COLLECTIVE_FAILED = 7  # another device failed, or does not come; the communicator knows why


INITIAL_RNG_STATE = 0x7012395
"""The 128-bit state that every execution starts with: runs are reproducible, and equal to the evaluator's."""

_WORD = (1 << 64) - 1


def initial_context(profile_counters: int = 0) -> bytes:
    """What the context of a call starts as. `profile_counters` is the address of the counters, 0 for none."""
    return EXECUTION_CONTEXT.pack(
        failed_instruction=-1,
        rng_state_low=INITIAL_RNG_STATE & _WORD,
        rng_state_high=INITIAL_RNG_STATE >> 64,
        profile_counters=profile_counters,
    )
