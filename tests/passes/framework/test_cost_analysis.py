"""Costs: against XLA's own analysis, instruction by instruction; loops, branches, fusions, updates in place."""

from __future__ import annotations

import math
import random

import pytest

import xjit
from tests.support import xla
from xjit.passes.analysis.cost_analysis import HloCost, HloCostAnalysis
from xjit.text.parser import parse_hlo

COMPUTATIONS = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=LT }
both { a = f32[] parameter(0) b = f32[] multiply(a, a) ROOT s = f32[] exponential(b) }
chain { p = f32[16,32] parameter(0) q = f32[16,32] negate(p) ROOT r = f32[16,32] exponential(q) }
short { p = f32[16,32] parameter(0) ROOT q = f32[16,32] negate(p) }
head { p = f32[16,32] parameter(0) q = f32[4,32] slice(p), slice={[0:4],[0:32]} ROOT r = f32[4,32] exponential(q) }
"""
X = "x = f32[16,32] parameter(0) "
IMAGE = "x = f32[2,8,8,4] parameter(0) k = f32[3,3,4,6] parameter(1) "
ROWS = "i = s32[5,1] parameter(1) "
PROGRAMS = {
    "add": X + "ROOT r = f32[16,32] add(x, x)",
    "convert": X + "ROOT r = f16[16,32] convert(x)",
    "copy": X + "ROOT r = f32[16,32] copy(x)",
    "select": X + "c = pred[16,32] parameter(1) ROOT r = f32[16,32] select(c, x, x)",
    "divide": X + "ROOT r = f32[16,32] divide(x, x)",
    "power": X + "ROOT r = f32[16,32] power(x, x)",
    "logistic": X + "ROOT r = f32[16,32] logistic(x)",
    "complex": "x = c64[16] parameter(0) ROOT r = c64[16] multiply(x, x)",
    "broadcast": "x = f32[16] parameter(0) ROOT r = f32[16,32] broadcast(x), dimensions={0}",
    "transpose": X + "ROOT r = f32[32,16] transpose(x), dimensions={1,0}",
    "iota": "ROOT r = f32[512] iota(), iota_dimension=0",
    "constant": "ROOT r = f32[2] constant({1,2})",
    "pad": X + "z = f32[] parameter(1) ROOT r = f32[18,32] pad(x, z), padding=1_1x0_0",
    "concatenate": X + "ROOT r = f32[32,32] concatenate(x, x), dimensions={0}",
    "slice": X + "ROOT r = f32[4,32] slice(x), slice={[0:8:2],[0:32]}",
    "reduce": X + "z = f32[] parameter(1) ROOT r = f32[16] reduce(x, z), dimensions={1}, to_apply=add",
    "map": X + "ROOT r = f32[16,32] map(x), dimensions={0,1}, to_apply=both",
    "window": X + "z = f32[] parameter(1) ROOT r = f32[14,30] reduce-window(x, z), window={size=3x3}, to_apply=add",
    "dot": X + "y = f32[32,8] parameter(1) ROOT r = f32[16,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "valid": IMAGE + "ROOT r = f32[2,6,6,6] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f",
    "same": IMAGE + "ROOT r = f32[2,8,8,6] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    "strided": IMAGE + "ROOT r = f32[2,4,4,6] convolution(x, k), window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f",
    "dilated": IMAGE + "ROOT r = f32[2,15,6,6] convolution(x, k), window={size=3x3 pad=1_1x1_1 lhs_dilate=2x1 rhs_dilate=1x2}, dim_labels=b01f_01io->b01f",
    "backward": IMAGE + "ROOT r = f32[2,24,8,6] convolution(x, k), window={size=3x3 pad=2_2x1_1 lhs_dilate=3x1}, dim_labels=b01f_01io->b01f",
    "grouped": "x = f32[2,8,8,4] parameter(0) k = f32[3,3,2,6] parameter(1) ROOT r = f32[2,6,6,6] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2",
    "fft": "x = c64[4,16] parameter(0) ROOT r = c64[4,16] fft(x), fft_type=FFT, fft_length={16}",
    "sort": "x = f32[256] parameter(0) ROOT r = f32[256] sort(x), dimensions={0}, to_apply=less",
    "gather": X + ROWS + "ROOT r = f32[5,32] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}",
    "scatter": X + ROWS + "u = f32[5,32] parameter(2) ROOT r = f32[16,32] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "dynamic-slice": "x = f32[512] parameter(0) i = s32[] parameter(1) ROOT r = f32[64] dynamic-slice(x, i), dynamic_slice_sizes={64}",
    "update": "x = f32[512] parameter(0) u = f32[64] parameter(1) i = s32[] parameter(2) ROOT r = f32[512] dynamic-update-slice(x, u, i)",
    "rng": "a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[16,32] rng(a, b), distribution=rng_uniform",
    "call": X + "ROOT r = f32[16,32] call(x), to_apply=chain",
    "conditional": X + "c = pred[] parameter(1) ROOT r = f32[16,32] conditional(c, x, x), true_computation=short, false_computation=chain",
    "fusion": X + "ROOT r = f32[16,32] fusion(x), kind=kLoop, calls=chain",
    "fused slice": X + "ROOT r = f32[4,32] fusion(x), kind=kLoop, calls=head",
    "all-reduce": X + "ROOT r = f32[16,32] all-reduce(x), replica_groups={}, to_apply=add",
    "element": "x = (f32[4],f32[4]) parameter(0) ROOT r = f32[4] get-tuple-element(x), index=1",
    "bitcast": X + "ROOT r = f32[512] bitcast(x)",
}  # fmt: skip


def cost_of(text: str) -> HloCost:
    module = parse_hlo(text)
    return HloCostAnalysis.of(module).computation(module.entry_computation)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_xla_counts(name: str) -> None:
    text = f"HloModule m\n{COMPUTATIONS}\nENTRY e {{ {PROGRAMS[name]} }}"
    theirs = xla.cost_analysis(text)
    ours = cost_of(text)
    assert (ours.flops, ours.transcendentals, ours.bytes_accessed) == tuple(
        theirs.get(key, 0) for key in ("flops", "transcendentals", "bytes accessed")
    )


@pytest.mark.parametrize(
    "program",
    [
        "x = c64[4,30] parameter(0) ROOT r = c64[4,30] fft(x), fft_type=FFT, fft_length={30}",
        "x = c64[4,30] parameter(0) ROOT r = c64[4,30] fft(x), fft_type=IFFT, fft_length={4,30}",
        "x = c64[17] parameter(0) ROOT r = f32[32] fft(x), fft_type=IRFFT, fft_length={32}",
        "x = f32[4,200] parameter(0) ROOT r = f32[4,200] sort(x), dimensions={1}, to_apply=unequal",
    ],
)
def test_what_xla_counts_in_a_coarser_way(program: str) -> None:
    unequal = "unequal { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] sine(a) ROOT s = pred[] compare(c, b), direction=LT }"
    text = f"HloModule m\n{unequal}\nENTRY e {{ {program} }}"
    module, theirs = parse_hlo(text), xla.cost_analysis(text)
    ours = HloCostAnalysis(as_in_xla=True).computation(module.entry_computation)
    assert (ours.flops, ours.transcendentals) == (theirs.get("flops", 0), theirs.get("transcendentals", 0))
    assert HloCostAnalysis().computation(module.entry_computation).flops != ours.flops


@pytest.mark.parametrize("seed", range(12))
def test_products_of_random_windows_as_xla_counts_them(seed: int) -> None:
    r = random.Random(seed)
    size, length, stride, holes, dilation = (r.randrange(1, n) for n in (5, 10, 5, 5, 4))
    low, high = r.randrange(-1, 5), r.randrange(-1, 5)
    outputs = max(0, ((length - 1) * holes + 1 + low + high - (size - 1) * dilation - 1) // stride + 1)
    window = f"{{size={size} stride={stride} pad={low}_{high} lhs_dilate={holes} rhs_dilate={dilation}}}"
    text = f"""HloModule m ENTRY e {{ x = f32[2,{length},3] parameter(0) k = f32[{size},3,5] parameter(1)
      ROOT r = f32[2,{outputs},5] convolution(x, k), window={window}, dim_labels=b0f_0io->b0f }}"""
    assert cost_of(text).flops == xla.cost_analysis(text).get("flops", 0)


def loop(trips: int) -> str:
    return f"""HloModule m
cond {{ p = (s32[], f32[16]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT }}
body {{ p = (s32[], f32[16]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  v = f32[16] get-tuple-element(p), index=1  w = f32[16] tanh(v)
  ROOT t = (s32[], f32[16]) tuple(j, w) }}
ENTRY e {{ x = f32[16] parameter(0)  k = s32[] parameter(1)  z = s32[] constant(0)
  t = (s32[], f32[16]) tuple(START, x)  ROOT w = (s32[], f32[16]) while(t), condition=cond, body=body }}"""


def test_loops_count_as_often_as_they_run() -> None:
    once = HloCost(2, 16, 12 + 128 + 9)  # add and compare; tanh; what they read and write
    assert cost_of(loop(10).replace("START", "z")) == once.times(10)
    assert cost_of(loop(10).replace("START", "k")) == once
    known = ', backend_config={"known_trip_count":{"n":"7"}} }'
    assert cost_of(loop(10).replace("START", "k").replace("body=body }", "body=body" + known)) == once.times(7)


def test_lines_of_a_sort_and_matrices() -> None:
    text = f"HloModule m\n{COMPUTATIONS} ENTRY e {{ x = f32[4,256] parameter(0) ROOT r = f32[4,256] sort(x), dimensions={{1}}, to_apply=less }}"
    assert cost_of(text).flops == 4 * 256 * 8
    text = "ENTRY e { x = f32[4,16,16] parameter(0) ROOT r = f32[4,16,16] cholesky(x), lower=true }"
    assert cost_of(text).flops == pytest.approx(4 * 16**3 / 3)


def test_a_fusion_that_updates_in_place_moves_what_it_updates() -> None:
    text = """HloModule m
    f { p = f32[64,32] parameter(1) u = f32[2,32] parameter(0) i = s32[] parameter(2) n = f32[2,32] negate(u)
      b = f32[64,32] bitcast(p) ROOT r = f32[64,32] dynamic-update-slice(b, n, i, i) }
    ENTRY e { u = f32[2,32] parameter(0) p = f32[64,32] parameter(1) i = s32[] parameter(2)
      ROOT w = f32[64,32] fusion(u, p, i), kind=kLoop, calls=f }"""
    module = parse_hlo(text)
    moved = HloCostAnalysis.of(module).bytes_moved(module.entry_computation.root_instruction)
    assert (moved.read, moved.written) == ((256, 0, 4), 256)


def test_lapack_calls() -> None:
    text = """HloModule m ENTRY e { x = f32[3,8,8]{1,2,0} parameter(0)
      ROOT r = (f32[3,8,8]{1,2,0}, s32[3]) custom-call(x), custom_call_target="lapack_spotrf_ffi",
        api_version=API_VERSION_TYPED_FFI, backend_config="{uplo = 76 : ui8}" }"""
    assert cost_of(text).flops == pytest.approx(3 * 8**3 / 3, rel=0.5)


def test_the_cost_of_an_executable_is_that_of_its_module() -> None:
    text = "HloModule m ENTRY e { x = f32[64] parameter(0) y = f32[64] exponential(x) ROOT r = f32[64] add(x, y) }"
    assert xjit.compile(text).cost_analysis() | {"optimal_seconds": 0} == {
        "flops": 64, "transcendentals": 64, "bytes accessed": 512, "optimal_seconds": 0,
    }  # fmt: skip


def test_deep_call_chains() -> None:
    calls = [f"f{n} {{ p = f32[2] parameter(0) ROOT c = f32[2] call(p), to_apply=f{n + 1} }}" for n in range(1500)]
    calls.append("f1500 { p = f32[2] parameter(0) ROOT c = f32[2] negate(p) }")
    text = (
        "HloModule m\n"
        + "\n".join(calls[::-1])
        + "\nENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] call(x), to_apply=f0 }"
    )
    assert cost_of(text) == HloCost(2, 0, 16) and math.isfinite(cost_of(text).flops)
