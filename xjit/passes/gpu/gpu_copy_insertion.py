"""Copies that GPU programs need: those of copy insertion, and of constants that are handed to libraries."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.ops.library_calls.targets import BATCH_NORM_TARGETS, LIBRARY_TARGETS, call_target
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.schedule_and_memory.copy_insertion import CopyInsertion


@dataclass
class GpuCopyInsertion(HloModulePass):
    """Runs copy insertion, and copies constants that calls to GPU libraries read: those want buffers on the device.

    All library calls share one copy of a constant, everything else reads the constant itself. Epsilon and the feature's
    index, the last two operands of a batch normalization, must be constants and stay so.
    """

    name = "gpu-copy-insertion"
    is_required = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a copy was added. Errors: FailedPrecondition for a batch normalization without its constants."""
        changed = CopyInsertion().run(module)  # of all threads: they share buffers
        flow = analyses.get(HloDataflowAnalysis, module)
        for computation in analyses.get(CallGraph, module).sequential:
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            copies: dict[HloInstruction, HloInstruction] = {}
            for call, number in list(_library_operands(computation.make_instruction_post_order())):
                operand = call.operand(number)
                if not operand.shape.is_array or flow.unique_value_at(operand).instruction.opcode != "constant":
                    continue
                if operand not in copies:
                    copy = HloInstruction.create("copy", operand.shape, [operand], name="copy")
                    inherit_annotations(copy, operand)
                    copies[operand] = computation.add_instruction(copy)
                call.replace_operand_with(number, copies[operand])
                changed = True
        return changed


def _library_operands(instructions: Collection[HloInstruction]) -> Iterator[tuple[HloInstruction, int]]:
    """Yields the operands that libraries are handed as buffers."""
    for instruction in instructions:
        target = call_target(instruction)
        buffers = instruction.operand_count if target in LIBRARY_TARGETS else 0
        if target in BATCH_NORM_TARGETS:
            buffers -= 2
            if any(operand.opcode != "constant" for operand in instruction.operands[buffers:]):
                what = "the last two operands, epsilon and the feature's index, must be constants"
                raise FailedPrecondition(f"{instruction.name}: {what}", instruction.span)
        yield from ((instruction, number) for number in range(buffers))
