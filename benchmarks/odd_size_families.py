"""Families of arrays whose sizes are no multiples of a vector's: small networks, points, short rows by a vector; and
functions of arrays and constants."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from cases import Arguments, indices, normal, several
from family import MATRICES, VECTORS, Family, Sizes, summed

POINTS: Sizes = ((1000, 3, 3), (50_000, 3, 3), (50_000, 4, 4))
"""Points, and the sizes of a matrix."""
NETWORKS: Sizes = ((500, 13, 20), (20_000, 7, 10), (5000, 30, 50))
"""Examples, inputs, and the width of a hidden layer."""
LONG_ROWS: Sizes = ((500, 64), (16_384, 64), (4096, 300))


def product(rows: int, terms: int, columns: int) -> Arguments:
    """Two float32 matrices to multiply."""
    return several(normal(rows, terms), normal(terms, columns))


def layers(examples: int, inputs: int, width: int) -> Arguments:
    """Examples, and the weights of two layers."""
    return several(normal(examples, inputs), normal(inputs, width), normal(width, 10))


def network(x: Any, first: Any, second: Any) -> Any:
    """Two layers, and a function that is no comparison between them."""
    return jnp.tanh(x @ first) @ second


def standardized(x: Any, y: Any) -> Any:
    """Joined rows, less their means and over their deviations."""
    rows = jnp.concatenate([x, 2 * y], -1)
    distance = rows - rows.mean(-1, keepdims=True)
    return distance * jax.lax.rsqrt((distance**2).mean(-1, keepdims=True) + 1e-5)


ODD_SIZE_FAMILIES = (
    Family("rotated points", lambda x, r: x @ r, product, POINTS),
    Family("rotated and bounded", lambda x, r: jax.nn.relu(x @ r + 1), product, POINTS),
    Family("columns of points", lambda x, r: x.T @ r, lambda n, *r: several(normal(r[0], n), normal(*r)), POINTS),
    Family("small network", network, layers, NETWORKS),
    Family("gradient of small network", summed(network, 1), layers, NETWORKS),
    Family(
        "short rows by vector",
        lambda x, v: x @ v,
        lambda n, d: several(normal(n, d), normal(d)),
        ((50_000, 5), (50_000, 16), (10_000, 60)),
    ),
    Family("sums of rows of a few", lambda x: x.sum(-1), normal, ((1000, 5), (50_000, 6), (50_000, 8))),
    Family(
        "gathered rows of a few",
        lambda x, i: x[i],
        lambda n, d: several(normal(2000, d), indices(n, 2000)),
        ((2000, 6), (20_000, 12), (100_000, 10)),
    ),
    Family("softmax of columns", lambda x: jax.nn.softmax(x.T / 3).T, normal, ((300, 20), (1000, 33), (400, 300))),
    Family(
        "standardized joined rows",
        standardized,
        lambda n, a, b: several(normal(n, a), normal(n, b)),
        ((1000, 33, 33), (4000, 100, 28), (500, 1000, 1000)),
    ),
    Family(
        "sums of three along rows",
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3), (1, 1), "SAME"),
        normal,
        ((1000, 33), (20_000, 17), (5000, 100)),
    ),
    Family(
        "running sums of padded rows",
        lambda x: jnp.cumsum(jnp.pad(x, ((0, 1), (0, 0), (0, 0))), 2),
        normal,
        ((6, 200, 10), (6, 3000, 10), (6, 800, 100)),
    ),
    Family("sums of reversed rows", lambda x: x[:, ::-1].sum(-1), normal, MATRICES),
    Family("softmax of every second", lambda x: jax.nn.softmax(x[:, ::2]), normal, MATRICES),
    Family("rows by a column", lambda x, w: x @ w[:, 3], lambda n, k: several(normal(n, k), normal(k, 40)), LONG_ROWS),
    Family("square roots as powers", lambda x: jnp.abs(x) ** 0.5 + x**0.5, normal, VECTORS),
    Family("fractions", lambda x: x % 1, normal, VECTORS),
    Family("first above", lambda x: jnp.argmax(x > 3), normal, VECTORS),
)
