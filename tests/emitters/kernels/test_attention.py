"""Attention by blocks against the evaluator: sizes, shared keys, masks, types; rows without a score."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

import xjit
from tests.support.attention_text import MASKS, PLANE_MASKS, AttentionText, fused, gradient_text, inputs_of
from tests.support.kernels import check_units
from xjit.llvm import Target
from xjit.passes import pipelines
from xjit.passes.fusion.attention_fusion import AttentionFusion
from xjit.runtime.machine_code.jit import missing_features

SIZES = (2, 3, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100, 257)


def check(case: AttentionText, seed: int = 0, rtol: float = 2e-5, atol: float = 2e-5) -> None:
    text = fused(case.text())
    check_units(text, *inputs_of(text, seed).values(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask: str) -> None:
    check(AttentionText(batch=2, heads=2, queries=21, keys=37, depth=12, width=20, mask=mask))


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_narrow_types(kind: str) -> None:
    check(AttentionText(queries=33, keys=40, kind=kind, mask="causal"), rtol=1e-2, atol=1e-2)


def test_more_columns_and_rows_than_a_block() -> None:
    check(AttentionText(heads=1, queries=530, keys=777, depth=17, width=33, mask="causal_inf"))


@pytest.mark.parametrize("mask", PLANE_MASKS)
def test_blocks_that_are_masked_as_a_whole(mask: str) -> None:
    """They are left out, unless they count: more queries than keys, so that some rows have nothing else."""
    check(AttentionText(heads=1, queries=700, keys=560, depth=8, width=8, mask=mask))


def test_shared_keys_and_a_late_quotient() -> None:
    check(AttentionText(batch=2, heads=6, groups=3, queries=18, keys=25, mask="scale", divide_late=True))


def test_a_program_has_the_kernels_of_its_sizes() -> None:
    texts = [AttentionText(queries=48, keys=keys, depth=16, width=64).text() for keys in (64, 60)]
    whole, partial = (xjit.compile(fused(text)).as_text("llvm") for text in texts)
    assert "@xjit_kernel_f32_f32_f32_" in whole and "_partial" not in whole
    assert whole.count("declare void @xjit_kernel") == 1  # whole strips, whole panels
    assert "_partial" in partial


def test_the_exponential_of_a_logarithm() -> None:
    check(AttentionText(queries=18, keys=25, mask="causal_inf", by_logarithm=True))


@pytest.mark.parametrize("seed", range(3))
def test_random_sizes(seed: int) -> None:
    rng = random.Random(seed)
    groups = rng.choice([1, 1, 2])
    check(
        AttentionText(
            rng.choice([1, 2]),
            groups * rng.choice([1, 2]),
            groups,
            *(rng.choice(SIZES[:-2]) for _ in range(4)),
            mask=rng.choice(MASKS),
            divide_late=rng.random() < 0.3,
        )
    )


KERNELS = {1: 1, 8: 3, 0: 4}
"""By the `joint_batches` of less than 8 batches: one, or a forward one and the products of the gradient in two or three."""


@pytest.mark.parametrize(
    ("level", "sizes", "joint_batches"),
    [
        ("sse2", (2, 13, 19, 8, 10), 1),
        ("sse2", (1, 40, 12, 5, 3), 8),
        ("avx2", (1, 70, 33, 9, 17), 0),
        ("avx2", (3, 200, 133, 20, 17), 1),
        ("avx2", (1, 230, 300, 7, 64), 8),
        ("avx512", (1, 100, 300, 20, 16), 1),
    ],
)
def test_gradient(level: str, sizes: tuple[int, ...], joint_batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_gradient(level, sizes, 0, joint_batches, monkeypatch)


def check_gradient(
    level: str, sizes: tuple[int, ...], seed: int, joint_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels without scores in memory, against the evaluator on what the program says."""
    if missing_features(Target.for_features(level).features):
        pytest.skip(f"this CPU has no {level}")
    always = functools.partial(
        AttentionFusion, min_rows=1, scores_per_element=0, gradient_bytes=0, joint_batches=joint_batches
    )
    monkeypatch.setattr(pipelines, "AttentionFusion", always)
    text = gradient_text(*sizes)
    inputs = inputs_of(text, seed).values()
    executable = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))
    assert [kernel.kind for kernel in executable.kernels].count("attention") == KERNELS[joint_batches]
    for got, want in zip(executable(*inputs), xjit.evaluate(text, *inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_many_gradients(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    sizes = (rng.choice([1, 2, 3]), *(rng.choice(SIZES) for _ in range(4)))
    check_gradient(rng.choice(["sse2", "avx2", "avx512"]), sizes, seed, rng.choice([1, 8, 0]), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_sizes(seed: int) -> None:
    rng = random.Random(seed)
    groups = rng.choice([1, 1, 2, 3])
    kind = rng.choice(["f32", "f32", "bf16", "f16"])
    case = AttentionText(
        rng.choice([1, 2]), groups * rng.choice([1, 2]), groups, *(rng.choice(SIZES) for _ in range(4)), kind=kind,
        mask=rng.choice(MASKS), divide_late=rng.random() < 0.3,
    )  # fmt: skip
    check(case, seed, *((5e-5, 5e-5) if kind == "f32" else (2e-2, 2e-2)))


def test_rows_without_a_score_are_what_they_are_unfused() -> None:
    """-inf alone gives NaN, the lowest number alone the mean of all values."""
    for mask, low in (("additive", -np.inf), ("where", 0.0)):
        case = AttentionText(batch=1, queries=9, keys=20, mask=mask)
        text = fused(case.text())
        inputs = inputs_of(text)
        if mask == "additive":
            inputs["m"][:, 4] = low
        else:
            inputs["m"][:] = False
        want = xjit.evaluate(text, *inputs.values())
        got = xjit.compile(text)(*inputs.values())
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        assert np.isnan(want).any() == (mask == "additive")
        check_units(text, *inputs.values(), rtol=2e-5, atol=2e-5)


def test_infinities_and_large_scores() -> None:
    case = AttentionText(queries=12, keys=40, mask="additive")
    text = fused(case.text())
    inputs = inputs_of(text)
    inputs["m"][0, 0, 3] = np.inf  # NaN, as inf - inf is
    inputs["m"][0, 1, ::2] = -np.inf
    inputs["m"][0, 2] = 3e38
    inputs["m"][0, 3, 5] = 3e38
    inputs["m"][0, 4, 39] = 1e4
    inputs["m"][0, 5, 7] = np.nan
    check_units(text, *inputs.values(), rtol=2e-5, atol=2e-5)


def test_no_less_accurate_than_the_evaluator() -> None:
    """Against f64, beside the evaluator's f32."""
    case = AttentionText(heads=1, queries=64, keys=1500, depth=32, width=16, mask="scale")
    text = fused(case.text())
    inputs = inputs_of(text)
    q, k, v = (inputs[name] for name in "qkv")
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k.astype(np.float64)) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v.astype(np.float64))
    errors = [
        np.abs(f(*inputs.values()) - exact).max() for f in (xjit.compile(text), lambda *a: xjit.evaluate(text, *a))
    ]
    assert errors[0] <= 1.25 * errors[1] + 1e-7


def test_long_attention_takes_no_memory_for_scores() -> None:
    """By default, and not if the pass is left out; the results agree."""
    text = AttentionText(heads=2, queries=256, keys=256, depth=32, width=32, mask="causal").text()
    inputs = inputs_of(text).values()
    options = xjit.CompileOptions(disabled_passes=("attention-fusion",))
    new, old = xjit.compile(text), xjit.compile(text, options=options)
    assert [kernel.kind for kernel in new.kernels] == ["attention"]
    assert new.memory_analysis().temp_size_in_bytes == 0
    assert 0 < new.memory_analysis().scratch_size_in_bytes < 1 << 20
    assert old.memory_analysis().scratch_size_in_bytes == 0
    assert old.memory_analysis().temp_size_in_bytes >= 2 * 256 * 256 * 4
    np.testing.assert_allclose(new(*inputs), old(*inputs), rtol=2e-5, atol=2e-6)
    assert "written by hand, scores stay in the cache" in new.as_text("schedule")
