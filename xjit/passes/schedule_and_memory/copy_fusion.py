"""One kernel for the copies by which elements of a loop's state change places."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.edit.fusion import create_fusion
from xjit.hlo.edit.fusion_merging import fuse_instruction_into_multi_output
from xjit.passes.analysis.alias_analysis import HloAliasAnalysis
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.schedule_and_memory.copy_cycles import copy_cycle
from xjit.passes.schedule_and_memory.copy_insertion import CopyInsertion


@dataclass
class CopyFusion(HloModulePass):
    """Fuses copies that only together are right: a swap of two elements, or a rotation of more, in a loop's body.

    Copy insertion leaves them as they are; the fusion reads all elements of one index before it writes any.
    """

    name = "copy-fusion"
    is_required = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Fuses in the schedule's order; True if the module changed."""
        del execution_threads  # like copy insertion, which needs all of it
        if not module.has_schedule():
            return False
        alias = analyses.get(HloAliasAnalysis, module)
        cycles = [cycle for tie in alias.ties if (cycle := copy_cycle(alias.flow, tie))]
        done: set[HloInstruction] = set()
        for cycle in cycles:
            if done.isdisjoint(cycle):
                done.update(cycle)
                _fuse(module, cycle)
        if done:
            CopyInsertion().run(module)  # what now takes part in no cycle is checked again
        return bool(done)


def _fuse(module: HloModule, cycle: Sequence[HloInstruction]) -> None:
    """Puts one fusion where the last of the copies is."""
    body = cycle[0].parent
    assert body is not None
    sequence = list(module.schedule.sequence(body))
    place = max(sequence.index(copy) for copy in cycle)
    before = set(body.instructions)
    fusion = create_fusion([cycle[0]])
    for copy in cycle[1:]:
        fuse_instruction_into_multi_output(fusion, copy)
    added = [i for i in body.make_instruction_post_order() if i not in before]
    sequence[place : place + 1] = [sequence[place], *added]
    alive = set(body.instructions)
    module.schedule.set_sequence(body, [i for i in sequence if i in alive])
