"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo import attributes as at
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

ALLOWED = "xla_allow_dce_side_effecting_op"
"""The attribute that says whether something may go: "false" that it may not, "true" of a `tpu_custom_call` or an
asynchronous instruction that it may in spite of its effect."""

KEPT_LOOPS = frozenset({"xla_disable_while_loop_dce", "xla.disable_while_loop_dce"})
"""Attributes that say, if they are true, that a loop stays as it is."""

KEPT = KEPT_LOOPS | {"xla_preserve_tuple_indices", "xla.preserve_tuple_indices"}
"""Attributes that say, if they are true, that something stays."""

_TRUE = frozenset({"true", "1", "yes"})
_WITH_CHANNELS = Trait.COLLECTIVE | Trait.CONTROL_FLOW


@dataclass
class HloDCE(HloModulePass):
    """Removes instructions that neither reach a root nor have side effects, then computations that nothing reaches.

    Instructions with control edges stay, and the entry's parameters. Fusions lose results that nothing reads, and with
    `use_call_analysis` calls operands that the computation does not read. A collective with a channel may wait for one
    in another program: it stays unless all partitions run this one, or `remove_cross_partition_collective_ops`. With
    `remove_dead_parameters_from_entry` callers give the entry's parameters that nothing reads no longer.

    A custom-call to `Sharding` goes only with what it annotates. The frontend attributes `ALLOWED` and `KEPT` are
    heeded.
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
        keeps_channels = self._keeps_channels(module)

        def is_kept(instruction: HloInstruction) -> bool:
            op = instruction.op
            if (instruction.frontend_attributes or op.has(Trait.ASYNC)) and _is_told_to_stay(instruction):
                return True
            if instruction.opcode == "custom-call" and _is_annotation_of_others(instruction):
                return True
            if effects.of_instruction(instruction):
                return not _may_go_all_the_same(instruction)
            return keeps_channels and op.has(_WITH_CHANNELS) and _has_channel(instruction)

        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= remove_dead_instructions(computation, effects, is_kept)
            if has_opcodes(computation, {"fusion"}):
                changed |= _remove_fusion_results(computation, effects, is_kept)
        return changed

    def _keeps_channels(self, module: HloModule) -> bool:
        is_spmd = module.config.use_spmd_partitioning or module.config.num_partitions > 1
        return not (is_spmd or self.remove_cross_partition_collective_ops)


def _allowed(instruction: HloInstruction) -> str:
    """What `ALLOWED` says of an instruction, or of what starts it."""
    found = instruction.frontend_attributes.get(ALLOWED, "")
    if not found and instruction.op.has(Trait.ASYNC) and instruction.operand_count:
        start = instruction.operand(0)
        return _allowed(start) if start.op.has(Trait.ASYNC) else ""
    return found


def has_true_attribute(instruction: HloInstruction, keys: Collection[str]) -> bool:
    """Whether one of these frontend attributes is true."""
    told = instruction.frontend_attributes
    return bool(told) and any(key in keys and value.lower() in _TRUE for key, value in told.items())


def _is_told_to_stay(instruction: HloInstruction) -> bool:
    return has_true_attribute(instruction, KEPT) or _allowed(instruction) == "false"


def _may_go_all_the_same(instruction: HloInstruction) -> bool:
    return _allowed(instruction) == "true" and (
        instruction.op.has(Trait.ASYNC) or _target(instruction) == "tpu_custom_call"
    )


def _is_annotation_of_others(instruction: HloInstruction) -> bool:
    """Whether this annotates what stays without it: a parameter, a root or what something else reads."""
    if _target(instruction) != "Sharding":
        return False
    annotated = instruction.operand(0)
    return annotated.opcode == "parameter" or annotated.is_root() or annotated.user_count != 1


def _target(instruction: HloInstruction) -> str:
    is_call = instruction.opcode == "custom-call"
    return instruction.attributes_as(at.CustomCallAttributes).custom_call_target if is_call else ""


def _has_channel(instruction: HloInstruction) -> bool:
    """Whether an instruction, or one that it runs, is a collective with a channel."""
    if instruction.op.has(Trait.COLLECTIVE):
        return instruction.channel_id is not None
    return any(
        _has_channel(i) for c in instruction.called_computations for i in c.instructions if i.op.has(_WITH_CHANNELS)
    )


def _remove_fusion_results(
    computation: HloComputation, effects: SideEffects, is_kept: Callable[[HloInstruction], bool]
) -> bool:
    """Removes results that nothing reads, readers first: what only these needed may be a result of another fusion."""
    changed = False
    for fusion in reversed(computation.make_instruction_post_order()):
        if fusion.parent is computation and fusion.opcode == "fusion" and fusion.shape.is_tuple:
            operands = fusion.unique_operands()
            if remove_dead_fusion_results(fusion):
                remove_dead_instructions(computation, effects, is_kept, operands)
                changed = True
    return changed


def remove_dead_instructions(
    computation: HloComputation,
    effects: SideEffects,
    is_kept: Callable[[HloInstruction], bool] | None = None,
    candidates: Iterable[HloInstruction] | None = None,
) -> bool:
    """Removes what has no users, and then what has lost its last user: in a graph without cycles, that is all.

    What has a side effect stays, or what `is_kept` says. `candidates`: what to look at first, if that is not all.
    """

    def is_dead(instruction: HloInstruction) -> bool:
        return (
            not instruction.user_count
            and instruction is not root
            and instruction.opcode != "parameter"
            and not has_control_dependencies(instruction)
            and not stays(instruction)
        )

    root, stays = computation.root_instruction, is_kept or effects.of_instruction
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
