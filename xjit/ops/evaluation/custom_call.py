"""Custom calls by target: annotations (identity on one device), TopK, buffers, LAPACK, GPU libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.custom_call_registry import custom_call_address
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.custom_call_targets import IDENTITY_TARGETS, unknown_target
from xjit.ops.evaluation.control import identity
from xjit.ops.evaluation.lapack import evaluate_lapack
from xjit.ops.evaluation.numerics import Array, Value, concrete_int, unsupported, zeros
from xjit.ops.evaluation.registered_call import evaluate_registered_call
from xjit.ops.evaluation.sort import top_k
from xjit.ops.evaluation.tridiagonal_perturbed import evaluate_perturbed
from xjit.ops.lapack_targets import LAPACK_TARGETS, PERTURBED_TARGET
from xjit.ops.library_calls.plain import PLAIN, plain_computation
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def _top_k(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    k = instruction.shape.tuple_shapes[0].dimensions[-1]
    return top_k(operands[0], k, largest=True)


def _allocate(_interpreter: Interpreter, instruction: HloInstruction, _operands: Sequence[Value]) -> Value:
    return zeros(instruction.shape)


def _library(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    return interpreter.call(plain_computation(instruction), *operands)


def _pad_to_static(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    """(the array in one of its bounds, its sizes): what lies beyond is as wrong as it can be."""
    x, shape = operands[0], instruction.shape.tuple_shapes[0]
    beyond = np.nan if shape.element_type.is_float or shape.element_type.is_complex else 1
    padded = np.full(shape.dimensions, beyond).astype(shape.dtype)
    padded[tuple(slice(0, n) for n in x.shape)] = x
    return (padded, *[np.array(n, np.int32) for n in x.shape])


def _slice_to_dynamic(_interpreter: Interpreter, _instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    """The array cut to the sizes that follow it."""
    return operands[0][tuple(slice(0, concrete_int(n)) for n in operands[1:])]


TARGETS: Mapping[str, Evaluator] = MappingProxyType(
    {
        **dict.fromkeys(IDENTITY_TARGETS, identity),
        **dict.fromkeys(LAPACK_TARGETS, evaluate_lapack),
        **dict.fromkeys(PLAIN, _library),
        PERTURBED_TARGET: evaluate_perturbed,
        "PadToStatic": _pad_to_static,
        "SliceToDynamic": _slice_to_dynamic,
        "TopK": _top_k,
        "AllocateBuffer": _allocate,
    }
)


def _custom_call(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    target = instruction.attributes_as(at.CustomCallAttributes).custom_call_target
    evaluator = TARGETS.get(target)
    if evaluator is None and custom_call_address(target) is not None:
        evaluator = evaluate_registered_call
    if evaluator is None:
        raise unknown_target(instruction, TARGETS)
    if evaluator is identity and not instruction.operand(0).shape.compatible(instruction.shape):
        if instruction.shape.is_tuple and not instruction.shape.tuple_shapes:
            return ()
        raise unsupported(f"custom-call to '{target}' that changes the shape: it needs several devices")
    return evaluator(interpreter, instruction, operands)


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType({"custom-call": _custom_call})
