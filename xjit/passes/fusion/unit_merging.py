"""Merging units - instructions and fusions - into one fusion with one or several outputs."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo.attributes import FusionAttributes


def merge_units(
    computation: HloComputation,
    units: Sequence[HloInstruction],
    outputs: Sequence[HloInstruction],
    hero: HloInstruction,
    kind: str,
    name: str,
) -> list[HloInstruction]:
    """Replaces `units` (what is read before what reads it) by one fusion; returns the new instructions.

    `outputs` are those units whose values something else reads, arrays each. With several of them the fusion's result
    is a tuple, of which the further new instructions are the elements. Units that others read and that are no outputs
    are duplicated: they stay. The annotations of the fusion are those of its `hero`, one of the units.
    """
    module = computation.parent
    assert module is not None
    body = HloComputation(f"{name}_fused_computation")
    values: dict[HloInstruction, HloInstruction] = {}
    outside: dict[HloInstruction, HloInstruction] = {}
    for unit in units:
        operands: list[HloInstruction] = []
        for operand in unit.operands:
            if operand not in values and operand not in outside:
                parameter = HloInstruction.create_parameter(len(outside), operand.shape, f"param_{len(outside)}")
                outside[operand] = body.add_instruction(parameter)
            operands.append(values[operand] if operand in values else outside[operand])
        values[unit] = _clone(body, unit, operands)
    results = [values[unit] for unit in outputs]
    root = results[0] if len(results) == 1 else body.add_instruction(HloInstruction.create_tuple(results))
    body.set_root_instruction(root)
    module.add_embedded_computation(body)
    fusion = HloInstruction.create(
        "fusion", root.shape, list(outside), FusionAttributes(kind), [body], f"{name}_fusion"
    )
    fusion.copy_annotations_from(hero)
    fusion.backend_config = ""
    computation.add_instruction(fusion)
    new = [fusion]
    for number, unit in enumerate(outputs):
        element = fusion
        if len(outputs) > 1:
            element = computation.add_instruction(HloInstruction.create_get_tuple_element(fusion, number))
            new.append(element)
        unit.replace_all_uses_with_different_shape(element)
    for unit in reversed(units):
        if unit.is_dead():
            bodies = unit.called_computations if unit.opcode == "fusion" else ()
            computation.remove_instruction(unit)
            for unused in bodies:
                module.remove_embedded_computation(unused)
    return new


def _clone(body: HloComputation, unit: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
    """Returns the clone of a unit in `body`; of a fusion, what its body computes."""
    if unit.opcode != "fusion":
        return body.add_instruction(unit.clone_with_new_operands(unit.shape, operands))
    inner = unit.fused_instructions_computation
    bound = dict(zip(inner.parameter_instructions, operands, strict=True))
    return inner.clone_instructions(body, bound)[inner.root_instruction]
