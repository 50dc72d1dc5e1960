"""Training steps of several layers with attention: gradients asked for together with the loss, in loops and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xjit
from xjit.runtime import thread_pool

jax = pytest.importorskip("jax")
jnp = jax.numpy

LAYERS, B, L, H, D = 2, 1, 384, 8, 4
WIDTH = H * D
SCORES_BYTES = 4 * B * H * L * L
Block = Callable[[Any, Any], Any]


def block(x: Any, weights: Any, attend: Callable[..., Any] = jax.nn.dot_product_attention, **options: Any) -> Any:
    """A residual block: x + attention(norm(x)) wo; the four weights of a layer are one array."""
    y = x - x.mean(-1, keepdims=True)
    y *= jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
    q, k, v = ((y @ w).reshape(B, L, -1, D) for w in weights[:3])
    attended = attend(q, k, v, **options)
    return x + jnp.tanh(attended.reshape(x.shape) @ weights[3])


def causal(x: Any, weights: Any) -> Any:
    return block(x, weights, is_causal=True)


def shared(x: Any, weights: Any) -> Any:
    """All heads have the keys and values of the first."""
    return block(x, [weights[0], weights[1, :, :D], weights[2, :, :D], weights[3]])


def windowed(x: Any, weights: Any) -> Any:
    return block(x, weights, is_causal=True, local_window_size=(100, 0))


def masked(x: Any, weights: Any) -> Any:
    """By what there is at each key, with a bias of distances."""
    places = jnp.arange(L)
    bias = -0.01 * jnp.abs(places[:, None] - places[None, :]).astype(x.dtype)
    return block(x, weights, mask=(x[..., 0] > -1.5)[:, None, None, :], bias=bias[None, None])


def powers_of_two(x: Any, weights: Any) -> Any:
    def attend(q: Any, k: Any, v: Any) -> Any:
        logits = jnp.einsum("bthd,bshd->bhts", q, k)
        powers = jnp.exp2(logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True)))
        return jnp.einsum("bhts,bshd->bthd", powers / powers.sum(-1, keepdims=True), v)

    return block(x, weights, attend)


def in_a_row(layer: Block, x: Any, weights: Any) -> Any:
    for n in range(LAYERS):
        x = layer(x, weights[n])
    return x


def in_a_loop(layer: Block, x: Any, weights: Any) -> Any:
    return jax.lax.scan(lambda x, w: (layer(x, w), None), x, weights)[0]


def remade(layer: Block, x: Any, weights: Any) -> Any:
    return jax.lax.scan(jax.checkpoint(lambda x, w: (layer(x, w), None)), x, weights)[0]


def over_examples(layer: Block, x: Any, weights: Any) -> Any:
    return jax.vmap(lambda x: in_a_row(layer, x[None], weights)[0])(x)


@pytest.fixture
def restored_threads() -> Iterator[None]:
    before = thread_pool.num_threads()
    yield
    thread_pool.set_num_threads(before)


@pytest.mark.parametrize(
    ("layer", "stack", "kernels"),
    [
        pytest.param(causal, in_a_row, 2 * LAYERS, marks=pytest.mark.slow),
        (causal, in_a_loop, 2),
        (shared, in_a_loop, 2),
        (powers_of_two, in_a_loop, 2),
        pytest.param(windowed, in_a_loop, 2, marks=pytest.mark.slow),
        pytest.param(masked, in_a_loop, 2, marks=pytest.mark.slow),
        pytest.param(masked, in_a_row, 2 * LAYERS, marks=pytest.mark.slow),
        pytest.param(causal, remade, 3, marks=pytest.mark.slow),
        pytest.param(causal, over_examples, 2 * LAYERS, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.usefixtures("restored_threads")
def test_training_steps(layer: Block, stack: Callable[..., Any], kernels: int) -> None:
    """Scores of no layer are in memory, and the values are as exact as those of jaxlib, against f64."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(B, L, WIDTH)).astype(np.float32)
    weights = (0.3 * rng.normal(size=(LAYERS, 4, WIDTH, WIDTH))).astype(np.float32)

    def step(x: Any, weights: Any) -> Any:
        return jax.value_and_grad(lambda w: (stack(layer, x, w) ** 2).sum())(weights)

    executable = xjit.compile(xjit.from_jax(step, x, weights))
    assert [kernel.kind for kernel in executable.kernels].count("attention") == kernels
    assert executable.memory_analysis().temp_size_in_bytes < 1.25 * SCORES_BYTES, "unfused it is twice that, a layer"
    got = executable(x, weights)
    for threads in (1, 2):
        thread_pool.set_num_threads(threads)
        for a, b in zip(executable(x, weights), got, strict=True):
            np.testing.assert_array_equal(a, b)
    with jax.enable_x64(True):
        exact = jax.jit(step)(x.astype(np.float64), weights.astype(np.float64))
    for ours, theirs, true in zip(got, jax.jit(step)(x, weights), exact, strict=True):
        errors = [np.sqrt(np.mean((np.asarray(value) - np.asarray(true)) ** 2)) for value in (ours, theirs)]
        assert errors[0] <= 1.5 * errors[1] + 1e-6 * np.abs(true).max()
