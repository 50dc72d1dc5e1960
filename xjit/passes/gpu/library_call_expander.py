"""Calls to GPU libraries become plain HLO again, for machines that have no such library."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo.attributes import CallAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.post_order import post_order
from xjit.ops.library_calls.plain import PLAIN, plain_computation
from xjit.ops.library_calls.targets import MATMUL_TARGETS, call_target
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion
from xjit.passes.gpu.matmul_calls import matmul_spec


@dataclass
class LibraryCallExpander(OpExpander):
    """Replaces a custom call to a library of GPUs by a call of the computation that it means.

    Workspaces and scratch memory are zeros there. With `use_cublaslt` a product that cublasLt has stays a call.
    Errors: Unsupported for a configuration without a meaning.
    """

    name = "library-call-expander"
    opcodes = frozenset({"custom-call"})
    use_cublaslt: bool = False

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the call."""
        target = call_target(instruction)
        if target not in PLAIN or has_control_dependencies(instruction):
            return None
        if self.use_cublaslt and target in MATMUL_TARGETS and _has_product(instruction):
            return None
        *_, computation = map(into.embed, post_order([plain_computation(instruction)], _callees))
        call = HloInstruction.create(
            "call", instruction.shape, instruction.operands, CallAttributes(), [computation], instruction.name
        )
        return into.add(call)


def _callees(computation: HloComputation) -> list[HloComputation]:
    return [callee for i in computation.instructions for callee in i.called_computations]


def _has_product(call: HloInstruction) -> bool:
    try:
        matmul_spec(call)
    except Unsupported:
        return False
    return True
