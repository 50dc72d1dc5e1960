"""Orders of a module's computations: callees first, or by content. All are snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.compare.hashing import computation_digests
from xjit.hlo.ir.post_order import post_order

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.module import HloModule


def make_computation_post_order(module: HloModule) -> list[HloComputation]:
    """Returns all computations, callees before callers, deterministic, the entry last."""
    entry = module.entry_computation if module.has_entry_computation() else None
    starts = [c for c in module.computations() if c is not entry]
    return post_order([*starts, *([entry] if entry is not None else [])], lambda c: c.callees())


def make_computation_sorted(module: HloModule) -> list[HloComputation]:
    """Returns all computations sorted by content (names play no part), ties in post order."""
    digests = computation_digests(module)  # in post order; sorting is stable
    return sorted(digests, key=digests.__getitem__)


def make_nonfusion_computations(module: HloModule) -> list[HloComputation]:
    """Returns the computations that no fusion calls, in post order."""
    return [c for c in module.make_computation_post_order() if not c.is_fusion_computation()]


def make_nonfusion_computations_sorted(module: HloModule) -> list[HloComputation]:
    """Returns the computations that no fusion calls, sorted by content."""
    return [c for c in make_computation_sorted(module) if not c.is_fusion_computation()]


def reachable_computations(module: HloModule) -> set[HloComputation]:
    """Returns the entry and everything that it calls, directly or not."""
    found: set[HloComputation] = set()
    stack = [module.entry_computation]
    while stack:
        computation = stack.pop()
        if computation in found:
            continue
        found.add(computation)
        stack.extend(computation.callees())
    return found
