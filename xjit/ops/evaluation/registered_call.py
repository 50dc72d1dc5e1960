"""Custom calls to functions that users registered: called with copies of the operands in their layouts."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.custom_call_registry import custom_call_address
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.custom_call_targets import check_registered_call, operand_aliases
from xjit.ops.evaluation.numerics import Array, Value

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

_Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def evaluate_registered_call(
    _interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]
) -> Value:
    """Evaluates a call to a registered target. Errors: Unsupported as for compiled ones."""
    check_registered_call(instruction)
    address = custom_call_address(instruction.attributes_as(at.CustomCallAttributes).custom_call_target)
    assert address is not None
    constraints = instruction.attributes_as(at.CustomCallAttributes).operand_layout_constraints
    shapes = constraints if constraints is not None else [o.shape for o in instruction.operands]
    inputs = [np.array(x.transpose(_order(s, constraints is not None)), order="C") for x, s in zip(operands, shapes)]
    leaves = [leaf for _, leaf in instruction.shape.leaves()]
    orders = [_order(leaf, constraints is not None) for leaf in leaves]
    outputs = [np.zeros([s.dimensions[d] for d in order], s.dtype) for s, order in zip(leaves, orders, strict=True)]
    for number, result in operand_aliases(instruction).items():
        outputs[result] = inputs[number]
    table = _table(outputs)
    target = ctypes.addressof(table) if instruction.shape.is_tuple else outputs[0].ctypes.data
    _Function(address)(target, ctypes.addressof(pointers := _table(inputs)))
    del pointers
    results = tuple(x.transpose(np.argsort(order)) for x, order in zip(outputs, orders, strict=True))
    return results if instruction.shape.is_tuple else results[0]


def _order(shape: Shape, constrained: bool) -> list[int]:
    """The dimensions from the slowest to the fastest; layouts count only where the call asks for them."""
    return list(shape.minor_to_major[::-1]) if constrained else list(range(shape.rank))


def _table(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])
