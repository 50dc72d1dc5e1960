"""Rows of the kernel benchmark: a function of JAX, and what makes its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

Arguments = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    """A function, and what makes its arguments."""

    function: Callable[..., Any]
    arguments: Arguments


def normal(*dims: int) -> Arguments:
    """One array of normal float32 numbers."""
    return lambda rng: (rng.standard_normal(dims, dtype=np.float32),)


def bfloat16(*dims: int) -> Arguments:
    """One array of normal bfloat16 numbers."""
    return lambda rng: (rng.standard_normal(dims, dtype=np.float32).astype(jnp.bfloat16),)


def complex_normal(*dims: int) -> Arguments:
    """One array of normal complex64 numbers."""
    return lambda rng: ((rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(np.complex64),)


def indices(count: int, below: int) -> Arguments:
    """One array of indices, with duplicates."""
    return lambda rng: (rng.integers(0, below, count, dtype=np.int32),)


def integers(dtype: Any, *dims: int) -> Arguments:
    """One array of integers of a type, of all its values."""
    info = np.iinfo(dtype)
    return lambda rng: (rng.integers(info.min, info.max, dims, dtype=dtype, endpoint=True),)


def several(*makers: Arguments) -> Arguments:
    """What all of these make, together."""
    return lambda rng: tuple(array for make in makers for array in make(rng))


def random_key(rng: np.random.Generator) -> tuple[Any, ...]:
    """Raw key data of threefry."""
    return (rng.integers(0, 2**32, 2, dtype=np.uint32),)


def small(*shapes: tuple[int, ...]) -> Arguments:
    """Arrays of normal float32 numbers, a tenth as large: recurrences on them do not saturate."""
    return lambda rng: tuple(rng.standard_normal(s, dtype=np.float32) * np.float32(0.1) for s in shapes)
