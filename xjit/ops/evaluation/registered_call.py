"""Custom calls to functions that users registered: called with copies of the operands in their layouts."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.custom_call_registry import STATUS_BYTES, custom_call_address, take_failure_message
from xjit.hlo.diagnostics import ExecutionError
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.custom_call_targets import (
    STATUS_RETURNING,
    STATUS_RETURNING_UNIFIED,
    check_registered_call,
    operand_aliases,
)
from xjit.ops.evaluation.numerics import Array, Value

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_INTERFACES = {
    STATUS_RETURNING: ctypes.CFUNCTYPE(None, _P, _P, _P),
    STATUS_RETURNING_UNIFIED: ctypes.CFUNCTYPE(None, _P, _P, _P, _SIZE, _P),
}
_ORIGINAL = ctypes.CFUNCTYPE(None, _P, _P)


def evaluate_registered_call(
    _interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]
) -> Value:
    """Evaluates a call to a registered target. Errors: Unsupported as for compiled ones; ExecutionError if it fails."""
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
    _call(instruction, address, target, _table(inputs))
    results = tuple(x.transpose(np.argsort(order)) for x, order in zip(outputs, orders, strict=True))
    return results if instruction.shape.is_tuple else results[0]


def _call(instruction: HloInstruction, address: int, target: int, operands: ctypes.Array[ctypes.c_void_p]) -> None:
    """Calls the function as the call's `api_version` says."""
    attributes = instruction.attributes_as(at.CustomCallAttributes)
    version, arguments = attributes.api_version, [target, ctypes.addressof(operands)]
    if version not in _INTERFACES:
        _ORIGINAL(address)(*arguments)
        return
    opaque = ctypes.create_string_buffer(instruction.raw_backend_config.encode("utf-8", "surrogateescape"))
    if version == STATUS_RETURNING_UNIFIED:
        arguments += [ctypes.addressof(opaque), len(opaque) - 1]
    status = ctypes.create_string_buffer(STATUS_BYTES)
    _INTERFACES[version](address)(*arguments, ctypes.addressof(status))
    if number := int.from_bytes(status.raw, "little"):
        message = take_failure_message(number)
        raise ExecutionError(f"custom-call to '{attributes.custom_call_target}' failed: {message}", instruction.span)


def _order(shape: Shape, constrained: bool) -> list[int]:
    """The dimensions from the slowest to the fastest; layouts count only where the call asks for them."""
    return list(shape.minor_to_major[::-1]) if constrained else list(range(shape.rank))


def _table(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])
