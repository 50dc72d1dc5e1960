"""Paths through a computation, along operands and control edges: a search for a single question.

Passes with many questions about one graph keep an `HloReachabilityMap`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from xjit.hlo.ir.post_order import needs_of

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction


def instruction_between(
    members: Collection[HloInstruction], position: Mapping[HloInstruction, int] | None = None
) -> HloInstruction | None:
    """Returns an instruction that is no member, but that needs one and that one needs; None if there is none.

    Only without one can the members become a single instruction. With their positions in an order, operands first, the
    search ends at the first member.
    """
    own = set(members)
    if len(own) < 2:
        return None  # what one needs and is needed by would be a cycle
    first = min((position[m] for m in own), default=0) if position is not None else 0
    needed = {n for member in members for n in needs_of(member) if n not in own}
    stack = list(needed)
    while stack:
        outside = stack.pop()
        if position is not None and position[outside] < first:
            continue
        for before in needs_of(outside):
            if before in own:
                return outside
            if before not in needed:
                needed.add(before)
                stack.append(before)
    return None
