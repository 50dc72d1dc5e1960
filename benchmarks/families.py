"""Families of kernels, each at several sizes: what a program may spend its time on. One line of data per family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import Arguments, Case, bfloat16, complex_normal, indices, integers, normal, random_key, several
from family import MATRICES, VECTORS, Family, Sizes, heads, positive_definite, summed, two
from filter_families import FILTER_FAMILIES
from gradient_families import GRADIENT_FAMILIES
from layer_families import LAYER_FAMILIES
from method_families import METHOD_FAMILIES
from numeric_families import NUMERIC_FAMILIES
from odd_size_families import ODD_SIZE_FAMILIES
from shape_families import SHAPE_FAMILIES
from short_row_families import SHORT_ROW_FAMILIES
from type_families import TYPE_FAMILIES


def product(m: int, k: int, n: int) -> Arguments:
    """Two float32 matrices to multiply."""
    return several(normal(m, k), normal(k, n))


def convolution(batch: int, size: int, channels: int, features: int) -> Arguments:
    """A batch of square images, channels last, and a kernel of 3 x 3."""
    return several(normal(batch, size, size, channels), normal(3, 3, channels, features))


def channels_first(batch: int, size: int, channels: int, features: int) -> Arguments:
    """As `convolution`, channels first."""
    return several(normal(batch, channels, size, size), normal(features, channels, 3, 3))


def triangular_system(batch: int, size: int) -> Arguments:
    """A batch of well-conditioned systems, and right sides of eight columns."""
    return several(positive_definite(batch, size), normal(batch, size, 8))


def attention(q: Any, k: Any, v: Any) -> Any:
    """Attention of heads, as written out."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, -1), v)


def mlp(x: Any, w1: Any, b1: Any, w2: Any) -> Any:
    """Two layers with gelu in between."""
    return jax.nn.gelu(x @ w1 + b1) @ w2


def conv_nhwc(x: Any, w: Any) -> Any:
    """A convolution with channels last."""
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def conv_nchw(x: Any, w: Any) -> Any:
    """A convolution with channels first."""
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")


def depthwise(x: Any, w: Any) -> Any:
    """A convolution of each channel with its own kernel."""
    channels = x.shape[-1]
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=channels)


def pool(x: Any) -> Any:
    """The largest of windows of 2 x 2."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def drawn(draw: Callable[[Any, int], Any], count: int) -> Case:
    """What is drawn with a key."""
    return Case(lambda key: draw(jax.random.wrap_key_data(key), count), random_key)


SQUARES: Sizes = ((64,), (256,), (768,))
SMALL_SYSTEMS: Sizes = ((1, 16), (500, 8), (64, 32))
IMAGES: Sizes = ((1, 14, 64, 64), (4, 28, 32, 64), (2, 56, 16, 32))

FAMILIES = (
    Family("add", jnp.add, two, VECTORS),
    Family("axpy", lambda x, y: x * 2.5 + y, two, VECTORS),
    Family("exp", jnp.exp, normal, VECTORS),
    Family("sine", jnp.sin, normal, VECTORS),
    Family("log of 1 + x^2", lambda x: jnp.log(1 + x * x), normal, VECTORS),
    Family("sigmoid of bf16", jax.nn.sigmoid, bfloat16, VECTORS),
    Family("select", lambda x, y: jnp.where(x > y, x, y * 2), two, VECTORS),
    Family("complex multiply", jnp.multiply, lambda n: several(complex_normal(n), complex_normal(n)), VECTORS),
    Family("complex abs", jnp.abs, complex_normal, VECTORS),
    Family("integer mix", lambda i: (i * 31) ^ (i >> 3), lambda n: indices(n, 1 << 30), VECTORS),
    Family("sum", jnp.sum, normal, VECTORS),
    Family("argmax", jnp.argmax, normal, VECTORS),
    Family("row sums", lambda x: x.sum(-1), normal, MATRICES),
    Family("column sums", lambda x: x.sum(0), normal, MATRICES),
    Family("row maxima", lambda x: x.max(-1), normal, MATRICES),
    Family("variance", lambda x: x.var(-1), normal, MATRICES),
    Family("softmax", lambda x: jax.nn.softmax(x, -1), normal, MATRICES),
    Family("log of summed exp", lambda x: jax.nn.logsumexp(x, -1), normal, MATRICES),
    Family("transpose", jnp.transpose, normal, MATRICES),
    Family("reverse", lambda x: x[:, ::-1], normal, MATRICES),
    Family("pad", lambda x: jnp.pad(x, 3), normal, MATRICES),
    Family("concatenate", lambda x, y: jnp.concatenate([x, y], 1), two, MATRICES),
    Family("running sums of rows", lambda x: jnp.cumsum(x, 1), normal, MATRICES),
    Family("running maxima", jax.lax.cummax, normal, VECTORS),
    Family("sort rows", lambda x: jnp.sort(x, -1), normal, ((64, 100), (512, 512))),
    Family("argsort", jnp.argsort, normal, ((1 << 10,), (1 << 16,))),
    Family("sort by key", lambda k, v: jax.lax.sort((k, v), num_keys=1), two, ((1 << 10,), (1 << 16,))),
    Family("top 16", lambda x: jax.lax.top_k(x, 16), normal, ((8, 1000), (64, 4096))),
    Family("gather rows", lambda t, i: t[i], lambda n, d: several(normal(n, d), indices(n, n)), MATRICES),
    Family(
        "scatter rows",
        lambda t, i, u: t.at[i].add(u),
        lambda n, d: several(normal(n, d), indices(n, n), normal(n, d)),
        MATRICES,
    ),
    Family("histogram", lambda i: jnp.zeros(256, jnp.int32).at[i].add(1), lambda n: indices(n, 256), VECTORS),
    Family("fft", jnp.fft.fft, complex_normal, ((256,), (64, 1000), (1 << 16,))),
    Family("rfft", jnp.fft.rfft, normal, ((256,), (64, 1024), (1 << 16,))),
    Family("fft2", jnp.fft.fft2, complex_normal, ((64, 64), (256, 256), (512, 512))),
    Family("matmul", jnp.matmul, lambda n: product(n, n, n), SQUARES),
    Family("matmul of bf16", jnp.matmul, lambda n: several(bfloat16(n, n), bfloat16(n, n)), SQUARES),
    Family(
        "matmul of s8",
        lambda x, y: jax.lax.dot(x, y, preferred_element_type=jnp.int32),
        lambda n: several(integers(np.int8, n, n), integers(np.int8, n, n)),
        SQUARES,
    ),
    Family("transposed matmul", lambda x, y: x.T @ y, lambda n: product(n, n, n), SQUARES),
    Family("transposed matvec", lambda x, y: x.T @ y, lambda n: several(normal(n, n), normal(n)), SQUARES),
    Family("matmul by transposed rows", lambda x, w: x @ w.T, lambda n: several(normal(8, n), normal(n, n)), SQUARES),
    Family("matvec", jnp.matmul, lambda n: several(normal(n, n), normal(n)), SQUARES),
    Family("batched matmul", jnp.matmul, lambda b, n: two(b, n, n), ((200, 16), (64, 64), (8, 256))),
    Family(
        "matmul, bias, relu",
        lambda x, w, b: jax.nn.relu(x @ w + b),
        lambda n: several(normal(n, n), normal(n, n), normal(n)),
        SQUARES,
    ),
    Family(
        "mlp",
        mlp,
        lambda b, n: several(normal(b, n), normal(n, 4 * n), normal(4 * n), normal(4 * n, n)),
        ((8, 128), (64, 256)),
    ),
    Family("attention", attention, heads, ((64, 32), (256, 64), (512, 64))),
    Family("gradient of attention", summed(attention), heads, ((64, 32), (256, 64))),
    Family("convolution", conv_nhwc, convolution, IMAGES),
    Family("convolution, channels first", conv_nchw, channels_first, IMAGES),
    Family("gradient of convolution, image", summed(conv_nchw), channels_first, IMAGES),
    Family("gradient of convolution, kernel", summed(conv_nchw, 1), channels_first, IMAGES),
    Family(
        "depthwise convolution",
        depthwise,
        lambda n, size, c: several(normal(n, size, size, c), normal(3, 3, 1, c)),
        ((1, 14, 64), (4, 28, 64)),
    ),
    Family("max pool", pool, normal, ((1, 28, 28, 32), (8, 56, 56, 64))),
    Family("gradient of max pool", summed(pool), normal, ((1, 28, 28, 32), (8, 56, 56, 64))),
    Family("cholesky", jnp.linalg.cholesky, positive_definite, SMALL_SYSTEMS),
    Family("solve", jnp.linalg.solve, triangular_system, SMALL_SYSTEMS),
    Family("qr", jnp.linalg.qr, normal, ((1, 16, 16), (64, 32, 32))),
)
"""Rows of the benchmark by family and size."""

DRAWS = {
    f"{name} {count}": drawn(draw, count)
    for name, draw in {
        "random bits": lambda key, count: jax.random.bits(key, (count,)),
        "random uniform": lambda key, count: jax.random.uniform(key, (count,)),
        "random normal": lambda key, count: jax.random.normal(key, (count,)),
    }.items()
    for count in (1 << 12, 1 << 18)
}

ALL_FAMILIES = (
    *FAMILIES,
    *GRADIENT_FAMILIES,
    *SHORT_ROW_FAMILIES,
    *FILTER_FAMILIES,
    *ODD_SIZE_FAMILIES,
    *LAYER_FAMILIES,
    *METHOD_FAMILIES,
    *NUMERIC_FAMILIES,
    *SHAPE_FAMILIES,
    *TYPE_FAMILIES,
)
FAMILY_CASES = {name: case for family in ALL_FAMILIES for name, case in family.cases().items()} | DRAWS
"""How fast families are, by name and size."""
