"""Families of arrays with short rows, as points in space and pictures in colours are, and products that loops do."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from cases import Arguments, complex_normal, indices, normal, several
from family import MATRICES, Family, Sizes

POINTS: Sizes = ((5000, 3), (100_000, 3), (300_000, 2))
PICTURES: Sizes = ((4, 100, 3), (8, 56, 16), (1, 28, 32))
"""Batch, rows and columns, channels."""


def pictures(batch: int, size: int, channels: int) -> Arguments:
    """Images of square size, channels last."""
    return normal(batch, size, size, channels)


def pooled(x: Any) -> Any:
    """Maxima of 3 x 3, padded, at every place."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")


SHORT_ROW_FAMILIES = (
    Family("maximum of points", jnp.max, normal, POINTS),
    Family("box around points", lambda x: (x.min(0), x.max(0)), normal, POINTS),
    Family("padded points", lambda x: jnp.pad(x, [(0, 0), (1, 2)]), normal, POINTS),
    Family("pairs of points", lambda x: jnp.stack([x, 2 * x], 1), normal, POINTS),
    Family("running sums of points", lambda x: jnp.cumsum(x, -1), normal, POINTS),
    Family("softmax of points", jax.nn.softmax, normal, POINTS),
    Family("pooled pictures", pooled, pictures, PICTURES),
    Family(
        "sums of segments of points",
        lambda x, i: jax.ops.segment_sum(x, i, 1000),
        lambda n, d: several(normal(n, d), indices(n, 1000)),
        POINTS,
    ),
    Family("vector by transposed", lambda v, w: v @ w.T, lambda m, k: several(normal(k), normal(m, k)), MATRICES),
    Family(
        "complex by vector",
        lambda a, v: a @ v,
        lambda m, k: several(complex_normal(m, k), complex_normal(k)),
        MATRICES,
    ),
    Family("fft of long rows", jnp.fft.rfft, normal, ((1, 16_384), (64, 16_384), (4, 262_144))),
)
