"""The gradient of attention as one kernel: bits by partitions, canaries, types; what shares scores and what does not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.attention_text import gradient_text, inputs_of, joint_fusion
from tests.support.kernels import check_units, view_of
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.planners.cpu.joint_scores import JointWork
from xjit.emitters.planners.cpu.kernels import plan_kernels
from xjit.emitters.planners.plan import HandWritten, PlanContext
from xjit.emitters.planners.score_product import joint_products
from xjit.hlo.attributes import ParameterAttributes
from xjit.llvm import Target
from xjit.passes import pipelines
from xjit.passes.analysis.attention.statistics import Statistic, find_statistics
from xjit.passes.fusion import attention_gradient
from xjit.passes.fusion.attention_fusion import AttentionFusion
from xjit.text.parser import parse_hlo

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the sizes, in one kernel."""
    always = functools.partial(AttentionFusion, min_rows=1, scores_per_element=0, gradient_bytes=0, joint_batches=1)
    monkeypatch.setattr(pipelines, "AttentionFusion", always)


def has_statistics(text: str) -> bool:
    """Whether the fusion at the end of a module sums scores itself."""
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    return any(i.opcode == "reduce" for i in view.instructions())


@pytest.mark.parametrize(
    ("sizes", "joint_batches", "units"),
    [((9, 20, 13, 8, 10), 1, 9), ((2, 140, 210, 17, 33), 1, 2), ((2, 200, 290, 5, 8), 8, 8)],
    ids=["small", "several-blocks", "keys-apart"],
)
@pytest.mark.parametrize("forward", [False, True], ids=["five-products", "forward"])
def test_units(sizes: tuple[int, ...], joint_batches: int, units: int, forward: bool) -> None:
    """With all products a unit is a batch; those of keys and values alone are ranges of keys, as many as are wanted."""
    text = joint_fusion(gradient_text(*sizes, forward=forward), joint_batches)
    assert has_statistics(text) == (not forward and joint_batches == 1)
    inputs = [0.5 * x for x in inputs_of(text).values()]
    assert check_units(text, *inputs, rtol=2e-4, atol=2e-4) == units


@pytest.mark.parametrize(
    ("low", "direction", "added"),
    [
        ("-1e9", "LE", False),
        ("-1", "GE", False),
        ("-inf", "GE", False),
        ("-inf", "LT", False),
        ("-1e9", "GE", True),
        pytest.param("-inf", "LE", True, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("forward", [False, True], ids=["five-products", "forward"])
def test_masked_blocks(low: str, direction: str, added: bool, forward: bool) -> None:
    """They are left out where the weights are 0: not where low scores count, and not of rows without others."""
    text = joint_fusion(gradient_text(1, 290, 205, 8, 10, low, direction, added, forward))
    assert has_statistics(text) != forward
    root = parse_hlo(text).entry_computation.root_instruction
    (plan,) = plan_kernels(PlanContext(Target.host(), MapCache()), view_of(root))
    assert isinstance(plan, HandWritten) and isinstance(plan.work, JointWork)
    condition = plan.work.masked.condition
    assert plan.work.masked.planes and condition is not None
    inputs = [0.5 * x for x in inputs_of(text).values()]
    assert (condition.slope > 0) == added
    maximum = condition.place.instruction
    if forward and not added:
        maxima = inputs[maximum.attributes_as(ParameterAttributes).parameter_number]
        maxima.reshape(-1)[40:200] = float(low)  # of rows without others
    check_units(text, *inputs, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("bad", [None, np.nan, pytest.param(np.inf, marks=pytest.mark.slow)])
def test_masks_that_scores_exceed(bad: float | None, fused: None) -> None:
    """What is added to scores masks them only if they are small beside it; NaN and infinities are as without blocks."""
    text = gradient_text(1, 290, 205, 8, 10, "-150", "GE", added=True)
    q, k, v, g = inputs_of(text).values()
    q[:, 100:140] *= 20.0
    k[:, 180:190] *= 20.0
    if bad is not None:
        k[0, 200, 3] = bad
    module = parse_hlo(text)
    executable = xjit.compile(module)
    assert "if the scores are small beside that" in executable.as_text("schedule")
    inputs = [x.astype(np.float32) for x in (q, k, v, g)]
    for got, want in zip(executable(*inputs), xjit.evaluate(module, *inputs), strict=True):
        scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-5 * scale)


def test_products_share_their_scores() -> None:
    """Rows are those of most products: keys. What is summed over them is the queries' gradient."""
    view = view_of(parse_hlo(joint_fusion(gradient_text(2, 20, 13, 8, 10))).entry_computation.root_instruction)
    joint = joint_products(view)
    assert joint is not None
    assert (joint.sizes, joint.row, joint.column, joint.batch) == ((2, 20, 13), 2, 1, (0,))
    assert sorted((m.over_rows, m.width) for m in joint.members) == [(False, 8), (False, 10), (True, 8)]
    by_scores = {m.scores: sorted(n.over_rows for n in joint.members if n.scores == m.scores) for m in joint.members}
    assert sorted(by_scores.values()) == [[False], [False, True]]
    assert len(joint.scores) == len(joint.tiles) == 2


L, H, D = 40, 2, 16


@pytest.mark.parametrize(("keys", "keeps"), [(13, True), (14, False)])
def test_scores_of_many_keys_are_not_kept(keys: int, keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_gradient, "MAX_KEPT_ROWS", 13)
    assert has_statistics(joint_fusion(gradient_text(2, 20, keys, 8, 10), 1)) == keeps


def statistics_of(text: str) -> tuple[Statistic, ...] | None:
    """What the fusion at the end of a module sums of its scores."""
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    joint = joint_products(view)
    assert joint is not None
    return find_statistics(joint, {i for i in view.instructions() if i.opcode == "reduce"})


def test_sums_of_columns_are_found_by_levels() -> None:
    text = joint_fusion(gradient_text(2, 20, 13, 8, 10), 1)
    found = statistics_of(text)
    assert found is not None
    assert [(s.opcode, s.level) for s in found] == [("maximum", 0), ("add", 1), ("add", 1)]
    assert statistics_of(text.replace("constant(-inf)", "constant(-5)")) is None, "a maximum that starts elsewhere"
    forward = joint_fusion(gradient_text(2, 20, 13, 8, 10, forward=True), 1)
    assert statistics_of(forward) == (), "maxima and sums are read"


def attend(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def by_queries_alone(q: Any, k: Any, v: Any) -> Any:
    return jax.grad(lambda q: attend(q, k, v).sum())(q)


def by_keys_and_values(q: Any, k: Any, v: Any) -> Any:
    return jax.grad(lambda k, v: (attend(q, k, v) ** 2).sum(), (0, 1))(k, v)


def by_values_alone(q: Any, k: Any, v: Any) -> Any:
    return jax.grad(lambda v: (attend(q, k, v) ** 2).sum())(v)


def of_one_array(q: Any, k: Any, v: Any) -> Any:
    del k, v
    return jax.value_and_grad(lambda x: jnp.sin(attend(x, x, x)).sum())(q)


def with_result_used(q: Any, k: Any, v: Any) -> Any:
    value, gradients = jax.value_and_grad(lambda *a: (attend(*a) ** 2).sum(), (0, 1, 2))(q, k, v)
    return value, gradients, gradients[0] @ jnp.ones((D, 3)), gradients[1] + gradients[2]


@pytest.mark.parametrize(
    ("function", "kernels"),
    [
        (by_queries_alone, 2),
        (by_keys_and_values, 2),
        pytest.param(by_values_alone, 2, marks=pytest.mark.slow),
        pytest.param(of_one_array, 2, marks=pytest.mark.slow),
        (with_result_used, 2),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_is_asked_for(function: Callable[..., Any], kernels: int, fused: None) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(2, L, H, D)).astype(np.float32) for _ in range(3)]
    executable = xjit.compile(xjit.from_jax(function, *inputs))
    assert [kernel.kind for kernel in executable.kernels].count("attention") == kernels
    got, want = (jax.tree.leaves(f(*inputs)) for f in (executable, jax.jit(function)))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("kind", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_types_and_shared_keys(heads: tuple[int, int], kind: str, fused: None) -> None:
    """Queries of other lengths than keys, of a width that is no multiple of a vector's; keys that heads share."""
    rng = np.random.default_rng(1)
    q, g = (rng.normal(size=(1, 70, heads[0], 13)).astype(jnp.dtype(kind)) for _ in range(2))
    k, v = (rng.normal(size=(1, 50, heads[1], 13)).astype(jnp.dtype(kind)) for _ in range(2))

    def gradient(q: Any, k: Any, v: Any, g: Any) -> Any:
        return jax.vjp(lambda *a: jax.nn.dot_product_attention(*a), q, k, v)[1](g)

    executable = xjit.compile(xjit.from_jax(gradient, q, k, v, g))
    assert [kernel.kind for kernel in executable.kernels].count("attention") == 1
    tolerance = 1e-5 if kind == "float32" else 2e-2
    for got, want in zip(executable(q, k, v, g), jax.jit(gradient)(q, k, v, g), strict=True):
        got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("with_result", [False, True])
def test_heads_that_are_numbered_through(with_result: bool, fused: None) -> None:
    """Scores [batch, query, head, key], whose heads are groups of those that share keys."""
    rng = np.random.default_rng(2)
    q, k, v, g = (rng.normal(size=(2, L, heads, D)).astype(np.float32) for heads in (6, 2, 2, 6))

    def attention(q: Any, k: Any, v: Any) -> Any:
        grouped = q.reshape(2, L, 2, 3, D)
        scores = jnp.einsum("btkgh,bskh->btkgs", grouped, k).reshape(2, L, 6, L)
        causal = jnp.tril(jnp.ones((L, L), bool))[None, :, None]
        weights = jax.nn.softmax(jnp.where(causal, scores / 4, -2e38), -1)
        return jnp.einsum("btkgs,bskh->btkgh", weights.reshape(2, L, 2, 3, L), v).reshape(2, L, 6, D)

    def gradient(q: Any, k: Any, v: Any, g: Any) -> Any:
        result, pull_back = jax.vjp(attention, q, k, v)
        return (result, *pull_back(g)) if with_result else pull_back(g)

    executable = xjit.compile(xjit.from_jax(gradient, q, k, v, g))
    assert [kernel.kind for kernel in executable.kernels].count("attention") == 2
    for got, want in zip(executable(q, k, v, g), jax.jit(gradient)(q, k, v, g), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def as_flax(q: Any, k: Any, v: Any) -> Any:
    """Masks as numbers of several conditions, a number where they are 0."""
    places = jnp.broadcast_to(jnp.arange(L), (q.shape[0], L))
    causal = jnp.greater_equal(places[:, :, None], places[:, None, :])[:, None].astype(jnp.float32)
    present = (jnp.arange(L) < L - 3)[None, None, None, :].astype(jnp.float32)
    scores = jnp.einsum("...qhd,...khd->...hqk", q / jnp.sqrt(D), k)
    masked = jnp.where(jnp.logical_and(causal, present), scores, jnp.finfo(jnp.float32).min)
    return jnp.einsum("...hqk,...khd->...qhd", jax.nn.softmax(masked), v)


def with_bias(q: Any, k: Any, v: Any) -> Any:
    places = jnp.arange(L)
    bias = -0.1 * jnp.abs(places[:, None] - places[None, :]).astype(jnp.float32)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.25 + bias
    masked = jnp.where(jnp.tril(jnp.ones((L, L), bool)), scores, -1e10)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(masked), v)


def windowed(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(7, 0))


def added(q: Any, k: Any, v: Any) -> Any:
    """As HF's and many others' masks are: numbers that are added."""
    mask = jnp.where(jnp.tril(jnp.ones((L, L), bool)), 0.0, jnp.finfo(jnp.float32).min)
    return jax.nn.dot_product_attention(q, k, v, mask[None, None])


MASK = np.tril(np.ones((L, L), bool), 3)


def of_constants(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, mask=jnp.asarray(MASK)[None, None])


@pytest.mark.parametrize(
    ("function", "planes"),
    [
        (added, 1),
        pytest.param(of_constants, 1, marks=pytest.mark.slow),
        (as_flax, 2),
        (windowed, 2),
        (with_bias, 1),
    ],
    ids=["added", "constant", "flax", "window", "bias"],
)
def test_masks_of_programs(function: Callable[..., Any], planes: int, fused: None) -> None:
    """Both kernels know them - the last columns of one are a half-plane, too -, and the values are those of jaxlib."""
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=(1, L, H, D)).astype(np.float32) for _ in range(3)]

    def gradient(q: Any, k: Any, v: Any) -> Any:
        return jax.grad(lambda *a: (function(*a) ** 2).sum(), (0, 1, 2))(q, k, v)

    executable = xjit.compile(xjit.from_jax(gradient, *inputs))
    masks = [line for line in executable.as_text("schedule").splitlines() if "masked: where" in line]
    assert [line.count(">= 0") for line in masks] == [planes, planes]
    for got, want in zip(executable(*inputs), jax.jit(gradient)(*inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4)


def test_no_less_accurate_than_jax(fused: None) -> None:
    """Against f64, beside XLA:CPU's f32."""
    rng = np.random.default_rng(2)
    inputs = [(scale * rng.normal(size=(1, 256, 4, 32))).astype(np.float32) for scale in (2, 2, 1, 1)]

    def gradient(q: Any, k: Any, v: Any, g: Any) -> Any:
        return jax.vjp(attend, q, k, v)[1](g)

    exact = exact_gradient(*(x.astype(np.float64) for x in inputs))
    executable = xjit.compile(xjit.from_jax(gradient, *inputs))
    for got, want, true in zip(executable(*inputs), jax.jit(gradient)(*inputs), exact, strict=True):
        errors = [np.sqrt(np.mean((np.asarray(x) - true) ** 2)) for x in (got, want)]
        assert errors[0] <= 1.25 * errors[1]


def exact_gradient(q: Any, k: Any, v: Any, g: Any) -> tuple[Any, Any, Any]:
    """Causal attention's gradients of q, k and v, [batch, length, heads, width], in NumPy."""
    scale = 1 / np.sqrt(q.shape[-1])
    scores = np.einsum("bthd,bshd->bhts", q, k) * scale
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = np.einsum("bthd,bshd->bhts", g, v)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return (
        np.einsum("bhts,bshd->bthd", ds, k),
        np.einsum("bhts,bthd->bshd", ds, q),
        np.einsum("bhts,bthd->bshd", p, g),
    )


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "dq = f32[1,40,8] dot(ds, k)",
            """part = f32[1,40,32] slice(ds), slice={[0:1], [0:40], [0:32]}
  first = f32[1,32,8] slice(k), slice={[0:1], [0:32], [0:8]}
  dq = f32[1,40,8] dot(part, first)""",
        ),
        (
            "dk = f32[1,48,8] dot(ds, q)",
            """part = f32[1,24,48] slice(ds), slice={[0:1], [0:24], [0:48]}
  first = f32[1,24,8] slice(q), slice={[0:1], [0:24], [0:8]}
  dk = f32[1,48,8] dot(part, first)""",
        ),
        (
            "pd = f32[1,40,48] multiply(p, dp)",
            """long = f32[1,60] parameter(4)
  some = f32[1,40] slice(long), slice={[0:1], [0:40]}
  wide = f32[1,40,48] broadcast(some), dimensions={0,1}
  times = f32[1,40,48] multiply(p, wide)
  pd = f32[1,40,48] multiply(times, dp)""",
        ),
    ],
    ids=["columns", "rows", "row-factor"],
)
def test_parts_of_scores_and_of_rows(name: str, lines: str) -> None:
    """What is summed over the first columns or rows alone does not read the others."""
    text = gradient_text(1, 40, 48, 8, 8)
    assert name in text
    text = text.replace(name, lines)
    inputs = inputs_of(text).values()
    for got, want in zip(xjit.compile(text)(*inputs), xjit.evaluate(text, *inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
