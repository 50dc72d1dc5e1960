"""Small programs as people write them, with gradients, against XLA:CPU: the exported module and the one XLA optimized."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xjit
from xjit.tools.leaf_comparison import compare_leaf, leaves_of

jax = pytest.importorskip("jax")
jnp = jax.numpy
lax = jax.lax

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def _normal(rng: np.random.Generator, *dims: int) -> Any:
    return rng.standard_normal(dims, dtype=np.float32) / np.float32(np.sqrt(dims[0]))


def attention(rng: np.random.Generator) -> Program:
    """Causal attention with rotated halves, and its gradient."""

    def loss(w: Any, x: Any) -> Any:
        q, k, v = jnp.split(x @ w, 3, -1)
        angle = jnp.arange(12.0)[:, None] * 0.3 ** jnp.arange(4)
        a, b = jnp.split(q, 2, -1)
        q = jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1)
        scores = jnp.where(jnp.tril(jnp.ones((12, 12), bool)), q @ k.swapaxes(-1, -2), -1e9)
        return ((jax.nn.softmax(scores, -1) @ v) ** 2).mean()

    return jax.value_and_grad(loss), (_normal(rng, 8, 24), _normal(rng, 2, 12, 8))


def routing(rng: np.random.Generator) -> Program:
    """A mixture of experts: top_k, sort, scatter into slots, gather back; and its gradient."""

    def loss(weights: Any, x: Any) -> Any:
        router, expert = weights
        gates, chosen = lax.top_k(jax.nn.softmax(x @ router, -1), 2)
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat, stable=True)
        rank = jnp.arange(32) - jnp.searchsorted(flat[order], jnp.arange(4))[flat[order]]
        slot = jnp.where(rank < 6, flat[order] * 6 + rank, 24)
        slots = jnp.zeros((25, 8)).at[slot].set(x[order // 2])[:-1].reshape(4, 6, 8)
        y = jnp.einsum("ecd,edf->ecf", slots, expert).reshape(24, 8)
        y = jnp.concatenate([y, jnp.zeros((1, 8))])[slot] * gates.reshape(-1)[order][:, None]
        return (jnp.zeros_like(x).at[order // 2].add(y) ** 2).mean()

    return jax.value_and_grad(loss), ((_normal(rng, 8, 4), _normal(rng, 4, 8, 8)), _normal(rng, 16, 8))


def convolutions(rng: np.random.Generator) -> Program:
    """Depthwise, strided, dilated and transposed convolutions, pooling, resizing; and their gradient."""
    numbers = ("NHWC", "HWIO", "NHWC")

    def loss(w: Any, x: Any) -> Any:
        h = lax.conv_general_dilated(x, w[0], (2, 2), "SAME", dimension_numbers=numbers, feature_group_count=4)
        h = lax.conv_general_dilated(
            jax.nn.silu(h), w[1], (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=numbers
        )
        p = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        up = lax.conv_transpose(p, w[2], (2, 2), "SAME", dimension_numbers=numbers)
        return ((jax.image.resize(up, h.shape, "bilinear") - h) ** 2).mean()

    weights = (_normal(rng, 3, 3, 1, 8), _normal(rng, 3, 3, 8, 8), _normal(rng, 2, 2, 8, 8))
    return jax.value_and_grad(loss), (weights, _normal(rng, 2, 12, 12, 4))


def recurrence(rng: np.random.Generator) -> Program:
    """A gated recurrence as a scan, one as an associative scan, a cumulative log-sum-exp; and their gradient."""

    def loss(w: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            gate = jax.nn.sigmoid(row @ w)
            h = gate * h + (1 - gate) * jnp.tanh(row)
            return h, h

        _, hidden = lax.scan(step, jnp.zeros((8,)), x)
        decay = jax.nn.sigmoid(hidden)
        _, state = lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (decay, x), axis=0)
        return (state**2).mean() + lax.cumlogsumexp(hidden, axis=1).mean()

    return jax.value_and_grad(loss), (_normal(rng, 8, 8), _normal(rng, 10, 8))


def message_passing(rng: np.random.Generator) -> Program:
    """Gather, segment sum and maximum over the edges of a graph; and its gradient."""
    edges = rng.integers(0, 10, (2, 40), dtype=np.int32)

    def loss(w: Any, x: Any, source: Any, target: Any) -> Any:
        messages = jax.nn.relu(x[source] @ w)
        total = jax.ops.segment_sum(messages, target, 10)
        largest = jax.ops.segment_max(messages, target, 10)
        return ((total + jnp.where(jnp.isfinite(largest), largest, 0)) ** 2).mean()

    return jax.value_and_grad(loss), (_normal(rng, 6, 6), _normal(rng, 10, 6), edges[0], edges[1])


def factored_update(rng: np.random.Generator) -> Program:
    """An optimizer with factored second moments, scaled by the RMS of everything."""

    def update(p: Any, g: Any) -> Any:
        squares = g * g + 1e-30
        rows, columns = squares.mean(-1), squares.mean(-2)
        u = g * lax.rsqrt(rows / rows.mean())[:, None] * lax.rsqrt(columns)[None]
        u = u / jnp.maximum(1.0, jnp.sqrt((u * u).mean()))
        return p - 0.01 * u * jnp.maximum(1e-3, jnp.sqrt((p * p).mean()))

    return update, (_normal(rng, 64, 32), _normal(rng, 64, 32))


PROGRAMS = (attention, routing, convolutions, recurrence, message_passing, factored_update)


@pytest.fixture(autouse=True)
def _default_types() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with jax.enable_x64(False):
        yield


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_agrees_with_xla(make: Callable[[np.random.Generator], Program]) -> None:
    function, arguments = make(np.random.default_rng(0))
    arrays, tree = jax.tree.flatten(arguments)
    flat = jax.jit(lambda *xs: jax.tree.leaves(function(*jax.tree.unflatten(tree, xs))), keep_unused=True)  # pyright: ignore
    lowered = flat.lower(*arrays)
    compiled = lowered.compile()
    expected = [np.asarray(leaf) for leaf in compiled(*arrays)]
    exported = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    for text in (exported, compiled.as_text()):
        if "constant({...})" in text:
            continue  # XLA prints no large constants here
        found = leaves_of(xjit.compile(text)(*arrays))
        assert len(found) == len(expected)
        assert all(compare_leaf(a, b).ok for a, b in zip(found, expected, strict=True))
