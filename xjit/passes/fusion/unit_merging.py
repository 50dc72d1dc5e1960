"""Merging units - instructions and fusions - into one fusion with one or several outputs."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo.attributes import FusionAttributes
from xjit.hlo.edit.fusion_body import FusionBody
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.hlo.ir.use_def import replace_users_operand
from xjit.passes.framework.base import has_control_dependencies


def merge_units(
    computation: HloComputation,
    units: Sequence[HloInstruction],
    outputs: Sequence[HloInstruction],
    hero: HloInstruction,
    kind: str,
    name: str,
    first_operands: Sequence[HloInstruction] = (),
) -> list[HloInstruction]:
    """Replaces `units` (what is read before what reads it) by one fusion; returns the new instructions.

    `outputs` are those units whose values something else reads, arrays each. With several of them the fusion's result
    is a tuple, of which the further new instructions are the elements. Units that others read and that are no outputs
    are duplicated: they stay. The annotations of the fusion are those of its `hero`, one of the units. Its operands
    are `first_operands`, then others in the order in which units read them.
    """
    module = computation.parent
    assert module is not None
    told = module.on_rewrite
    text = "; ".join(map(str, units)) if told is not None else ""
    computed = module.add_embedded_computation(HloComputation(f"{name}_fused_computation"), computation)
    leaving = _leaving(computation, units, outputs)
    body = FusionBody(computed)
    for operand in first_operands:
        body.parameter_for(operand)
    values = {unit: body.take(unit, stays=unit not in leaving) for unit in units}
    results = [values[unit] for unit in outputs]
    root = results[0] if len(results) == 1 else computed.add_instruction(HloInstruction.create_tuple(results))
    computed.set_root_instruction(root)
    fusion = HloInstruction.create(
        "fusion", root.shape, list(body.parameters), FusionAttributes(kind), [computed], f"{name}_fusion"
    )
    fusion.copy_annotations_from(hero)
    fusion.backend_config = ""
    if len(outputs) > 1:
        fusion.sharding = None  # that of an array; the elements have their units'
    computation.add_instruction(fusion)
    new = [fusion]
    for number, unit in enumerate(outputs):
        element = fusion
        if len(outputs) > 1:
            element = computation.add_instruction(HloInstruction.create_get_tuple_element(fusion, number))
            inherit_annotations(element, unit, same_value=True)
            new.append(element)
        replace_users_operand(unit, [u for u in unit.users if u.parent is computation], element)
        if computation.root_instruction is unit:
            computation.set_root_instruction(element, accept_different_shape=True)
    for unit in reversed(units):
        if unit.parent is computation and unit.is_dead():
            bodies = unit.called_computations if unit.opcode == "fusion" else ()
            computation.remove_instruction(unit)
            for unused in bodies:
                module.remove_embedded_computation(unused)
    if told is not None:
        told(text, fusion)
    return new


def _leaving(
    computation: HloComputation, units: Sequence[HloInstruction], outputs: Sequence[HloInstruction]
) -> set[HloInstruction]:
    """Returns the units that nothing outside of the fusion needs, once it gives the outputs."""
    leaving = set(outputs)
    for unit in reversed(units):
        if leaving.issuperset(unit.users) and unit is not computation.root_instruction:
            leaving.add(unit)
    return {unit for unit in leaving if not has_control_dependencies(unit)}
