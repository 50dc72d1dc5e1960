"""Parameters of called computations and results of fusions that nothing reads."""

from __future__ import annotations

from collections.abc import Collection

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.header_views import names_parameters
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.hlo.ir.parameters import remove_parameters_from_entry
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.framework.base import NO_THREADS, has_control_dependencies, selected_computations


def remove_dead_call_parameters(module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
    """Removes the parameters that a computation does not read, with the operands of its calls; True if there was one.

    Computations that anything but `call` instructions use keep their parameters.
    """
    changed = False
    for computation in selected_computations(module, execution_threads):
        callers = computation.caller_instructions()
        if not callers or any(c.opcode != "call" or c.sharding is not None for c in callers):
            continue
        dead = [i for i, p in enumerate(computation.parameter_instructions) if _is_unread(p)]
        if not dead or any(map(_has_aliasing, callers)):
            continue
        for number in reversed(dead):
            computation.remove_parameter(number)
        for caller in callers:
            caller.remove_operands_at(dead)
        changed = True
    return changed


def remove_dead_entry_parameters(module: HloModule) -> bool:
    """Removes the entry's parameters that it does not read, so that its signature changes; True if there was one.

    Those that an alias or a donation names stay; all do where the header tells dynamic sizes, prefetches or
    which of them may get shardings.
    """
    config = module.config
    named = {entry.parameter_number for entry in (*config.input_output_alias, *config.buffer_donors)}
    parameters = module.entry_computation.parameter_instructions
    dead = [i for i, p in enumerate(parameters) if i not in named and _is_unread(p)]
    if not dead or names_parameters(module):
        return False
    remove_parameters_from_entry(module, dead)
    return True


def _is_unread(parameter: HloInstruction) -> bool:
    return not parameter.user_count and not parameter.is_root() and not has_control_dependencies(parameter)


def _has_aliasing(call: HloInstruction) -> bool:
    """Whether a call names operands by number in what its result aliases."""
    return bool(call.attributes_as(at.CallAttributes).output_to_operand_aliasing)


def remove_dead_fusion_results(fusion: HloInstruction) -> bool:
    """Shrinks a fusion with several results to those that are read; True if there were others.

    One result that is left is no tuple any more. What only the others needed goes, operands too.
    """
    body, computation = fusion.fused_instructions_computation, fusion.parent
    root = body.root_instruction
    assert computation is not None
    if root.opcode != "tuple" or fusion.is_root() or has_control_dependencies(fusion) or fusion.sharding is not None:
        return False
    attributes = fusion.attributes_as(at.FusionAttributes)
    if attributes.kind == "kCustom" or attributes.output_to_operand_aliasing or root.sharding is not None:
        return False
    if any(user.opcode != "get-tuple-element" or has_control_dependencies(user) for user in fusion.users):
        return False
    used = sorted({element_index(user) for user in fusion.users})
    if not used or len(used) == root.operand_count:
        return False
    elements = [root.operand(i) for i in used]
    new_root = elements[0] if len(used) == 1 else body.add_instruction(HloInstruction.create_tuple(elements))
    inherit_annotations(new_root, root)
    body.set_root_instruction(new_root, accept_different_shape=True)
    body.remove_instruction_and_unused_operands(root)
    body.remove_unused_parameters_from_fused_computation()
    _read_elements(computation, fusion, used, Shape.tuple_of([e.shape for e in elements]))
    return True


def _read_elements(computation: HloComputation, fusion: HloInstruction, used: list[int], shape: Shape) -> None:
    """Gives a fusion the shape of the results that are left, and renumbers what reads them."""
    if len(used) > 1:
        fusion.mutable_shape = shape
        positions = {old: new for new, old in enumerate(used)}
        for read in fusion.users:
            read.update_attributes(index=positions[element_index(read)])
        return
    fusion.mutable_shape = shape.tuple_shapes[0]
    for read in fusion.users:
        inherit_annotations(fusion, read)
        read.replace_all_uses_with_different_shape(fusion)
        if read.is_root():
            computation.set_root_instruction(fusion)
        computation.remove_instruction(read)
