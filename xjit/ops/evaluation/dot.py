"""dot, ragged-dot, scaled-dot as batched matrix products.

Floats below 32 bits multiply and accumulate in f32, f32 in f32, f64 in f64; complex terms are added in order; a single
term is the result, with its sign if it is zero; integers are exact modulo the width of the result (in f64 where no sum
can exceed 2^53: much faster than NumPy's integers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import DotAttributes, RaggedDotAttributes
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.complex_math import multiply
from xjit.ops.evaluation.convert import convert
from xjit.ops.evaluation.numerics import Array, compute_dtype, narrow, type_of, unsupported, widen, wrap
from xjit.ops.opdef import Evaluator
from xjit.ops.shape_inference.common import higher_precision

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def _exact_in_f64(a: Array, b: Array) -> bool:
    bits = sum(1 if x.dtype == np.bool_ else type_of(x).bit_width for x in (a, b))
    return bits + max(1, a.shape[-1]).bit_length() <= 53


def product(a: Array, b: Array, dtype: np.dtype) -> Array:
    """Returns the batched product [.., m, k] x [.., k, n], in the compute type of the result type `dtype`."""
    target = compute_dtype(dtype)
    if target.kind in "fc":
        common = np.result_type(target, compute_dtype(a.dtype), compute_dtype(b.dtype))
        left, right = (widen(x).astype(common, copy=False) for x in (a, b))
        return _float_product(left, right).astype(target, copy=False)
    if _exact_in_f64(a, b):
        exact = np.matmul(widen(a).astype(np.float64), widen(b).astype(np.float64))
        return (exact != 0) if target == np.bool_ else exact.astype(np.int64).astype(target)
    return np.matmul(widen(a).astype(np.int64), widen(b).astype(np.int64)).astype(target)


def _float_product(a: Array, b: Array) -> Array:
    if a.dtype.kind == "c":
        return multiply(a, b) if a.shape[-1] == 1 else _in_order(a, b)
    return a * b if a.shape[-1] == 1 else np.matmul(a, b)


def _in_order(a: Array, b: Array) -> Array:
    """Returns the product with terms added in order of k, each rounded: complex sums are prone to cancellation."""
    total = np.zeros(np.matmul(a[..., :0], b[..., :0, :]).shape, a.dtype)
    for k in range(a.shape[-1]):
        total += multiply(a[..., :, k, None], b[..., k, None, :])
    return total


def finish(x: Array, dtype: np.dtype) -> Array:
    """Rounds or wraps a product to the result type."""
    kind = type_of(np.empty((), dtype))
    return wrap(x, kind) if kind.is_integer else narrow(x, dtype)


def contract(
    interpreter: Interpreter, a: Array, b: Array, batch: tuple[Sequence[int], Sequence[int]],
    contracting: tuple[Sequence[int], Sequence[int]], dtype: np.dtype,
) -> Array:  # fmt: skip
    """Returns the dot of two arrays: dimensions batch, then free of `a`, then free of `b`; in the compute type."""
    free_a = [d for d in range(a.ndim) if d not in batch[0] and d not in contracting[0]]
    free_b = [d for d in range(b.ndim) if d not in batch[1] and d not in contracting[1]]
    batch_shape = [a.shape[d] for d in batch[0]]
    rows, columns = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    depth = int(np.prod([a.shape[d] for d in contracting[0]], dtype=np.int64))
    sizes = [int(np.prod(s, dtype=np.int64)) for s in (batch_shape, rows, columns)]
    left = a.transpose([*batch[0], *free_a, *contracting[0]]).reshape(sizes[0], sizes[1], depth)
    right = b.transpose([*batch[1], *contracting[1], *free_b]).reshape(sizes[0], depth, sizes[2])
    result = interpreter.flush(product(interpreter.flush(widen(left)), interpreter.flush(widen(right)), dtype))
    return result.reshape([*batch_shape, *rows, *columns])


def _dot(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    d = instruction.attributes_as(DotAttributes)
    if d.sparsity or len(operands) != 2:
        raise unsupported("dot with structured sparsity")
    batch, contracting = (d.lhs_batch_dims, d.rhs_batch_dims), (d.lhs_contracting_dims, d.rhs_contracting_dims)
    kind, dtype = instruction.shape.element_type, instruction.shape.dtype
    inexact = [type_of(x) for x in operands if type_of(x).is_float or type_of(x).is_complex]
    if inexact and (kind.is_integer or (inexact[0].is_complex and not kind.is_complex)):
        natural = reduce(higher_precision, inexact)  # what is computed and rounded, then converted
        exact = contract(interpreter, operands[0], operands[1], batch, contracting, natural.dtype)
        return convert(interpreter, finish(exact, natural.dtype), kind)
    return finish(contract(interpreter, operands[0], operands[1], batch, contracting, dtype), dtype)


def _scale_up(x: Array, scale: Array) -> Array:
    """Returns x times its scale, every scale element repeated over its block of `x`."""
    wide = widen(scale).astype(np.float32)
    for d in range(x.ndim):
        if wide.shape[d] and x.shape[d] != wide.shape[d]:
            wide = np.repeat(wide, x.shape[d] // wide.shape[d], axis=d)
    return widen(x) * wide


def _scaled_dot(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    d = instruction.attributes_as(DotAttributes)
    a, b, *scales = operands
    scaled = [_scale_up(x, s) if s.ndim == x.ndim else widen(x) * widen(s) for x, s in zip((a, b), scales)]
    scaled += [widen(x) for x in (a, b)[len(scaled) :]]
    batch, contracting = (d.lhs_batch_dims, d.rhs_batch_dims), (d.lhs_contracting_dims, d.rhs_contracting_dims)
    dtype = instruction.shape.dtype
    return finish(contract(interpreter, scaled[0], scaled[1], batch, contracting, dtype), dtype)


def _ragged_dot(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """Groups are consecutive runs of the ragged dimension: rows (own rhs each), depth (own result each) or batch."""
    a, b, group_sizes = operands
    r = instruction.attributes_as(RaggedDotAttributes)
    if len(r.lhs_ragged_dims) != 1 or group_sizes.ndim != 1:
        raise unsupported("ragged-dot with batched group sizes or other than one ragged dimension")
    ragged, dtype = r.lhs_ragged_dims[0], instruction.shape.dtype
    batch, contracting = (r.lhs_batch_dims, r.rhs_batch_dims), (r.lhs_contracting_dims, r.rhs_contracting_dims)
    if ragged in r.lhs_batch_dims:
        return finish(contract(interpreter, a, b, batch, contracting, dtype), dtype)
    ends = np.minimum(np.cumsum(widen(group_sizes).astype(np.int64)), a.shape[ragged])
    runs = list(zip([0, *ends[:-1]], ends))
    result = np.zeros(instruction.shape.dimensions, compute_dtype(dtype))
    if ragged in r.lhs_contracting_dims:
        other = r.rhs_contracting_dims[r.lhs_contracting_dims.index(ragged)]
        for group, (begin, end) in enumerate(runs):
            left, right = _cut(a, ragged, begin, end), _cut(b, other, begin, end)
            result[group] = contract(interpreter, left, right, batch, contracting, dtype)
        return finish(result, dtype)
    group_dim = r.rhs_group_dims[0]
    row = len(r.lhs_batch_dims) + [
        d for d in range(a.ndim) if d not in r.lhs_batch_dims and d not in r.lhs_contracting_dims
    ].index(ragged)
    without_group = [[d - (d > group_dim) for d in dims] for dims in (r.rhs_batch_dims, r.rhs_contracting_dims)]
    for group, (begin, end) in enumerate(runs):
        part = contract(
            interpreter, _cut(a, ragged, begin, end), np.take(b, group, axis=group_dim),
            (r.lhs_batch_dims, without_group[0]), (r.lhs_contracting_dims, without_group[1]), dtype,
        )  # fmt: skip
        result[(slice(None),) * row + (slice(begin, end),)] = part
    return finish(result, dtype)


def _cut(x: Array, axis: int, begin: int, end: int) -> Array:
    return x[(slice(None),) * axis + (slice(begin, end),)]


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {"dot": _dot, "ragged-dot": _ragged_dot, "scaled-dot": _scaled_dot}
)
