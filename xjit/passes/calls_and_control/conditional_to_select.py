"""Conditionals inside kernels become selects: both branches are evaluated."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType
from xjit.ops import build
from xjit.passes.analysis.call_graph import CallContext, CallGraph
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.framework.expansion import Expansion


@dataclass
class ConditionalToSelect(HloModulePass):
    """Replaces conditionals with two branches in computations that are applied inside kernels (of map, reduce, sort,
    scatter, ...), where nothing can branch, by calls of both branches and a select per array of the result.

    Branches with side effects or loops stay: a loop may never end for the values of the other branch. So do
    conditionals in computations that also run in sequence.
    """

    name = "conditional-to-select"
    opcodes = frozenset({"conditional"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Replaces conditionals; True if there was one."""
        graph = analyses.get(CallGraph, module)
        effects = analyses.get(SideEffects, module)
        changed = False
        embedded = _applied_in_kernels(graph)
        for computation in graph.order:
            if computation not in embedded:
                continue
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            for instruction in computation.instructions:
                if instruction.opcode == "conditional" and _may_select(instruction, effects):
                    select_branches(instruction)
                    changed = True
        return changed


def _applied_in_kernels(graph: CallGraph) -> set[HloComputation | None]:
    """Returns the computations that only run inside kernels: applied by one, or called by one that is."""
    found: set[HloComputation | None] = set()
    for computation in reversed(graph.order):  # callers first
        sites = graph.sites[computation]
        is_called_by_one = bool(sites) and all(site.parent in found for site in sites)
        context = graph.contexts[computation]
        if context is CallContext.EMBEDDED or (context is CallContext.SEQUENTIAL and is_called_by_one):
            found.add(computation)
    return found


def _may_select(conditional: HloInstruction, effects: SideEffects) -> bool:
    return (
        conditional.operand(0).shape.element_type is PrimitiveType.PRED
        and not has_control_dependencies(conditional)
        and not effects.of_instruction(conditional)
        and all(leaf.is_array for _, leaf in conditional.shape.leaves())
        and not any(map(_may_loop, conditional.branch_computations))
    )


def _may_loop(computation: HloComputation) -> bool:
    """Whether a computation, or what it calls, has a loop."""
    return any(i.opcode == "while" or any(map(_may_loop, i.called_computations)) for i in computation.instructions)


def select_branches(conditional: HloInstruction) -> list[HloInstruction]:
    """Puts a select between calls of both branches in the place of a conditional; returns the calls.

    An index chooses the first branch where it is 0: out of range it is the second.
    """
    into, chosen = Expansion(conditional), conditional.operand(0)
    if chosen.shape.element_type is not PrimitiveType.PRED:
        chosen = into.add(build.compare("EQ", chosen, into.full(chosen.shape, 0)))
    calls = [
        into.add(HloInstruction.create_call(conditional.shape, [conditional.operand(i + 1)], branch))
        for i, branch in enumerate(conditional.branch_computations)
    ]
    into.replace_source(_select_leaves(into, chosen, calls[0], calls[1]))
    return calls


def _select_leaves(
    into: Expansion, predicate: HloInstruction, on_true: HloInstruction, on_false: HloInstruction
) -> HloInstruction:
    """Returns the value, array or (nested) tuple, whose arrays are those of one of two values of the same shape.

    Tokens wait for both.
    """
    shape = on_true.shape
    if shape.is_token:
        return into.make("after-all", on_true, on_false)
    if shape.is_tuple:
        elements = [
            _select_leaves(into, predicate, into.element(on_true, i), into.element(on_false, i))
            for i in range(len(shape.tuple_shapes))
        ]
        return into.tuple_of(*elements)
    if shape.rank:
        predicate = into.add(build.broadcast_scalar(predicate, shape))
    return into.make("select", predicate, on_true, on_false)
