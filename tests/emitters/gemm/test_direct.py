"""Small products without the library: which they are, their tiles, and that they have the library's bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import xjit
from xjit.emitters.gemm.blocking.direct_plan import DirectProduct, plan_direct
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.shapes import GemmShape, row_major
from xjit.emitters.gemm.blocking.storage import UNSIGNED
from xjit.emitters.planners.cpu import dot as dot_planner
from xjit.llvm import Target
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, I8, I16, I32
from xjit.runtime.machine_code.jit import missing_features

F32 = GemmTypes()
BF16, BYTES = GemmTypes(BFLOAT, BFLOAT, BFLOAT), GemmTypes(I8, I8, I8)
AVX2 = Target.for_features("avx2")
LEVELS = [level for level in ("sse2", "avx2", "avx512") if not missing_features(Target.for_features(level).features)]


def planned(
    shape: GemmShape, types: GemmTypes = F32, target: Target = AVX2, in_scratch: bool = False
) -> DirectProduct | None:
    plan = plan_gemm(shape, types, target, in_scratch=in_scratch)
    return plan_direct(shape, types, plan, target, in_scratch=in_scratch)


@pytest.mark.parametrize(
    "shape",
    [
        row_major(64, 64, 64),
        row_major(64, 64, 64, transpose_lhs=True),
        row_major(8, 8, 8, batch=500),
        row_major(1, 100, 64),  # a vector
        row_major(300, 250, 60),
        row_major(20, 2000, 16),  # few rows: the right operand need not be in the first-level cache
    ],
)
def test_small_products_need_no_library(shape: GemmShape) -> None:
    assert planned(shape) is not None


@pytest.mark.parametrize(
    "shape",
    [
        row_major(64, 64, 64, transpose_rhs=True),  # its columns would have to be gathered
        row_major(300, 300, 300),  # packed
        row_major(64, 64, 300),  # two chunks of k
        row_major(100, 256, 60),  # rows of the right operand share sets of the cache
        replace(row_major(64, 64, 64), lhs_row=1024),  # rows of the left one do
        replace(row_major(64, 64, 64), out_row=1, out_column=64),  # the result has to be transposed
        row_major(64, 1, 64),  # the library swaps operands
        row_major(1, 2000, 256),  # read as a stream
    ],
)
def test_others_are_the_librarys(shape: GemmShape) -> None:
    assert planned(shape) is None


@pytest.mark.parametrize("types", [BF16, BYTES], ids=["bf16", "bytes"])
def test_few_terms_are_converted_in_place(types: GemmTypes) -> None:
    assert planned(row_major(1000, 16, 20), types) is not None
    assert planned(row_major(1000, 16, 30), types) is None
    assert planned(row_major(1000, 400, 20), types) is None  # each would be converted for many vectors
    assert planned(row_major(64, 4000, 2), types, in_scratch=True) is None  # a strip of sums is too long


def test_results_may_be_rounded_in_place() -> None:
    assert planned(row_major(64, 64, 64), GemmTypes(FLOAT, FLOAT, BFLOAT)) is not None


def test_sums_of_narrow_integers_are_narrow() -> None:
    for types, sums in ((BYTES, I16), (GemmTypes(I8, UNSIGNED, I16), I16), (GemmTypes(I8, I8, I32), I32)):
        product = planned(row_major(1000, 16, 20), types)
        assert product is not None
        assert product.compute is sums


@pytest.mark.parametrize("level", ["avx2", "avx512"])
@pytest.mark.parametrize("n", [2, 3, 8, 19, 64, 100])
def test_panels_have_each_column_once(n: int, level: str) -> None:
    target = Target.for_features(level)
    product = planned(row_major(12, n, 20), target=target)
    assert product is not None
    columns = [
        lane.first + i * sum(lane.width for lane in lanes) + column
        for count, lanes in product.panels
        for i in range(count)
        for lane in lanes
        for column in range(lane.count)
    ]
    assert columns == list(range(product.shape.n))
    partial = [lane for _, lanes in product.panels for lane in lanes if lane.count < lane.width]
    assert all(lane is product.panels[-1][1][-1] for lane in partial)


def test_what_needs_masks_is_the_librarys_where_there_are_none() -> None:
    sse = Target.for_features("sse2")
    assert planned(row_major(12, 20, 20), target=sse) is not None
    assert planned(row_major(12, 19, 20), target=sse) is None


@pytest.mark.parametrize("target", [AVX2, Target.for_features("avx512")], ids=["16", "32"])
def test_tiles_fit_the_registers(target: Target) -> None:
    registers = 32 if target.vector_bits == 512 else 16
    for m in (1, 2, 5, 7, 64, 999):
        for n in (9, 16, 40, 100):
            product = planned(row_major(m, n, 30), GemmTypes(DOUBLE, DOUBLE, DOUBLE), target)
            assert product is not None
            assert (product.rows + 1) * product.vectors < registers
            assert product.strips * product.rows < m + product.rows


def text_of(m: int, n: int, k: int, kind: str, lhs_is_transposed: bool, batch: int, has_epilogue: bool) -> str:
    lhs = f"{batch},{k},{m}" if lhs_is_transposed else f"{batch},{m},{k}"
    result = f"{kind}[{batch},{m},{n}]"
    dims = f"lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{{1 if lhs_is_transposed else 2}}}"
    dot = f"{result} dot(x, y), {dims}, rhs_contracting_dims={{1}}"
    more = (
        f"b = {result} parameter(2)  d = {dot}  ROOT r = {result} maximum(b, d)" if has_epilogue else f"ROOT d = {dot}"
    )
    return (
        f"HloModule m\nENTRY e {{ x = {kind}[{lhs}] parameter(0)  y = {kind}[{batch},{k},{n}] parameter(1)  {more} }}"
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("m", "n", "k", "kind", "lhs_is_transposed", "batch", "has_epilogue"),
    [
        (64, 64, 64, "f32", False, 1, False),
        (7, 19, 13, "f32", False, 3, False),
        (7, 19, 13, "f32", True, 3, True),
        (33, 10, 64, "f32", True, 1, False),
        (5, 24, 100, "f64", False, 2, True),
        (1, 100, 64, "f32", False, 1, False),
        (50, 129, 7, "s32", False, 1, False),
        (61, 30, 1, "f32", False, 1, True),
        (61, 30, 13, "bf16", False, 1, False),
        (61, 37, 9, "bf16", True, 2, True),
        (61, 37, 9, "f16", False, 1, False),
        (61, 19, 24, "s8", True, 1, False),
        (61, 32, 13, "u8", False, 2, True),
        (61, 70, 13, "s16", False, 1, False),
    ],
)
def test_bits_are_the_librarys(
    m: int, n: int, k: int, kind: str, lhs_is_transposed: bool, batch: int, has_epilogue: bool, level: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    text = text_of(m, n, k, kind, lhs_is_transposed, batch, has_epilogue)
    options = xjit.CompileOptions(cpu_level=level)
    direct = xjit.compile(text, options=options)
    has_masks = level == "avx512" or (level == "avx2" and kind in ("f32", "f64", "s32"))
    assert ("xjit_gemm" in direct.as_text("llvm")) == (not has_masks and n % 4 != 0)
    monkeypatch.setattr(dot_planner, "plan_direct", lambda *_, **__: None)  # pyright: ignore[reportUnknownLambdaType]
    library = xjit.compile(text, options=options)
    assert "xjit_gemm" in library.as_text("llvm")
    rng = np.random.default_rng(0)
    shapes = [p.shape for p in xjit.parse_hlo(text).entry_computation.parameter_instructions]
    arrays = [(8 * rng.standard_normal(s.dimensions)).astype(s.element_type.dtype) for s in shapes]
    np.testing.assert_array_equal(direct(*arrays), library(*arrays))


def test_units_may_be_shared_out() -> None:
    """A product that is worth several tasks has the same bits as in one."""
    text = text_of(1000, 64, 64, "f32", False, 2, True)
    exe = xjit.compile(text)
    assert "tasks=" in exe.as_text("thunks")
    rng = np.random.default_rng(0)
    shapes = [p.shape.dimensions for p in xjit.parse_hlo(text).entry_computation.parameter_instructions]
    x, y, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in shapes)
    np.testing.assert_array_equal(exe(x, y, b), np.maximum(b, x @ y))
