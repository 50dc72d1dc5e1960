"""Collectives in two halves between which nothing runs, as one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.edit.replacing import inherit_annotations, replace
from xjit.passes.collectives.async_collective_creator import HALVES
from xjit.passes.framework.base import HloModulePass, selected_computations

_FREE = frozenset({"parameter", "constant", "bitcast", "get-tuple-element", "tuple"})
"""What does not run: it hides no exchange."""


@dataclass
class ConvertAsyncCollectivesToSync(HloModulePass):
    """Makes one collective of a start and its end where the schedule has nothing to do between them.

    InvalidArgument for a module without a schedule.
    """

    name = "convert-async-collectives-to-sync"
    opcodes = frozenset(f"{name}-start" for name in HALVES)

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Joins halves; True if there were some."""
        if not module.has_schedule():
            raise InvalidArgument(f"{self.name}: module {module.name} has no schedule")
        changed = False
        for computation in selected_computations(module, execution_threads):
            order = list(module.schedule.sequence(computation))
            pairs = _idle_pairs(order)
            for start, done in pairs:
                order[order.index(done)] = _join(computation, start, done)
                order.remove(start)
            if pairs:
                module.schedule.set_sequence(computation, order)
                changed = True
        return changed


def _idle_pairs(order: list[HloInstruction]) -> list[tuple[HloInstruction, HloInstruction]]:
    """Returns the starts whose end is the next that is not free."""
    pairs: list[tuple[HloInstruction, HloInstruction]] = []
    last: HloInstruction | None = None
    for instruction in order:
        if instruction.opcode in _FREE:
            continue
        if last is not None and instruction.operands == (last,) and instruction.opcode.endswith("-done"):
            pairs.append((last, instruction))
        last = instruction if instruction.opcode in ConvertAsyncCollectivesToSync.opcodes else None
    return pairs


def _join(computation: HloComputation, start: HloInstruction, done: HloInstruction) -> HloInstruction:
    opcode, callees = start.opcode.removesuffix("-start"), start.called_computations
    joined = HloInstruction.create(opcode, done.shape, start.operands, start.attributes, callees, name=done.name)
    joined.raw_backend_config = start.raw_backend_config
    computation.add_instruction(joined)
    inherit_annotations(joined, start)
    for before in start.control_predecessors:
        before.add_control_dependency_to(joined)
    for after in start.control_successors:
        joined.add_control_dependency_to(after)
    replace(done, joined, [joined])
    return joined
