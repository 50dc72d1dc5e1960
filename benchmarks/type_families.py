"""Families of kernels of narrow types, and of several: conversions, the same bytes as another type, products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import Arguments, bfloat16, integers, normal, several
from family import VECTORS, Family, Sizes

FEW_TERMS: Sizes = ((1000, 8, 8), (40_000, 4, 8), (40_000, 16, 64))
"""Rows, terms and columns of a product."""
HEADS: Sizes = ((50, 3, 60, 150), (100, 13, 20, 120), (100, 30, 18, 250))
"""Heads, queries, elements of each, and keys."""


def of_type(dtype: Any, *dims: int) -> Arguments:
    """One array of normal numbers of a type."""
    return lambda rng: (rng.standard_normal(dims, dtype=np.float32).astype(dtype),)


def two_of_type(dtype: Any, *dims: int) -> Arguments:
    """Two arrays of normal numbers of a type."""
    return lambda rng: (*of_type(dtype, *dims)(rng), *of_type(dtype, *dims)(rng))


def as_bits(dtype: Any) -> Any:
    """The function that reads the bytes of an array as another type."""
    return lambda x: jax.lax.bitcast_convert_type(x, dtype)


def product_of(dtype: Any, m: int, k: int, n: int) -> Arguments:
    """Two matrices of integers to multiply."""
    return several(integers(dtype, m, k), integers(dtype, k, n))


def doubles(n: int) -> Arguments:
    """One array of normal float64 numbers."""
    return lambda rng: (rng.standard_normal(n),)


def scores(q: Any, k: Any) -> Any:
    """Products of queries and keys of bytes, in s32."""
    return jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.int32)


def mixed(a: Any, v: Any) -> Any:
    """Products of a float32 matrix with a float64 vector, from both sides."""
    return a @ (a.T @ v)


TYPE_FAMILIES = (
    Family("f8e5m2 of bf16", lambda x: x.astype(jnp.float8_e5m2), bfloat16, VECTORS),
    Family("f8e5m2 of f16", lambda x: x.astype(jnp.float8_e5m2), lambda n: of_type(np.float16, n), VECTORS),
    Family("f8e4m3fn of f32", lambda x: x.astype(jnp.float8_e4m3fn), normal, VECTORS),
    Family("bf16 of f8e4m3fn", lambda x: x.astype(jnp.bfloat16), lambda n: of_type(jnp.float8_e4m3fn, n), VECTORS),
    Family("f16 of f8e5m2", lambda x: x.astype(jnp.float16), lambda n: of_type(jnp.float8_e5m2, n), VECTORS),
    Family("add f8e5m2", jnp.add, lambda n: two_of_type(jnp.float8_e5m2, n), VECTORS),
    Family("add f8e4m3fn", jnp.add, lambda n: two_of_type(jnp.float8_e4m3fn, n), VECTORS),
    Family("bytes of f32", as_bits(np.uint8), normal, VECTORS),
    Family("f32 of bytes", as_bits(np.float32), lambda n: integers(np.uint8, n, 4), VECTORS),
    Family("few terms of s8", jnp.matmul, lambda *s: product_of(np.int8, *s), FEW_TERMS),
    Family("few terms of s16", jnp.matmul, lambda *s: product_of(np.int16, *s), FEW_TERMS),
    Family("few terms of bf16", jnp.matmul, lambda m, k, n: several(bfloat16(m, k), bfloat16(k, n)), FEW_TERMS),
    Family("scores of s8", scores, lambda b, m, k, n: several(*(integers(np.int8, b, i, k) for i in (m, n))), HEADS),
    Family("f32 matrix by f64 vector", mixed, lambda n: several(normal(n, n), doubles(n)), ((64,), (500,), (1000,))),
    Family("shorts of f32 plus one", lambda x: as_bits(np.uint16)(x + 1), normal, VECTORS),
)
"""Rows of the benchmark by family and size."""
