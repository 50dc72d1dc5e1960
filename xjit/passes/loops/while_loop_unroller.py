"""Replaces short loops by their trips, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.edit.replacing import replace
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.fusion_cost import may_be_producer
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.analysis.while_loop_analysis import counted_loop
from xjit.passes.framework import analyses
from xjit.passes.framework.base import (
    HloModulePass,
    has_control_dependencies,
    selected_computations,
)
from xjit.passes.simplify.hlo_dce import remove_unreachable_computations

STRUCTURE = frozenset({"parameter", "tuple", "get-tuple-element", "constant"})
"""What is no work and gone, or no more than before, after simplification."""


@dataclass
class WhileLoopUnroller(HloModulePass):
    """Unrolls loops with a known trip count completely.

    A loop of one trip becomes its body and one of none its initial state, whatever their size. Others are unrolled if
    everything in the body fuses, so that the trips become one kernel, and no more than `max_unrolled_instructions`
    come of it: a fusion takes no more. Around a dot, a reduction or an update in place nothing is gained.

    Loops stay where the condition or body has side effects or where control edges or a sharding touch them. Nothing is
    unrolled in a module with loops nested deeper than `max_nesting` (each run may take only the outermost one away,
    as an inner bound may be a constant only then), nor beyond `max_growth` new instructions in a run, or in all runs of
    a fixed point: what a program takes to compile is not to grow with its loops' trips.
    """

    name = "while-loop-unroller"
    opcodes = frozenset({"while"})
    max_unrolled_instructions: int = 300
    max_nesting: int = 8
    max_growth: int = 20_000

    def __post_init__(self) -> None:
        self._left: int | None = None  # of the growth, in a fixed point

    @contextmanager
    def in_fixed_point(self) -> Generator[None]:
        """The runs within share `max_growth`, also those of a fixed point in a fixed point."""
        if self._left is not None:
            yield
            return
        self._left = self.max_growth
        try:
            yield
        finally:
            self._left = None

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Unrolls inner loops first; True if a loop is gone."""
        computations = selected_computations(module, execution_threads)
        loops = [i for c in computations for i in c.instructions if i.opcode == "while"]
        if not loops or analyses.get(CallGraph, module).nesting[module.entry_computation] > self.max_nesting:
            return False
        effects = analyses.get(SideEffects, module)
        changed = False
        growth_left = allowed = self.max_growth if self._left is None else self._left
        for loop in loops:
            if has_control_dependencies(loop) or loop.sharding is not None:
                continue
            if effects.below(loop):
                continue
            known = counted_loop(loop)
            if known is None:
                continue
            grows = known.trip_count > 1
            growth = known.trip_count * loop.while_body.instruction_count if grows else 0
            if growth > growth_left or (grows and not self._fuses(loop, known.trip_count)):
                continue
            growth_left -= growth
            unroll(loop, known.trip_count)
            changed = True
        if self._left is not None:
            self._left -= allowed - growth_left
        if changed:
            remove_unreachable_computations(module)
        return changed

    def _fuses(self, loop: HloInstruction, trip_count: int) -> bool:
        work = [i for i in loop.while_body.instructions if i.opcode not in STRUCTURE]
        return trip_count * len(work) <= self.max_unrolled_instructions and all(map(may_be_producer, work))


def unroll(loop: HloInstruction, trip_count: int) -> None:
    """Puts the body's instructions in the place of the loop, once per trip."""
    computation, body = loop.parent, loop.while_body
    assert computation is not None
    state = loop.while_init
    for _ in range(trip_count):
        mapping = body.clone_instructions(computation, {body.parameter_instructions[0]: state})
        state = mapping[body.root_instruction]
    replace(loop, state)
