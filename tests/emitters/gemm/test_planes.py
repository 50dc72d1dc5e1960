"""Products of f32 and f16 as sums of bf16 products: planes, the range they need, exactness, and what falls back."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from dataclasses import replace

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.emitters.gemm.convolution_harness import Case, convolution_shape, run_convolution
from tests.emitters.gemm.harness import Compiled, compile_module, compiled_gemm, run_gemm, target_of
from tests.emitters.gemm.test_convolution import CASES
from xjit.emitters.gemm.block import PACKED_ROW_BYTES
from xjit.emitters.gemm.blocking.convolution_plan import SLAB_BYTES, plan_convolution
from xjit.emitters.gemm.blocking.convolution_shapes import convolution_spans
from xjit.emitters.gemm.blocking.method import GemmTypes, with_unit
from xjit.emitters.gemm.blocking.plan import PACKED_RHS_BYTES, plan_gemm
from xjit.emitters.gemm.blocking.shapes import GemmShape, operand_spans, row_major
from xjit.emitters.gemm.blocking.storage import NUM_PLANES
from xjit.emitters.gemm.blocking.units import TILE_LANES, Unit, panel_rows, plane_products
from xjit.emitters.gemm.convolution.tile_rows import GATHERED_ROW_BYTES
from xjit.emitters.gemm.library import gemm_module
from xjit.emitters.gemm.packing.lane_packing import LaneCopy, emit_lane_copy
from xjit.emitters.gemm.plane_range import emit_planes_fit, greatest_exponents
from xjit.emitters.gemm.routine import Routine
from xjit.llvm import LLVMType, Module, Target
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, HALF
from xjit.runtime.machine_code.jit import initialize_llvm, missing_features

LEVEL = "amx_emulated"
pytestmark = pytest.mark.skipif(
    bool(missing_features(Target.for_features("avx512").features)), reason="emulation needs AVX-512"
)
PAIRS = [(FLOAT, FLOAT), (HALF, HALF), (FLOAT, BFLOAT), (HALF, FLOAT)]
TOLERANCE = 3e-7
"""Of an error beside the sum of absolute products; a third plane in a wrong place is 1e-5."""
DTYPES = {FLOAT: np.float32, HALF: np.float16, BFLOAT: ml_dtypes.bfloat16}


def planes_of(lhs: LLVMType = FLOAT, rhs: LLVMType = FLOAT) -> GemmTypes:
    return GemmTypes(lhs, rhs, FLOAT, Unit.BF16_PLANES)


def full_bits(shape: tuple[int, ...], seed: int, dtype: type = np.float32) -> np.ndarray:
    """Numbers that need all bits of their type."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def test_products_of_planes() -> None:
    assert plane_products(3, 3) == [(0, 2), (1, 1), (2, 0), (0, 1), (1, 0), (0, 0)]
    assert plane_products(2, 2) == [(1, 1), (0, 1), (1, 0), (0, 0)], "all four of f16: products are exact"
    assert plane_products(3, 1) == [(2, 0), (1, 0), (0, 0)]
    assert plane_products(1, 1) == [(0, 0)]


def test_what_is_taken_apart() -> None:
    large, narrow, short = row_major(256, 300, 1024), row_major(256, 255, 1024), row_major(256, 300, 1023)
    amx = Target.for_features("amx")
    for types in (GemmTypes(*pair, FLOAT) for pair in PAIRS):
        assert with_unit(types, amx, large, planes=True).unit is Unit.BF16_PLANES
        assert with_unit(types, amx, narrow, planes=True).unit is Unit.FMA, "planes are not worth it"
        assert with_unit(types, amx, short, planes=True).unit is Unit.FMA, "sums are too short"
        assert with_unit(types, amx, large).unit is Unit.FMA, "nobody allowed it"
        assert with_unit(types, replace(amx, bf16_planes=False), large, planes=True).unit is Unit.FMA
        assert with_unit(types, Target.for_features("avx512_bf16"), large, planes=True).unit is Unit.FMA
    assert with_unit(GemmTypes(FLOAT, FLOAT, DOUBLE), amx, large, planes=True).unit is Unit.FMA
    assert with_unit(GemmTypes(BFLOAT, BFLOAT, FLOAT), amx, large, planes=True).unit is Unit.BF16_TILES


@functools.cache
def plane_copy(storage: LLVMType, along_lines: bool) -> Compiled:
    """The copy of left or right operands to their planes."""
    module = Module("planes", Target.for_features("avx512"))
    copy = emit_lane_copy(module, LaneCopy(storage, BFLOAT, 2, along_lines, True, NUM_PLANES[storage]))
    copy.linkage = ""
    return compile_module(module, [copy.name], 9)[copy.name]


def packed_planes(values: np.ndarray, storage: LLVMType, *, along_lines: bool, transposed: bool) -> list[np.ndarray]:
    """The planes of [lines, k] values."""
    lines, k = values.shape
    source = np.ascontiguousarray(values.T) if transposed else values
    line, step = (source.itemsize, lines * source.itemsize) if transposed else (k * source.itemsize, source.itemsize)
    lanes = (lines, (k + 1) // 2) if along_lines else ((k + 1) // 2, lines)
    packed = np.zeros((NUM_PLANES[storage], *lanes, 2), ml_dtypes.bfloat16)
    sizes = (line, step, lines, k) if along_lines else (step, line, k, lines)
    plane_bytes, *strides = packed.strides[:3]
    plane_copy(storage, along_lines).call(packed.ctypes.data, *strides, source.ctypes.data, *sizes, plane_bytes)
    packed = packed if along_lines else packed.swapaxes(1, 2)
    return list(packed.reshape(len(packed), lines, -1)[:, :, :k].astype(np.float32))


@pytest.mark.parametrize("storage", [FLOAT, HALF], ids=lambda type: type.mangled)
def test_planes_sum_up_to_the_number(storage: LLVMType) -> None:
    rng = np.random.default_rng(0)
    values = full_bits((37, 75), 1) * (2.0 ** rng.integers(-24, 15, (37, 75))).astype(np.float32)
    values[0, :6] = [0, -0.0, 2**-24, 1, 65504, -(2**-10) * (1 + 2**-8)]
    values = np.clip(values, -65504, 65504).astype(DTYPES[storage])
    for along_lines in (True, False):
        for transposed in (True, False):
            planes = packed_planes(values, storage, along_lines=along_lines, transposed=transposed)
            np.testing.assert_array_equal(np.sum(planes, 0, np.float64), values.astype(np.float64))
            for number, plane in enumerate(planes):
                assert number == 0 or (np.abs(plane) <= np.abs(values) * 2.0 ** (-8 * number)).all()


@functools.cache
def fit_function(lhs: LLVMType, rhs: LLVMType) -> Callable[..., bool]:
    module = Module("fit", Target.for_features("avx512"))
    name = emit_planes_fit(module, planes_of(lhs, rhs)).name
    loaded = compile_module(module, [name], 5)[name].loaded
    prototype = ctypes.CFUNCTYPE(ctypes.c_bool, *[ctypes.c_int64] * 5)
    function = prototype(loaded.address(name))
    return lambda *args: (loaded, function(*args))[1]


def fits(a: np.ndarray, b: np.ndarray, terms: int = 256) -> bool:
    storage = {np.dtype(dtype): type for type, dtype in DTYPES.items()}
    function = fit_function(storage[a.dtype], storage[b.dtype])
    return function(a.ctypes.data, a.size, b.ctypes.data, b.size, greatest_exponents(terms))


@pytest.mark.parametrize(("number", "other", "terms", "expected"), [
    (1.0, 1.0, 256, True), (0.0, 0.0, 256, True), (np.inf, 1.0, 256, False), (np.nan, 1.0, 256, False),
    (-np.inf, 2.0**-120, 256, False), (2.0**-103, 2.0**23, 256, True), (2.0**-104, 2.0**25, 256, False),
    (2.0**-40, 2.0**-40, 256, True), (2.0**-40, 2.0**-41, 256, False), (-(2.0**-60), 2.0**-30, 256, False),
    (2.0**-130, 1.0, 256, True), (2.0**115, 1.0, 256, True), (2.0**115, 1.5, 257, False),
    (2.0**126 * 1.5, 2.0**-11, 2, True), (2.0**127, 2.0**-40, 2, False),
])  # fmt: skip
def test_range_of_operands(number: float, other: float, terms: int, expected: bool) -> None:
    """Wherever the number is: in whole vectors, in the rest, in any task."""
    with np.errstate(over="ignore"):
        for size, place in ((1, 0), (70, 3), (70, 69), (300_001, 299_999), (300_001, 0)):
            one = np.full(size, np.float32(2) if 2.0**-50 < abs(number) < 2.0**50 else np.float32(0))
            one[place] = number
            two = np.zeros(33, np.float32)
            two[17] = other
            assert fits(one, two, terms) is fits(two, one, terms)
            assert fits(one, two, terms) is expected, (number, other, terms, size, place)


def test_range_of_narrow_floats() -> None:
    half = np.array([2**-24, 65504, 0], np.float16)
    assert fits(half, half, 1 << 20)
    assert fits(half, np.array([2**-50], np.float32))
    assert not fits(half, np.array([2**-60], np.float32))
    assert not fits(np.array([np.inf], np.float16), half)
    assert not fits(half[:1].astype(np.float32), np.array([np.nan], ml_dtypes.bfloat16))


@pytest.mark.parametrize("pair", PAIRS[:3], ids=lambda pair: f"{pair[0].mangled}_{pair[1].mangled}")
def test_sizes_and_storage_orders(pair: tuple[LLVMType, LLVMType]) -> None:
    types = planes_of(*pair)
    for case, size in enumerate([(17, 33, 65), (70, 50, 300), (5, 7, 3)]):
        shape = row_major(*size, transpose_lhs=bool(case & 1), transpose_rhs=bool(case & 2), batch=1 + case % 2)
        run_gemm(shape, types, LEVEL, tolerance=TOLERANCE)
    run_gemm(GemmShape(19, 37, 23, 100, 3, 5, 200, 90, 2), types, LEVEL, tolerance=TOLERANCE)
    strides = {"lhs_row": 350, "lhs_k_outer": 70, "lhs_k_inner": 1, "rhs_k_outer": 70 * 50, "rhs_k_inner": 50}
    for inner in (9, 70):
        shape = GemmShape(21, 50, inner, k_outer=5, rhs_column=1, out_row=50, **strides)
        run_gemm(shape, types, LEVEL, tolerance=TOLERANCE)


def multiply(a: np.ndarray, b: np.ndarray, types: GemmTypes, max_tasks: int = 8) -> np.ndarray:
    """The f32 product, without a look at the range."""
    level = LEVEL if types.unit is Unit.BF16_PLANES else "avx512"
    target, compiled = compiled_gemm(level, types)
    out = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
    record = plan_gemm(row_major(*out.shape, a.shape[1]), types, target, max_tasks).to_array()
    compiled.call(out.ctypes.data, a.ctypes.data, b.ctypes.data, 0, record.ctypes.data)
    return out


def errors(result: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of each element, beside the sum of the absolute products."""
    wide = [x.astype(np.float64) for x in (a, b)]
    return np.abs(result - wide[0] @ wide[1]) / np.maximum(np.abs(wide[0]) @ np.abs(wide[1]), 1e-300)


@pytest.mark.parametrize("pair", PAIRS[:3], ids=lambda pair: f"{pair[0].mangled}_{pair[1].mangled}")
def test_all_bits_count(pair: tuple[LLVMType, LLVMType]) -> None:
    """Every element is as near as a sum of a few roundings, and nearer than that of multiply-adds."""
    a, b = (
        full_bits(shape, seed, DTYPES[type]) for seed, (type, shape) in enumerate(zip(pair, ((70, 610), (610, 85))))
    )
    planes, exact = planes_of(*pair), GemmTypes(*pair, FLOAT)
    results = [multiply(a, b, planes, tasks) for tasks in (1, 8, 28)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    found, known = errors(results[0], a, b), errors(multiply(a, b, exact), a, b)
    assert found.max() < 1e-7
    assert found.max() < known.max()


def test_integers_are_exact_where_f32_is() -> None:
    rng = np.random.default_rng(5)
    for bits in ((12, 3), (8, 8), (1, 15), (16, 1)):
        a, b = (rng.integers(-(2**n), 2**n + 1, shape) for n, shape in zip(bits, ((40, 200), (200, 60))))
        b[rng.random(b.shape) < 0.7] = 0
        assert (np.abs(a) @ np.abs(b)).max() < 2**24
        result = multiply(a.astype(np.float32), b.astype(np.float32), planes_of())
        np.testing.assert_array_equal(result, (a @ b).astype(np.float32))


def test_the_look_at_operands_sees_all_of_them() -> None:
    for flips in range(4):
        shape = row_major(5, 6, 7, transpose_lhs=bool(flips & 1), transpose_rhs=bool(flips & 2), batch=1 + flips)
        assert operand_spans(shape) == ((1 + flips) * 35, (1 + flips) * 42)
    for case in CASES:
        for orders in (("last", "last", "last"), ("first", "mixed", "first")):
            sizes = (case.batch, case.channels, *case.input), (case.features, *case.kernel)
            spans = math.prod(sizes[0]), math.prod(sizes[1]) * case.channels // case.feature_groups
            if all(spans):
                assert convolution_spans(convolution_shape(replace(case, orders=orders))) == spans, case


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].mangled}_{pair[1].mangled}")
def test_scratch_memory_holds_what_plans_ask_for(pair: tuple[LLVMType, LLVMType]) -> None:
    """Packed rows, panels, slabs and gathered rows of random sizes fit the memory that tasks have on their stacks."""
    types, target, rng = planes_of(*pair), Target.for_features("amx"), np.random.default_rng(11)
    lhs_planes, rhs_planes = types.planes

    def sizes(*limits: int) -> list[int]:
        return [int(np.exp(rng.uniform(0, np.log(limit)))) for limit in limits]

    for _ in range(100):
        m, n, k, runs = sizes(3000, 3000, 5000, 40)
        shape = GemmShape(m, n, k, k, 1, n, 1, n, k_outer=runs, lhs_k_outer=k, rhs_k_outer=k * n)
        plan = plan_gemm(shape, types, target, 2)
        rows = panel_rows(types.unit, types.lhs, plan.block_k_outer * -(-plan.block_k_inner // 2))
        assert 4 * lhs_planes * rows <= plan.lhs_leading <= PACKED_ROW_BYTES
        assert 4 * rhs_planes * rows * -(-plan.block_n // TILE_LANES) * TILE_LANES <= PACKED_RHS_BYTES
        batch, channels, features, height, width, *window = sizes(8, 600, 600, 60, 60, 12, 12)
        taps = min(window[0], height), min(window[1], width)
        case = Case(batch, channels, features, (height, width), taps, stride=(1 + batch % 2, 1))
        block = plan_convolution(convolution_shape(case), types, target, 2)
        lanes = -(-block.chunk_channels // 2)
        rows = panel_rows(types.unit, types.lhs, block.chunk_1 * block.chunk_2 * lanes)
        assert 4 * lhs_planes * rows <= GATHERED_ROW_BYTES
        assert 4 * lhs_planes * block.tile_batch * block.slab_1 * block.slab_2 * lanes <= SLAB_BYTES
        assert 4 * rhs_planes * rows * -(-block.block_features // TILE_LANES) * TILE_LANES <= PACKED_RHS_BYTES


@pytest.mark.parametrize("number", [0, 2, 3, 6, 8, 9, 15, 18, 22])
def test_convolutions(number: int) -> None:
    case = replace(CASES[number], types=planes_of())
    run_convolution(case, LEVEL, tolerance=TOLERANCE)
    run_convolution(replace(case, orders=("first", "first", "first")), LEVEL, tolerance=TOLERANCE)


PRODUCT = """HloModule m
ENTRY e {{
  x = {0}[256,1030] parameter(0)
  w = f32[1030,257] parameter(1)
  b = f32[257] parameter(2)
  d = f32[256,257] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{1}
  c = f32[256,257] broadcast(b), dimensions={{1}}
  ROOT s = f32[256,257] add(d, c)
}}
"""
CONVOLUTION = """HloModule m
ENTRY e {{
  x = f32[2,12,12,128] parameter(0)
  w = f32[3,3,128,256] parameter(1)
  ROOT c = f32[2,12,12,256] convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f{0}
}}
"""


def compiled(text: str, level: str, **options: bool) -> xjit.Executable:
    return xjit.compile(text, options=xjit.CompileOptions(cpu_level=level, **options))


def product_operands(dtype: type = np.float32) -> list[np.ndarray]:
    return [full_bits((256, 1030), 6, dtype), full_bits((1030, 257), 7), full_bits((257,), 8)]


@pytest.mark.parametrize(("kind", "products"), [("f32", 6), ("f16", 5)])
def test_programs(kind: str, products: int) -> None:
    exe = compiled(PRODUCT.format(kind, ""), LEVEL)
    assert f"by bf16_planes, {products} products" in exe.as_text("schedule")
    x, w, b = product_operands(np.float32 if kind == "f32" else np.float16)
    expected = x.astype(np.float64) @ w + b
    np.testing.assert_allclose(exe(x, w, b), expected, rtol=0, atol=3e-5)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, 2.0**-110, 2.0**-130])
def test_what_planes_cannot_hold_is_multiplied_as_it_is(value: float) -> None:
    """Bit by bit the result of multiply-adds; what counts as zero there changes nothing here either."""
    planes, exact = compiled(PRODUCT.format("f32", ""), LEVEL), compiled(PRODUCT.format("f32", ""), "avx512")
    for operand, place in ((0, (255, 1029)), (1, (3, 128))):
        arrays = product_operands()
        arrays[operand][place] = value
        result, expected = planes(*arrays), exact(*arrays)
        if value == 2.0**-130:
            arrays[operand][place] = 0
            np.testing.assert_array_equal(result, planes(*arrays))
        else:
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("attributes", "options"), [
    (", operand_precision={highest,highest}", {}), (", algorithm=dot_f32_f32_f32", {}),
    (", algorithm=dot_bf16_bf16_f32_x9", {}), ("", {"bf16_planes": False}),
])  # fmt: skip
def test_what_asks_for_multiply_adds_gets_them(attributes: str, options: dict[str, bool]) -> None:
    arrays = product_operands()
    exe = compiled(PRODUCT.format("f32", attributes), LEVEL, **options)
    assert "bf16_planes" not in exe.as_text("schedule")
    expected = compiled(PRODUCT.format("f32", attributes), "avx512")(*arrays)
    np.testing.assert_array_equal(exe(*arrays), expected)


def test_convolution_program() -> None:
    x, w = full_bits((2, 12, 12, 128), 9), full_bits((3, 3, 128, 256), 10)
    exe, exact = compiled(CONVOLUTION.format(""), LEVEL), compiled(CONVOLUTION.format(""), "avx512")
    assert "by bf16_planes, 6 products" in exe.as_text("schedule")
    np.testing.assert_allclose(exe(x, w), exact(x, w), rtol=0, atol=2e-4)
    highest = compiled(CONVOLUTION.format(", operand_precision={highest,highest}"), LEVEL)
    np.testing.assert_array_equal(highest(x, w), exact(x, w))
    w[1, 1, 5, 200] = np.inf
    np.testing.assert_array_equal(exe(x, w), exact(x, w))


def test_the_matrix_unit_is_used() -> None:
    """The kernel of the hardware has one multiplication for each two tiles, in a loop over products."""
    target = target_of("amx")
    initialize_llvm()
    with llvm.create_context() as context:
        text = gemm_module(planes_of(), Routine(vectors=(), row_groups=(), transposes=False), target).to_text()
        module = llvm.parse_assembly(text, context)
        machine = llvm.Target.from_triple(target.triple).create_target_machine(target.cpu, target.features, opt=2)
        assembly = machine.emit_assembly(module)
        module.close()
    largest = assembly[assembly.index("_32x2:") :].split(".Lfunc_end")[0]
    assert largest.count("tdpbf16ps") == largest.count("tileloadd") == 4
    assert largest.count("tilestored") == 4
