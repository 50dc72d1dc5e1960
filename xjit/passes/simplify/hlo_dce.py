"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.ir.orders import reachable_computations
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses
from xjit.passes.framework.base import (
    NO_THREADS,
    HloModulePass,
    has_control_dependencies,
    has_opcodes,
    selected_computations,
)
from xjit.passes.simplify.dead_parameters import (
    remove_dead_call_parameters,
    remove_dead_entry_parameters,
    remove_dead_fusion_results,
)


@dataclass
class HloDCE(HloModulePass):
    """Removes instructions that neither reach a root nor have side effects, then computations that nothing reaches.

    Instructions with control edges stay, and the entry's parameters. Fusions lose results that nothing reads, and with
    `use_call_analysis` calls operands that the computation does not read. A collective with a channel may wait for one
    in another program: it stays unless all partitions run this one, or `remove_cross_partition_collective_ops`. With
    `remove_dead_parameters_from_entry` callers give the entry's parameters that nothing reads no longer.
    """

    name = "hlo-dce"
    aliases = ("dce",)
    use_call_analysis: bool = True
    remove_cross_partition_collective_ops: bool = False
    remove_dead_parameters_from_entry: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Removes what is dead; True if anything was."""
        changed = self._remove_instructions(module, execution_threads)
        while self.use_call_analysis and remove_dead_call_parameters(module, execution_threads):
            self._remove_instructions(module, execution_threads)  # what computed the operands may be dead now
            changed = True
        changed |= remove_unreachable_computations(module, execution_threads)
        entry_is_selected = not execution_threads or module.entry_computation.execution_thread in execution_threads
        if self.remove_dead_parameters_from_entry and entry_is_selected:
            changed |= remove_dead_entry_parameters(module)
        return changed

    def _remove_instructions(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        effects = analyses.get(SideEffects, module)
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= remove_dead_instructions(computation, effects, self._keeps_channels(module))
            if has_opcodes(computation, {"fusion"}):
                changed |= _remove_fusion_results(computation, effects, self._keeps_channels(module))
        return changed

    def _keeps_channels(self, module: HloModule) -> bool:
        is_spmd = module.config.use_spmd_partitioning or module.config.num_partitions > 1
        return not (is_spmd or self.remove_cross_partition_collective_ops)


def _remove_fusion_results(computation: HloComputation, effects: SideEffects, keeps_channels: bool) -> bool:
    """Removes results that nothing reads, readers first: what only these needed may be a result of another fusion."""
    changed = False
    for fusion in reversed(computation.make_instruction_post_order()):
        if fusion.parent is computation and fusion.opcode == "fusion" and fusion.shape.is_tuple:
            operands = fusion.unique_operands()
            if remove_dead_fusion_results(fusion):
                remove_dead_instructions(computation, effects, keeps_channels, operands)
                changed = True
    return changed


def remove_dead_instructions(
    computation: HloComputation,
    effects: SideEffects,
    keeps_channels: bool = False,
    candidates: Iterable[HloInstruction] | None = None,
) -> bool:
    """Removes what has no users, and then what has lost its last user: in a graph without cycles, that is all.

    `keeps_channels`: a collective with a channel counts as a side effect. `candidates`: what to look at first, if that
    is not all.
    """

    def is_dead(instruction: HloInstruction) -> bool:
        return (
            not instruction.user_count
            and instruction is not root
            and instruction.opcode != "parameter"
            and not has_control_dependencies(instruction)
            and not effects.of_instruction(instruction)
            and not (keeps_channels and instruction.op.has(Trait.COLLECTIVE) and instruction.channel_id is not None)
        )

    root = computation.root_instruction
    dead = [i for i in (computation.unread_instructions() if candidates is None else candidates) if is_dead(i)]
    if not dead:
        return False
    while dead:
        instruction = dead.pop()
        operands = instruction.unique_operands()
        computation.remove_instruction(instruction)
        dead.extend(o for o in operands if is_dead(o))
    return True


def remove_unreachable_computations(module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
    """Removes computations that no chain of calls from the entry reaches; True if there were any.

    Those of other threads than the given ones stay, with what they call.
    """
    reached = reachable_computations(module)
    if len(reached) == len(module.computations()):
        return False
    removed = False
    for computation in reversed(module.make_computation_post_order()):  # callers first
        selected = not execution_threads or computation.execution_thread in execution_threads
        if computation not in reached and selected and not computation.caller_instructions():
            module.remove_embedded_computation(computation)
            removed = True
    return removed
