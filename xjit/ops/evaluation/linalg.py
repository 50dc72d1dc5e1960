"""cholesky and triangular-solve, in f64 or c128 and rounded once, and fft, in its own precision; all batched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import CholeskyAttributes, FftAttributes, TriangularSolveAttributes
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.numerics import Array, accumulator_dtype
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def _adjoint(a: Array) -> Array:
    return np.conj(np.swapaxes(a, -1, -2))


def _cholesky(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """Reads one triangle; the other one of the result is zero. NaN everywhere if not positive definite."""
    a = operands[0].astype(accumulator_dtype(operands[0].dtype))
    lower = instruction.attributes_as(CholeskyAttributes).lower
    a = np.tril(a) if lower else _adjoint(np.triu(a))
    n = a.shape[-1]
    factor = np.zeros_like(a)
    for j in range(n):
        row = factor[..., j, :j]
        pivot = np.real(a[..., j, j]) - np.sum(np.square(np.abs(row)), axis=-1)
        root = np.where(pivot > 0, np.sqrt(np.where(pivot > 0, pivot, 1)), np.nan)
        below: Array = a[..., j:, j] - np.einsum("...ik,...k->...i", factor[..., j:, :j], np.conj(row))
        factor[..., j:, j] = below / np.expand_dims(root, -1)
        factor[..., j, j] = root
    bad = np.isnan(np.diagonal(factor, axis1=-2, axis2=-1)).any(axis=-1, keepdims=True)
    factor = np.where(np.expand_dims(bad, -1), np.nan, factor)
    return interpreter.flush((factor if lower else _adjoint(factor)).astype(operands[0].dtype))


def _triangular_solve(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """Solves op(a) x = b, or x op(a) = b, by substitution; only the named triangle of `a` is read."""
    t = instruction.attributes_as(TriangularSolveAttributes)
    a, b = (x.astype(accumulator_dtype(x.dtype)) for x in operands)
    lower = t.lower
    if t.transpose_a in ("TRANSPOSE", "ADJOINT"):
        a = np.swapaxes(a, -1, -2)
        a, lower = (np.conj(a) if t.transpose_a == "ADJOINT" else a), not lower
    if not t.left_side:  # x a = b is a^T x^T = b^T
        a, b, lower = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not lower
    n = a.shape[-1]
    x = np.zeros_like(b)
    for step in range(n):
        i, known = (step, slice(0, step)) if lower else (n - 1 - step, slice(n - step, n))
        rest = b[..., i, :] - np.einsum("...k,...kj->...j", a[..., i, known], x[..., known, :])
        x[..., i, :] = rest if t.unit_diagonal else rest / a[..., i, i][..., None]
    result = x if t.left_side else np.swapaxes(x, -1, -2)
    return interpreter.flush(result.astype(instruction.shape.dtype))


def _fft(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    from scipy import fft  # at the first use: see elementwise

    f = instruction.attributes_as(FftAttributes)
    x, axes = operands[0], tuple(range(-len(f.fft_length), 0))
    if not x.size or 0 in instruction.shape.dimensions:
        return np.zeros(instruction.shape.dimensions, instruction.shape.dtype)
    if f.fft_type == "FFT":
        result = fft.fftn(x, axes=axes)
    elif f.fft_type == "IFFT":
        result = fft.ifftn(x, axes=axes)
    elif f.fft_type == "RFFT":
        result = fft.rfftn(x, s=f.fft_length, axes=axes)
    else:
        result = fft.irfftn(x, s=f.fft_length, axes=axes)
    return interpreter.flush(np.asarray(result).astype(instruction.shape.dtype))


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {"cholesky": _cholesky, "triangular-solve": _triangular_solve, "fft": _fft}
)
