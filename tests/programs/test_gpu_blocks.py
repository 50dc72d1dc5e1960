"""Blocks of models, cut small, from JAX to simulated GPU kernels: every access checked, threads in either order.

Slow: `python -m pytest -m slow tests/programs/test_gpu_blocks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.gpu_simulation import check_simulated
from tests.support.kernels import leaves_of

jax = pytest.importorskip("jax")
jnp: Any = jax.numpy

pytestmark = pytest.mark.slow


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(0.3)


def normalised(x: Any, scale: Any, offset: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + offset


def attention_block(x: Any, qkv: Any, out: Any, up: Any, down: Any, scale: Any, offset: Any) -> Any:
    """A transformer's layer: causal attention of 4 heads, then a gated unit, both around normalised inputs."""
    batch, length, width = x.shape
    q, k, v = jnp.split(normalised(x, scale, offset) @ qkv, 3, axis=-1)
    heads = [t.reshape(batch, length, 4, width // 4).transpose(0, 2, 1, 3) for t in (q, k, v)]
    scores = jnp.einsum("bhqd,bhkd->bhqk", heads[0], heads[1]) / (width // 4) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), heads[2])
    x = x + mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ out
    return x + jax.nn.gelu(normalised(x, scale, offset) @ up) @ down


def resnet_block(x: Any, first: Any, second: Any, skip: Any, scale: Any, offset: Any) -> Any:
    """Two convolutions of 3 x 3 with batch normalisation of the batch's own statistics, and a strided shortcut."""

    def convolve(y: Any, kernel: Any, stride: int) -> Any:
        return jax.lax.conv_general_dilated(
            y, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def batch_normalised(y: Any) -> Any:
        centred = y - y.mean((0, 1, 2))
        return centred * jax.lax.rsqrt((centred**2).mean((0, 1, 2)) + 1e-5) * scale + offset

    y = jax.nn.relu(batch_normalised(convolve(x, first, 2)))
    return jax.nn.relu(batch_normalised(convolve(y, second, 1)) + convolve(x, skip, 2))


def training_step(first: Any, second: Any, momentum: Any, x: Any, labels: Any) -> Any:
    """Cross entropy of two layers with dropped units, its gradient, and a step with momentum."""

    def loss(weights: tuple[Any, Any]) -> Any:
        kept = jax.random.bernoulli(jax.random.PRNGKey(3), 0.8, (x.shape[0], first.shape[1]))
        hidden = jnp.where(kept, jnp.tanh(x @ weights[0]), 0.0)
        scores = jax.nn.log_softmax(hidden @ weights[1])
        return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()

    value, gradient = jax.value_and_grad(loss)((first, second))
    speed = [0.9 * m + g for m, g in zip(momentum, gradient)]
    return value, first - 0.1 * speed[0], second - 0.1 * speed[1], speed


BLOCKS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "attention": (
        attention_block,
        [numbers(2, 20, 32), numbers(32, 96, seed=1), numbers(32, 32, seed=2), numbers(32, 64, seed=3),
         numbers(64, 32, seed=4), 1 + numbers(32, seed=5), numbers(32, seed=6)],
    ),
    "resnet": (
        resnet_block,
        [numbers(2, 10, 10, 8), numbers(3, 3, 8, 16, seed=1), numbers(3, 3, 16, 16, seed=2), numbers(1, 1, 8, 16, seed=3),
         1 + numbers(16, seed=4), numbers(16, seed=5)],
    ),
    "training": (
        training_step,
        [numbers(24, 40), numbers(40, 10, seed=1), (numbers(24, 40, seed=2), numbers(40, 10, seed=3)),
         numbers(16, 24, seed=4), np.arange(16, dtype=np.int32) % 10],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_block(name: str) -> None:
    """Sanitized, in both orders, it agrees with the evaluator, and so does XLA:CPU."""
    function, arguments = BLOCKS[name]
    text = jax.jit(function).lower(*arguments).compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    given = jax.tree.leaves(arguments)
    executable = check_simulated(text, *given, rtol=2e-3, atol=2e-4)
    assert len(executable.kernels) > 3
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]
    for actual, wanted in zip(leaves_of(xjit.compile(text, "cuda-sim")(*given)), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=2e-3, atol=2e-4)
