"""Which conditions and bodies of loops are code in the function that has the loop, instead of functions of their own.

A call costs more than what a short body does besides its kernels, and only in place can numbers stay in registers.
"""

from __future__ import annotations

from collections import Counter

from xjit.thunks import ThunkProgram, WhileThunk, called_sequences

MAX_BODY_THUNKS = 16
"""What a longer body does takes longer than the call."""

MAX_CALLER_THUNKS = 64
"""A longer function is not optimized if it is the entry, which a loop in it would need."""

MAX_BODY_HEIGHT = 3
"""What runs loops around loops around loops is called seldom; and nesting may be deeper than Python's stack."""


def sequences_in_place(program: ThunkProgram) -> frozenset[str]:
    """Returns names of sequences: conditions that run nothing else, and short bodies that one loop alone has."""
    sequences = program.sequences
    called = {s.name: [name for thunk in s for name in called_sequences(thunk)] for s in sequences.values()}
    uses = Counter(name for names in called.values() for name in names)
    heights: dict[str, int] = {}  # of calls below; callees stand first
    found: set[str] = set()
    for caller in sequences.values():
        heights[caller.name] = 1 + max((heights[name] for name in called[caller.name]), default=-1)
        for loop in (thunk for thunk in caller if isinstance(thunk, WhileThunk)):
            condition, body = sequences[loop.condition], sequences[loop.body]
            if condition.is_straight:
                found.add(condition.name)
                is_short = len(body) <= MAX_BODY_THUNKS and heights[body.name] <= MAX_BODY_HEIGHT
                if uses[body.name] == 1 and is_short and len(caller) <= MAX_CALLER_THUNKS:
                    found.add(body.name)
    return frozenset(found)
