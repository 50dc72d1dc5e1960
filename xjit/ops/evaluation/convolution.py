"""convolution: a sum of matrix products, one per kernel position (or one per output position where those are fewer)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import ConvolutionAttributes, Window
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.dot import finish, product
from xjit.ops.evaluation.movement import pad_array
from xjit.ops.evaluation.numerics import Array, compute_dtype
from xjit.ops.evaluation.windows import strided_view, window_counts
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def _convolution(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    c = instruction.attributes_as(ConvolutionAttributes)
    d, dtype = c.dim_labels, instruction.shape.dtype
    x, kernel = (interpreter.flush(a) for a in operands)
    x = x.transpose([*d.input_spatial_dimensions, d.input_batch_dimension, d.input_feature_dimension])
    kernel = kernel.transpose(
        [*d.kernel_spatial_dimensions, d.kernel_input_feature_dimension, d.kernel_output_feature_dimension]
    )
    groups = c.feature_group_count
    if c.batch_group_count > 1:  # batch groups are feature groups of a smaller batch
        groups = c.batch_group_count
        *spatial, batch, features = x.shape
        x = x.reshape(*spatial, groups, batch // groups, features).swapaxes(-3, -2)
        x = x.reshape(*spatial, batch // groups, groups * features)
    result = interpreter.flush(_grouped(x, kernel, c.window, groups, dtype))
    order = [*d.output_spatial_dimensions, d.output_batch_dimension, d.output_feature_dimension]
    return finish(result.transpose(np.argsort(order)), dtype)


def _grouped(x: Array, kernel: Array, window: Window, groups: int, dtype: np.dtype) -> Array:
    """Convolves x[spatial.., n, g*c] with kernel[spatial.., c, g*o]; returns [spatial.., n, g*o]."""
    dims = window.dimensions
    reverse = tuple(i for i, w in enumerate(dims) if w.window_reversal)
    kernel = np.flip(kernel, reverse) if reverse else kernel
    base = pad_array(
        x,
        np.zeros((), x.dtype),
        [*(w.padding_low for w in dims), 0, 0],
        [*(w.padding_high for w in dims), 0, 0],
        [*(w.base_dilation - 1 for w in dims), 0, 0],
    )
    *sizes, batch, features = base.shape
    channels, outputs = features // groups, kernel.shape[-1] // groups
    # [g, spatial.., n, c] and [g, spatial.., c, o], so that one product serves all groups
    base = np.ascontiguousarray(np.moveaxis(base.reshape(*sizes, batch, groups, channels), -2, 0))
    weights = np.moveaxis(kernel.reshape(*kernel.shape[:-1], groups, outputs), -2, 0)
    view = _windows(base, window)
    counts, positions = view.shape[1 : 1 + len(dims)], kernel.shape[:-2]
    if 0 in (*counts, *positions, batch, channels, groups, outputs):
        return np.zeros((*counts, batch, groups * outputs), compute_dtype(dtype))
    fewer_positions = np.prod(positions) <= np.prod(counts)
    whole = _by_kernel(view, weights, dtype) if fewer_positions else _by_output(view, weights, dtype)
    return np.moveaxis(whole, 0, -2).reshape(*counts, batch, groups * outputs)


def _windows(base: Array, window: Window) -> Array:
    """Returns the view [g, out.., kernel.., n, c] of a padded base[g, spatial.., n, c]."""
    dims = window.dimensions
    counts = window_counts(base.shape[1:-2], window)
    steps = base.strides[1:-2]
    return strided_view(
        base,
        (base.shape[0], *counts, *(w.size for w in dims), *base.shape[-2:]),
        (
            base.strides[0],
            *(s * w.stride for s, w in zip(steps, dims)),
            *(s * w.window_dilation for s, w in zip(steps, dims)),
            *base.strides[-2:],
        ),
    )


def _by_kernel(view: Array, weights: Array, dtype: np.dtype) -> Array:
    """Adds one product [g, out * n, c] x [g, c, o] per kernel position."""
    groups, channels, rank = view.shape[0], view.shape[-1], weights.ndim - 3
    total: Array | None = None
    for offset in np.ndindex(*weights.shape[1 : 1 + rank]):
        part = view[(slice(None),) * (1 + rank) + offset].reshape(groups, -1, channels)
        term = product(part, weights[(slice(None), *offset)], dtype)
        if total is None:
            total = term
        else:
            np.add(total, term, out=total)
    assert total is not None
    return total.reshape(groups, *view.shape[1 : 1 + rank], view.shape[-2], -1)


def _by_output(view: Array, weights: Array, dtype: np.dtype) -> Array:
    """Computes each output position as one product [g, n, kernel * c] x [g, kernel * c, o]."""
    groups, batch, rank = view.shape[0], view.shape[-2], weights.ndim - 3
    counts = view.shape[1 : 1 + rank]
    flat = weights.reshape(groups, -1, weights.shape[-1])
    result = np.empty((groups, *counts, batch, weights.shape[-1]), compute_dtype(dtype))
    for position in np.ndindex(*counts):
        window = np.moveaxis(view[(slice(None), *position)], -2, 1).reshape(groups, batch, -1)
        result[(slice(None), *position)] = product(window, flat, dtype)
    return result


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType({"convolution": _convolution})
