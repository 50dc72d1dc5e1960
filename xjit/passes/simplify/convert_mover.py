"""Conversions to wider types go behind what moves data, those to narrower types in front of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Literal, PrimitiveType
from xjit.hlo.attributes import ConstantAttributes
from xjit.ops import build
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion

_COMMUTING = frozenset({"concatenate", "pad", "reshape", "slice", "transpose"})
"""Opcodes whose results are elements of their operands, all of one type."""


@dataclass
class ConvertMover(HloModulePass):
    """Moves less memory: data is moved in the narrower of the two types of a conversion.

    Operands besides those that are widened must be constants which the narrow type holds exactly; a conversion, or what
    is narrowed, may have no other user. Types of less than a byte are left.
    """

    name = "convert-mover"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Moves conversions in every non-fusion computation; True if one moved."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                changed |= _widen_later(instruction)
            changed |= _narrow_earlier(computation)
        return changed


def _widen_later(move: HloInstruction) -> bool:
    """op(convert(x)) = convert(op(x))"""
    if move.opcode not in _COMMUTING or not move.operand_count or has_control_dependencies(move):
        return False
    converts = [o for o in move.operands if o.opcode == "convert"]
    kinds = {o.operand(0).shape.element_type for o in converts}
    if len(kinds) != 1 or any(o.user_count != 1 or has_control_dependencies(o) for o in converts):
        return False
    (narrow,) = kinds
    others = [o for o in move.operands if o.opcode != "convert"]
    if not _is_narrower(narrow, move.shape.element_type) or not all(_is_held(o, narrow) for o in others):
        return False
    into = Expansion(move)
    operands = [o.operand(0) if o.opcode == "convert" else into.add(build.convert(o, narrow)) for o in move.operands]
    moved = into.add(move.clone_with_new_operands(move.shape.with_element_type(narrow), operands))
    into.replace_source(into.like_source("convert", [moved]))
    return True


def _narrow_earlier(computation: HloComputation) -> bool:
    """convert(op(x)) = op(convert(x)), from the last one on, and then the conversions that were made."""
    waiting, changed = computation.make_instruction_post_order(), False
    while waiting:
        convert = waiting.pop()
        if convert.parent is not computation or convert.opcode != "convert" or has_control_dependencies(convert):
            continue
        move, narrow = convert.operand(0), convert.shape.element_type
        if move.opcode not in _COMMUTING or move.user_count != 1 or has_control_dependencies(move):
            continue
        if _is_narrower(narrow, move.shape.element_type):
            into = Expansion(convert)
            operands = [into.add(build.convert(o, narrow)) for o in move.operands]
            shape = move.shape.with_element_type(narrow)
            into.replace_source(into.add(move.clone_with_new_operands(shape, operands)))
            waiting += operands
            changed = True
    return changed


def _is_narrower(kind: PrimitiveType, other: PrimitiveType) -> bool:
    return kind.bit_width < other.bit_width and (kind.bit_width >= 8 or kind is PrimitiveType.PRED)


def _is_held(operand: HloInstruction, kind: PrimitiveType) -> bool:
    """Whether an operand is a constant which is the same after a conversion there and back."""
    if operand.opcode != "constant":
        return False
    array = operand.attributes_as(ConstantAttributes).literal.array
    back = array.astype(kind.dtype).astype(array.dtype)
    return Literal.from_array(back).digest() == Literal.from_array(array).digest()
