"""Attention by blocks on GPUs: values on the simulator, sanitized and in both orders; what is planned, and its PTX."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

import xjit
from tests.support.attention_text import MASKS, AttentionText, fused, gradient_text, inputs_of
from tests.support.gpu_planning import gpu_kernels, ptx_of, schedule_lines
from tests.support.gpu_simulation import check_simulated
from xjit.compile_options import CompileOptions
from xjit.emitters.planners.gpu import score_operands
from xjit.emitters.planners.gpu.score_tilings import THREAD_TILINGS, UNIT_TILINGS, ScoreTiling
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.verify import ScheduleError, verify_schedule
from xjit.gpu_compiler import SimulatedExecutable, compile_for_gpu
from xjit.passes import pipelines
from xjit.passes.fusion.attention_fusion import AttentionFusion
from xjit.runtime.cuda import has_assembler
from xjit.text.parser import parse_hlo

SIZES = (2, 3, 8, 9, 16, 17, 31, 33, 64, 65)


@pytest.fixture(autouse=True)
def always_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the sizes, as long as the kernel has room."""
    limits = {"min_rows": 1, "scores_per_element": 0, "gradient_bytes": 0, "max_depth": 128, "joint_batches": 0}
    limits |= {"weighs": False}
    always = functools.partial(AttentionFusion, **limits)
    monkeypatch.setattr(pipelines, "attention_on_gpus", always)


def check(text: str, tolerance: float, kernels: int = 1) -> SimulatedExecutable:
    """Checks the values; so many kernels must be attention."""
    executable = check_simulated(text, *inputs_of(text).values(), rtol=tolerance, atol=tolerance)
    assert [kernel.kind for kernel in executable.kernels].count("attention") == kernels
    return executable


def check_case(case: AttentionText) -> None:
    check(case.text(), 5e-5 if case.kind == "f32" else 2e-2)


@pytest.mark.parametrize(
    "case",
    [
        AttentionText(groups=2, queries=20, keys=37, depth=12, width=20, mask="causal_inf", divide_late=True),
        AttentionText(heads=1, queries=33, keys=40, depth=24, kind="bf16", mask="scale"),
    ],
    ids=str,
)
def test_values(case: AttentionText) -> None:
    check_case(case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_many_random_sizes(seed: int) -> None:
    rng = random.Random(seed)
    groups = rng.choice([1, 1, 2])
    check_case(
        AttentionText(
            rng.choice([1, 2]),
            groups * rng.choice([1, 2]),
            groups,
            *(rng.choice(SIZES) for _ in range(4)),
            kind=rng.choice(["f32", "bf16", "f16"]),
            mask=rng.choice(MASKS),
            divide_late=rng.random() < 0.3,
        )
    )


@pytest.mark.parametrize("sizes", [(2, 13, 19, 8, 10)])
def test_gradient(sizes: tuple[int, ...]) -> None:
    """Three products that make the scores again, from the maxima and sums that the fourth one gives."""
    check(gradient_text(*sizes), 1e-4, kernels=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_gradients(seed: int) -> None:
    rng = random.Random(seed)
    check(gradient_text(rng.choice([1, 2]), *(rng.choice(SIZES) for _ in range(4))), 1e-4, kernels=4)


@pytest.mark.slow
@pytest.mark.parametrize("tiling", [*UNIT_TILINGS, *THREAD_TILINGS], ids=str)
def test_tilings(tiling: ScoreTiling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_operands, "choose_score_tiling", lambda *_: tiling)
    kind = "f32" if tiling.across else "f16"
    check_case(AttentionText(heads=1, queries=70, keys=75, depth=20, width=36, kind=kind, mask="causal_inf"))


def test_rows_without_a_score_are_what_they_are_unfused() -> None:
    """-inf alone is NaN; +inf and NaN make their row NaN; what is -inf at first counts for nothing."""
    text = AttentionText(batch=1, heads=1, queries=9, keys=40, mask="additive").text()
    inputs = inputs_of(text)
    inputs["m"][0, 1, ::2] = -np.inf
    inputs["m"][0, 2, :17] = -np.inf
    inputs["m"][0, 3] = 3e38
    for row, value in ((0, np.inf), (5, np.nan)):
        inputs["m"][0, row, 3] = value
    inputs["m"][0, 4] = -np.inf
    want = xjit.evaluate(text, *inputs.values())
    assert np.isnan(want[0, 0, [0, 4, 5]]).all() and not np.isnan(want[0, 0, [1, 2, 3]]).any()
    check_simulated(text, *inputs.values(), rtol=2e-5, atol=2e-5)


def test_scores_are_in_no_memory_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the limits of `attention_on_gpus`; not if the pass is left out."""
    monkeypatch.undo()
    module = parse_hlo(AttentionText(heads=2, queries=64, keys=64, depth=32, width=32, mask="causal").text())
    new = compile_for_gpu(module, "sm_90", CompileOptions())
    assert [kernel.kind for kernel in new.kernels] == ["attention"] and new.program.arena_size == 0
    old = compile_for_gpu(module, "sm_90", CompileOptions(disabled_passes=("attention-fusion",)))
    assert old.program.arena_size >= 2 * 64 * 64 * 4
    few = parse_hlo(AttentionText(queries=16, keys=16, depth=32, width=32).text())
    assert "attention" not in {kernel.kind for kernel in compile_for_gpu(few, "sm_90", CompileOptions()).kernels}


TRANSPOSED = """HloModule m
larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  q = f32[2,3,40,16] parameter(0)
  k = f32[2,3,40,16] parameter(1)
  v = f32[2,3,40,16] parameter(2)
  scores = f32[2,3,40,40] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
    lhs_contracting_dims={3}, rhs_contracting_dims={3}
  low = f32[] constant(-inf)
  top = f32[2,3,40] reduce(scores, low), dimensions={3}, to_apply=larger
  tops = f32[2,3,40,40] broadcast(top), dimensions={0,1,2}
  below = f32[2,3,40,40] subtract(scores, tops)
  e = f32[2,3,40,40] exponential(below)
  zero = f32[] constant(0)
  total = f32[2,3,40] reduce(e, zero), dimensions={3}, to_apply=sum
  totals = f32[2,3,40,40] broadcast(total), dimensions={0,1,2}
  p = f32[2,3,40,40] divide(e, totals)
  o = f32[2,3,40,16] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
    lhs_contracting_dims={3}, rhs_contracting_dims={2}
  ROOT r = f32[2,40,3,16] transpose(o), dimensions={0,2,1,3}
}
"""


def test_results_that_are_moved_are_the_sums() -> None:
    """The transpose behind a product takes the block's sums: nothing but what is staged is read from memory."""
    executable = check(TRANSPOSED, 5e-5)
    assert executable.as_text("schedule").count("stage operand") == 4  # one of them from the scores, not from memory
    assert executable.as_text("ptx").count("ld.global") <= 8


NARROW = AttentionText(heads=8, queries=1024, keys=1024, depth=64, width=64, kind="bf16", mask="causal")


def test_both_products_are_made_by_matrix_instructions() -> None:
    text = fused(NARROW.text(), weighs=False)
    lines = schedule_lines(text)
    assert "part {  // 128 units" in lines  # 64 rows each
    assert "operand 1 of %dot as bf16 64 x 64 at d0 * 72 + d1" in lines
    assert (
        "softmax %dot at d10 floordiv 2 with %mx, %l and %r.2 at d10 floordiv 2 for d11 in [0, 1] by 4 lanes" in lines
    )
    assert sum(line.endswith(" by m16n8k16.bf16.bf16") for line in lines) == 2
    ptx = ptx_of(text)
    assert "mma.sync" in ptx and "cp.async" in ptx and "shfl.sync" in ptx and ".local" not in ptx
    assert "st.global" in ptx and "atom" not in ptx


@pytest.mark.skipif(not has_assembler(), reason="needs the package nvidia-nvjitlink")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_the_assembler_takes_it_and_spills_nothing(architecture: str) -> None:
    for program in (NARROW.text(), gradient_text(2, 200, 200, 64, 64)):
        executable = compile_for_gpu(parse_hlo(program), architecture, CompileOptions())
        for report in executable.kernel_reports():
            assert report.resources is not None and not report.resources.spill_store_bytes


def test_without_a_matrix_unit_threads_multiply() -> None:
    """bf16 has none before sm_80: operands are staged as f32."""
    (kernel,) = gpu_kernels(fused(NARROW.text(), weighs=False), "sm_75")
    text = str(kernel.schedule)
    assert " by m" not in text and "operand 0 of %dot as f32" in text


@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_the_longest_rows_fit_into_shared_memory(kind: str, depth: int) -> None:
    case = AttentionText(heads=1, queries=100, keys=100, depth=depth, width=depth, kind=kind)
    gpu_kernels(fused(case.text(), weighs=False))  # verifies that the tiles fit
    compile_for_gpu(parse_hlo(gradient_text(1, 100, 100, depth, depth)), "sm_80", CompileOptions())


def test_too_long_rows_are_a_clear_error() -> None:
    text = fused(AttentionText(heads=1, queries=32, keys=32, depth=512, width=512).text(), weighs=False)
    with pytest.raises(xjit.Unsupported, match="rows of 512 elements take too much shared memory"):
        gpu_kernels(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clear %l\n", "\n", "%l has no initial value here"),
        ("normalize %r.2 by %l at d7", "normalize %r.2 by %l at d7 + 1", "row d7 \\+ 1 of %r.2"),
        ("softmax %dot at d7 with", "softmax %dot at d9 with", "d9 has no value here"),
        ("by 16 lanes", "by 3 lanes", "3 lanes are no equal part of a warp"),
        ("stage operand 0 of %r.2 from", "stage operand 2 of %r.2 from", "operand 2 has no tile"),
        ("complete %dot with", "complete %x with", "%x has no tile"),
    ],
)
def test_schedules_that_mean_nothing_are_refused(old: str, new: str, message: str) -> None:
    case = AttentionText(queries=20, keys=37, depth=12, width=20, mask="causal")
    (kernel,) = gpu_kernels(fused(case.text(), weighs=False))
    text = str(kernel.schedule)
    assert old in text
    with pytest.raises(ScheduleError, match=message):
        verify_schedule(parse_schedule(text.replace(old, new)))
