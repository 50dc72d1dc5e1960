"""ByteIR's extension ops by their definitions. Inits that nothing has written count for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xjit.linalg_ext.evaluation.values import Array, Runtime, plain
from xjit.linalg_ext.ir.attributes import FloatAttr
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import MemRefType
from xjit.linalg_ext.structured import StructuredOp, structured
from xjit.linalg_ext.structured.extension import axis_of
from xjit.linalg_ext.structured.view import attribute_integers

if TYPE_CHECKING:
    from xjit.linalg_ext.evaluation.interpreter import Interpreter

__all__ = ["EXTENSION_OPS", "evaluate_extension"]

Definition: TypeAlias = "Callable[[Interpreter, StructuredOp, list[Array]], list[Array]]"
"""From the operands to the new values of the inits."""


def evaluate_extension(interpreter: Interpreter, operation: Operation, operands: Sequence[Runtime]) -> list[Runtime]:
    """Runs an extension op: on tensors it gives results, on memrefs it writes its inits."""
    op = structured(operation)
    interpreter.count_step(operation)
    results = EXTENSION_OPS[operation.name](interpreter, op, list(operands))
    given: list[Runtime] = []
    for of, target, value in zip(op.inits, operands[len(op.inputs) :], results):
        if isinstance(of.type, MemRefType):
            target.store(..., value)
        else:
            given.append(value)
    return given


def _or_else(value: Array, neutral: float) -> Any:
    """Returns the elements, `neutral` where they are undefined."""
    return value.data if value.undefined is None else np.where(value.undefined, neutral, value.data)


def _softmax(interpreter: Interpreter, op: StructuredOp, operands: list[Array]) -> list[Array]:
    """Computes in the type of the elements:

    max' = max(max, reduce_max(input)), acc' = acc * exp(max - max') + reduce_sum(exp(input - max')),
    scale = acc * exp(max - max') / acc', output = exp(input - max') / acc'.
    """
    axis = axis_of(op)
    data = operands[0]
    dtype = data.data.dtype
    old_max = _or_else(operands[2], -np.inf).astype(dtype)
    old_sum = _or_else(operands[3], 0).astype(dtype)

    def columns(x: Any) -> Any:
        return np.expand_dims(x, axis)

    def compute(x: Any) -> tuple[Any, ...]:
        new_max = np.maximum(old_max, np.max(x, axis, initial=-np.inf).astype(dtype))
        weights = np.exp(x - columns(new_max))
        carried = np.where(old_sum == 0, old_sum, old_sum * np.exp(old_max - new_max))
        new_sum = carried + np.sum(weights, axis, dtype=dtype)
        return weights / columns(new_sum), new_max, new_sum, carried / new_sum

    results = [Array(np.asarray(r).astype(dtype)) for r in compute(data.data)]
    if data.undefined is not None:
        rows = data.undefined.any(axis)
        masks = (np.broadcast_to(columns(rows), data.shape), rows, rows, rows)
        results = [Array(r.data, np.array(mask)) for r, mask in zip(results, masks)]
    return results


def _plain_softmax(interpreter: Interpreter, op: StructuredOp, operands: list[Array]) -> list[Array]:
    """The same without anything before."""
    kept = tuple(n for i, n in enumerate(operands[0].shape) if i != axis_of(op))
    nothing = Array(np.zeros(kept, operands[0].data.dtype), np.ones(kept, np.bool_))
    return _softmax(interpreter, op, [*operands, nothing, nothing])[:1]


def _call_body(interpreter: Interpreter, op: StructuredOp, *arguments: Runtime) -> Runtime:
    return interpreter.run_block(op.body, list(arguments))[0]


def _as_array(value: Runtime) -> Array:
    return value if isinstance(value, Array) else Array(np.asarray(value))


def _at(value: Array, index: tuple[Any, ...]) -> Array:
    return value.view(lambda x: np.asarray(x[index]))


def _where(condition: Any, a: Array, b: Array) -> Array:
    """Elements of `a` where the condition holds, else of `b`, with their masks."""
    undefined = None
    if a.undefined is not None or b.undefined is not None:
        masks = (np.False_ if x.undefined is None else x.undefined for x in (a, b))
        undefined = np.where(condition, *masks)
    return Array(np.where(condition, a.data, b.data), undefined)


def _scan(interpreter: Interpreter, op: StructuredOp, operands: list[Array]) -> list[Array]:
    """Folds along `dimension`, starting with the accumulator: output i has the elements up to i, without element i
    if not `inclusive`; the new accumulator has all of them."""
    axis = axis_of(op)
    data, output, total = operands[0], operands[1].copy(), operands[2]
    inclusive = bool(getattr(op.operation.attributes.get("inclusive"), "value", True))

    def line(i: int) -> tuple[Any, ...]:
        return (*((slice(None),) * axis), i)

    for i in range(data.shape[axis]):
        before = total
        at = line(i)
        element = _at(data, at)
        total = _as_array(_call_body(interpreter, op, total, element))
        if before.undefined is not None:
            total = _where(before.undefined, element, total)
        output.store(at, total if inclusive else before)
    return [output, total]


def _scatter(interpreter: Interpreter, op: StructuredOp, operands: list[Array]) -> list[Array]:
    """source[indices[batch]] = body(source[indices[batch]], updates[batch]), batch by batch in row-major order."""
    indices, updates, source = operands[0], operands[1], operands[2].copy()
    batch = indices.shape[:-1]
    for point in np.ndindex(*batch):
        at = tuple(int(i) for i in indices.data[point])
        if any(not 0 <= i < n for i, n in zip(at, source.shape)):
            raise op.error(f"index {list(at)} is outside of a source of shape {list(source.shape)}")
        source.store(at, _call_body(interpreter, op, _at(source, at), _at(updates, point)))
    return [source]


def _topk(interpreter: Interpreter, op: StructuredOp, operands: list[Array]) -> list[Array]:
    """The first k of the elements of the inits and then of the input, ordered by the body ("is before"), ties by place.

    Without an operand of indices, elements of the input are numbered from 0.
    """
    axis = axis_of(op)
    inputs, (values, numbers) = operands[: len(op.inputs)], operands[len(op.inputs) :]
    given = inputs[1].data if len(inputs) == 2 else _iota(inputs[0].shape, axis, numbers.data.dtype)
    candidates = np.moveaxis(np.concatenate([values.data, inputs[0].data], axis), axis, 0)
    indices = np.moveaxis(np.concatenate([numbers.data, given], axis), axis, 0)
    masks = [np.zeros(x.shape, np.bool_) if x.undefined is None else x.undefined for x in (values, inputs[0])]
    free = np.logical_not(np.moveaxis(np.concatenate(masks, axis), axis, 0))
    count = values.shape[axis]
    chosen_values = np.moveaxis(values.data, axis, 0).copy()
    chosen_indices = np.moveaxis(numbers.data, axis, 0).copy()
    undefined = np.ones(chosen_values.shape, np.bool_)
    for k in range(count):
        found = free.any(0)
        best = _first(interpreter, op, candidates, free)
        chosen_values[k] = np.take_along_axis(candidates, best[np.newaxis], 0)[0]
        chosen_indices[k] = np.take_along_axis(indices, best[np.newaxis], 0)[0]
        undefined[k] = np.logical_not(found)
        np.put_along_axis(free, best[np.newaxis], False, 0)
    mask = np.moveaxis(undefined, 0, axis) if undefined.any() else None
    return [Array(np.moveaxis(x, 0, axis), mask) for x in (chosen_values, chosen_indices)]


def _first(interpreter: Interpreter, op: StructuredOp, candidates: Any, free: Any) -> Any:
    """Returns the place of what a walk over the free candidates of each line ends with; 0 where none is free.

    It goes on to the next one that is before what it has: all that are before it are found by one call of the body.
    """
    places = np.arange(len(candidates)).reshape(-1, *[1] * (candidates.ndim - 1))
    best = np.argmax(free, axis=0)
    while True:
        values = np.take_along_axis(candidates, best[np.newaxis], 0)
        before = plain(_call_body(interpreter, op, candidates, np.broadcast_to(values, candidates.shape)))
        better = free & before & (places > best)
        if not better.any():
            return best
        best = np.where(better.any(0), np.argmax(better, axis=0), best)


def _iota(shape: tuple[int, ...], axis: int, dtype: Any) -> Any:
    line = np.arange(shape[axis], dtype=dtype)
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def _diag(interpreter: Interpreter, op: StructuredOp, operands: list[Array]) -> list[Array]:
    """Matrices with the input's last dimension on the diagonal, zeros elsewhere."""

    def matrices(x: Any) -> Any:
        return x[..., np.newaxis] * np.eye(x.shape[-1], dtype=x.dtype)

    undefined = operands[0].undefined
    diagonal = np.eye(operands[0].shape[-1], dtype=np.bool_)
    values = np.where(diagonal, operands[0].data[..., np.newaxis], np.zeros((), operands[0].data.dtype))
    return [Array(values, None if undefined is None else matrices(undefined).astype(np.bool_))]


def _layer_norm(interpreter: Interpreter, op: StructuredOp, operands: list[Array]) -> list[Array]:
    """(x - mean) * r * weight + bias with r = 1 / sqrt(variance + epsilon) over the dimensions `axis`; mean; r."""
    axes = attribute_integers(op.operation, "axis")
    epsilon = op.operation.attributes.get("epsilon")
    if not isinstance(epsilon, FloatAttr):
        raise op.error(f"expects a float as attribute 'epsilon', found {epsilon}")
    shape = [n if i in axes else 1 for i, n in enumerate(operands[0].shape)]

    def compute(x: Any, *weight_and_bias: Any) -> list[Any]:
        wide = x.astype(np.float64)
        mean = wide.mean(axes, keepdims=True)
        reciprocal = 1 / np.sqrt(wide.var(axes, keepdims=True) + epsilon.value)
        output = (wide - mean) * reciprocal
        if weight_and_bias:
            weight, bias = (p.astype(np.float64).reshape(shape) for p in weight_and_bias)
            output = output * weight + bias
        return [output, mean.squeeze(axes), reciprocal.squeeze(axes)]

    inputs = operands[: len(op.inputs)]
    results = compute(*(x.data for x in inputs))
    dtype = inputs[0].data.dtype
    undefined = None
    if inputs[0].undefined is not None:
        rows = inputs[0].undefined.any(axes)
        undefined = [np.broadcast_to(inputs[0].undefined.any(axes, keepdims=True), inputs[0].shape), rows, rows]
    return [
        Array(np.asarray(r).astype(dtype), None if undefined is None else np.array(undefined[i]))
        for i, r in enumerate(results[: len(op.inits)])
    ]


def _custom(interpreter: Interpreter, op: StructuredOp, operands: list[Array]) -> list[Array]:
    return [_as_array(value) for value in interpreter.run_block(op.body, list(operands))]


EXTENSION_OPS: dict[str, Definition] = {
    "linalg.softmax": _plain_softmax,
    "linalg_ext.softmax": _softmax,
    "linalg_ext.scan": _scan,
    "linalg_ext.scatter": _scatter,
    "linalg_ext.topk": _topk,
    "linalg_ext.diag": _diag,
    "linalg_ext.layer_norm": _layer_norm,
    "linalg_ext.custom": _custom,
}
