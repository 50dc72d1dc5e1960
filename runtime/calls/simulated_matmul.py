"""What cublasLt does, on the host: the same matrices in the same memory, multiplied by NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xjit.thunks import MatmulSpec, StoredMatrices

Matrices = np.ndarray[Any, Any]

_TF32_DROPPED_BITS = 13


def multiply_on_host(spec: MatmulSpec, addresses: Sequence[int]) -> None:
    """Does a product. `addresses`: those of the operands, then of the results.

    Sums are of twice the precision and are rounded once, so last bits differ from the library's.
    """
    at = spec.at(addresses)
    wide = _wide(spec)
    a, b = (
        _rounded(stored_matrices(m, spec.count, at[role]), spec.products).astype(wide)
        for m, role in ((spec.a, "a"), (spec.b, "b"))
    )
    a, b = (m.transpose(0, 2, 1) if swap else m for m, swap in ((a, spec.transpose_a), (b, spec.transpose_b)))
    alpha = spec.alpha if spec.d.kind.is_complex else spec.alpha.real
    value = (np.matmul(a, b) * _scale(at, "a_scale") * _scale(at, "b_scale") * alpha).astype(wide)
    if "c" in at:
        c = StoredMatrices(spec.c_kind, spec.d.rows, spec.d.columns, spec.d.leading, spec.d.stride)
        value = value + stored_matrices(c, spec.count, at["c"]).astype(wide) * spec.beta
    if "bias" in at:
        value = value + vector(spec.bias_kind.dtype, spec.d.rows, at["bias"]).astype(wide)[:, None]
    if "aux" in at:
        stored_matrices(spec.d, spec.count, at["aux"])[...] = value.astype(spec.d.kind.dtype)
    value = _ACTIVATIONS[spec.activation](value)
    if "amax" in at:
        vector(np.dtype(np.float32), 1, at["amax"])[0] = np.abs(value).max()
    stored_matrices(spec.d, spec.count, at["d"])[...] = (value * _scale(at, "d_scale")).astype(spec.d.kind.dtype)


def stored_matrices(matrices: StoredMatrices, count: int, address: int) -> Matrices:
    """The memory of matrices as an array [count, rows, columns]."""
    dtype = matrices.kind.dtype
    elements = (count - 1) * matrices.stride + (matrices.columns - 1) * matrices.leading + matrices.rows
    strides = tuple(dtype.itemsize * step for step in (matrices.stride, 1, matrices.leading))
    shape = (count, matrices.rows, matrices.columns)
    return np.ndarray(shape, dtype, _memory(elements * dtype.itemsize, address), strides=strides)


def vector(dtype: np.dtype[Any], count: int, address: int) -> Matrices:
    """The memory of `count` elements as an array."""
    return np.frombuffer(_memory(count * dtype.itemsize, address), dtype)


def _memory(size: int, address: int) -> memoryview:
    return memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")


def _wide(spec: MatmulSpec) -> np.dtype[Any]:
    if spec.products == "s32":
        return np.dtype(np.int64)
    return np.dtype(np.complex128 if spec.d.kind.is_complex else np.float64)


def _scale(at: Mapping[Any, int], role: str) -> float | int:
    """A factor in memory; 1 if the product has none."""
    return float(vector(np.dtype(np.float32), 1, at[role])[0]) if role in at else 1


def _rounded(values: Matrices, products: str) -> Matrices:
    """f32 operands as the matrix units take them, if they may be rounded."""
    if products not in ("tf32", "bf16", "f16"):
        return values
    if products != "tf32":
        return values.astype(ml_dtypes.bfloat16 if products == "bf16" else np.float16)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    even = (bits >> _TF32_DROPPED_BITS) & 1
    half = np.uint32((1 << (_TF32_DROPPED_BITS - 1)) - 1)
    return ((bits + half + even) & ~np.uint32((1 << _TF32_DROPPED_BITS) - 1)).view(np.float32)


def _gelu(x: Matrices) -> Matrices:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


_ACTIVATIONS: Mapping[str, Callable[[Matrices], Matrices]] = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": _gelu,
}
