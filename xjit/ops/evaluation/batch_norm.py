"""batch-norm-training, -inference and -grad: statistics over all dimensions but one, in f64, rounded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import BatchNormAttributes
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.numerics import Array, Value, widen
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def _arguments(instruction: HloInstruction, operands: Sequence[Array]) -> tuple[list[Array], tuple[int, ...], float]:
    """Returns the operands in f64 with per-feature vectors shaped to broadcast, the reduced axes, and epsilon."""
    attributes = instruction.attributes_as(BatchNormAttributes)
    rank = operands[0].ndim
    sizes = [1] * rank
    sizes[attributes.feature_index] = -1
    wide = [widen(x).astype(np.float64) for x in operands]
    shaped = [x.reshape(sizes) if x.ndim == 1 and rank != 1 else x for x in wide]
    return shaped, tuple(d for d in range(rank) if d != attributes.feature_index), attributes.epsilon


def _round(interpreter: Interpreter, instruction: HloInstruction, *values: Array) -> Value:
    shapes = instruction.shape.tuple_shapes or (instruction.shape,)
    arrays = (np.asarray(v).reshape(-1) if s.rank == 1 else np.asarray(v) for v, s in zip(values, shapes))
    rounded = tuple(interpreter.flush(a.astype(s.dtype)) for a, s in zip(arrays, shapes))
    return rounded if instruction.shape.is_tuple else rounded[0]


def _training(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    (x, scale, offset), axes, epsilon = _arguments(instruction, operands)
    mean = x.mean(axis=axes, keepdims=True)
    variance = np.square(x - mean).mean(axis=axes, keepdims=True)
    result = (x - mean) / np.sqrt(variance + epsilon) * scale + offset
    return _round(interpreter, instruction, result, mean, variance)


def _inference(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    (x, scale, offset, mean, variance), _, epsilon = _arguments(instruction, operands)
    return _round(interpreter, instruction, (x - mean) / np.sqrt(variance + epsilon) * scale + offset)


def _grad(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    (x, scale, mean, variance, grad), axes, epsilon = _arguments(instruction, operands)
    inverse = 1 / np.sqrt(variance + epsilon)
    centred = x - mean
    grad_scale = np.sum(grad * centred * inverse, axis=axes, keepdims=True)
    grad_offset = np.sum(grad, axis=axes, keepdims=True)
    count = x.size / max(1, x.shape[next(d for d in range(x.ndim) if d not in axes)])
    inner = count * grad - grad_offset - centred * inverse * grad_scale
    return _round(interpreter, instruction, scale * inverse * inner / count, grad_scale, grad_offset)


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {"batch-norm-training": _training, "batch-norm-inference": _inference, "batch-norm-grad": _grad}
)
