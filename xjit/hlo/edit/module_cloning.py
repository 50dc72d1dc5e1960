"""Deep copies of modules, and of a computation with everything it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.edit.cloning import HloCloneContext, clone_computation, clone_name
from xjit.hlo.ir.post_order import post_order
from xjit.hlo.ir.schedule import HloSchedule

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.module import HloModule

__all__ = ["HloCloneContext", "clone_graph_into", "deep_clone_computation"]


def clone_graph_into(module: HloModule, clone: HloModule) -> None:
    """Copies the graph, the schedule and the tables of a module into an empty one; names and ids are kept."""
    clone.frontend_attributes = dict(module.frontend_attributes)
    clone.stack_frame_index = module.stack_frame_index
    context = HloCloneContext(clone)
    for computation in module.make_computation_post_order():
        context.computations[computation] = clone_computation(computation, context.computations, context.instructions)
    entry = module.entry_computation if module.has_entry_computation() else None
    for computation in module.computations():  # the order of the text
        add = clone.add_entry_computation if computation is entry else clone.add_embedded_computation
        add(context.computations[computation])
    _keep_ids(module, context)
    if module.has_schedule():
        _copy_schedule(module, context)


def deep_clone_computation(
    module: HloModule, computation: HloComputation, context: HloCloneContext | None = None
) -> HloComputation:
    """Adds a clone of a computation and of everything it calls to a module; returns the clone.

    What the context has cloned already is used again. The context's module must be `module`.
    """
    context = context or HloCloneContext(module, "clone")
    if context.module is not module:
        raise InvalidArgument(f"the clone context is for module {context.module.name}, not {module.name}")
    for item in post_order([computation], lambda c: c.callees()):
        if item in context.computations:
            continue
        clone = clone_computation(item, context.computations, context.instructions)
        clone.name = clone_name(item.name, context.suffix)
        for instruction in clone.instructions:
            instruction.name = clone_name(instruction.name, context.suffix)
        context.map_computation(item, module.add_embedded_computation(clone))
    return context.computations[computation]


def _keep_ids(module: HloModule, context: HloCloneContext) -> None:
    for old, new in context.instructions.items():
        new.name, new.unique_id = old.name, old.unique_id
    for old, new in context.computations.items():
        new.name, new.unique_id = old.name, old.unique_id
    context.module.reserve_ids(module.next_unique_id)


def _copy_schedule(module: HloModule, context: HloCloneContext) -> None:
    sequences = {
        new: [context.instructions[i] for i in module.schedule.sequence(old) if i in context.instructions]
        for old, new in context.computations.items()
        if module.schedule.is_scheduled(old)
    }
    context.module.keep_schedule(HloSchedule(sequences))
