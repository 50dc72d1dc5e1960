"""Lets instructions read and make bf16 themselves, where a backend can, instead of converting around them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, Shape, Trait
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.calls_and_control.branch_elements import read_elements
from xjit.passes.float_types.float_normalization import narrow_reducer
from xjit.passes.float_types.float_support import HANDS_ON, ExactFloatSupport, FloatSupport
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations

_REDUCTIONS = frozenset({"reduce", "reduce-window", "all-reduce"})
"""Opcodes that apply a computation, and are folded all the same where `support` allows."""


@dataclass
class BFloat16ConversionFolding(HloModulePass):
    """Folds conversions from bf16 into their users, and those to bf16 into what they read, as far as `support` allows.

    An instruction whose operands or results stay f32 is only changed if both types may occur at once. Each element of
    an all-reduce of several arrays stands for itself. Conversions with control edges stay.
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
    has_effect = instruction.has_side_effect_no_recurse() or instruction.op.has(Trait.ASYNC)
    left = instruction.opcode in HANDS_ON or instruction.opcode in ("parameter", "constant", "bitcast-convert")
    applies = bool(instruction.called_computations) and instruction.opcode not in _REDUCTIONS
    return left or has_effect or applies or not (instruction.shape.is_array or instruction.opcode == "all-reduce")


def _fold(instruction: HloInstruction, support: FloatSupport) -> bool:
    if not instruction.shape.is_array:
        changed = [_fold_element(instruction, n, support) for n in range(instruction.operand_count)]
        return any(changed)
    folded: list[int] = []
    keeps_wide = False
    for n, operand in enumerate(instruction.operands):
        if operand.shape.element_type is not support.high:
            continue
        if _is_widened(operand, support) and support.supports_low_precision_operand(instruction, n):
            folded.append(n)
        else:
            keeps_wide = True
    is_wide = instruction.shape.element_type is support.high
    folds_output = is_wide and support.supports_low_precision_output(instruction) and _is_rounded(instruction, support)
    mixes = keeps_wide or (is_wide and not folds_output)
    if (mixes and not support.supports_mixed_precisions(instruction)) or not (folded or folds_output):
        return False
    narrows_reducer = instruction.opcode in ("reduce", "reduce-window") and not mixes
    if narrows_reducer and simple_opcode(instruction.to_apply) is None:
        return False
    for n in folded:
        _read_narrow(instruction, n)
    if narrows_reducer:
        narrow_reducer(instruction, support)
    if folds_output:  # last: with conversions that nothing reads the instruction goes, too
        instruction.shape = instruction.shape.with_element_type(support.low)
        _read_rounded(instruction)
    return True


def _fold_element(all_reduce: HloInstruction, n: int, support: FloatSupport) -> bool:
    """Folds the conversions around one element of an all-reduce of several arrays, which has nothing to do with others.

    The reducer stays: it says what is computed, not in which type.
    """
    operand, shapes = all_reduce.operand(n), all_reduce.shape.tuple_shapes
    reads = read_elements(all_reduce) is not None and [u for u in all_reduce.users if element_index(u) == n]
    reads_narrow = _is_widened(operand, support) and support.supports_low_precision_operand(all_reduce, n)
    is_wide = shapes[n].element_type is support.high and support.supports_low_precision_output(all_reduce)
    makes_narrow = is_wide and bool(reads) and all(_is_rounded(read, support) for read in reads)
    is_narrow = (operand.shape.element_type is support.low, shapes[n].element_type is support.low)
    mixes = (reads_narrow or is_narrow[0]) != (makes_narrow or is_narrow[1])
    if not (reads_narrow or makes_narrow) or (mixes and not support.supports_mixed_precisions(all_reduce)):
        return False
    if reads_narrow:
        _read_narrow(all_reduce, n)
    if makes_narrow and reads:
        narrow = [s.with_element_type(support.low) if i == n else s for i, s in enumerate(shapes)]
        all_reduce.shape = Shape.tuple_of(narrow)
        for read in reads:
            read.shape = narrow[n]
            _read_rounded(read)
    return True


def _is_widened(operand: HloInstruction, support: FloatSupport) -> bool:
    """Whether an operand is a conversion from the narrow type that may go."""
    types = (operand.shape.element_type, operand.operand(0).shape.element_type if operand.operand_count else None)
    return (
        operand.opcode == "convert" and types == (support.high, support.low) and not has_control_dependencies(operand)
    )


def _is_rounded(instruction: HloInstruction, support: FloatSupport) -> bool:
    """Whether all that reads an instruction rounds it."""
    users = instruction.users
    is_kept = instruction.is_root() or has_control_dependencies(instruction) or not users
    return not is_kept and all(
        u.opcode == "convert" and u.shape.element_type is support.low and not has_control_dependencies(u) for u in users
    )


def _read_narrow(instruction: HloInstruction, n: int) -> None:
    convert = instruction.operand(n)
    assert instruction.parent is not None
    instruction.replace_operand_with_different_shape(n, convert.operand(0))
    instruction.parent.remove_instruction_and_unused_operands(convert)


def _read_rounded(instruction: HloInstruction) -> None:
    """Takes the conversions away that read an instruction which is narrow now."""
    assert instruction.parent is not None
    for convert in instruction.users:
        instruction.parent.replace_instruction(convert, instruction)
