"""Calls to GPU libraries become plain HLO again, for machines that have no such library."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CallAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.ops.library_calls.plain import plain_computation
from xjit.ops.library_calls.targets import LIBRARY_TARGETS, MATMUL_TARGETS, call_target
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion
from xjit.passes.gpu.matmul_calls import matmul_spec


@dataclass
class LibraryCallExpander(OpExpander):
    """Replaces a custom call to one of LIBRARY_TARGETS by a call of the computation that it means.

    Workspaces and scratch memory are zeros there. With `use_cublaslt` a product that cublasLt has stays a call.
    Errors: Unsupported for a configuration without a meaning.
    """

    name = "library-call-expander"
    opcodes = frozenset({"custom-call"})
    use_cublaslt: bool = False

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the call."""
        target = call_target(instruction)
        if target not in LIBRARY_TARGETS or has_control_dependencies(instruction):
            return None
        if self.use_cublaslt and target in MATMUL_TARGETS and _has_product(instruction):
            return None
        computation = into.embed(plain_computation(instruction))
        call = HloInstruction.create(
            "call", instruction.shape, instruction.operands, CallAttributes(), [computation], instruction.name
        )
        return into.add(call)


def _has_product(call: HloInstruction) -> bool:
    try:
        matmul_spec(call)
    except Unsupported:
        return False
    return True
