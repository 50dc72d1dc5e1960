"""Families of kernels that numeric programs spend their time on: moves, orders, sums and functions of other types."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import Arguments, bfloat16, complex_normal, indices, integers, normal, several
from family import MATRICES, VECTORS, Family, positive_definite, two


def stencil(x: Any) -> Any:
    """A step of the heat equation."""
    return x + 0.1 * (jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x)


def pairwise(x: Any, y: Any) -> Any:
    """Squared distances of all pairs of rows."""
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def integers_of_rows(rows: int, columns: int) -> Arguments:
    """For each element of a matrix the index of a column."""
    return lambda rng: (rng.integers(0, columns, (rows, columns), dtype=np.int32),)


def lower_triangular(size: int) -> Arguments:
    """One well-conditioned triangular matrix."""
    return lambda rng: (np.tril(positive_definite(1, size)(rng)[0][0]),)


def newton(x: Any) -> Any:
    """Square roots by twenty steps."""
    return jax.lax.fori_loop(0, 20, lambda _, y: 0.5 * (y + x / y), x)


def mandelbrot(c: Any) -> Any:
    """Thirty steps of z^2 + c, as long as z is small."""
    return jax.lax.fori_loop(0, 30, lambda _, z: jnp.where(jnp.abs(z) < 2, z * z + c, z), jnp.zeros_like(c))


def moving(x: Any, size: int, start: float, combine: Any) -> Any:
    """Sums or maxima of windows that overlap."""
    return jax.lax.reduce_window(x, start, combine, (size,), (1,), "VALID")


def halves_of_rows(x: Any) -> Any:
    """Each row becomes half of the one before it, in place."""

    def step(i: Any, x: Any) -> Any:
        return jax.lax.dynamic_update_slice(x, jax.lax.dynamic_slice_in_dim(x, i, 1) * 0.5, (i + 1, 0))

    return jax.lax.fori_loop(0, x.shape[0] - 1, step, x)


def positive(*dims: int) -> Arguments:
    """Numbers above 0.1."""
    return lambda rng: (np.abs(normal(*dims)(rng)[0]) + np.float32(0.1),)


NUMERIC_FAMILIES = (
    Family("square roots by Newton", newton, positive, VECTORS),
    Family("Mandelbrot", mandelbrot, complex_normal, VECTORS[:2]),
    Family("moving sums", lambda x: moving(x, 65, 0.0, jax.lax.add), normal, VECTORS),
    Family("moving maxima", lambda x: moving(x, 31, -np.inf, jax.lax.max), normal, VECTORS),
    Family("repeat", lambda x: jnp.repeat(x, 3, 1), normal, MATRICES),
    Family(
        "scaled colours",
        lambda x, a, b: (x - a) * b,
        lambda b, n: several(normal(b, n, n, 3), normal(3), normal(3)),
        ((1, 32), (8, 224)),
    ),
    Family("spread", lambda x: jax.lax.pad(x, np.float32(0), ((0, 0, 1), (0, 0, 1))), normal, MATRICES),
    Family("every third", lambda x: x[::2, ::3], normal, MATRICES),
    Family(
        "concatenate bytes",
        lambda x, y: jnp.concatenate([x, y, x], 1),
        lambda n, m: several(*[integers(np.uint8, n, m)] * 2),
        MATRICES,
    ),
    Family("remainder of bytes", lambda i: i % 7, lambda n: integers(np.int8, n), VECTORS),
    Family(
        "maxima of scattered",
        lambda x, i, u: x.at[i].max(u),
        lambda n: several(normal(n), indices(n, n), normal(n)),
        VECTORS,
    ),
    Family("top 100", lambda x: jax.lax.top_k(x, 100), normal, ((4, 1000), (16, 30000))),
    Family("approximate top 10", lambda x: jax.lax.approx_max_k(x, 10), normal, ((8, 1000), (8, 30000))),
    Family("rfft2", jnp.fft.rfft2, normal, ((64, 64), (256, 256))),
    Family("irfft rows", jnp.fft.irfft, complex_normal, ((64, 65), (256, 257))),
    Family(
        "spread volumes",
        lambda x: jax.lax.pad(x, np.float32(0), ((1, 2, 1), (0, 0, 2), (3, 1, 1))),
        normal,
        ((8, 8, 40), (64, 48, 80), (64, 128, 128)),
    ),
    Family("rows from those before", halves_of_rows, normal, ((64, 16), (600, 64), (600, 2048))),
    Family(
        "interpolated pixels",
        lambda x, at: jax.scipy.ndimage.map_coordinates(x, [at[0], at[1]], order=1, mode="nearest"),
        lambda n: several(normal(n, n), lambda rng: (rng.random((2, n, n), np.float32) * n,)),
        ((64,), (256,), (1024,)),
    ),
    Family("stencil", stencil, normal, ((64, 64), (1024, 1024))),
    Family("pairwise distances", pairwise, lambda n, d: two(n, d), ((64, 16), (512, 32))),
    Family("transpose of heads", lambda x: x.transpose(0, 2, 1, 3), normal, ((1, 64, 4, 32), (8, 512, 12, 64))),
    Family("transpose of channels", lambda x: x.transpose(0, 3, 1, 2), normal, ((1, 28, 28, 32), (8, 56, 56, 64))),
    Family("middle sums", lambda x: x.sum(1), normal, ((8, 100, 64), (32, 256, 300))),
    Family("outer sums", lambda x: x.sum((0, 2)), normal, ((8, 100, 64), (32, 256, 300))),
    Family("argmax of rows", lambda x: jnp.argmax(x, -1), normal, MATRICES),
    Family("argmin of columns", lambda x: jnp.argmin(x, 0), normal, MATRICES),
    Family("norms of rows", lambda x: jnp.linalg.norm(x, axis=-1), normal, MATRICES),
    Family("all finite", lambda x: jnp.isfinite(x).all(), normal, VECTORS),
    Family("mean of integers", lambda i: i.astype(jnp.float32).mean(), lambda n: integers(np.uint8, n), VECTORS),
    Family("bytes", lambda x, y: (x & y) + (x >> 1), lambda n: several(*[integers(np.uint8, n)] * 2), VECTORS),
    Family("sum of bytes", lambda x: x.astype(jnp.int32).sum(), lambda n: integers(np.int8, n), VECTORS),
    Family("remainder", lambda i, j: i % (j | 1), lambda n: several(*[integers(np.int32, n)] * 2), VECTORS),
    Family("power", lambda x: jnp.abs(x) ** 2.3, normal, VECTORS),
    Family("tangent", jnp.tan, normal, VECTORS),
    Family("arc tangent of two", jnp.arctan2, two, VECTORS),
    Family("error function", jax.scipy.special.erf, normal, VECTORS),
    Family("log of gamma", jax.scipy.special.gammaln, normal, VECTORS),
    Family("silu product", lambda x, y: jax.nn.silu(x) * y, two, VECTORS),
    Family("silu product of bf16", lambda x, y: jax.nn.silu(x) * y, lambda n: several(*[bfloat16(n)] * 2), VECTORS),
    Family("sum of bf16", jnp.sum, bfloat16, VECTORS),
    Family("complex exp", jnp.exp, complex_normal, VECTORS),
    Family("complex quotient", jnp.divide, lambda n: several(*[complex_normal(n)] * 2), VECTORS),
    Family("complex matmul", jnp.matmul, lambda n: several(*[complex_normal(n, n)] * 2), ((64,), (256,))),
    Family(
        "einsum of three",
        lambda a, b, c: jnp.einsum("ij,jk,kl->il", a, b, c),
        lambda n: several(*[normal(n, n)] * 3),
        ((64,), (256,)),
    ),
    Family(
        "bilinear form",
        lambda a, b, c: jnp.einsum("bi,ijk,bk->bj", a, b, c),
        lambda n: several(normal(n, n), normal(n, n, n), normal(n, n)),
        ((32,), (64,)),
    ),
    Family("vecmat", jnp.matmul, lambda n: several(normal(n), normal(n, n)), ((64,), (1000,), (2048,))),
    Family(
        "thin matmul",
        jnp.matmul,
        lambda m, k, n: several(normal(m, k), normal(k, n)),
        ((4, 1024, 1024), (1000, 8, 1000), (2048, 512, 16)),
    ),
    Family("outer product", jnp.outer, two, ((100,), (1500,))),
    Family(
        "batched matvec",
        lambda a, x: jnp.einsum("bij,bj->bi", a, x),
        lambda b, n: several(normal(b, n, n), normal(b, n)),
        ((64, 16), (64, 128)),
    ),
    Family("many small matmuls", jnp.matmul, lambda b, n: two(b, n, n), ((1000, 4), (4000, 8))),
    Family("argsort of rows", lambda x: jnp.argsort(x, -1), normal, ((64, 100), (512, 256))),
    Family("sort of integers", jnp.sort, lambda n: integers(np.int32, n), ((1 << 10,), (1 << 18,))),
    Family(
        "sort by two keys",
        lambda a, b: jax.lax.sort((a, b), num_keys=2),
        lambda n: several(indices(n, 100), normal(n)),
        ((1 << 10,), (1 << 16,)),
    ),
    Family("median", jnp.median, normal, ((1 << 10,), (1 << 17,))),
    Family("searchsorted", lambda a, x: jnp.searchsorted(jnp.sort(a), x), two, ((1 << 10,), (1 << 15,))),
    Family(
        "segment sums",
        lambda x, i: jax.ops.segment_sum(x, i, 1000),
        lambda n: several(normal(n), indices(n, 1000)),
        VECTORS,
    ),
    Family(
        "segment maxima",
        lambda x, i: jax.ops.segment_max(x, i, 1000),
        lambda n: several(normal(n), indices(n, 1000)),
        VECTORS,
    ),
    Family(
        "take along rows",
        lambda x, i: jnp.take_along_axis(x, i, 1),
        lambda n, m: several(normal(n, m), integers_of_rows(n, m)),
        MATRICES,
    ),
    Family("take columns", lambda x, i: x[:, i], lambda n, m: several(normal(n, m), indices(m, m)), MATRICES),
    Family(
        "set rows",
        lambda t, i, u: t.at[i].set(u),
        lambda n, d: several(normal(4 * n, d), indices(n, 4 * n), normal(n, d)),
        MATRICES,
    ),
    Family("tile", lambda x: jnp.tile(x, (3, 2)), normal, MATRICES),
    Family("stack", lambda x, y: jnp.stack([x, y], -1), two, MATRICES),
    Family("stack of three", lambda x, y: jnp.stack([x, y, x + y], -1), two, MATRICES),
    Family("irfft3", jnp.fft.irfftn, complex_normal, ((16, 16, 9), (32, 32, 17), (64, 64, 33))),
    Family("histogram of floats", lambda x: jnp.histogram(x, bins=64)[0], normal, VECTORS),
    Family("products of columns", lambda x, y: jnp.einsum("ij,ij->j", x, y), two, MATRICES),
    Family(
        "diagonal of a product",
        lambda x, y: jnp.einsum("ij,ji->i", x, y),
        lambda n: two(n, n),
        ((64,), (256,), (1024,)),
    ),
    Family(
        "rows of five", lambda x, y: jnp.concatenate([x, y], 1), lambda n: several(normal(n, 2), normal(n, 3)), VECTORS
    ),
    Family("sum of products", lambda x, y: jnp.einsum("ij,ij->", x, y), two, MATRICES),
    Family(
        "matrices side by side",
        lambda a, b: jnp.einsum("ikb,kjb->ijb", a, b),
        lambda n, batch: two(n, n, batch),
        ((4, 10_000), (16, 1024), (32, 256)),
    ),
    Family(
        "matvec of integers",
        jnp.matmul,
        lambda n: several(integers(np.int32, n, n), integers(np.int32, n)),
        ((256,), (1024,)),
    ),
    Family("argmax of rows of integers", lambda x: jnp.argmax(x, -1), lambda *n: integers(np.int32, *n), MATRICES),
    Family("sort rows of bytes", lambda x: jnp.sort(x, -1), lambda *n: integers(np.uint8, *n), ((64, 100), (512, 512))),
    Family(
        "sort rows of shorts", lambda x: jnp.sort(x, -1), lambda *n: integers(np.int16, *n), ((64, 100), (512, 512))
    ),
    Family("roll", lambda x: jnp.roll(x, 5, 1), normal, MATRICES),
    Family("triangle", jnp.tril, normal, MATRICES),
    Family("inverse", jnp.linalg.inv, positive_definite, ((1000, 4), (64, 32), (4, 256))),
    Family("determinant", jnp.linalg.det, positive_definite, ((1, 16), (500, 8), (64, 32))),
    Family("singular values", lambda x: jnp.linalg.svd(x, compute_uv=False), normal, ((1, 16, 16), (16, 32, 32))),
    Family("eigenvalues", jnp.linalg.eigvalsh, positive_definite, ((1, 16), (16, 32))),
    Family(
        "triangular solve",
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        lambda n: several(lower_triangular(n), normal(n, 8)),
        ((16,), (128,), (512,)),
    ),
    Family("tiny cholesky", jnp.linalg.cholesky, positive_definite, ((1000, 3), (200, 12), (64, 30))),
    Family("fft of short rows", jnp.fft.fft, complex_normal, ((1333, 15), (200, 100), (8, 2310))),
    Family("rfft of odd rows", jnp.fft.rfft, normal, ((1333, 15), (82, 243), (19, 1001))),
    Family("irfft of even rows", jnp.fft.irfft, complex_normal, ((1000, 7), (300, 31), (20, 501))),
    Family("large qr", jnp.linalg.qr, normal, ((2, 130, 130), (2, 200, 200))),
    Family("large cholesky", jnp.linalg.cholesky, lambda n: positive_definite(1, n), ((128,), (512,))),
)
"""Rows of the benchmark by family and size."""
