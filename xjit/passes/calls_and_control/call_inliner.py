"""Inlines calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.hlo.annotations.original_value import origin_inside_call
from xjit.hlo.edit.replacing import replace
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.simplify.hlo_dce import remove_unreachable_computations

INLINED_LATE, INLINED_EARLY = frozenset({"false", "xla_late"}), frozenset({"true", "xla_early"})
"""What `inlineable` may be: not by XLA's first inliner, and by that in any case."""

_COMPOSITE = ("composite.name", "composite.attributes", "composite.version")
_FOR_FUSION = ("MUST_FUSE", "MAXIMAL_FUSE", "mosaic_fusion_group")
"""Attributes of a call that speak of all that is inlined and may be fused."""


@dataclass
class CallInliner(HloModulePass):
    """Replaces each `call` by a clone of what it calls, then the calls in there, so that no inlinable call is left.

    Callers come first: what is nested deeply is cloned once into where it stays, not once per level.

    Kept: calls that the frontend attribute `inlineable` says to keep, with "false" or "xla_late", those with a backend
    config, those that an asynchronous instruction starts, and, so that doubling chains of calls end, those that would
    grow the module beyond twice its size and `max_instructions`. With `single_call_site` also those of what others call
    stay, unless they are `inlineable` "true" or "xla_early".
    """

    name = "call-inliner"
    aliases = ("inline",)
    opcodes = frozenset({"call"})
    single_call_site: bool = False
    should_inline: Callable[[HloInstruction], bool] | None = None
    max_instructions: int = 300_000

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Inlines; True if a call was."""
        changed = False
        size = module.instruction_count
        limit = max(self.max_instructions, 2 * size)
        for computation in reversed(selected_computations(module, execution_threads)):
            if computation.parent is None:
                continue  # all of its calls were inlined
            calls = [(i, i.metadata.op_name) for i in reversed(computation.instructions) if i.opcode == "call"]
            while calls:
                call, op_name = calls.pop()
                if not self._may_inline(call):
                    continue
                callee = call.to_apply
                size += callee.instruction_count
                if size <= limit:
                    clones = inline_call(call, op_name)
                    inner = [i for i in reversed(callee.instructions) if i.opcode == "call"]
                    calls += [(clones[i], i.metadata.op_name) for i in inner]
                    if not callee.caller_count:
                        module.remove_embedded_computation(callee)
                    changed = True
        if changed:
            remove_unreachable_computations(module)
        return changed

    def _may_inline(self, call: HloInstruction) -> bool:
        told = call.frontend_attributes.get("inlineable")
        if told in INLINED_LATE or call.raw_backend_config:
            return False
        parent = call.parent
        if parent is not None and parent.execution_thread != call.to_apply.execution_thread:
            return False
        if parent is not None and parent.is_async_computation():
            return False  # what is started is one instruction
        if self.single_call_site and call.to_apply.caller_count > 1 and told not in INLINED_EARLY:
            return False
        return self.should_inline is None or self.should_inline(call)


def inline_call(call: HloInstruction, op_name: str | None = None) -> dict[HloInstruction, HloInstruction]:
    """Replaces one call or fusion by a clone of its computation; returns the map from the callee's instructions to the
    clones.

    `op_name` is the call's before those of outer calls were put in front of it, by default its name now.
    """
    caller, callee = call.parent, call.called_computations[0]
    assert caller is not None
    if call.opcode == "call" and call.attributes_as(at.CallAttributes).is_composite:
        told = call.frontend_attributes.items()
        call.frontend_attributes = {key: value for key, value in told if key not in _COMPOSITE}
    for_fusion = {key: call.frontend_attributes[key] for key in _FOR_FUSION if key in call.frontend_attributes}
    parameters = {
        p: call.operand(p.attributes_as(at.ParameterAttributes).parameter_number) for p in callee.parameter_instructions
    }
    mapping = callee.clone_instructions(caller, parameters)
    clones = [mapping[i] for i in callee.instructions if i.opcode != "parameter"]
    for clone in clones:
        _prefix_op_name(clone, call, call.metadata.op_name if op_name is None else op_name)
        if for_fusion and clone.is_fusible():
            clone.frontend_attributes = {**clone.frontend_attributes, **for_fusion}
        if call.opcode == "call":
            clone.origin = origin_inside_call(clone.origin, call.origin)
    root = mapping[callee.root_instruction]
    replace(call, root, clones)
    if callee.caller_count:
        for clone in clones:
            if clone.opcode == "fusion":
                own_computations(clone)  # the callee's fusions have theirs, too
    return mapping


def _prefix_op_name(clone: HloInstruction, call: HloInstruction, inner: str) -> None:
    """Puts the call's name in front, in the place of the `inner` part of it where the clone's name has that already."""
    prefix, name = call.metadata.op_name, clone.metadata.op_name
    if not name and prefix:
        clone.metadata = call.metadata
    elif inner and prefix != inner and name.startswith(inner):
        clone.metadata = dataclasses.replace(clone.metadata, op_name=prefix + name[len(inner) :])
    elif prefix and not name.startswith(prefix):
        clone.metadata = dataclasses.replace(clone.metadata, op_name=f"{prefix}/{name}")
