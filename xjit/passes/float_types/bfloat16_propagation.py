"""Rounds early: what is rounded to bf16 in the end is moved and compared in bf16 from the start."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.ops import build
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.passes.float_types.float_support import (
    ExactFloatSupport,
    FloatSupport,
    effective_operand_precision_is_output_precision,
)
from xjit.passes.framework.base import HloModulePass, selected_computations


@dataclass
class BFloat16Propagation(HloModulePass):
    """Gives an f32 instruction the type bf16 if all its uses round it, or hand it on to what is rounded.

    Only instructions that commute with rounding and that `support` allows, so results stay bit for bit. Where an
    operand has more elements than the result, the conversion stays behind. Parameters, roots, and values that tuples,
    loops and calls read keep their types.
    """

    support: FloatSupport = field(default_factory=ExactFloatSupport)

    name = "bfloat16-propagation"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Propagates in every computation but fusions; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            chosen = _worthwhile(computation, self.support)
            for instruction in computation.make_instruction_post_order():
                if instruction in chosen:
                    _narrow(instruction, self.support)
                    changed = True
        return changed


def _worthwhile(computation: HloComputation, support: FloatSupport) -> set[HloInstruction]:
    """What can be bf16 without more to convert than there was."""
    refused: set[HloInstruction] = set()
    while True:
        chosen = _possible(computation, support, refused)
        worse = {i for i in chosen if _converts_more(i, chosen, support)}
        if not worse:
            return chosen
        refused |= worse


def _possible(
    computation: HloComputation, support: FloatSupport, refused: Collection[HloInstruction]
) -> set[HloInstruction]:
    chosen: set[HloInstruction] = set()
    for instruction in reversed(computation.make_instruction_post_order()):
        if instruction in refused or not _may_be_narrow(instruction, support):
            continue
        uses = [(user, n) for user in instruction.users for n, o in enumerate(user.operands) if o is instruction]
        if uses and all(
            support.effective_operand_precision_is_low_precision(user, n)
            or (user in chosen and effective_operand_precision_is_output_precision(user, n))
            for user, n in uses
        ):
            chosen.add(instruction)
    return chosen


def _may_be_narrow(instruction: HloInstruction, support: FloatSupport) -> bool:
    if not instruction.shape.is_array or instruction.shape.element_type is not support.high or instruction.is_root():
        return False
    if not support.supports_low_precision_output(instruction):
        return False
    wide = [n for n, o in enumerate(instruction.operands) if o.shape.element_type is support.high]
    return bool(wide) and all(
        effective_operand_precision_is_output_precision(instruction, n)
        and support.supports_low_precision_operand(instruction, n)
        for n in wide
    )


def _converts_more(instruction: HloInstruction, chosen: Collection[HloInstruction], support: FloatSupport) -> bool:
    converted = [o for o in instruction.operands if o.shape.element_type is support.high and o not in chosen]
    size = instruction.shape.num_elements
    return any(o.shape.num_elements > size and not _is_widened(o, support) for o in converted)


def _is_widened(instruction: HloInstruction, support: FloatSupport) -> bool:
    return instruction.opcode == "convert" and instruction.operand(0).shape.element_type is support.low


def _narrow(instruction: HloInstruction, support: FloatSupport) -> None:
    """Computes an instruction in the narrow type; its operands were seen to before."""
    computation = instruction.parent
    assert computation is not None and computation.parent is not None
    narrow: dict[HloInstruction, HloInstruction] = {}
    for n, operand in enumerate(instruction.operands):
        if operand.shape.element_type is not support.high:
            continue
        if operand not in narrow:
            known = _is_widened(operand, support)
            new = operand.operand(0) if known else computation.add_instruction(build.convert(operand, support.low))
            narrow[operand] = new
        instruction.replace_operand_with_different_shape(n, narrow[operand])
    if instruction.called_computations:
        opcode = simple_opcode(instruction.to_apply)
        assert opcode is not None
        reducer = build.make_binary_computation(opcode, support.low)
        instruction.to_apply = computation.parent.add_embedded_computation(reducer)
    instruction.shape = instruction.shape.with_element_type(support.low)
    for user in instruction.users:
        if user.opcode == "convert" and user.shape.element_type is support.low:
            computation.replace_instruction(user, instruction)
    for operand in narrow:
        computation.remove_instruction_and_unused_operands(operand)
