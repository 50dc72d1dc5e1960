"""Custom calls to functions that users registered: called with copies of the operands in their layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.call_registered import call_registered
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.custom_call_targets import check_registered_call, opaque_of, operand_aliases
from xjit.ops.evaluation.numerics import Array, Value

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def evaluate_registered_call(
    _interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]
) -> Value:
    """Evaluates a call to a registered target. Errors: Unsupported as for compiled ones; ExecutionError if it fails."""
    check_registered_call(instruction)
    attributes = instruction.attributes_as(at.CustomCallAttributes)
    constraints = attributes.operand_layout_constraints
    shapes = constraints if constraints is not None else [o.shape for o in instruction.operands]
    inputs = [np.array(x.transpose(_order(s, constraints is not None)), order="C") for x, s in zip(operands, shapes)]
    leaves = [leaf for _, leaf in instruction.shape.leaves()]
    orders = [_order(leaf, constraints is not None) for leaf in leaves]
    outputs = [np.zeros([s.dimensions[d] for d in order], s.dtype) for s, order in zip(leaves, orders, strict=True)]
    for number, result in operand_aliases(instruction).items():
        outputs[result] = inputs[number]
    call_registered(
        attributes.custom_call_target,
        attributes.api_version,
        opaque_of(instruction),
        [x.ctypes.data for x in inputs],
        [x.ctypes.data for x in outputs],
        instruction.shape.is_tuple,
        instruction.span,
    )
    results = tuple(x.transpose(np.argsort(order)) for x, order in zip(outputs, orders, strict=True))
    return results if instruction.shape.is_tuple else results[0]


def _order(shape: Shape, constrained: bool) -> list[int]:
    """The dimensions from the slowest to the fastest; layouts count only where the call asks for them."""
    return list(shape.minor_to_major[::-1]) if constrained else list(range(shape.rank))
