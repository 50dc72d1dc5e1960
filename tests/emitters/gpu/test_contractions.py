"""Values of dots and convolutions on GPUs, run by the simulator with its sanitizer, threads in either order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_simulation import check_simulated
from xjit.emitters.planners.gpu import contractions
from xjit.emitters.planners.gpu.tilings import THREAD_TILINGS, Tiling, warp_tilings

PLAIN = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def dot(lhs: str, rhs: str, result: str, numbers: str = PLAIN) -> str:
    return f"""HloModule m
ENTRY e {{
  x = {lhs} parameter(0)
  y = {rhs} parameter(1)
  ROOT r = {result} dot(x, y), {numbers}
}}"""


def convolution(lhs: str, rhs: str, result: str, window: str, labels: str = "b01f_01io->b01f", groups: str = "") -> str:
    more = f", {groups}" if groups else ""
    return f"""HloModule m
ENTRY e {{
  x = {lhs} parameter(0)
  k = {rhs} parameter(1)
  ROOT r = {result} convolution(x, k), window={{{window}}}, dim_labels={labels}{more}
}}"""


def check(text: str, rtol: float = 3e-6, atol: float = 3e-6) -> str:
    """Checks the values; returns the schedule, which has a contraction."""
    schedule = check_simulated(text, rtol=rtol, atol=atol).as_text("schedule")
    assert " contraction, " in schedule
    return schedule


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "numbers"),
    [
        ("f32[37,19]", "f32[19,29]", "f32[37,29]", PLAIN),
        ("f32[40,20]", "f32[36,20]", "f32[40,36]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        ("f32[20,40]", "f32[20,36]", "f32[40,36]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        ("f32[20,3,18]", "f32[18,9,3]", "f32[3,20,9]",
         "lhs_batch_dims={1}, rhs_batch_dims={2}, lhs_contracting_dims={2}, rhs_contracting_dims={0}"),
        ("f32[2,4,5,6]", "f32[6,3,2,7]", "f32[2,4,5,3,7]",
         "lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={3}, rhs_contracting_dims={0}"),
        ("f32[4,20,5]", "f32[5,7,4]", "f32[20,7]", "lhs_contracting_dims={0,2}, rhs_contracting_dims={2,0}"),
        ("s8[33,24]", "s8[24,18]", "s32[33,18]", PLAIN),
        ("u8[9,40]", "s8[40,10]", "s32[9,10]", PLAIN),
        ("s32[10,12]", "s32[12,18]", "s32[10,18]", PLAIN),
        ("s4[10,12]", "s4[12,18]", "s8[10,18]", PLAIN),
        ("f64[17,21]", "f64[21,12]", "f64[17,12]", PLAIN),
        ("c64[10,12]", "c64[12,18]", "c64[10,18]", PLAIN),
        ("bf16[40,40]", "bf16[40,24]", "f32[40,24]", PLAIN),
        ("bf16[18,35]", "bf16[35,9]", "f32[18,9]", PLAIN),
        ("f16[20,48]", "f16[16,48]", "f32[20,16]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        ("f8e4m3fn[20,40]", "f8e5m2[40,16]", "f32[20,16]", PLAIN),
        ("f8e4m3[12,20]", "f8e4m3[20,16]", "f32[12,16]", PLAIN),
    ],
)  # fmt: skip
def test_dots(lhs: str, rhs: str, result: str, numbers: str) -> None:
    check(dot(lhs, rhs, result, numbers), atol=2e-4 if "f8" in lhs else 1e-5)


def test_results_of_narrow_types_are_rounded_once() -> None:
    check(dot("bf16[20,40]", "bf16[40,24]", "bf16[20,24]"), rtol=2**-8, atol=1e-5)
    check(dot("f16[20,40]", "f16[40,24]", "f16[20,24]"), rtol=2**-10, atol=1e-5)


def test_a_matrix_with_itself_has_two_tiles() -> None:
    text = f"HloModule m\nENTRY e {{ x = f32[20,20] parameter(0)\n ROOT r = f32[20,20] dot(x, x), {PLAIN} }}"
    schedule = check(text)
    assert "operand 0 of %r" in schedule and "operand 1 of %r" in schedule


@pytest.mark.parametrize(
    ("tiling", "kind", "rows", "columns", "steps"),
    [
        (THREAD_TILINGS[1], "f32", 70, 66, 20),
        (THREAD_TILINGS[3], "f32", 12, 130, 20),
        (THREAD_TILINGS[4], "f64", 70, 12, 20),
        (warp_tilings(16)[1], "bf16", 72, 66, 40),
        (warp_tilings(16)[3], "f16", 12, 68, 20),
        pytest.param(THREAD_TILINGS[0], "f32", 140, 132, 12, marks=pytest.mark.slow),
        pytest.param(warp_tilings(16)[0], "bf16", 136, 130, 40, marks=pytest.mark.slow),
    ],
)
def test_larger_tiles(
    monkeypatch: pytest.MonkeyPatch, tiling: Tiling, kind: str, rows: int, columns: int, steps: int
) -> None:
    monkeypatch.setattr(contractions, "choose_tiling", lambda *_: tiling)
    out = "f64" if kind == "f64" else "f32"
    if kind == "f64":
        monkeypatch.setattr(contractions, "unit_of", lambda *_: None)
    check(dot(f"{kind}[{rows},{steps}]", f"{kind}[{steps},{columns}]", f"{out}[{rows},{columns}]"), atol=1e-5)


def test_sums_in_tf32_only_where_the_algorithm_says_so() -> None:
    text = dot("f32[20,24]", "f32[24,12]", "f32[20,12]", f"{PLAIN}, algorithm=dot_tf32_tf32_f32")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((20, 24), (24, 12)))
    x, y = (((v.view(np.int32) + 0x1000) & ~0x1FFF).view(np.float32) for v in (x, y))  # rounded: products are exact
    schedule = check_simulated(text, x, y, rtol=2e-6, atol=2e-6).as_text("schedule")
    assert "by m16n8k8.f32.f32" in schedule
    assert "by m16n8k8" not in check(dot("f32[20,24]", "f32[24,12]", "f32[20,12]"))


def test_tf32_rounds_to_nearest_and_keeps_nans() -> None:
    text = dot("f32[16,8]", "f32[8,8]", "f32[16,8]", f"{PLAIN}, algorithm=dot_tf32_tf32_f32")
    x = np.zeros((16, 8), np.float32)
    x[0, 0], x[1, 0], x[2, 0], x[3, 0] = 1 + 2**-11, 1 + 2**-12, np.nan, np.inf
    x[4, 0] = np.array(0x7FFFFFFF, np.uint32).view(np.float32)
    executable = check_simulated(text, np.zeros_like(x), np.eye(8, dtype=np.float32))
    product = executable(x, np.eye(8, dtype=np.float32))
    np.testing.assert_array_equal(product[:2, 0], np.array([1 + 2**-10, 1], np.float32))
    assert np.isnan(product[[2, 4], 0]).all() and product[3, 0] == np.inf


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "window", "labels", "groups"),
    [
        ("f32[2,8,9,6]", "f32[3,3,6,12]", "f32[2,8,9,12]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
        ("f32[2,6,8,9]", "f32[12,6,3,3]", "f32[2,12,8,9]", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01", ""),
        ("f32[2,9,9,6]", "f32[3,3,6,12]", "f32[2,4,5,12]", "size=3x3 stride=2x2 pad=0_0x1_1", "b01f_01io->b01f", ""),
        ("f32[2,5,5,6]", "f32[3,3,6,12]", "f32[2,9,9,12]", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2", "b01f_01io->b01f", ""),
        ("f32[2,9,9,6]", "f32[3,3,6,12]", "f32[2,5,5,12]", "size=3x3 rhs_dilate=2x2", "b01f_01io->b01f", ""),
        ("f32[2,7,7,6]", "f32[3,3,6,9]", "f32[2,7,7,9]", "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01io->b01f", ""),
        ("f32[2,6,6,12]", "f32[3,3,6,16]", "f32[2,6,6,16]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f",
         "feature_group_count=2"),
        ("f32[4,8,9,6]", "f32[8,9,6,8]", "f32[2,3,3,8]", "size=8x9 pad=1_1x1_1", "b01f_01io->b01f",
         "batch_group_count=2"),
        ("f32[2,30,6]", "f32[5,6,12]", "f32[2,26,12]", "size=5", "b0f_0io->b0f", ""),
        ("f32[2,9,9,6]", "f32[3,3,6,12]", "f32[2,5,9,12]", "size=3x3 pad=-1_-1x1_1", "b01f_01io->b01f", ""),
        ("f32[6,9,9,4]", "f32[8,8,4,12]", "f32[6,3,3,12]", "size=8x8 pad=1_0x1_0", "f01b_01io->b01f", ""),
        ("bf16[2,8,8,16]", "bf16[3,3,16,16]", "f32[2,8,8,16]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
        ("f32[1,5,5,8]", "f32[3,3,8,4]", "f32[1,9,9,4]", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2", "b01f_01io->b01f", ""),
    ],
)  # fmt: skip
def test_convolutions(lhs: str, rhs: str, result: str, window: str, labels: str, groups: str) -> None:
    if labels.startswith("f"):
        lhs = "f32[4,9,9,6]"
    check(convolution(lhs, rhs, result, window, labels, groups), atol=2e-5)


def test_what_follows_is_computed_from_the_sums() -> None:
    text = f"""HloModule m
ENTRY e {{
  x = f32[40,24] parameter(0)
  w = f32[24,36] parameter(1)
  b = f32[36] parameter(2)
  s = f32[40,36] parameter(3)
  d = f32[40,36] dot(x, w), {PLAIN}
  bias = f32[40,36] broadcast(b), dimensions={{1}}
  a = f32[40,36] add(d, bias)
  zero = f32[] constant(0)
  zeros = f32[40,36] broadcast(zero), dimensions={{}}
  r = f32[40,36] maximum(a, zeros)
  ROOT o = f32[40,36] add(r, s)
}}"""
    executable = check_simulated(text, rtol=3e-6, atol=3e-6)
    assert len(executable.kernels) == 1 and " contraction, " in executable.as_text("schedule")


def test_the_dot_can_be_a_result_beside_what_follows() -> None:
    text = f"""HloModule m
ENTRY e {{
  x = f32[40,24] parameter(0)
  w = f32[24,36] parameter(1)
  d = f32[40,36] dot(x, w), {PLAIN}
  n = f32[40,36] negate(d)
  ROOT t = (f32[40,36], f32[40,36]) tuple(d, n)
}}"""
    assert len(check_simulated(text, rtol=3e-6, atol=3e-6).kernels) == 1


@pytest.mark.parametrize("results", ["a", "d, a"])
def test_what_follows_may_have_other_dimensions(results: str) -> None:
    shapes = ", ".join({"a": "f32[2,20,6,6]", "d": "f32[2,20,36]"}[name] for name in results.split(", "))
    text = f"""HloModule m
ENTRY e {{
  x = f32[2,20,24] parameter(0)
  w = f32[24,36] parameter(1)
  b = f32[2,20,6,6] parameter(2)
  d = f32[2,20,36] dot(x, w), lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}
  r = f32[2,20,6,6] reshape(d)
  a = f32[2,20,6,6] add(r, b)
  ROOT t = ({shapes}) tuple({results})
}}"""
    schedule = check(text)
    assert schedule.count(" contraction, ") == 1


def test_operands_are_converted_on_the_way() -> None:
    text = f"""HloModule m
ENTRY e {{
  x = bf16[20,96] parameter(0)
  w = s8[96,64] parameter(1)
  c = bf16[96,64] convert(w)
  ROOT d = f32[20,64] dot(x, c), {PLAIN}
}}"""
    assert len(check_simulated(text, rtol=1e-5, atol=2e-3).kernels) == 1


def test_few_products_are_done_without_tiles() -> None:
    executable = check_simulated(dot("f32[3,4]", "f32[4,5]", "f32[3,5]"), rtol=3e-6, atol=3e-6)
    assert " loop, " in executable.as_text("schedule")


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "numbers"),
    [
        ("f32[70,256]", "f32[256]", "f32[70]", PLAIN),
        ("bf16[1,256]", "bf16[256,70]", "f32[1,70]", PLAIN),
        ("f32[4,64]", "f32[4,30,64]", "f32[4,30]",
         "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}"),
    ],
)  # fmt: skip
def test_vectors_are_reductions_that_threads_share(lhs: str, rhs: str, result: str, numbers: str) -> None:
    executable = check_simulated(dot(lhs, rhs, result, numbers), rtol=1e-5, atol=1e-4)
    assert len(executable.kernels) == 1
    assert " tree over " in executable.as_text("schedule")


def test_few_results_of_long_sums_are_split() -> None:
    executable = check_simulated(dot("f32[20,1024]", "f32[1024,24]", "f32[20,24]"), rtol=1e-5, atol=1e-4)
    kinds = [kernel.kind for kernel in executable.kernels]
    assert kinds == ["contraction", "loop"]
    assert executable.program.program.kernels[executable.kernels[0].name].launch.num_blocks >= 16


def test_a_call_of_cublas_is_a_contraction_with_its_epilogue() -> None:
    config = """{"alpha_real":2,"alpha_imag":0,"beta":0,"dot_dimension_numbers":{
"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],
"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]},"epilogue":"BIAS_RELU"}""".replace("\n", "")
    text = f"""HloModule m
ENTRY e {{
  x = f32[40,24] parameter(0)
  y = f32[24,36] parameter(1)
  b = f32[36] parameter(2)
  ROOT c = f32[40,36] custom-call(x, y, b), custom_call_target="__cublas$lt$matmul", backend_config={config}
}}"""
    executable = check_simulated(text, rtol=3e-6, atol=3e-6)
    assert [kernel.kind for kernel in executable.kernels] == ["contraction"]


def random_dot(rng: np.random.Generator) -> str:
    """A dot of any numbers of small dimensions, in any order, of types that units or threads multiply."""
    counts = {"batch": rng.integers(0, 3), "rows": rng.integers(1, 3), "columns": rng.integers(1, 3)}
    counts["steps"] = rng.integers(1, 3)
    sizes = {group: [int(rng.integers(1, 12)) for _ in range(count)] for group, count in counts.items()}
    operands = [_shuffled(rng, sizes, ("batch", side, "steps")) for side in ("rows", "columns")]
    kind, result = KINDS[rng.integers(len(KINDS))]
    texts = [f"{kind}[{','.join(str(sizes[g][i]) for g, i in order)}]" for order in operands]
    numbers = []
    for group, name in (("batch", "batch_dims"), ("steps", "contracting_dims")):
        for side, order in zip(("lhs", "rhs"), operands, strict=True):
            places = [order.index((group, i)) for i in range(counts[group])]
            numbers.append(f"{side}_{name}={{{','.join(map(str, places))}}}")
    free = [[sizes[g][i] for g, i in order if g == side] for side, order in zip(("rows", "columns"), operands)]
    shape = ",".join(map(str, [*sizes["batch"], *free[0], *free[1]]))
    return dot(*texts, f"{result}[{shape}]", ", ".join(numbers))


KINDS = [("f32", "f32"), ("bf16", "f32"), ("f16", "f32"), ("s8", "s32"), ("f64", "f64"), ("s32", "s32")]


def _shuffled(rng: np.random.Generator, sizes: dict[str, list[int]], groups: tuple[str, ...]) -> list[tuple[str, int]]:
    dimensions = [(group, i) for group in groups for i in range(len(sizes[group]))]
    return [dimensions[i] for i in rng.permutation(len(dimensions))]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 60))])
def test_random_dots(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(contractions, "_is_little", lambda *_: False)
    check_simulated(random_dot(np.random.default_rng(seed)), rtol=3e-6, atol=1e-4, seed=seed)
