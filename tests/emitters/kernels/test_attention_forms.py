"""Attention whose weights are not just a softmax: dropped, masked, with further columns, kept sums; against jaxlib."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xjit
from xjit.passes import pipelines
from xjit.passes.fusion.attention_fusion import AttentionFusion

jax = pytest.importorskip("jax")
jnp = jax.numpy

L, H, D = 160, 2, 16
KEY = np.array([1, 2], np.uint32)


def arrays(count: int, kind: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(2, H, L, D)).astype(kind) for _ in range(count)]


def scores(q: Any, k: Any) -> Any:
    return q @ k.swapaxes(-1, -2) / 4


def causal() -> Any:
    return jnp.tril(jnp.ones((L, L), bool))


def dropout(q: Any, k: Any, v: Any, key: Any) -> Any:
    weights = jax.nn.softmax(scores(q, k))
    keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 0.8, weights.shape)
    return jnp.where(keep, weights / 0.8, 0) @ v


def dropout_of_all_heads(q: Any, k: Any, v: Any, key: Any) -> Any:
    keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 0.8, (1, 1, L, L))
    return (jax.nn.softmax(scores(q, k)) * (keep.astype(q.dtype) / 0.8)) @ v


def where(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    """The second batch has no keys: its weights are 0."""
    return jax.nn.softmax(scores(q, k), where=jnp.arange(L) < lengths[:, None, None, None]) @ v


def sink(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    further = jnp.broadcast_to(sinks[:, None, None], (2, H, L, 1)).astype(q.dtype)
    logits = jnp.concatenate([jnp.where(causal(), scores(q, k), -jnp.inf), further], -1)
    return jax.nn.softmax(logits)[..., :-1] @ v


def sink_beside_nothing(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    """Rows whose scores are all -inf have weights of 0, as the sink has all."""
    masked = jnp.where(jnp.arange(L)[:, None] > 3, scores(q, k), -jnp.inf)
    further = jnp.broadcast_to(sinks[:, None, None], (2, H, L, 1))
    return jax.nn.softmax(jnp.concatenate([further, masked], -1))[..., 1:] @ v


def off_by_one(q: Any, k: Any, v: Any) -> Any:
    logits = scores(q, k)
    most = jax.lax.stop_gradient(jnp.maximum(logits.max(-1, keepdims=True), 0))
    exponentials = jnp.exp(logits - most)
    return exponentials / (exponentials.sum(-1, keepdims=True) + jnp.exp(-most)) @ v


def no_maximum(q: Any, k: Any, v: Any) -> Any:
    exponentials = jnp.exp(scores(q, k))
    return exponentials / exponentials.sum(-1, keepdims=True) @ v


def masked_after(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    """Rows behind the length are zeros."""
    return (jax.nn.softmax(scores(q, k)) * (jnp.arange(L) < lengths[:, None])[:, None, :, None]) @ v


def with_sums(q: Any, k: Any, v: Any) -> Any:
    logits = scores(q, k)
    return jax.nn.softmax(logits) @ v, jax.nn.logsumexp(logits, -1)


def by_sums(q: Any, k: Any, v: Any) -> Any:
    logits = scores(q, k)
    return jnp.exp(logits - jax.nn.logsumexp(logits, -1, keepdims=True)) @ v


def more_than_the_sum(q: Any, k: Any, v: Any) -> Any:
    """Rows whose scores are all -inf are NaN."""
    logits = jnp.where(jnp.arange(L)[:, None] > 3, scores(q, k), -jnp.inf)
    exponentials = jnp.exp(logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True)))
    return exponentials / (exponentials.sum(-1, keepdims=True) + 1e-3) @ v


def gated(q: Any, k: Any, v: Any) -> Any:
    """What is computed from the product is a loop of its own."""
    return jax.nn.softmax(scores(q, k)) @ v * jax.nn.sigmoid(q) + v


def powers_of_two(q: Any, k: Any, v: Any) -> Any:
    """With the logarithm of the sums, which reads maxima, too."""
    logits = scores(q, k) * np.float32(np.log2(np.e))
    top = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
    exponentials = jnp.exp2(logits - top)
    total = exponentials.sum(-1, keepdims=True)
    return exponentials @ v / total, (jnp.log2(total) + top)[..., 0]


def temperature(q: Any, k: Any, v: Any) -> Any:
    logits = scores(q, k)
    exponentials = jnp.exp(-(jax.lax.stop_gradient(logits.max(-1, keepdims=True)) - logits) / 1.5)
    return exponentials / exponentials.sum(-1, keepdims=True) @ v


def renormalized(q: Any, k: Any, v: Any) -> Any:
    weights = jax.nn.softmax(scores(q, k)) * causal()
    return weights / weights.sum(-1, keepdims=True) @ v


def renormalized_keys(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    """Keys of a batch behind its length weigh nothing, as programs have it that divide by no 0."""
    keep = (jnp.arange(L) < lengths[:, None])[:, None, None]
    weights = jnp.where(keep, jax.nn.softmax(scores(q, k)), 0)
    return weights * (1 / (weights.sum(-1, keepdims=True) + 1e-9)) @ v


def renormalized_columns(q: Any, k: Any, v: Any) -> Any:
    """Rows are along the second last dimension of the weights; their sums are results, too."""
    weights = jax.nn.softmax(k @ q.swapaxes(-1, -2), axis=-2) * causal().T
    total = weights.sum(-2, keepdims=True)
    return jnp.einsum("bhst,bhsd->bhtd", weights / total, v), total


def renormalized_nothing(q: Any, k: Any, v: Any) -> Any:
    """The sums are those of the softmax by themselves."""
    weights = jax.nn.softmax(scores(q, k))
    return weights / (weights.sum(-1, keepdims=True) + 1e-3) @ v


def several_values(q: Any, k: Any, v: Any) -> Any:
    """Keys, too, as values of two dimensions; and the product turned."""
    weights = jax.nn.softmax(scores(q, k))
    pairs = k.reshape(2, H, L, D // 2, 2)
    return weights @ v, jnp.einsum("bhts,bhsxy->btxhy", weights, pairs), jnp.einsum("bhsd,bhts->bhdt", q, weights)


LENGTHS = np.array([L // 2, 0], np.int32)
SINKS = np.array([0.5, -1.0], np.float32)
FORMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "dropout": (dropout, [KEY]),
    "dropout-of-all-heads": (dropout_of_all_heads, [KEY]),
    "where": (where, [LENGTHS]),
    "sink": (sink, [SINKS]),
    "sink-beside-nothing": (sink_beside_nothing, [SINKS]),
    "off-by-one": (off_by_one, []),
    "no-maximum": (no_maximum, []),
    "masked-after": (masked_after, [LENGTHS]),
    "with-sums": (with_sums, []),
    "by-sums": (by_sums, []),
    "more-than-the-sum": (more_than_the_sum, []),
    "gated": (gated, []),
    "powers-of-two": (powers_of_two, []),
    "temperature": (temperature, []),
    "several-values": (several_values, []),
    "renormalized": (renormalized, []),
    "renormalized-keys": (renormalized_keys, [LENGTHS]),
    "renormalized-columns": (renormalized_columns, []),
    "renormalized-nothing": (renormalized_nothing, []),
}


def compare(function: Callable[..., Any], inputs: list[np.ndarray], kernels: int, tolerance: float) -> None:
    executable = xjit.compile(xjit.from_jax(function, *inputs))
    assert [kernel.kind for kernel in executable.kernels].count("attention") == kernels
    assert executable.memory_analysis().temp_size_in_bytes < 2 * H * L * L * 4
    results, expected = (jax.tree.leaves(r) for r in (executable(*inputs), jax.jit(function)(*inputs)))
    for got, want in zip(results, expected, strict=True):
        got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def _narrow_numbers() -> Iterator[None]:
    """With x64, masks of dropout are made of f64, which the kernel does not compute."""
    with jax.enable_x64(False):
        yield


@pytest.mark.parametrize("form", FORMS)
def test_forward(form: str) -> None:
    function, more = FORMS[form]
    compare(function, [*arrays(3), *more], 1, 1e-5)


@pytest.mark.parametrize(
    ("form", "tolerance"), [("sink", 2e-2), ("dropout", 2e-2), ("where", 2e-2), ("renormalized", 2e-2)]
)
def test_bf16(form: str, tolerance: float) -> None:
    function, more = FORMS[form]
    compare(function, [*arrays(3, jnp.bfloat16), *more], 1, tolerance)


@pytest.mark.parametrize(
    "form", ["dropout", "where", "sink", "off-by-one", "with-sums", "masked-after", "powers-of-two", "temperature"]
)
def test_gradient(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the result: a kernel for it, and one that makes the scores again for the gradients."""
    function, more = FORMS[form]

    def gradient(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        result, pull_back = jax.vjp(lambda *x: function(*x, *rest), q, k, v)
        return result, pull_back(jax.tree.map(jnp.cos, result))

    monkeypatch.setattr(
        pipelines, "AttentionFusion", functools.partial(AttentionFusion, gradient_bytes=0, joint_batches=1)
    )
    compare(gradient, [*arrays(3), *more], 2, 1e-5)


def soft_cap(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(5 * jnp.tanh(scores(q, k) / 5)) @ v


def plain(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(scores(q, k)) @ v


def causal_window(q: Any, k: Any, v: Any) -> Any:
    rows, columns = jnp.arange(L)[:, None], jnp.arange(L)
    return jax.nn.softmax(jnp.where((rows >= columns) & (rows - columns < 8), scores(q, k), -1e9)) @ v


@pytest.mark.parametrize("function", [plain, soft_cap, causal_window])
def test_scores_of_bf16_are_not_rounded(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, and gradients beside them, are rounded once: the steps to scores and weights in between are in f32."""
    monkeypatch.setattr(
        pipelines, "AttentionFusion", functools.partial(AttentionFusion, gradient_bytes=0, joint_batches=1)
    )
    inputs = arrays(4, jnp.bfloat16)

    def gradient(q: Any, k: Any, v: Any, cotangent: Any) -> Any:
        result, pull_back = jax.vjp(function, q, k, v)
        return result, pull_back(cotangent)

    with jax.enable_x64(True):
        exact = jax.jit(gradient)(*(np.asarray(a, np.float64) for a in inputs))
    alone = xjit.compile(xjit.from_jax(function, *inputs[:3]))
    both = xjit.compile(xjit.from_jax(gradient, *inputs))
    got = [alone(*inputs[:3]), *jax.tree.leaves(both(*inputs))]
    for result, wanted in zip(got, [exact[0], *jax.tree.leaves(exact)], strict=True):
        wanted = np.asarray(wanted)
        error = np.abs(np.asarray(result, np.float64) - wanted).max() / np.abs(wanted).max()
        assert error <= 2.0**-8


def test_rows_masked_by_a_number_are_even_in_bf16() -> None:
    """Of sums with -1e4 the scores do not show in bf16, nor in XLA's results."""
    inputs = [*arrays(3, jnp.bfloat16), np.full((L, 1), -1e4, jnp.bfloat16)]
    inputs[3][L // 2 :] = 0

    def masked(q: Any, k: Any, v: Any, added: Any) -> Any:
        return jax.nn.softmax(scores(q, k) + added) @ v

    compare(masked, inputs, 1, 2e-2)
    got = np.asarray(xjit.compile(xjit.from_jax(masked, *inputs))(*inputs), np.float32)
    mean = inputs[2].astype(np.float32).mean(-2, keepdims=True)
    np.testing.assert_allclose(got[:, :, : L // 2], np.broadcast_to(mean, got.shape)[:, :, : L // 2], atol=1e-3)


@pytest.mark.parametrize("is_gradient", [False, True])
def test_biases_of_heads_side_by_side(is_gradient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are transposed once, before: in the kernel each element of a head would be in a line of its own."""
    monkeypatch.setattr(
        pipelines, "AttentionFusion", functools.partial(AttentionFusion, gradient_bytes=0, joint_batches=1)
    )

    def biased(q: Any, k: Any, v: Any, table: Any) -> Any:
        distance = jnp.arange(L)[:, None] - jnp.arange(L) + L
        return jax.nn.softmax(scores(q, k) + table[distance].transpose(2, 0, 1)) @ v

    def gradient(q: Any, k: Any, v: Any, table: Any) -> Any:
        result, pull_back = jax.vjp(functools.partial(biased, table=table), q, k, v)
        return result, pull_back(jnp.cos(result))

    inputs = [*arrays(3), np.random.default_rng(1).normal(size=(2 * L, H)).astype(np.float32)]
    function = gradient if is_gradient else biased
    executable = xjit.compile(xjit.from_jax(function, *inputs))
    text = executable.as_text()
    bodies = [body for body in text.split("\n}\n") if body.lstrip().startswith("%attention")]
    assert len(bodies) == 1 + is_gradient
    assert not any(f"f32[{L},{L},{H}]" in body for body in bodies)
    got, want = (jax.tree.leaves(f(*inputs)) for f in (executable, jax.jit(function)))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


def masked_temperature(q: Any, k: Any, v: Any, added: Any) -> Any:
    logits = scores(q, k) + added
    exponentials = jnp.exp((logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True))) * 0.7)
    return exponentials / exponentials.sum(-1, keepdims=True) @ v


def masked_base(q: Any, k: Any, v: Any, added: Any) -> Any:
    """Weights left out besides, of multiples that are subtracted apart."""
    logits = scores(q, k) + added
    exponentials = jnp.exp2(logits * 1.9 - logits.max(-1, keepdims=True) * 1.9)
    return jnp.where(v[..., None, :, 0] > 0, exponentials / exponentials.sum(-1, keepdims=True), 0) @ v


def masked_sums(q: Any, k: Any, v: Any, added: Any) -> Any:
    logits = scores(q, k) + added
    maximum = logits.max(-1, keepdims=True)
    exponentials = jnp.exp((logits - maximum) / 1.3)
    return exponentials @ v, exponentials.sum(-1), maximum


@pytest.mark.parametrize("function", [masked_temperature, masked_base, masked_sums])
@pytest.mark.parametrize("low", [-1e4, -1e6, -1e9])
def test_rows_masked_by_a_number(function: Callable[..., Any], low: float) -> None:
    """Differences to their maxima are exact there, and multiples of the scores are not."""
    masked = np.random.default_rng(1).random((2, 1, L, L)) < 0.5
    masked[:, :, 5:9] = True
    compare(function, [*arrays(3), np.where(masked, low, 0).astype(np.float32)], 1, 1e-5)


def test_gradient_of_rows_masked_by_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = np.random.default_rng(1).random((2, 1, L, L)) < 0.5
    masked[:, :, 5:9] = True

    def gradient(q: Any, k: Any, v: Any, added: Any) -> Any:
        result, pull_back = jax.vjp(functools.partial(masked_temperature, added=added), q, k, v)
        return result, pull_back(jnp.cos(result))

    monkeypatch.setattr(
        pipelines, "AttentionFusion", functools.partial(AttentionFusion, gradient_bytes=0, joint_batches=1)
    )
    compare(gradient, [*arrays(3), np.where(masked, -1e4, 0).astype(np.float32)], 2, 1e-5)


def test_rows_without_keys_have_no_sums() -> None:
    """0 divided by 0 behind a mask is NaN, though what is masked is 0."""
    keep = np.ones((L, L), bool)
    keep[3] = False

    def function(q: Any, k: Any, v: Any) -> Any:
        weights = jnp.where(keep, jax.nn.softmax(jnp.where(keep, scores(q, k), -jnp.inf)), 0)
        return weights * (1 / weights.sum(-1, keepdims=True)) @ v

    inputs = arrays(3)
    got = np.asarray(xjit.compile(xjit.from_jax(function, *inputs))(*inputs))
    np.testing.assert_allclose(got, np.asarray(jax.jit(function)(*inputs)), rtol=1e-5, atol=1e-5)
    assert np.isnan(got[:, :, 3]).all()


def test_overflow_is_not_hidden() -> None:
    """Without a maximum, exponentials of large scores are infinite, and their quotients NaN."""
    q, k, v = arrays(3)
    q[0, 0, 3] *= 1000
    got, want = (np.asarray(f(q, k, v)) for f in (xjit.compile(xjit.from_jax(no_maximum, q, k, v)), no_maximum))
    np.testing.assert_array_equal(np.isnan(got).any(-1), np.isnan(want).any(-1))
    assert np.isnan(got[0, 0, 3]).all()


def split_batches(q: Any, k: Any, v: Any, is_kept: Any) -> Any:
    """Rows of the exponentials are numbered through; those of the weights are not."""
    logits = jnp.where(is_kept, scores(q, k).reshape(2 * H, L, L), -jnp.inf)
    exponentials = jnp.exp(logits - logits.max(-1, keepdims=True))
    weights = jnp.where(is_kept, exponentials.reshape(2, H, L, L), 0)
    return weights @ v / exponentials.sum(-1, keepdims=True).reshape(2, H, L, 1)


def test_weights_of_split_batches() -> None:
    inputs = [*arrays(3), np.tri(L, dtype=bool)]
    got = np.asarray(xjit.compile(xjit.from_jax(split_batches, *inputs))(*inputs))
    np.testing.assert_allclose(got, split_batches(*inputs), rtol=1e-5, atol=1e-5)


def sums_alone(q: Any, k: Any, v: Any) -> Any:
    logits = scores(q, k)
    exponentials = jnp.exp(logits - logits.max(-1, keepdims=True))
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / total @ v, total


@pytest.mark.parametrize("function", [with_sums, sums_alone])
def test_sums_of_infinite_rows(function: Callable[..., Any]) -> None:
    """Scores of a row that are all -inf, or inf among others: their sum is NaN, 0 or inf, by what is subtracted."""

    def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return function(jnp.concatenate([q, bias], -1), jnp.concatenate([k, jnp.ones_like(k[..., :1])], -1), v)

    inputs = [*arrays(3), np.zeros((2, H, L, 1), np.float32)]
    inputs[3][0, 0, 3], inputs[3][1, 0, 5] = -np.inf, np.inf
    executable = xjit.compile(xjit.from_jax(biased, *inputs))
    assert [kernel.kind for kernel in executable.kernels].count("attention") == 1
    for got, want in zip(executable(*inputs), jax.jit(biased)(*inputs), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-5)


def whole_exponentials(q: Any, k: Any, v: Any) -> Any:
    logits = scores(q, k)
    exponentials = jnp.exp(logits - logits.max(-1, keepdims=True))
    return exponentials.astype(jnp.int32).astype(q.dtype) @ v / exponentials.sum(-1, keepdims=True)


def sum_of_whole_exponentials(q: Any, k: Any, v: Any) -> Any:
    logits = scores(q, k)
    exponentials = jnp.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.astype(jnp.int32).astype(q.dtype).sum(-1, keepdims=True) @ v


def weights_of_8_bits(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(scores(q, k)).astype(jnp.float8_e4m3fn).astype(q.dtype) @ v


@pytest.mark.parametrize("function", [whole_exponentials, sum_of_whole_exponentials, weights_of_8_bits])
def test_quantized_weights(function: Callable[..., Any]) -> None:
    """Conversions to narrow types are rounding that may be left out; those to integers and 8 bits leave few values."""
    inputs = arrays(3)
    got, want = (np.asarray(f(*inputs)) for f in (xjit.compile(xjit.from_jax(function, *inputs)), function))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
