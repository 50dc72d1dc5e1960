"""One kernel for the copies by which elements of a loop's state change places."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.edit.fusion import create_fusion
from xjit.hlo.edit.fusion_merging import fuse_instruction_into_multi_output
from xjit.passes.analysis.alias_analysis import HloAliasAnalysis
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.schedule_and_memory.copy_cycles import CopyCycles
from xjit.passes.schedule_and_memory.copy_insertion import CopyInsertion


@dataclass
class CopyFusion(HloModulePass):
    """Fuses copies that only together are right: a swap of two elements, or a rotation of more, in a loop's body.

    Copy insertion leaves them as they are; the fusion reads all elements of one index before it writes any.
    """

    name = "copy-fusion"
    opcodes = frozenset({"copy"})
    is_required = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Fuses in the schedule's order; True if the module changed."""
        del execution_threads  # like copy insertion, which needs all of it
        if not module.has_schedule():
            return False
        alias = analyses.get(HloAliasAnalysis, module)
        known = CopyCycles(alias.flow)
        cycles = [cycle for tie in alias.ties if (cycle := known.of(tie))]
        done: set[HloInstruction] = set()
        by_body: dict[HloComputation, list[Sequence[HloInstruction]]] = {}
        for cycle in cycles:
            if done.isdisjoint(cycle):
                done.update(cycle)
                body = cycle[0].parent
                assert body is not None
                by_body.setdefault(body, []).append(cycle)
        for body, of_body in by_body.items():
            _fuse(module, body, of_body)
        if done:
            CopyInsertion().run(module)  # what now takes part in no cycle is checked again
        return bool(done)


def _fuse(module: HloModule, body: HloComputation, cycles: Sequence[Sequence[HloInstruction]]) -> None:
    """Puts one fusion for each cycle where the last of its copies is."""
    sequence = list(module.schedule.sequence(body))
    position = {instruction: n for n, instruction in enumerate(sequence)}
    behind: dict[HloInstruction, list[HloInstruction]] = {}
    for cycle in cycles:
        last = max(cycle, key=position.__getitem__)
        fusion = create_fusion([cycle[0]])
        for copy in cycle[1:]:
            fuse_instruction_into_multi_output(fusion, copy)
        behind[last] = [fusion, *fusion.users]
    order = [i for old in sequence for i in (old, *behind.get(old, ()))]
    module.schedule.set_sequence(body, [i for i in order if i.parent is body])
