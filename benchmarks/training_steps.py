"""Small programs of JAX with what models of the corpus lack: loops, branches, recurrences, solvers, random numbers.

Each is a function and its arguments, mostly a gradient step. They are for counting what passes do, not for timing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Step = tuple[Callable[..., Any], tuple[Any, ...]]


def _zeros(*dims: int) -> Any:
    return np.zeros(dims, np.float32)


def _adam(parameters: Any, state: Any, gradients: Any) -> tuple[Any, Any]:
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state[0], gradients)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state[1], gradients)
    new = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), parameters, first, second)
    return new, (first, second)


def mlp_with_dropout(weights: Any, state: Any, x: Any, y: Any, key: Any) -> Any:
    """Two layers, dropout, cross entropy, Adam."""

    def loss(w: Any) -> Any:
        h = jax.nn.gelu(x @ w[0])
        h = jnp.where(jax.random.bernoulli(key, 0.9, h.shape), h / 0.9, 0.0)
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(h @ w[1]) * y, -1))

    value, gradients = jax.value_and_grad(loss)(weights)
    return value, _adam(weights, state, gradients)


def scanned_transformer(layers: Any, x: Any) -> Any:
    """Layers with stacked weights in a scan, made again for the gradient (checkpoint)."""

    @jax.checkpoint
    def layer(h: Any, w: Any) -> tuple[Any, None]:
        q, k, v = jnp.split((h - h.mean(-1, keepdims=True)) @ w["qkv"], 3, -1)
        h = h + jax.nn.softmax(q @ k.T) @ v
        return h + jax.nn.silu(h @ w["up"]) @ w["down"], None

    return jax.value_and_grad(lambda w: jnp.sum(lax.scan(layer, x, w)[0] ** 2))(layers)


def recurrence(w: Any, xs: Any) -> Any:
    """A gated recurrence over time, and its gradient."""

    def loss(w: Any) -> Any:
        def step(h: Any, x: Any) -> tuple[Any, Any]:
            gate, new = jnp.split(jnp.concatenate([h, x]) @ w, 2)
            h = jax.nn.sigmoid(gate) * h + jnp.tanh(new)
            return h, h

        return jnp.mean(lax.scan(step, jnp.zeros(xs.shape[1]), xs)[1] ** 2)

    return jax.grad(loss)(w)


def convolution_with_batch_norm(kernel: Any, scale: Any, x: Any) -> Any:
    """A convolution, batch normalization, pooling, and their gradient."""

    def loss(kernel: Any, scale: Any) -> Any:
        y = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = scale * (y - y.mean((0, 1, 2))) * lax.rsqrt(y.var((0, 1, 2)) + 1e-5)
        y = lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.sum(y * y)

    return jax.grad(loss, (0, 1))(kernel, scale)


def conjugate_gradient(a: Any, b: Any) -> Any:
    """A loop until convergence, over constants of its own."""
    tolerance, scale = jnp.float32(1e-6), jnp.full(b.shape, 2.0)

    def step(state: Any) -> Any:
        x, r, p, square, n = state
        ap = scale * (a @ p)
        alpha = square / (p @ ap)
        rest = r - alpha * ap
        new = rest @ rest
        return x + alpha * p, rest, rest + new / square * p, new, n + 1

    def go_on(state: Any) -> Any:
        return (state[3] > tolerance) & (state[4] < 50)

    return lax.while_loop(go_on, step, (jnp.zeros_like(b), b, b, b @ b, 0))


def branches(x: Any, mode: Any) -> Any:
    """Conditionals: one known when traced, one on a value, a switch; and their gradient."""

    def loss(x: Any) -> Any:
        y = lax.cond(jnp.array(True), jnp.sin, jnp.cos, x)
        y = lax.cond(jnp.sum(y) > 0, lambda v: v * 2, lambda v: v / 2, y)
        return jnp.sum(lax.switch(mode, [jnp.tanh, jnp.exp, lambda v: jnp.sort(v) * v], y))

    return jax.grad(loss)(x)


def gaussian_process(x: Any, y: Any, length: Any) -> Any:
    """A likelihood by Cholesky factors and triangular solves, and its gradient."""

    def loss(length: Any) -> Any:
        kernel = jnp.exp(-((x[:, None] - x[None]) ** 2) / length) + 0.1 * jnp.eye(len(x))
        factor = jnp.linalg.cholesky(kernel)
        z = lax.linalg.triangular_solve(factor, y[:, None], left_side=True, lower=True)
        return jnp.sum(z * z) + jnp.sum(jnp.log(jnp.diag(factor)))

    return jax.grad(loss)(length)


def spectral_filter(x: Any, w: Any) -> Any:
    """FFTs, top values and a gather, and their gradient."""

    def loss(w: Any) -> Any:
        y = jnp.fft.irfft(jnp.fft.rfft(x) * w, x.shape[-1])
        values, places = lax.top_k(y, 4)
        return jnp.sum(values * jnp.take_along_axis(x, places, -1)) + jnp.sum(jnp.cumsum(y))

    return jax.grad(loss)(w)


def embedding_bag(table: Any, ids: Any, segments: Any) -> Any:
    """Gathers, segment sums and the scatter of their gradient, in bfloat16."""

    def loss(table: Any) -> Any:
        rows = table.astype(jnp.bfloat16)[ids]
        return jnp.sum(jax.ops.segment_sum(rows, segments, 8).astype(jnp.float32) ** 2)

    return table - 0.1 * jax.grad(loss)(table)


def random_walk(key: Any, x: Any) -> Any:
    """A loop of known length that draws numbers and updates a history in place."""

    def step(i: Any, state: Any) -> Any:
        key, x, history = state
        key, used = jax.random.split(key)
        x = x + jax.random.normal(used, x.shape)
        return key, x, lax.dynamic_update_index_in_dim(history, x, i, 0)

    return lax.fori_loop(0, 16, step, (key, x, jnp.zeros((16, *x.shape))))[1:]


def unrolled_newton(x: Any) -> Any:
    """A short loop over constants, small enough to be unrolled, vectorized over a batch."""
    return jax.vmap(lambda v: lax.fori_loop(0, 3, lambda _, r: 0.5 * (r + v / r), v))(x)


def _steps() -> dict[str, Step]:
    key = np.zeros(2, np.uint32)
    weights = (_zeros(32, 64), _zeros(64, 8))
    layers = {"qkv": _zeros(4, 32, 96), "up": _zeros(4, 32, 64), "down": _zeros(4, 64, 32)}
    ids = np.zeros(64, np.int32)
    return {
        "mlp_with_dropout": (mlp_with_dropout, (weights, (weights, weights), _zeros(16, 32), _zeros(16, 8), key)),
        "scanned_transformer": (scanned_transformer, (layers, _zeros(16, 32))),
        "recurrence": (recurrence, (_zeros(32, 32), _zeros(10, 16))),
        "convolution_with_batch_norm": (
            convolution_with_batch_norm,
            (_zeros(3, 3, 4, 8), _zeros(8), _zeros(2, 16, 16, 4)),
        ),
        "conjugate_gradient": (conjugate_gradient, (_zeros(32, 32), _zeros(32))),
        "branches": (branches, (_zeros(64), np.int32(1))),
        "gaussian_process": (gaussian_process, (_zeros(24), _zeros(24), np.float32(1))),
        "spectral_filter": (spectral_filter, (_zeros(8, 64), np.zeros((8, 33), np.complex64))),
        "embedding_bag": (embedding_bag, (_zeros(100, 16), ids, ids)),
        "random_walk": (random_walk, (key, _zeros(32))),
        "unrolled_newton": (unrolled_newton, (_zeros(128),)),
    }


def training_steps() -> dict[str, Callable[[], str]]:
    """Returns what makes each program's HLO text, by name."""
    from xjit import from_jax

    return {name: partial(lambda f, a: str(from_jax(f, *a)), f, a) for name, (f, a) in _steps().items()}
