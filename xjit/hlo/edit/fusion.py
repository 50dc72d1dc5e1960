"""Building fusions: a set of instructions becomes one `fusion` instruction that calls a computation of their clones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xjit.hlo.attributes import FusionAttributes
from xjit.hlo.attributes.codecs.scalars import FUSION_KINDS
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction


def create_fusion(
    instructions: Sequence[HloInstruction], kind: str = "kLoop", name: str = "fused_computation"
) -> HloInstruction:
    """Replaces a root and producers of it by one fusion; returns the fusion.

    `instructions` come root first, users before what they read. Producers with users outside the fusion are
    duplicated: they stay where they are. Instructions of an embedded computation without a module are refused.
    """
    if kind not in FUSION_KINDS:
        raise InvalidArgument(f"fusion kind '{kind}' is none of {', '.join(FUSION_KINDS)}")
    root = instructions[0]
    parent = root.parent
    if parent is None or parent.parent is None:
        raise InvalidArgument(f"{root.name} is in no module: its fusion would have nowhere to live")
    fused, operands = clone_into_computation(instructions, name)
    parent.parent.add_embedded_computation(fused, parent)
    fusion = root.create("fusion", root.shape, operands, FusionAttributes(kind), [fused], _fusion_name(root))
    fusion.copy_annotations_from(root)
    fusion.backend_config = ""
    parent.add_instruction(fusion)
    parent.replace_instruction_with_different_shape(root, fusion)
    for producer in instructions[1:]:
        if producer.parent is parent and producer.is_dead():
            parent.remove_instruction_and_unused_operands(producer)
    return fusion


def clone_into_computation(
    instructions: Sequence[HloInstruction], name: str
) -> tuple[HloComputation, list[HloInstruction]]:
    """Returns a free computation of clones (root first in `instructions`) and the operands from outside.

    There is one operand per parameter.
    """
    members = set(instructions)
    parent = instructions[0].parent
    assert parent is not None
    computation = parent.new_computation(name)
    mapping: dict[HloInstruction, HloInstruction] = {}
    operands: list[HloInstruction] = []
    for old in reversed(instructions):
        for operand in old.operands:
            if operand in mapping:
                continue
            if operand in members:
                raise InvalidArgument(
                    f"{operand.name} must come after its user {old.name} in a list of fused instructions"
                )
            parameter = old.create_parameter(len(operands), operand.shape, f"param_{len(operands)}")
            mapping[operand] = computation.add_instruction(parameter)
            operands.append(operand)
        clone = old.clone_with_new_operands(old.shape, [mapping[o] for o in old.operands])
        mapping[old] = computation.add_instruction(clone)
    computation.set_root_instruction(mapping[instructions[0]])
    return computation, operands


def fuse_instruction_into(fusion: HloInstruction, producer: HloInstruction) -> HloInstruction:
    """Clones an operand of a fusion (or call) into it and returns the clone.

    The producer itself goes if nothing else reads it. The parameter that stood for it goes; its operands become
    parameters unless they already are. Errors: InvalidArgument if the producer is no operand, or a fusion itself.
    """
    fusion.operand_index(producer)  # refuses what is no operand
    if producer.opcode == "fusion":
        raise InvalidArgument(f"{producer.name} is a fusion: use merge_fusion_instruction")
    clone = append_clone(fusion, producer)
    substitute_operand(fusion, producer, clone)
    remove_if_unused(producer)
    return clone


def append_clone(fusion: HloInstruction, producer: HloInstruction) -> HloInstruction:
    """Adds a clone of an instruction to what a fusion calls; nothing reads it yet. Parameters cannot be fused."""
    if producer.opcode == "parameter":
        raise InvalidArgument(f"{producer.name} is a parameter: it cannot move into {fusion.name}")
    operands = [parameter_for(fusion, operand) for operand in producer.operands]
    return callee_of(fusion).add_instruction(producer.clone_with_new_operands(producer.shape, operands))


def callee_of(fusion: HloInstruction) -> HloComputation:
    """Returns the computation inside a fusion or call; FailedPrecondition if that is not its alone."""
    if fusion.opcode not in ("fusion", "call"):
        raise InvalidArgument(f"{fusion.name} is a {fusion.opcode}, neither a fusion nor a call")
    computation = fusion.called_computations[0]
    if len(computation.caller_instructions()) != 1:
        raise FailedPrecondition(f"{computation.name} is called by others than {fusion.name}: clone it first")
    return computation


def parameter_for(fusion: HloInstruction, operand: HloInstruction) -> HloInstruction:
    """Returns the parameter inside a fusion that stands for a value outside; adds it, with the operand, if need be."""
    computation = callee_of(fusion)
    if fusion in operand.users:
        return computation.parameter_instruction(fusion.operand_index(operand))
    number = fusion.operand_count
    parameter = fusion.create_parameter(number, operand.shape, f"param_{number}")
    fusion.append_operand(operand)
    return computation.add_instruction(parameter)


def substitute_operand(fusion: HloInstruction, operand: HloInstruction, clone: HloInstruction) -> None:
    """Reads a value inside the fusion instead of as an operand, wherever it is one."""
    while fusion.is_user_of(operand):
        position = fusion.operand_index(operand)
        callee_of(fusion).parameter_instruction(position).replace_all_uses_with_different_shape(clone)
        remove_fusion_operand(fusion, position)


def remove_if_unused(producer: HloInstruction) -> None:
    """Removes an instruction that nothing reads (with what only it read), unless it has a side effect."""
    if producer.parent is not None and producer.is_dead() and not producer.has_side_effect():
        producer.parent.remove_instruction_and_unused_operands(producer)


def remove_fusion_operand(fusion: HloInstruction, position: int) -> None:
    """Drops an operand whose parameter nothing reads; later parameters move down."""
    callee_of(fusion).remove_parameter(position)
    fusion.remove_operands_at([position])


def _fusion_name(root: HloInstruction) -> str:
    stem = root.name.split(".", 1)[0]
    return stem if stem.endswith("fusion") else f"{stem}_fusion"
