"""Calls to GPU libraries become plain HLO again, for machines that have no such library."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CallAttributes
from xjit.ops.library_calls.plain import plain_computation
from xjit.ops.library_calls.targets import LIBRARY_TARGETS, call_target
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion


@dataclass
class LibraryCallExpander(OpExpander):
    """Replaces a custom call to one of LIBRARY_TARGETS by a call of the computation that it means.

    Workspaces and scratch memory are zeros there. Errors: Unsupported for a configuration without a meaning.
    """

    name = "library-call-expander"
    opcodes = frozenset({"custom-call"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the call."""
        if call_target(instruction) not in LIBRARY_TARGETS or has_control_dependencies(instruction):
            return None
        computation = into.embed(plain_computation(instruction))
        call = HloInstruction.create(
            "call", instruction.shape, instruction.operands, CallAttributes(), [computation], instruction.name
        )
        return into.add(call)
