"""How often a loop asks whether the call is to end, and the code that asks."""

from __future__ import annotations

from xjit.emitters.entry.context_calls import emit_return_on_cancel
from xjit.emitters.entry.time_estimate import NS_PER_STEP
from xjit.llvm.builder import IRBuilder
from xjit.llvm.values import Value
from xjit.thunks import KernelThunk, ThunkProgram, WhileThunk

SHORT_LOOP_NS = 5_000_000.0
"""A loop that takes less runs to its end, whatever happens meanwhile."""

LONG_ROUND_NS = 10_000.0
"""A loop of longer rounds asks in each: that costs it a thousandth at most."""

ROUNDS_PER_CHECK = 64
"""A power of two: short rounds ask only now and then if the loop is to end, as asking takes some 10 ns."""


def check_interval(loop: WhileThunk, program: ThunkProgram) -> int:
    """Returns after how many rounds a loop asks if it is to end: 1 if they are long, 0 (never) if it is short."""
    body = program.sequences[loop.body]
    round_ns = NS_PER_STEP * (len(body) + 1) + sum(t.cost_ns for t in body if isinstance(t, KernelThunk))
    if body.is_straight and loop.trip_count is not None and loop.trip_count * round_ns < SHORT_LOOP_NS:
        return 0
    return 1 if round_ns > LONG_ROUND_NS or not body.is_straight else ROUNDS_PER_CHECK


def return_on_cancel_if(builder: IRBuilder, due: Value) -> None:
    """Asks where `due` (i1) holds, and returns if the call is to end."""
    check, go_on = builder.append_block("cancel.check"), builder.append_block("while.again")
    builder.cbranch(due, check, go_on, weights=(1, ROUNDS_PER_CHECK))
    builder.position_at_end(check)
    emit_return_on_cancel(builder)
    builder.br(go_on)
    builder.position_at_end(go_on)
