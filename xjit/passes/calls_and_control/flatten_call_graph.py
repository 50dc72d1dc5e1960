"""Gives every sequential call site its own computation."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait, Unsupported
from xjit.passes.analysis.call_graph import CallContext, CallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass


@dataclass
class FlattenCallGraph(HloModulePass):
    """Clones computations so that each is called from at most one `while`, `conditional`, `call` or `async-start`.

    Unsupported is raised where that would make more than `max_instructions`: call sites that double at every level.
    A computation that is also applied inside kernels (a reducer) is not shared with a sequential call either.
    """

    name = "flatten-call-graph"
    is_required = True
    max_instructions: int = 1_000_000

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Clones where needed, callers first; True if something was cloned."""
        changed = False
        graph = analyses.get(CallGraph, module)
        if graph.is_flattened:
            return False
        owned = {c for c in graph.order if CallContext.EMBEDDED in graph.contexts[c]}
        owned.add(module.entry_computation)
        worklist = [module.entry_computation]
        limit = max(self.max_instructions, 2 * module.instruction_count)
        visited: set[HloComputation] = set()
        while worklist:
            computation = worklist.pop()
            if computation in visited:
                continue
            visited.add(computation)
            is_selected = not execution_threads or computation.execution_thread in execution_threads
            for instruction in computation.instructions:
                if is_selected and instruction.op.has(Trait.CONTROL_FLOW):
                    limit -= sum(c.instruction_count for c in instruction.called_computations if c in owned)
                    if limit < 0:
                        raise Unsupported(
                            f"one copy of what '{instruction.name}' calls per call site makes too large a program",
                            instruction.span,
                        )
                    changed |= _own_callees(module, instruction, owned)
                worklist.extend(instruction.called_computations)
        return changed


def check_call_tree(module: HloModule, max_instructions: int = 1_000_000) -> None:
    """Raises Unsupported, before anything is copied, if one copy of every callee per call site would be too much."""
    limit = max(max_instructions, 2 * module.instruction_count)
    sizes: dict[HloComputation, int] = {}
    for computation in module.make_computation_post_order():
        calls = [i for i in computation.instructions if i.op.has(Trait.CONTROL_FLOW)]
        size = computation.instruction_count + sum(sizes[c] for i in calls for c in i.called_computations)
        if size > limit:
            raise Unsupported(
                f"computation '{computation.name}' has {size:,} instructions with all that its calls, loops and "
                f"branches run, counted once per call site: more than the limit of {limit:,}",
                calls[0].span if calls else None,
            )
        sizes[computation] = size


def _own_callees(module: HloModule, caller: HloInstruction, owned: set[HloComputation]) -> bool:
    changed = False
    for i, callee in enumerate(caller.called_computations):
        if callee in owned:
            clone = clone_computation(module, callee)
            caller.set_called_computation(i, clone)
            if caller.opcode == "async-start":
                _retarget_async_users(caller, clone)
            owned.add(clone)
            changed = True
        else:
            owned.add(callee)
    return changed


def _retarget_async_users(start: HloInstruction, computation: HloComputation) -> None:
    stack = list(start.users)
    while stack:
        user = stack.pop()
        if user.opcode in ("async-update", "async-done") and user.called_computations:
            user.set_called_computation(0, computation)
            stack.extend(user.users)


def clone_computation(module: HloModule, computation: HloComputation, suffix: str = "clone") -> HloComputation:
    """Adds and returns a copy of a computation; computations that it calls are shared with the original."""
    clone = HloComputation(f"{computation.name}.{suffix}")
    clone.execution_thread = computation.execution_thread
    mapping = computation.clone_instructions(clone, {})
    clone.set_root_instruction(mapping[computation.root_instruction])
    for old, new in mapping.items():
        if new.opcode == "fusion":  # a fusion owns its computation
            new.set_called_computation(0, clone_computation(module, old.fused_instructions_computation, suffix))
    return module.add_embedded_computation(clone)
