"""gather and scatter with all dimension numbers, batching dimensions included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import GatherAttributes, ParameterAttributes, ScatterAttributes
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.numerics import TINY, Array, Value, widen
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.ops.evaluation.windows import duplicate_rounds, strided_view
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def _start_vectors(
    indices: Array, index_vector_dim: int, index_map: Sequence[int], rank: int,
    operand_batching: Sequence[int], indices_batching: Sequence[int],
) -> list[Array]:  # fmt: skip
    """Returns, per operand dimension, the start index of every window, shaped like the batch of `indices`."""
    wide = widen(indices)
    signed = np.minimum(wide, np.iinfo(np.int64).max).astype(np.int64) if wide.dtype == np.uint64 else wide
    signed = signed.astype(np.int64, copy=False)
    if index_vector_dim == indices.ndim:
        signed = signed[..., None]
    vectors = np.moveaxis(signed, index_vector_dim, -1)
    batch = vectors.shape[:-1]
    starts: list[Array] = [np.zeros(batch, np.int64) for _ in range(rank)]
    for component, dimension in enumerate(index_map):
        starts[dimension] = vectors[..., component]
    for dimension, position in zip(operand_batching, indices_batching):
        axis = position - (index_vector_dim < position)
        sizes = [1] * len(batch)
        sizes[axis] = batch[axis]
        starts[dimension] = np.broadcast_to(np.arange(batch[axis]).reshape(sizes), batch)
    return starts


def _gather(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    x, indices = operands
    g = instruction.attributes_as(GatherAttributes)
    starts = _start_vectors(
        indices, g.index_vector_dim, g.start_index_map, x.ndim, g.operand_batching_dims, g.start_indices_batching_dims
    )
    dropped = {*g.collapsed_slice_dims, *g.operand_batching_dims}
    slice_sizes = [size if d in dropped else min(n, size) for d, (n, size) in enumerate(zip(x.shape, g.slice_sizes))]
    window = [n for i, n in enumerate(slice_sizes) if i not in dropped]
    if 0 in instruction.shape.dimensions or not x.size:  # as in XLA, there is a 0 where there is nothing to read
        sizes = list(instruction.shape.dimensions)
        for d, n in zip(g.offset_dims, window, strict=True):
            sizes[d] = n
        return np.zeros(sizes, x.dtype)
    counts = [n - size + 1 for n, size in zip(x.shape, slice_sizes)]
    windows = strided_view(x, (*counts, *slice_sizes), x.strides * 2) if x.ndim else x
    clamped = tuple(np.clip(s, 0, n - size) for s, n, size in zip(starts, x.shape, slice_sizes))
    batch_rank = instruction.shape.rank - len(g.offset_dims)
    taken = windows[clamped] if x.ndim else np.broadcast_to(x, instruction.shape.dimensions)
    taken = taken.reshape([*taken.shape[:batch_rank], *window])
    batch_dims = [d for d in range(instruction.shape.rank) if d not in g.offset_dims]
    return np.moveaxis(taken, range(taken.ndim), [*batch_dims, *g.offset_dims])


def _scatter_positions(
    attributes: ScatterAttributes, shape: Sequence[int], indices: Array, updates: Sequence[int]
) -> tuple[Array, Array]:
    """Returns the flat operand position of every update element, and whether its window is inside the operand.

    Both have the shape (batch.., window..) of the updates with the window dimensions moved last.
    """
    s = attributes
    starts = _start_vectors(
        indices, s.index_vector_dim, s.scatter_dims_to_operand_dims, len(shape), s.input_batching_dims,
        s.scatter_indices_batching_dims,
    )  # fmt: skip
    dropped = {*s.inserted_window_dims, *s.input_batching_dims}
    window = iter(updates[d] for d in s.update_window_dims)
    sizes = [1 if d in dropped else next(window) for d in range(len(shape))]
    batch = starts[0].shape if starts else tuple(d for i, d in enumerate(updates) if i not in s.update_window_dims)
    inside = np.ones(batch, np.bool_)
    flat = np.zeros((*batch, *(1 for d in range(len(shape)) if d not in dropped)), np.int64)
    window_rank, axis = flat.ndim - len(batch), 0
    for d, (start, size, n) in enumerate(zip(starts, sizes, shape)):
        inside = inside & (start >= 0) & (start <= n - size)
        index = start.reshape([*batch, *(1,) * window_rank])
        if d not in dropped:
            steps = [1] * window_rank
            steps[axis] = size
            index = index + np.arange(size).reshape(steps)
            axis += 1
        flat = flat * n + index
    spread = np.broadcast_to(inside.reshape([*batch, *(1,) * window_rank]), flat.shape)
    return flat, spread


def _scatter(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    s = instruction.attributes_as(ScatterAttributes)
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    results = [np.array(x, order="C").reshape(-1) for x in inputs]
    if updates[0].size and results[0].size:
        flat, inside = _scatter_positions(s, inputs[0].shape, indices, updates[0].shape)
        batch_dims = [d for d in range(updates[0].ndim) if d not in s.update_window_dims]
        ordered = [u.transpose([*batch_dims, *s.update_window_dims]).reshape(-1) for u in updates]
        kept = np.flatnonzero(inside.reshape(-1))
        kept_updates = [u[kept] for u in ordered]
        _combine(interpreter, instruction.to_apply, results, flat.reshape(-1)[kept], kept_updates)
    shaped = tuple(r.reshape(x.shape) for r, x in zip(results, inputs))
    return shaped if instruction.shape.is_tuple else shaped[0]


_NATIVE: Mapping[str, np.ufunc] = MappingProxyType({"add": np.add, "multiply": np.multiply})
_INTEGER: Mapping[str, np.ufunc] = MappingProxyType(
    {
        **_NATIVE,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
)


def _native_function(opcode: str | None, x: Array) -> np.ufunc | None:
    """Returns the NumPy function that combines in the type of `x` exactly as HLO does, if there is one."""
    if opcode is None:
        return None
    if x.dtype.kind in "iu":  # not the sub-byte types, whose kind is "V"
        return _INTEGER.get(opcode)
    return _NATIVE.get(opcode) if x.dtype in TINY else None


def _combine(
    interpreter: Interpreter, combiner: HloComputation, results: list[Array], positions: Array, updates: list[Array]
) -> None:
    """Combines updates into the flat results in row-major order of the updates."""
    opcode = simple_opcode(combiner)
    function = _native_function(opcode, results[0]) if len(results) == 1 else None
    if function is not None:
        target, touched = results[0], np.unique(positions)
        target[touched] = interpreter.flush(target[touched])
        function.at(target, positions, interpreter.flush(updates[0]))
        target[touched] = interpreter.flush(target[touched])
        return
    if combiner.root_instruction.opcode == "parameter" and len(results) == 1:
        if combiner.root_instruction.attributes_as(ParameterAttributes).parameter_number == 1:
            results[0][positions] = updates[0]  # NumPy keeps the last of repeated positions
        return
    order, splits = duplicate_rounds(positions)
    for part in np.split(order, splits) if order.size else ():
        at = positions[part]
        merged = interpreter.call_elementwise(combiner, *(r[at] for r in results), *(u[part] for u in updates))
        for result, item in zip(results, merged if isinstance(merged, tuple) else (merged,)):
            result[at] = item


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType({"gather": _gather, "scatter": _scatter})
