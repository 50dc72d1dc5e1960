"""Families of kernels by shapes that are easily forgotten: short rows, shifted arrays, patches, picked elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from cases import bfloat16, indices, normal, several
from family import MATRICES, Family, Sizes, summed

SHORT_ROWS: Sizes = ((100_000, 4), (60_000, 16), (50_000, 20), (20_000, 50))


def heat(x: Any) -> Any:
    """Fifty steps of diffusion on a torus."""

    def step(_: Any, u: Any) -> Any:
        neighbours = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        return u + 0.1 * (neighbours - 4 * u)

    return jax.lax.fori_loop(0, 50, step, x)


def patches(x: Any, w: Any) -> Any:
    """A linear map of each patch of an image, as vision transformers have it."""
    size = w.shape[:2]
    return jax.lax.conv_general_dilated(x, w, size, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


SHAPE_FAMILIES = (
    Family("softmax of short rows", lambda x: jax.nn.softmax(x, -1), normal, SHORT_ROWS),
    Family("log of summed exp of short rows", lambda x: jax.nn.logsumexp(x, -1), normal, SHORT_ROWS),
    Family("maxima of short rows", lambda x: x.max(-1), normal, SHORT_ROWS),
    Family("argmax of short rows", lambda x: jnp.argmax(x, -1), normal, SHORT_ROWS),
    Family("variance of short rows", lambda x: x.var(-1), normal, SHORT_ROWS),
    Family("maxima of bf16", lambda x: x.max(-1), bfloat16, MATRICES),
    Family("diffusion", heat, lambda n: normal(n, n), ((64,), (128,), (512,))),
    Family(
        "patches",
        patches,
        lambda b, n, p, c: several(normal(b, n, n, 3), normal(p, p, 3, c)),
        ((1, 56, 8, 64), (2, 112, 16, 128)),
    ),
    Family(
        "gradient of patches",
        summed(lambda x, w: patches(x, w) ** 2),
        lambda b, n, p, c: several(normal(b, n, n, 3), normal(p, p, 3, c)),
        ((1, 56, 8, 64), (2, 112, 16, 128)),
    ),
    Family("some columns", lambda x, i: x[:, i], lambda n, m: several(normal(n, m), indices(m // 8, m)), MATRICES),
)
"""Rows of the benchmark by family and size."""
