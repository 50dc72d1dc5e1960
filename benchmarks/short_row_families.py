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


CLASSES: Sizes = ((5000, 10), (60_000, 5), (60_000, 16))
"""Rows, with a number for each class."""


def standardized(x: Any) -> Any:
    """Rows of mean 0 and variance 1."""
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def rotation(q: Any) -> Any:
    """The matrix of each quaternion."""
    w, x, y, z = q.T
    return jnp.stack([
        jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], -1),
        jnp.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], -1),
        jnp.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], -1),
    ], -2)  # fmt: skip


def picked_columns(x: Any) -> Any:
    """Columns from all over an array, each changed in its own way."""
    return jnp.stack([x[:, 3], -x[:, 50], 2 * x[:, 17], x[:, 40] ** 2, x[:, 7], abs(x[:, 31])], -1)


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
    Family("the largest of classes", lambda x: jnp.argmax(x, -1), normal, CLASSES),
    Family("softmax of classes", jax.nn.softmax, normal, CLASSES),
    Family("logsumexp of classes", lambda x: jax.nn.logsumexp(x, -1), normal, CLASSES),
    Family("standardized classes", standardized, normal, CLASSES),
    Family("picked columns", picked_columns, normal, ((1000, 64), (16_384, 64), (16_384, 256))),
    Family(
        "edges of triangles",
        lambda v, i, j: v[j] - v[i],
        lambda n, m: several(normal(n, 3), indices(m, n), indices(m, n)),
        ((500, 1000), (5000, 20_000), (20_000, 60_000)),
    ),
    Family(
        "cross products", jnp.cross, lambda n: several(normal(n, 3), normal(n, 3)), ((5000,), (20_000,), (200_000,))
    ),
    Family("matrices of quaternions", rotation, lambda n: normal(n, 4), ((500,), (5000,), (50_000,))),
    Family("channels turned around", lambda x: x[..., jnp.array([2, 1, 0])], pictures, ((4, 100, 3), (8, 224, 3))),
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
