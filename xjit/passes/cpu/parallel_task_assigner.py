"""Large instructions become calls of computations that several threads may share."""

from __future__ import annotations

import math
import os
from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.edit.outlining import outline_expression_from_computation
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.cpu.shape_partition import partition_counts
from xjit.passes.expand.conv_canonicalization import is_fast_cpu_convolution
from xjit.passes.framework.base import HloModulePass, has_control_dependencies

BYTES_PER_TASK = 256 << 10
"""Result bytes of a task of what waits for memory."""

COST_PER_TASK = 100_000
"""Cost of a task: operations, two for a transcendental one, and ten per byte."""

PARTITIONS = "outer_dimension_partitions"

_PARALLEL = frozenset({
    "fusion", "broadcast", "concatenate", "dynamic-slice", "gather", "iota", "pad", "reduce", "reduce-window",
    "reshape", "reverse", "slice", "transpose", "convolution",
})  # fmt: skip
"""What threads may share, besides elementwise opcodes."""


@dataclass
class ParallelTaskAssigner(HloModulePass):
    """Outlines each large instruction of what runs in sequence, and notes in how many parts its result may be cut.

    `max_parallelism` bounds the tasks of one instruction, `cpus` (and its root, for what waits for memory) those that
    are worth it; 0 means those that this process may use. What has a side effect, control edges, threads of its own, as
    fast convolutions have, or may work in place stays.
    """

    name = "parallel-task-assigner"
    max_parallelism: int = 0
    cpus: int = 0

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Outlines in the entry, in loop bodies and in what is called; True if something was outlined."""
        costs = HloCostAnalysis()
        found = [
            (i, counts)
            for c in _sequential(module.entry_computation)
            if not execution_threads or c.execution_thread in execution_threads
            for i in c.make_instruction_post_order()
            if math.prod(counts := partition_counts(i.shape, self._target(i, costs))) > 1
        ]
        for instruction, counts in found:
            _outline(module, instruction, counts)
        return bool(found)

    def _target(self, instruction: HloInstruction, costs: HloCostAnalysis) -> int:
        """Returns how many tasks an instruction is worth; 1 if it must stay whole."""
        if not _may_be_parallel(instruction):
            return 1
        available = len(os.sched_getaffinity(0))
        threads, cpus = self.max_parallelism or available, self.cpus or available
        cost = costs.instruction(instruction)
        if cost.flops <= cost.bytes_accessed:
            most = min(threads, math.ceil(math.sqrt(cpus)))
            return max(1, min(physical_byte_size(instruction.shape) // BYTES_PER_TASK, most))
        total = cost.flops + 2 * cost.transcendentals + 10 * cost.bytes_accessed
        return max(1, min(int(total / COST_PER_TASK), threads))


def _sequential(entry: HloComputation) -> list[HloComputation]:
    """Returns the entry and, again and again, the bodies of loops and the targets of calls; not those made here."""
    found: dict[HloComputation, None] = {entry: None}
    stack = [entry]
    while stack:
        for i in stack.pop().instructions:
            target = {"while": 1, "call": 0}.get(i.opcode)
            inner = i.called_computations[target] if target is not None else None
            if inner is not None and inner not in found and PARTITIONS not in inner.root_instruction.backend_config:
                found[inner] = None
                stack.append(inner)
    return list(found)


def _may_be_parallel(instruction: HloInstruction) -> bool:
    if not (instruction.opcode in _PARALLEL or instruction.op.has(Trait.ELEMENTWISE)):
        return False
    if not instruction.shape.is_static_array or has_control_dependencies(instruction):
        return False
    if instruction.has_side_effect() or PARTITIONS in instruction.backend_config:
        return False
    if instruction.opcode == "convolution":
        return not is_fast_cpu_convolution(instruction)
    return instruction.opcode != "fusion" or (instruction.is_loop_fusion() and not _may_update_in_place(instruction))


def _may_update_in_place(fusion: HloInstruction) -> bool:
    """Whether a loop fusion changes a part of an array that it is given."""
    root = _behind_bitcasts(fusion.fused_expression_root)
    return root.opcode == "dynamic-update-slice" and _behind_bitcasts(root.operand(0)).opcode == "parameter"


def _behind_bitcasts(instruction: HloInstruction) -> HloInstruction:
    while instruction.opcode in ("bitcast", "get-tuple-element"):
        instruction = instruction.operand(0)
    return instruction


def _outline(module: HloModule, instruction: HloInstruction, counts: list[int]) -> None:
    computation = instruction.parent
    assert computation is not None
    call = outline_expression_from_computation(module, [instruction], f"parallel_{instruction.name}", computation)
    root = call.to_apply.root_instruction
    config = {PARTITIONS: [str(count) for count in counts]}
    root.set_backend_config({**root.parsed_backend_config, **config})
