"""Takes the fusions of the input apart."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.edit.replacing import replace
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.calls_and_control.call_inliner import inline_call
from xjit.passes.framework.base import HloModulePass
from xjit.passes.simplify.hlo_dce import remove_unreachable_computations


@dataclass
class Defuser(HloModulePass):
    """Replaces each `fusion` by the instructions in it, callees first, so that no fusion is left but those
    that are started asynchronously.

    An optimized module carries the fusions of the compiler that made it, with instructions that are kernels of their
    own here (a scatter, a sort, a dot) and with boundaries for other emitters. `InstructionFusion` makes new ones.
    """

    name = "defuser"
    opcodes = frozenset({"fusion"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Defuses; True if there was a fusion."""
        changed = False
        for computation in module.make_computation_post_order():
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            if computation.is_async_computation():
                continue  # it must be one instruction
            for instruction in computation.instructions:
                if instruction.opcode == "fusion":
                    _inline(instruction)
                    changed = True
        if changed:
            remove_unreachable_computations(module)
        return changed


def _inline(fusion: HloInstruction) -> None:
    """Puts what is fused in the place of a fusion; of several results only what reads them as a whole gets a tuple."""
    fused_root = fusion.fused_instructions_computation.root_instruction
    root = inline_call(fusion)[fused_root]
    if root.opcode == "tuple":
        for user in root.users:
            if user.opcode == "get-tuple-element":
                replace(user, root.operand(element_index(user)))
