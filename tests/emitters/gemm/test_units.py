"""Matrix units and dots of several elements: chosen by type and shape, assembled for CPUs that have them, and run here.

Levels that end with "_emulated" run the same code with the instructions done by plain IR: packing, tails, epilogues and
blocking are tested on any machine with AVX-512.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from dataclasses import replace

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.emitters.gemm.convolution_harness import run_convolution
from tests.emitters.gemm.harness import compiled_gemm, run_gemm, target_of
from tests.emitters.gemm.test_convolution import CASES
from xjit.emitters.gemm.blocking.method import GemmTypes, with_unit
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.shapes import GemmShape, row_major
from xjit.emitters.gemm.blocking.storage import FLOAT8, ROUNDED, UNSIGNED
from xjit.emitters.gemm.blocking.units import Unit
from xjit.emitters.gemm.library import gemm_module
from xjit.emitters.gemm.routine import Routine
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm import Target, host_cpu
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, I8, I16, I32
from xjit.runtime.machine_code.jit import initialize_llvm, missing_features

TILES = Routine(vectors=(), row_groups=(), transposes=False)
BF16 = GemmTypes(BFLOAT, BFLOAT, FLOAT)
EIGHT_BITS = GemmTypes(FLOAT8[PrimitiveType.F8E4M3FN], FLOAT8[PrimitiveType.F8E5M2], FLOAT)
BYTES = [GemmTypes(lhs, rhs, I32) for lhs in (I8, UNSIGNED) for rhs in (I8, UNSIGNED)]
EMULATED = [("avx512_bf16_emulated", BF16), *(("amx_emulated", types) for types in (BF16, *BYTES, EIGHT_BITS))]
SIZES = [(16, 16, 32), (17, 33, 65), (70, 50, 300), (5, 7, 3), (40, 100, 1100)]

needs_avx512 = pytest.mark.skipif(
    bool(missing_features(Target.for_features("avx512").features)), reason="emulation needs AVX-512"
)


def test_dots_of_bf16_pairs_are_used_where_they_are_fast() -> None:
    bf16, square = Target.for_features("avx512_bf16"), row_major(64, 64, 64)
    for cpu, unit in (("znver5", Unit.BF16), ("sapphirerapids", Unit.FMA), ("rocketlake", Unit.FMA)):
        target = replace(bf16, slow=host_cpu.slow_features(cpu))
        assert with_unit(BF16, target, square).unit is unit
    amx = replace(Target.for_features("amx"), slow=host_cpu.slow_features("sapphirerapids"))
    assert with_unit(BF16, amx, square).unit is Unit.BF16_TILES


def test_units_are_chosen_by_types_and_shape() -> None:
    amx, bf16, vnni, avx2 = map(Target.for_features, ("amx", "avx512_bf16", "avx512_vnni", "avx2"))
    square, thin, vector = row_major(64, 64, 64), row_major(4, 64, 64), row_major(1, 512, 512)
    assert with_unit(BF16, amx, square).unit is Unit.BF16_TILES
    assert with_unit(BF16, amx, thin).unit is Unit.BF16, "four rows do not fill a tile"
    assert with_unit(BF16, amx, vector).unit is Unit.FMA, "a matrix is read once, in streams"
    assert with_unit(BF16, bf16, square).unit is Unit.BF16
    assert with_unit(BF16, vnni, square).unit is Unit.FMA
    assert with_unit(GemmTypes(ROUNDED[BFLOAT], BFLOAT, BFLOAT), amx, square).unit is Unit.BF16_TILES
    assert with_unit(GemmTypes(BFLOAT, FLOAT, FLOAT), amx, square).unit is Unit.FMA
    assert with_unit(GemmTypes(BFLOAT, BFLOAT, DOUBLE), amx, square).unit is Unit.FMA
    for types in BYTES:
        assert with_unit(types, amx, square).unit is Unit.BYTE_TILES
        signed = types.rhs is I8
        assert with_unit(types, vnni, square).unit is (Unit.BYTES if signed else Unit.PAIRS)
        assert with_unit(types, avx2, square).unit is Unit.PAIRS
    assert with_unit(GemmTypes(I16, I8, I32), amx, square).unit is Unit.PAIRS


@pytest.mark.parametrize(
    ("level", "types", "instructions"),
    [
        ("amx", BF16, ("tdpbf16ps", "tileloadd", "tilestored", "ldtilecfg", "tilerelease")),
        *(("amx", types, (name,)) for types, name in zip(BYTES, ("tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud"))),
        ("avx512_bf16", BF16, ("vdpbf16ps",)),
        ("avx512_vnni", BYTES[0], ("vpdpbusd",)),
    ],
    ids=str,
)
def test_instructions_are_selected(level: str, types: GemmTypes, instructions: tuple[str, ...]) -> None:
    target = Target.for_features(level)
    initialize_llvm()
    with llvm.create_context() as context:
        module = llvm.parse_assembly(gemm_module(with_unit(types, target), TILES, target).to_text(), context)
        machine = llvm.Target.from_triple(target.triple).create_target_machine(target.cpu, target.features, opt=1)
        text = machine.emit_assembly(module)
        module.close()
    for name in instructions:
        assert name in text, name


@needs_avx512
@pytest.mark.parametrize(("level", "types"), EMULATED, ids=lambda x: x if isinstance(x, str) else x.name)
def test_sizes_and_storage_orders(level: str, types: GemmTypes) -> None:
    types = with_unit(types, target_of(level))
    for case, size in enumerate(SIZES):
        for flips in (case % 4, (case + 1) % 4):
            shape = row_major(*size, transpose_lhs=bool(flips & 1), transpose_rhs=bool(flips & 2), batch=1 + case % 2)
            run_gemm(shape, types, level)
    run_gemm(GemmShape(19, 37, 23, 100, 3, 5, 200, 90, 2), types, level)
    strides = {"lhs_row": 70, "lhs_k_outer": 21 * 70, "lhs_k_inner": 1, "rhs_k_outer": 70 * 50, "rhs_k_inner": 50}
    for inner in (9, 70):
        run_gemm(GemmShape(21, 50, inner, k_outer=5, rhs_column=1, out_row=50, **strides), types, level)


@needs_avx512
@pytest.mark.parametrize(("level", "types"), EMULATED[:3], ids=lambda x: x if isinstance(x, str) else x.name)
def test_convolutions(level: str, types: GemmTypes) -> None:
    types = with_unit(types, target_of(level))
    for case in (CASES[0], CASES[2], CASES[3], CASES[6], CASES[9], CASES[13]):
        run_convolution(replace(case, types=types), level)
    run_convolution(replace(CASES[2], types=types, orders=("first", "first", "first")), level)


def run_bits(lhs: np.ndarray, rhs: np.ndarray, level: str, max_tasks: int = 1) -> np.ndarray:
    """The f32 product of bf16 matrices."""
    types = with_unit(BF16, target_of(level))
    target, compiled = compiled_gemm(level, types)
    out = np.full((lhs.shape[0], rhs.shape[1]), np.nan, np.float32)
    record = plan_gemm(row_major(*out.shape, lhs.shape[1]), types, target, max_tasks).to_array()
    compiled.call(out.ctypes.data, lhs.ctypes.data, rhs.ctypes.data, 0, record.ctypes.data)
    return out


def numbers(shape: tuple[int, int], seed: int) -> np.ndarray:
    """bf16 over many binades, with zeros, subnormals, infinities and a NaN."""
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 21, shape)).astype(ml_dtypes.bfloat16)
    odd = np.array([0, 0x8000, 0x0001, 0x8070, 0x7F80, 0xFF80, 0x7FC1], np.uint16).view(ml_dtypes.bfloat16)
    values[::7, ::5] = rng.choice(odd, values[::7, ::5].shape)
    return values


def flushed(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def tile_product(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """TDPBF16PS for up to 32 elements of k: even and odd ones are summed apart. Sums in f64 of an f32 and an exact
    product are rounded twice here, which differs from once only where the numbers below avoid it.
    """
    a, b = (flushed(x.astype(np.float32)).astype(np.float64) for x in (lhs, rhs))
    sums = [np.zeros((lhs.shape[0], rhs.shape[1]), np.float32) for _ in range(2)]
    for k in range(lhs.shape[1]):
        sums[k % 2] = flushed((a[:, k : k + 1] * b[k] + sums[k % 2]).astype(np.float32))
    return flushed(sums[0] + sums[1])


@needs_avx512
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
def test_tiles_round_as_the_hardware_does() -> None:
    lhs, rhs = numbers((33, 30), 0), numbers((30, 17), 1)
    np.testing.assert_array_equal(run_bits(lhs, rhs, "amx_emulated"), tile_product(lhs, rhs))


@needs_avx512
@pytest.mark.parametrize("level", ["avx512_bf16_emulated", "amx_emulated"])
def test_sums_are_those_of_f32(level: str) -> None:
    """The error stays that of any sum in f32, and does not depend on tasks."""
    rng = np.random.default_rng(2)
    lhs, rhs = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((150, 1300), (1300, 130)))
    results = [run_bits(lhs, rhs, level, tasks) for tasks in (1, 8, 64)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    a, b = lhs.astype(np.float64), rhs.astype(np.float64)
    assert (np.abs(results[0] - a @ b) / (np.abs(a) @ np.abs(b))).max() < 5e-7


PROGRAM = """HloModule m
ENTRY e {{
  x = {0}[70,200] parameter(0)
  w = {0}[200,90] parameter(1)
  b = {1}[90] parameter(2)
  d = {1}[70,90] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  c = {1}[70,90] broadcast(b), dimensions={{1}}
  s = {1}[70,90] add(d, c)
  z = {1}[] constant(0)
  y = {1}[70,90] broadcast(z), dimensions={{}}
  ROOT r = {1}[70,90] maximum(s, y)
}}
"""


@needs_avx512
@pytest.mark.parametrize(("level", "kind", "out", "unit"), [
    ("amx_emulated", "bf16", "f32", "bf16_tiles"), ("amx_emulated", "s8", "s32", "byte_tiles"),
    ("avx512_bf16_emulated", "bf16", "bf16", "bf16"), ("avx512", "u8", "s32", "pairs"),
])  # fmt: skip
def test_programs_with_epilogues(level: str, kind: str, out: str, unit: str) -> None:
    exe = xjit.compile(PROGRAM.format(kind, out), options=xjit.CompileOptions(cpu_level=level))
    assert f"_{unit}_copies_in_place(" in exe.as_text("llvm")
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-8 if kind != "u8" else 0, 9, shape) for shape in ((70, 200), (200, 90)))
    b = rng.integers(-300, 300, 90)
    types = {"bf16": ml_dtypes.bfloat16, "f32": np.float32, "s8": np.int8, "u8": np.uint8, "s32": np.int32}
    result = exe(x.astype(types[kind]), w.astype(types[kind]), b.astype(types[out]))
    product = (x @ w).astype(types[out])
    np.testing.assert_array_equal(result, np.maximum(product + b.astype(types[out]), 0).astype(types[out]))


ALGORITHM = """HloModule m
ENTRY e {{
  x = f32[40,200] parameter(0)
  w = f32[200,90] parameter(1)
  ROOT d = f32[40,90] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{0}
}}
"""


@needs_avx512
@pytest.mark.parametrize("level", ["avx512", "amx_emulated"])
def test_algorithms(level: str) -> None:
    """f32 is rounded to bf16 only where the dot says so and a unit gains by it; other algorithms are as exact as f32."""
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((40, 200), (200, 90)))
    rounded = [a.astype(ml_dtypes.bfloat16).astype(np.float64) for a in (x, w)]
    for algorithm in ("", "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x9", "dot_f32_f32_f32"):
        text = ALGORITHM.format(algorithm and f", algorithm={algorithm}")
        result = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))(x, w)
        rounds = algorithm == "dot_bf16_bf16_f32" and level == "amx_emulated"
        expected = np.matmul(*rounded) if rounds else x.astype(np.float64) @ w
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=5e-5, err_msg=algorithm)


def test_an_algorithm_in_f64_is_refused() -> None:
    with pytest.raises(Unsupported, match="dot 'd' cannot be compiled: algorithm dot_f64_f64_f64"):
        xjit.compile(ALGORITHM.format(", algorithm=dot_f64_f64_f64"))


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="a system call of Linux")
@pytest.mark.parametrize(("answer", "granted", "expected"), [(0, 1 << 18, True), (0, 3, False), (-1, 1 << 18, False)])
def test_the_kernel_is_asked_for_tiles(
    answer: int, granted: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arch_prctl(code: int, argument: int) -> int:
        if code == 0x1023:
            assert argument == 18
            return answer
        assert code == 0x1022
        ctypes.c_uint64.from_address(argument).value = granted
        return 0

    monkeypatch.setattr(host_cpu, "_arch_prctl", arch_prctl)
    assert host_cpu._may_use_tiles() is expected


def test_a_kernel_that_refuses_leaves_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    features = llvm.FeatureMap({"avx512f": True, "amx-tile": True, "amx-bf16": True, "amx-int8": True})
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: features)
    for agrees, flags in (
        (True, "+amx-bf16,+amx-int8,+amx-tile,+avx512f"),
        (False, "-amx-bf16,-amx-int8,-amx-tile,+avx512f"),
    ):
        monkeypatch.setattr(host_cpu, "_may_use_tiles", lambda agrees=agrees: agrees)
        assert host_cpu.host_features.__wrapped__() == flags
