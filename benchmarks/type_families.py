"""Families of kernels that change the types of elements: narrow floats, and the same bytes as another type."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import Arguments, bfloat16, integers, normal
from family import VECTORS, Family


def of_type(dtype: Any, *dims: int) -> Arguments:
    """One array of normal numbers of a type."""
    return lambda rng: (rng.standard_normal(dims, dtype=np.float32).astype(dtype),)


def two_of_type(dtype: Any, *dims: int) -> Arguments:
    """Two arrays of normal numbers of a type."""
    return lambda rng: (*of_type(dtype, *dims)(rng), *of_type(dtype, *dims)(rng))


def as_bits(dtype: Any) -> Any:
    """The function that reads the bytes of an array as another type."""
    return lambda x: jax.lax.bitcast_convert_type(x, dtype)


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
    Family("shorts of f32 plus one", lambda x: as_bits(np.uint16)(x + 1), normal, VECTORS),
)
"""Rows of the benchmark by family and size."""
