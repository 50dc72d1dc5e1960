"""Shape inference: `SHAPE_RULES` has one rule per opcode, `infer_shape` applies it after checking operand counts.

The semantics are XLA's (shape_inference.cc, hlo_verifier.cc): no implicit broadcast, floating precision may be mixed,
a dimension is dynamic (bounded) where an operand's is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo.attributes.opcodes import VARIADIC
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference import (
    collective,
    control,
    convolution,
    dot,
    elementwise,
    indexed,
    movement,
    random_linalg,
    reduction,
)
from xjit.ops.shape_inference.common import fail

__all__ = ["SHAPE_RULES", "infer_shape"]

SHAPE_RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {
        **elementwise.RULES,
        **movement.RULES,
        **reduction.RULES,
        **dot.RULES,
        **convolution.RULES,
        **indexed.RULES,
        **control.RULES,
        **collective.RULES,
        **random_linalg.RULES,
    }
)

# Opcodes that may leave out the computation that their first operand already names.
_OPTIONAL_CALL = ("async-update", "async-done")


def infer_shape(instruction: HloInstruction) -> Shape:
    """Returns the shape that operands, attributes and called computations imply; HloVerifyError if they do not fit.

    Rules that need the declared shape (reshape, broadcast, dot's result type, ...) check it and return it.
    """
    op = instruction.op
    if op.arity != VARIADIC and op.arity != instruction.operand_count:
        plural = "" if op.arity == 1 else "s"
        fail(instruction, f"takes {op.arity} operand{plural}, got {instruction.operand_count}")
    if op.called:
        _check_called(instruction)
    return SHAPE_RULES[op.name](instruction)


def _check_called(instruction: HloInstruction) -> None:
    roles, count = instruction.op.called, len(instruction.called_computations)
    if roles[-1].endswith("*") or count == len(roles):
        return
    if count == 0 and instruction.opcode in _OPTIONAL_CALL:
        return
    fail(instruction, f"calls {len(roles)} computation(s) ({', '.join(roles)}), got {count}")
