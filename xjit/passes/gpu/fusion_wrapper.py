"""Every kernel of its own becomes a fusion."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.edit.fusion import create_fusion
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.gpu.fusion_heroes import tiles_of

_KERNELS = frozenset(
    {
        *("broadcast", "concatenate", "dynamic-slice", "dynamic-update-slice", "gather", "iota", "map", "pad"),
        *("reduce", "reduce-window", "reshape", "reverse", "scatter", "slice", "transpose"),
    }
)
"""Opcodes that loops over elements compute, besides those that are elementwise."""


@dataclass
class FusionWrapper(HloModulePass):
    """Makes a fusion `wrapped_add` of an add, and so of all instructions that are kernels, so that only fusions are.

    Where computations run in sequence only: what fusions and reductions call stays. A copy that keeps the layout is
    no kernel. Reductions, scatters and transposes in tiles are fusions of kind kInput.
    """

    name = "fusion-wrapper"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if an instruction was wrapped."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            for instruction in computation.instructions:
                if _is_kernel(instruction):
                    _wrap(instruction)
                    changed = True
        return changed


def _is_kernel(instruction: HloInstruction) -> bool:
    if instruction.opcode == "copy":
        return instruction.shape.layout != instruction.operand(0).shape.layout
    return instruction.opcode in _KERNELS or (instruction.is_elementwise() and instruction.opcode != "fusion")


def _wrap(instruction: HloInstruction) -> None:
    opcode, computation = instruction.opcode, instruction.parent
    is_input = opcode in ("reduce", "scatter") or tiles_of(instruction) is not None
    predecessors, successors = list(instruction.control_predecessors), list(instruction.control_successors)
    instruction.drop_all_control_deps()
    kind = "kInput" if is_input else "kLoop"
    fusion = create_fusion([instruction], kind, f"wrapped_{opcode}_computation")
    fusion.set_and_sanitize_name(f"wrapped_{opcode}")
    fusion.uniquify_name()
    for predecessor in predecessors:
        predecessor.add_control_dependency_to(fusion)
    for successor in successors:
        fusion.add_control_dependency_to(successor)
    assert computation is not None
    if instruction.parent is computation and instruction.is_dead():
        computation.remove_instruction(instruction)
