"""reduce-window and select-and-scatter: base dilation and padding first, then strided views of the windows.

A window is reduced in row-major order from the initial value on, all windows at once, in the compute type.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import Window, WindowAttributes
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.elementwise import apply
from xjit.ops.evaluation.movement import pad_array
from xjit.ops.evaluation.numerics import Array, Value, narrow, widen
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def dilate_and_pad(x: Array, value: Array, window: Window) -> Array:
    """Returns the base area of a window: dilated, then padded with `value`."""
    dims = window.dimensions
    low, high = [d.padding_low for d in dims], [d.padding_high for d in dims]
    return pad_array(x, value, low, high, [d.base_dilation - 1 for d in dims])


def window_counts(base: Sequence[int], window: Window) -> tuple[int, ...]:
    """Returns how many windows fit along each dimension of a base area."""
    counts: list[int] = []
    for n, d in zip(base, window.dimensions):
        extent = (d.size - 1) * d.window_dilation + 1
        counts.append(0 if d.size == 0 or n < extent else (n - extent) // d.stride + 1)
    return tuple(counts)


def strided_view(base: Array, sizes: Sequence[int], strides: Sequence[int]) -> Array:
    """Returns a read-only view with strides in bytes, of any element type: NumPy's knows no f8e5m2."""
    plain = base.view(np.uint8) if base.dtype.itemsize == 1 else base
    return np.lib.stride_tricks.as_strided(plain, sizes, strides, writeable=False).view(base.dtype)


def window_view(base: Array, window: Window) -> Array:
    """Returns a read-only view of all windows: shape (counts.., sizes..)."""
    dims = window.dimensions
    counts = window_counts(base.shape, window)
    strides = [s * d.stride for s, d in zip(base.strides, dims)]
    strides += [s * d.window_dilation for s, d in zip(base.strides, dims)]
    if 0 in counts:
        return np.empty((*counts, *(d.size for d in dims)), base.dtype)
    view = strided_view(base, (*counts, *(d.size for d in dims)), strides)
    reverse = tuple(base.ndim + i for i, d in enumerate(dims) if d.window_reversal)
    return np.flip(view, reverse) if reverse else view


def _offsets(window: Window) -> Iterator[tuple[int, ...]]:
    """Yields the positions inside a window in row-major order."""
    return itertools.product(*(range(d.size) for d in window.dimensions))


def _inside(offset: Sequence[int], base: Sequence[int], counts: Sequence[int], window: Window) -> Array | None:
    """Returns which windows have a base element at an offset, broadcastable to `counts`; None if all have."""
    if not any(w.padding_low or w.padding_high or w.base_dilation > 1 for w in window.dimensions):
        return None
    inside: Array = np.ones((), np.bool_)
    for i, n, count, w in zip(offset, base, counts, window.dimensions):
        i = w.size - 1 - i if w.window_reversal else i
        at = np.arange(count) * w.stride + i * w.window_dilation - w.padding_low
        line = (at >= 0) & (at <= (n - 1) * w.base_dilation) & (at % w.base_dilation == 0)
        inside = inside[..., None] & line
    return None if inside.all() else inside


def _reduce_window(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    window = instruction.attributes_as(WindowAttributes).window
    count = len(operands) // 2
    arrays, inits = operands[:count], operands[count:]
    bases = [dilate_and_pad(x, init, window) for x, init in zip(arrays, inits)]
    views = [window_view(np.ascontiguousarray(b).reshape(b.shape), window) for b in bases]
    shape = views[0].shape[: arrays[0].ndim]
    result: tuple[Array, ...] = tuple(np.broadcast_to(widen(init), shape) for init in inits)
    opcode = simple_opcode(instruction.to_apply)
    for offset in _offsets(window):
        items = [widen(v[(..., *offset)]) for v in views]
        before, inside = result, _inside(offset, arrays[0].shape, shape, window)
        if opcode is not None and count == 1:  # narrow floats stay in f32 until the end
            result = (apply(interpreter, opcode, items[0].dtype, result[0], items[0]),)
        else:
            given = [narrow(x, init.dtype) for x, init in zip((*result, *items), (*inits, *inits))]
            merged = interpreter.call_elementwise(instruction.to_apply, *given)
            result = merged if isinstance(merged, tuple) else (merged,)
        if inside is not None:  # padding and the holes of dilation take no part
            result = tuple(np.where(inside, widen(r), b) for r, b in zip(result, before))
    rounded = tuple(narrow(np.asarray(r), init.dtype) for r, init in zip(result, inits))
    return rounded if instruction.shape.is_tuple else rounded[0]


def _select_and_scatter(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """For each window, `select` finds the chosen element (keeping the first while it holds), `scatter` adds there."""
    x, source, init = operands
    window = instruction.attributes_as(WindowAttributes).window
    select, scatter = instruction.called_computations
    dims = window.dimensions
    counts = source.shape
    result = np.broadcast_to(init, x.shape).reshape(-1).copy()
    if not source.size or not x.size:
        return result.reshape(x.shape)
    starts = [np.arange(n) * d.stride - d.padding_low for n, d in zip(counts, dims)]
    best = np.zeros(counts, x.dtype)
    where = np.full(counts, -1, np.int64)
    for offset in _offsets(window):
        at = np.ix_(*(s + o * d.window_dilation for s, o, d in zip(starts, offset, dims)))
        inside = np.ones(counts, np.bool_)
        flat = np.zeros(counts, np.int64)
        for index, n in zip(at, x.shape):
            inside = inside & (index >= 0) & (index < n)
            flat = flat * n + index
        value = x.reshape(-1)[np.where(inside, flat, 0)]
        keep = np.asarray(interpreter.call_elementwise(select, best, value))
        take = inside & ((where < 0) | ~keep)
        best, where = np.where(take, value, best), np.where(take, flat, where)
    chosen = where.reshape(-1)
    valid = chosen >= 0
    _accumulate(interpreter, scatter, result, chosen[valid], source.reshape(-1)[valid])
    return result.reshape(x.shape)


def _accumulate(interpreter: Interpreter, scatter: object, result: Array, positions: Array, updates: Array) -> None:
    """Combines updates into a flat array in order; repeated positions go in rounds."""
    order, rounds = duplicate_rounds(positions)
    for part in np.split(order, rounds):
        at = positions[part]
        result[at] = interpreter.call_elementwise(scatter, result[at], updates[part])  # type: ignore[arg-type]


def duplicate_rounds(positions: Array) -> tuple[Array, Array]:
    """Orders items so that the n-th use of each position is in round n.

    Returns the order of items and the split points between rounds; within a round positions are distinct.
    """
    if not positions.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    by_position = np.argsort(positions, kind="stable")
    ordered = positions[by_position]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(first)
    sizes = np.diff(np.append(starts, len(ordered)))
    rank = np.arange(len(ordered)) - np.repeat(starts, sizes)
    by_rank = np.argsort(rank, kind="stable")
    splits = np.flatnonzero(np.diff(rank[by_rank])) + 1
    return by_position[by_rank], splits


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {"reduce-window": _reduce_window, "select-and-scatter": _select_and_scatter}
)
