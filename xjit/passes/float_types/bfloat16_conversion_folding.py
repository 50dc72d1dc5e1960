"""Lets instructions read and make bf16 themselves, where a backend can, instead of converting around them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from xjit.hlo import HloInstruction, HloModule, Trait
from xjit.passes.float_types.float_support import HANDS_ON, ExactFloatSupport, FloatSupport
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations


@dataclass
class BFloat16ConversionFolding(HloModulePass):
    """Folds conversions from bf16 into their users, and those to bf16 into what they read, as far as `support` allows.

    An instruction whose operands or results stay f32 is only changed if both types may occur at once.
    """

    support: FloatSupport = field(default_factory=ExactFloatSupport)

    name = "bfloat16-conversion-folding"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Folds in every computation but fusions; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.parent is computation and not _is_left(instruction):
                    changed |= _fold(instruction, self.support)
        return changed


def _is_left(instruction: HloInstruction) -> bool:
    is_plain = instruction.shape.is_array and not instruction.called_computations
    has_effect = instruction.has_side_effect_no_recurse() or instruction.op.has(Trait.ASYNC)
    left = instruction.opcode in HANDS_ON or instruction.opcode in ("parameter", "constant", "bitcast-convert")
    return left or has_effect or not is_plain


def _fold(instruction: HloInstruction, support: FloatSupport) -> bool:
    folded: list[int] = []
    keeps_wide = False
    for n, operand in enumerate(instruction.operands):
        if operand.shape.element_type is not support.high:
            continue
        is_converted = operand.opcode == "convert" and operand.operand(0).shape.element_type is support.low
        if is_converted and support.supports_low_precision_operand(instruction, n):
            folded.append(n)
        else:
            keeps_wide = True
    is_wide = instruction.shape.element_type is support.high
    folds_output = is_wide and support.supports_low_precision_output(instruction) and _is_rounded(instruction, support)
    mixes = keeps_wide or (is_wide and not folds_output)
    if (mixes and not support.supports_mixed_precisions(instruction)) or not (folded or folds_output):
        return False
    computation = instruction.parent
    assert computation is not None
    for n in folded:
        convert = instruction.operand(n)
        instruction.replace_operand_with_different_shape(n, convert.operand(0))
        computation.remove_instruction_and_unused_operands(convert)
    if folds_output:  # last: with conversions that nothing reads the instruction goes, too
        instruction.shape = instruction.shape.with_element_type(support.low)
        for convert in instruction.users:
            computation.replace_instruction(convert, instruction)
    return True


def _is_rounded(instruction: HloInstruction, support: FloatSupport) -> bool:
    """Whether all that reads an instruction rounds it."""
    users = instruction.users
    is_kept = instruction.is_root() or has_control_dependencies(instruction) or not users
    return not is_kept and all(u.opcode == "convert" and u.shape.element_type is support.low for u in users)
