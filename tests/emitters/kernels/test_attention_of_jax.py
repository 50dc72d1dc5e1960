"""Attention as JAX writes it, compiled with no scores in memory, against jaxlib."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjit
from xjit.passes import pipelines
from xjit.passes.fusion.attention_fusion import AttentionFusion

jax = pytest.importorskip("jax")
jnp = jax.numpy

L, H, D = 160, 2, 16


def arrays(count: int, *sizes: int, kind: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=sizes or (1, L, H, D)).astype(kind) for _ in range(count)]


def by_hand(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bthd,bshd->bhts", q / 4, k)
    mask = jnp.tril(jnp.ones((L, L), bool))
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1), v).reshape(1, L, -1)


def plain(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v)


def causal(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, bias)


def gradient_of(function: Callable[..., Any], with_result: bool) -> Callable[..., Any]:
    def gradient(q: Any, k: Any, v: Any, g: Any) -> Any:
        result, pull_back = jax.vjp(function, q, k, v)
        return (result, *pull_back(g)) if with_result else pull_back(g)

    return gradient


def heads_first(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 4
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)


@pytest.mark.parametrize(
    ("function", "inputs", "tolerance", "kernels"),
    [
        (gradient_of(heads_first, False), arrays(4, 1, H, L, D), 1e-5, 1),
        (gradient_of(causal, True), arrays(4), 1e-5, 2),
        (gradient_of(causal, True), arrays(4, kind=jnp.bfloat16), 3e-2, 2),
    ],
    ids=["by-hand", "causal", "bf16"],
)
def test_gradient(
    function: Callable[..., Any],
    inputs: list[np.ndarray],
    tolerance: float,
    kernels: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One kernel; with the result, one that makes the scores again, and the forward one."""
    always = functools.partial(AttentionFusion, gradient_bytes=0, joint_batches=1)
    monkeypatch.setattr(pipelines, "AttentionFusion", always)
    executable = xjit.compile(xjit.from_jax(function, *inputs))
    assert [kernel.kind for kernel in executable.kernels].count("attention") == kernels
    assert executable.memory_analysis().temp_size_in_bytes < L * L * 4
    for got, want in zip(executable(*inputs), jax.jit(function)(*inputs), strict=True):
        got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("function", "inputs", "tolerance"),
    [
        (plain, arrays(3), 1e-5),
        (causal, arrays(3), 1e-5),
        (by_hand, arrays(3), 1e-5),
        (biased, [*arrays(3), *arrays(1, 1, H, L, L)], 1e-5),
        (causal, [*arrays(1, 1, L, 2 * H, D), *arrays(2)], 1e-5),
        (causal, arrays(3, kind=jnp.bfloat16), 2e-2),
    ],
    ids=["plain", "causal", "by-hand", "bias", "shared-keys", "bf16"],
)
def test_forward(function: Callable[..., Any], inputs: list[np.ndarray], tolerance: float) -> None:
    executable = xjit.compile(xjit.from_jax(function, *inputs))
    assert "attention" in [kernel.kind for kernel in executable.kernels]
    assert executable.memory_analysis().temp_size_in_bytes < L * L * 4
    got, want = (np.asarray(r, np.float32) for r in (executable(*inputs), jax.jit(function)(*inputs)))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
