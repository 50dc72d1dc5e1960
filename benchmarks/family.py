"""What a family of kernels is: a function, what makes its arguments for a size, and sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from cases import Arguments, Case, normal, several

Sizes = tuple[tuple[int, ...], ...]

VECTORS: Sizes = ((1 << 12,), (1 << 17,), (1 << 20,))
MATRICES: Sizes = ((64, 100), (1024, 512), (2048, 2048))


@dataclass(frozen=True, slots=True)
class Family:
    """A function, what makes its arguments for a size, and sizes."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[..., Arguments]
    sizes: Sizes

    def cases(self) -> dict[str, Case]:
        """The rows, by name and size."""
        return {f"{self.name} {_text(s)}": Case(self.function, self.arguments(*s)) for s in self.sizes}


def _text(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size))


def two(*dims: int) -> Arguments:
    """Two arrays of normal float32 numbers."""
    return several(normal(*dims), normal(*dims))


def positive_definite(batch: int, size: int) -> Arguments:
    """A batch of symmetric positive definite float32 matrices."""

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        (a,) = normal(batch, size, size)(rng)
        return (a @ a.swapaxes(1, 2) + size * np.eye(size, dtype=np.float32),)

    return make


def heads(length: int, width: int) -> Arguments:
    """Queries, keys and values of eight heads."""
    return several(*[normal(8, length, width)] * 3)


def summed(function: Callable[..., Any], argument: int = 0) -> Callable[..., Any]:
    """The gradient of the sum of a function's results by one argument."""
    return jax.grad(lambda *args: function(*args).sum(), argument)
