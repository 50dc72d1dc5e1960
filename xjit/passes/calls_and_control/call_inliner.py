"""Inlines calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.hlo.annotations.original_value import origin_inside_call
from xjit.hlo.edit.replacing import replace
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.simplify.hlo_dce import remove_unreachable_computations


@dataclass
class CallInliner(HloModulePass):
    """Replaces each `call` by a clone of what it calls, callees first, so that no inlinable call is left.

    Kept: calls that are marked not inlineable or carry a parallel partition in their backend config, and, so that
    doubling chains of calls end, those that would grow the module beyond twice its size and `max_instructions`.
    """

    name = "call-inliner"
    aliases = ("inline",)
    single_call_site: bool = False
    should_inline: Callable[[HloInstruction], bool] | None = None
    max_instructions: int = 300_000

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Inlines; True if a call was."""
        changed = False
        size = module.instruction_count
        limit = max(self.max_instructions, 2 * size)
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.instructions:
                if instruction.opcode != "call" or not self._may_inline(instruction):
                    continue
                size += instruction.to_apply.instruction_count
                if size <= limit:
                    inline_call(instruction)
                    changed = True
        if changed:
            remove_unreachable_computations(module)
        return changed

    def _may_inline(self, call: HloInstruction) -> bool:
        if call.frontend_attributes.get("inlineable") == "false" or "outer_dimension_partitions" in call.backend_config:
            return False
        if call.parent is not None and call.to_apply.execution_thread != call.parent.execution_thread:
            return False
        if self.single_call_site and len(call.to_apply.caller_instructions()) > 1:
            return False
        return self.should_inline is None or self.should_inline(call)


def inline_call(call: HloInstruction) -> dict[HloInstruction, HloInstruction]:
    """Replaces one call or fusion by a clone of its computation; returns the map from the callee's instructions to the
    clones.
    """
    caller, callee = call.parent, call.called_computations[0]
    assert caller is not None
    parameters = {
        p: call.operand(p.attributes_as(at.ParameterAttributes).parameter_number) for p in callee.parameter_instructions
    }
    mapping = callee.clone_instructions(caller, parameters)
    clones = [mapping[i] for i in callee.instructions if i.opcode != "parameter"]
    for clone in clones:
        _prefix_op_name(clone, call)
        if call.opcode == "call":
            clone.origin = origin_inside_call(clone.origin, call.origin)
    root = mapping[callee.root_instruction]
    replace(call, root, clones)
    return mapping


def _prefix_op_name(clone: HloInstruction, call: HloInstruction) -> None:
    prefix, name = call.metadata.op_name, clone.metadata.op_name
    if prefix and name and not name.startswith(prefix):
        clone.metadata = dataclasses.replace(clone.metadata, op_name=f"{prefix}/{name}")
    elif clone.metadata.op_name == "" and prefix:
        clone.metadata = call.metadata
