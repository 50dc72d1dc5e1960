"""Families of kernels that layers of models and their gradients spend their time on."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import Arguments, bfloat16, indices, normal, several, small
from family import MATRICES, VECTORS, Family, Sizes, heads, summed, two

IMAGES: Sizes = ((1, 28, 32), (8, 56, 64))
"""Batch, rows and columns, channels."""


def images(batch: int, size: int, channels: int) -> Arguments:
    """Square images, channels last."""
    return normal(batch, size, size, channels)


def batch_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Normalises channels by the batch's mean and variance."""
    mean = x.mean((0, 1, 2))
    variance = (x * x).mean((0, 1, 2)) - mean * mean
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def group_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Normalises eight groups of channels of each image."""
    grouped = x.reshape(*x.shape[:3], 8, -1)
    mean = grouped.mean((1, 2, 4), keepdims=True)
    variance = grouped.var((1, 2, 4), keepdims=True)
    return ((grouped - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale + bias


def rms_norm(x: Any, scale: Any) -> Any:
    """Scales rows by their root mean square, computed in float32."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Normalises rows."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * scale + bias


def with_channels(batch: int, size: int, channels: int) -> Arguments:
    """Images, and two numbers per channel."""
    return several(images(batch, size, channels), normal(channels), normal(channels))


def with_columns(rows: int, columns: int) -> Arguments:
    """A matrix, and two numbers per column."""
    return several(normal(rows, columns), normal(columns), normal(columns))


def average_pool(x: Any) -> Any:
    """Means of windows of 3 x 3 that overlap."""
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9


def overlapping_pool(x: Any) -> Any:
    """The largest of windows of 3 x 3 that overlap."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def conv_1d(x: Any, w: Any) -> Any:
    """A convolution along one dimension, channels last."""
    return jax.lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def strided(x: Any, w: Any) -> Any:
    """A convolution that takes every second place, channels last."""
    return jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def transposed(x: Any, w: Any) -> Any:
    """A transposed convolution of stride 2, channels last."""
    return jax.lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def grouped(x: Any, w: Any) -> Any:
    """A convolution in four groups, channels last."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=4)


def depthwise_first(x: Any, w: Any) -> Any:
    """A convolution of each channel with its own kernel, channels first."""
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=x.shape[1])


def with_kernel(batch: int, size: int, channels: int, groups: int = 1) -> Arguments:
    """Images, and a kernel of 3 x 3 that keeps the number of channels."""
    return several(images(batch, size, channels), normal(3, 3, channels // groups, channels))


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean of -log p of labels."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -chosen.mean()


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    """Attention of heads where no query sees later keys."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(q.shape[-1])
    seen = jnp.tril(jnp.ones(scores.shape[1:], bool))
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(jnp.where(seen, scores, -1e9), -1), v)


def biased_attention(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """Attention of heads with a bias of scores."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(q.shape[-1]) + bias
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, -1), v)


def shared_attention(q: Any, k: Any, v: Any) -> Any:
    """Attention of eight heads over two heads of keys and values."""
    queries = q.reshape(2, 4, *q.shape[1:])
    scores = jnp.einsum("ghqd,gkd->ghqk", queries, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("ghqk,gkd->ghqd", jax.nn.softmax(scores, -1), v).reshape(q.shape)


def attention_of_one_query(q: Any, keys: Any, values: Any, key: Any, value: Any, place: Any) -> Any:
    """A cache of keys and values [length, heads, width] is updated at a place, and read up to there."""
    keys = jax.lax.dynamic_update_slice_in_dim(keys, key, place, 0)
    values = jax.lax.dynamic_update_slice_in_dim(values, value, place, 0)
    length, heads, width = keys.shape
    scores = jnp.einsum("hgd,khd->hgk", q.reshape(heads, -1, width), keys) / np.sqrt(width)
    weights = jax.nn.softmax(jnp.where(jnp.arange(length) <= place, scores, -1e30), -1)
    return jnp.einsum("hgk,khd->hgd", weights, values).reshape(q.shape)


def one_query(length: int, heads: int, shared_by: int) -> Arguments:
    """Its arguments, 64 wide; heads of keys are each shared by some heads of queries. The cache is all but full."""
    cache, row = normal(length, heads, 64), normal(1, heads, 64)
    arrays = several(normal(heads * shared_by, 64), cache, cache, row, row)
    return several(arrays, lambda rng: (np.int32(length - 2),))


def shared_heads(length: int, width: int) -> Arguments:
    """Queries of eight heads, keys and values of two."""
    return several(normal(8, length, width), *[normal(2, length, width)] * 2)


def gru(xs: Any, w: Any, u: Any, h: Any) -> Any:
    """A gated recurrent unit over xs[step, batch, size]."""

    def step(h: Any, x: Any) -> Any:
        r, z, n = jnp.split(x @ w, 3, -1)
        a, b, c = jnp.split(h @ u, 3, -1)
        z = jax.nn.sigmoid(z + b)
        h = (1 - z) * jnp.tanh(n + jax.nn.sigmoid(r + a) * c) + z * h
        return h, h

    return jax.lax.scan(step, h, xs)[1]


def linear_recurrence(a: Any, x: Any) -> Any:
    """States h = a h + x along the first dimension, as an associative scan."""
    return jax.lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, x))[1]


def mixer(x: Any, t1: Any, t2: Any, c1: Any, c2: Any) -> Any:
    """A block of an MLP-Mixer: tokens are mixed, then channels."""
    x = x + jnp.swapaxes(jax.nn.gelu(jnp.swapaxes(x, 1, 2) @ t1) @ t2, 1, 2)
    return x + jax.nn.gelu(x @ c1) @ c2


def mixer_arguments(batch: int, tokens: int, channels: int) -> Arguments:
    """The arguments of `mixer`."""
    weights = (tokens, 2 * tokens), (2 * tokens, tokens), (channels, 4 * channels), (4 * channels, channels)
    return several(normal(batch, tokens, channels), small(*weights))


def quantized(x: Any) -> Any:
    """Sixteenths as int8, and the largest of each row."""
    return jnp.clip(jnp.round(x * 16), -127, 127).astype(jnp.int8), jnp.abs(x).max(-1)


def rotary(x: Any, angle: Any) -> Any:
    """Rotates halves of rows by angles."""
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1)


def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    """A step of Adam."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


LAYER_FAMILIES = (
    Family("batch norm", batch_norm, with_channels, IMAGES),
    Family("gradient of batch norm", summed(lambda x, *a: batch_norm(x, *a) * x), with_channels, IMAGES),
    Family("group norm", group_norm, with_channels, IMAGES),
    Family("rms norm", rms_norm, lambda n, m: several(normal(n, m), normal(m)), MATRICES),
    Family("rms norm of bf16", rms_norm, lambda n, m: several(bfloat16(n, m), bfloat16(m)), MATRICES),
    Family("gradient of layer norm", summed(lambda *a: layer_norm(*a) ** 2), with_columns, MATRICES),
    Family("gradient of layer norm, scale", summed(lambda *a: layer_norm(*a) ** 2, 1), with_columns, MATRICES),
    Family("gradient of softmax", summed(lambda x: jax.nn.softmax(x) ** 2), normal, MATRICES),
    Family("average pool", average_pool, images, IMAGES),
    Family("overlapping max pool", overlapping_pool, images, IMAGES),
    Family("gradient of average pool", summed(lambda x: average_pool(x) ** 2), images, IMAGES),
    Family("gradient of overlapping pool", summed(lambda x: overlapping_pool(x) ** 2), images, IMAGES),
    Family("global pool", lambda x: x.mean((1, 2)), images, IMAGES),
    Family("resize", lambda x: jax.image.resize(x, (x.shape[0], 64, 64, x.shape[3]), "bilinear"), images, IMAGES),
    Family("nearest", lambda x: x.repeat(2, 1).repeat(2, 2), images, IMAGES),
    Family(
        "convolution 1d",
        conv_1d,
        lambda b, n, c: several(normal(b, n, c), normal(5, c, c)),
        ((1, 256, 32), (8, 1000, 64)),
    ),
    Family("strided convolution", strided, with_kernel, ((1, 28, 32), (8, 56, 32))),
    Family("transposed convolution", transposed, with_kernel, ((1, 14, 32), (4, 28, 32))),
    Family("grouped convolution", grouped, lambda *d: with_kernel(*d, groups=4), ((1, 28, 32), (4, 28, 64))),
    Family(
        "depthwise, channels first",
        depthwise_first,
        lambda b, n, c: several(normal(b, c, n, n), normal(c, 1, 3, 3)),
        ((1, 14, 64), (4, 28, 64)),
    ),
    Family(
        "pointwise convolution",
        strided,
        lambda b, n, c: several(images(b, n, c), normal(1, 1, c, 2 * c)),
        IMAGES,
    ),
    Family("gradient of channels last, image", summed(lambda x, w: strided(x, w) ** 2), with_kernel, ((4, 28, 32),)),
    Family(
        "gradient of channels last, kernel", summed(lambda x, w: strided(x, w) ** 2, 1), with_kernel, ((4, 28, 32),)
    ),
    Family(
        "gradient of depthwise, image",
        summed(lambda x, w: depthwise_first(x, w) ** 2),
        lambda b, n, c: several(normal(b, c, n, n), normal(c, 1, 3, 3)),
        ((4, 28, 64),),
    ),
    Family(
        "gradient of depthwise, kernel",
        summed(lambda x, w: depthwise_first(x, w) ** 2, 1),
        lambda b, n, c: several(normal(b, c, n, n), normal(c, 1, 3, 3)),
        ((4, 28, 64),),
    ),
    Family("cross entropy", cross_entropy, lambda n, m: several(normal(n, m), indices(n, m)), MATRICES),
    Family(
        "gradient of cross entropy",
        summed(cross_entropy),
        lambda n, m: several(normal(n, m), indices(n, m)),
        MATRICES,
    ),
    Family("one hot", lambda i: jax.nn.one_hot(i, 1000), lambda n: indices(n, 1000), ((64,), (2000,))),
    Family(
        "embedding",
        lambda t, i: t[i],
        lambda n, v, d: several(normal(v, d), indices(n, v)),
        ((512, 30000, 256),),
    ),
    Family(
        "gradient of embedding",
        summed(lambda t, i: t[i] ** 2),
        lambda n, v, d: several(normal(v, d), indices(n, v)),
        ((512, 5000, 64), (4096, 5000, 256)),
    ),
    Family("causal attention", causal_attention, heads, ((128, 64), (512, 64))),
    Family("gradient of causal attention", summed(causal_attention), heads, ((128, 64), (512, 64))),
    Family("shared attention", shared_attention, shared_heads, ((128, 64), (512, 64))),
    Family("gradient of shared attention", summed(shared_attention, 1), shared_heads, ((128, 64), (512, 64))),
    Family("attention of one query", attention_of_one_query, one_query, ((1024, 8, 1), (4096, 4, 4), (65536, 4, 4))),
    Family(
        "gradient of bias of attention",
        summed(biased_attention, 3),
        lambda n, d: several(heads(n, d), normal(8, n, n)),
        ((128, 64), (512, 64)),
    ),
    Family(
        "gru",
        gru,
        lambda n, b, d: small((n, b, d), (d, 3 * d), (d, 3 * d), (b, d)),
        ((50, 8, 64), (20, 32, 256)),
    ),
    Family("linear recurrence", linear_recurrence, two, ((256, 16), (1000, 64), (4096,))),
    Family("running products", jnp.cumprod, normal, ((1 << 10,), (1 << 17,))),
    Family("running sums of columns", lambda x: jnp.cumsum(x, 0), normal, MATRICES),
    Family("running log of summed exp", lambda x: jax.lax.cumlogsumexp(x, 1), normal, ((64, 100), (512, 512))),
    Family("mixer", mixer, mixer_arguments, ((1, 64, 128), (4, 196, 256))),
    Family("quantized", quantized, normal, MATRICES),
    Family("rotary", rotary, lambda n, m: several(normal(n, m), normal(n, m // 2)), ((64, 128), (4096, 128))),
    Family("adam", adam, lambda n: several(*[normal(n)] * 4), VECTORS),
)
"""Rows of the benchmark by family and size."""
