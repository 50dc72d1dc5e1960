"""Who calls what, and how: in sequence, as kernels of its own, or embedded in the caller's kernel."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import ClassVar

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait


class CallContext(enum.Flag):
    """How computations are called; the entry is SEQUENTIAL, what nothing calls NONE."""

    NONE = 0
    SEQUENTIAL = enum.auto()
    EMBEDDED = enum.auto()
    BOTH = SEQUENTIAL | EMBEDDED


def context_of(caller: HloInstruction) -> CallContext:
    """Returns how an instruction calls. The later halves of an asynchronous call only name what its start runs."""
    if caller.op.has(Trait.CONTROL_FLOW):
        return CallContext.SEQUENTIAL
    return CallContext.NONE if caller.opcode.startswith("async-") else CallContext.EMBEDDED


@dataclass(frozen=True, slots=True)
class CallGraph:
    """The computations of a module and the calls between them.

    `order` has callees before callers. `sites` are the instructions that call a computation sequentially; one that
    calls it twice (both branches of a conditional) is listed twice. `nesting` counts the loops around the innermost
    instruction of a computation, from that computation on.
    """

    of_calls_only: ClassVar[bool] = True  # see `analyses`

    order: tuple[HloComputation, ...]
    contexts: Mapping[HloComputation, CallContext]
    sites: Mapping[HloComputation, tuple[HloInstruction, ...]]
    nesting: Mapping[HloComputation, int]
    sequential: tuple[HloComputation, ...]

    @classmethod
    def of(cls, module: HloModule) -> CallGraph:
        """Finds all calls of a module."""
        order = tuple(module.make_computation_post_order())
        contexts = dict.fromkeys(order, CallContext.NONE)
        contexts[module.entry_computation] = CallContext.SEQUENTIAL
        sites: dict[HloComputation, list[HloInstruction]] = {c: [] for c in order}
        nesting: dict[HloComputation, int] = {}
        for computation in order:
            depth = 0
            for caller in computation.calling_instructions():
                context = context_of(caller)
                for callee in caller.called_computations:
                    depth = max(depth, nesting[callee] + (caller.opcode == "while"))
                    contexts[callee] = _joined(contexts[callee], context)
                    if caller.op.has(Trait.CONTROL_FLOW):
                        sites[callee].append(caller)
            nesting[computation] = depth
        calls = {c: tuple(callers) for c, callers in sites.items()}
        return cls(order, contexts, calls, nesting, tuple(_sequential(module.entry_computation)))

    @property
    def is_flattened(self) -> bool:
        """Whether every computation that runs in sequence has one call site (the entry none) and no other use."""
        return all(
            self.contexts[c] is CallContext.SEQUENTIAL and len(self.sites[c]) == (c is not self.sequential[0])
            for c in self.sequential
        )


def _sequential(entry: HloComputation) -> list[HloComputation]:
    """Returns the computations whose instructions run as kernels of their own: the entry first, callees behind it."""
    found: dict[HloComputation, None] = {}
    stack = [entry]
    while stack:
        computation = stack.pop()
        if computation in found:
            continue
        found[computation] = None
        for caller in computation.calling_instructions():
            if caller.op.has(Trait.CONTROL_FLOW):
                stack.extend(caller.called_computations)
    return list(found)


def _joined(a: CallContext, b: CallContext) -> CallContext:
    """Returns `a | b`, for which an enum takes ten times as long where they are one, as they mostly are."""
    if a is b or b is CallContext.NONE:
        return a
    return b if a is CallContext.NONE else a | b
