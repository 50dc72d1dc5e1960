"""Matrix multiplications: exact on small integers, in every layout, type and size, on every level of x86-64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emitters.gemm.harness import compiled_gemm, run_gemm
from xjit.emitters.gemm.blocking import plan as blocking
from xjit.emitters.gemm.blocking.method import GemmTypes, Method
from xjit.emitters.gemm.blocking.plan import LHS_GROUP_ROWS, plan_gemm
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.blocking.shapes import BatchDimension, GemmShape, row_major
from xjit.emitters.gemm.blocking.storage import FLOAT8
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm import Target
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, HALF
from xjit.runtime import thread_pool
from xjit.runtime.machine_code.jit import missing_features

LEVELS = ["host", *(level for level in ("avx2", "sse2") if not missing_features(Target.for_features(level).features))]
TYPES = [GemmTypes(), GemmTypes(DOUBLE, DOUBLE, DOUBLE), GemmTypes(BFLOAT, BFLOAT, BFLOAT), GemmTypes(HALF, HALF, HALF),
         GemmTypes(BFLOAT, BFLOAT, FLOAT), GemmTypes(FLOAT, BFLOAT, FLOAT),
         GemmTypes(FLOAT8[PrimitiveType.F8E4M3FN], FLOAT8[PrimitiveType.F8E5M2], BFLOAT)]  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_random_sizes_and_storage_orders(level: str) -> None:
    rng = np.random.default_rng(1)
    for case in range(60):
        m, n, k = (int(size) for size in rng.integers(1, 71, 3))
        shape = row_major(m, n, k, transpose_lhs=bool(case & 1), transpose_rhs=bool(case & 2), batch=1 + case % 3)
        run_gemm(shape, level=level, seed=case, misalign=case % 16)


@pytest.mark.parametrize(
    "size", [(131, 67, 401), (200, 333, 517), (1, 257, 4099), (300, 1, 2053), (2, 700, 300), (9, 1000, 33)]
)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_large_and_thin(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    run_gemm(row_major(*size, transpose_lhs=transposed[0], transpose_rhs=transposed[1]))


FEW_ROWS = [
    (Method.VECTOR_ALONG_N, row_major(2, 1031, 1100)),
    (Method.VECTOR_ALONG_N, row_major(5, 1100, 1031)),
    (Method.VECTOR_ALONG_N, row_major(8, 2051, 600)),
    (Method.VECTOR_ALONG_N, row_major(1100, 3, 1031, transpose_lhs=True)),
    (Method.VECTOR_ALONG_K, row_major(2, 131, 300, transpose_rhs=True)),
    (Method.VECTOR_ALONG_K, row_major(7, 135, 2055, transpose_rhs=True)),
    (Method.VECTOR_ALONG_K, row_major(8, 200, 1100, transpose_rhs=True, batch=2)),
    (Method.VECTOR_ALONG_K, row_major(533, 6, 517)),
    (Method.VECTOR_ALONG_K, row_major(533, 6, 517, transpose_rhs=True)),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("types", [TYPES[0], TYPES[1], TYPES[2], TYPES[4]], ids=lambda t: f"{t.lhs}-{t.rhs}-{t.out}")
def test_few_rows(level: str, types: GemmTypes) -> None:
    """A few rows (or columns) are multiplied with a matrix that is read once."""
    target = Target.host() if level == "host" else Target.for_features(level)
    for method, shape in FEW_ROWS:
        assert plan_gemm(shape, types, target).method == method, shape
        run_gemm(shape, types, level)


def test_six_rows_of_the_left_operand_are_read_where_they_lie() -> None:
    avx2, avx512 = (Target.for_features(level) for level in ("avx2", "avx512"))
    shape = row_major(512, 1024, 1024)
    assert [plan_gemm(shape, GemmTypes(), target).pack_lhs for target in (avx2, avx512)] == [0, 1]
    assert plan_gemm(row_major(512, 1024, 1024, transpose_lhs=True), GemmTypes(), avx2).pack_lhs == 1
    assert plan_gemm(shape, GemmTypes(BFLOAT, FLOAT, FLOAT), avx2).pack_lhs == 1


def test_the_right_operand_is_packed_for_many_rows() -> None:
    """What is not packed of the left operand is read again for other columns, rather than to pack columns again."""
    avx2 = Target.for_features("avx2")
    assert [plan_gemm(row_major(m, 1024, 1024), GemmTypes(), avx2).blocks_m for m in (77, 512, 4096)] == [1, 1, 4]
    assert plan_gemm(row_major(512, 1024, 1024), GemmTypes(), Target.for_features("avx512")).blocks_m > 1


def test_edges_without_registers_for_masks_are_packed() -> None:
    levels = (Target.for_features(level) for level in ("sse2", "avx2", "avx512"))
    packs = [[plan_gemm(row_major(m, 60, 64), GemmTypes(), target).pack_rhs for m in (3, 40)] for target in levels]
    assert packs == [[0, 0], [0, 1], [0, 0]]  # with SSE, 60 columns are whole vectors


def test_few_rows_of_a_small_matrix() -> None:
    """A small matrix is in the cache however it is read."""
    for shape in (row_major(4, 128, 128), row_major(4, 64, 64, transpose_rhs=True), row_major(8, 8, 9000)):
        assert plan_gemm(shape, GemmTypes(), Target.host()).method == Method.TILES
        run_gemm(shape)


@pytest.mark.parametrize("types", TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("level", ["host", "avx2", "sse2"])
def test_types(types: GemmTypes, level: str) -> None:
    if level not in LEVELS:
        pytest.skip(f"this host lacks {level}")
    for m, n, k in ((1, 1, 1), (5, 7, 3), (17, 49, 33), (64, 64, 64), (33, 100, 300), (1, 90, 40), (90, 1, 40)):
        for flip in (False, True):
            run_gemm(row_major(m, n, k, transpose_lhs=flip, transpose_rhs=not flip), types, level)


@pytest.mark.parametrize(
    "shape", [row_major(0, 5, 5), row_major(5, 0, 5), row_major(5, 7, 0), row_major(3, 3, 3, batch=0)]
)
def test_empty(shape: GemmShape) -> None:
    run_gemm(shape)


def test_arbitrary_strides() -> None:
    """Gaps between elements of every operand, columns of the result apart, rows of the result contiguous."""
    run_gemm(GemmShape(19, 37, 23, lhs_row=100, lhs_k_inner=3, rhs_k_inner=5, rhs_column=200, out_row=90, out_column=2))
    run_gemm(GemmShape(50, 60, 70, lhs_row=1, lhs_k_inner=50, rhs_k_inner=60, rhs_column=1, out_row=1, out_column=50))
    run_gemm(GemmShape(1, 60, 70, lhs_row=1, lhs_k_inner=2, rhs_k_inner=60, rhs_column=1, out_row=1, out_column=3))
    run_gemm(GemmShape(33, 65, 7, lhs_row=64, lhs_k_inner=1, rhs_k_inner=128, rhs_column=1, out_row=128))


def test_split_k_and_batch_dimensions() -> None:
    """Attention in (batch, position, head, feature) order: two batch dimensions, then a contraction over head and
    feature.
    """
    batch = (BatchDimension(3, 8, 8, 121), BatchDimension(2, 264, 264, 363))
    run_gemm(GemmShape(11, 11, 8, lhs_row=24, lhs_k_inner=1, rhs_k_inner=1, rhs_column=24, out_row=11, batch=batch))
    for inner in (8, 500):
        run_gemm(
            GemmShape(
                21,
                50,
                inner,
                k_outer=3,
                lhs_row=inner,
                lhs_k_outer=21 * inner,
                lhs_k_inner=1,
                rhs_k_outer=inner * 50,
                rhs_k_inner=50,
                rhs_column=1,
                out_row=50,
            )
        )
    three = (BatchDimension(2, 0, 6, 6), BatchDimension(3, 6, 0, 12), BatchDimension(2, 18, 12, 36))
    run_gemm(GemmShape(2, 3, 3, lhs_row=3, lhs_k_inner=1, rhs_k_inner=3, rhs_column=1, out_row=3, batch=three))


def test_does_not_depend_on_threads_or_tasks() -> None:
    shapes = [
        row_major(197, 300, 521),
        row_major(1, 5000, 300),
        row_major(500, 1, 3000),
        row_major(33, 33, 33, batch=20),
        row_major(3, 5000, 300),
        row_major(5000, 6, 300),
    ]
    before = thread_pool.num_threads()
    try:
        results: list[list[np.ndarray]] = []
        for threads in (1, 2):
            thread_pool.set_num_threads(threads)
            results.append([run_real(shape, tasks) for shape in shapes for tasks in (1, 8, 64)])
    finally:
        thread_pool.set_num_threads(before)
    for i in range(0, len(results[0]), 3):
        for other in (*results[0][i : i + 3], *results[1][i : i + 3]):
            np.testing.assert_array_equal(results[0][i], other)


def run_real(shape: GemmShape, max_tasks: int) -> np.ndarray:
    """The product of dense random real numbers, planned for a number of tasks."""
    target, compiled = compiled_gemm("host", GemmTypes())
    rng = np.random.default_rng(5)
    lhs, rhs = (
        rng.standard_normal(shape.num_batches * size).astype(np.float32)
        for size in (shape.m * shape.k, shape.k * shape.n)
    )
    out = np.full(shape.num_batches * shape.m * shape.n, np.nan, np.float32)
    record = plan_gemm(shape, GemmTypes(), target, max_tasks).to_array()
    compiled.call(out.ctypes.data, lhs.ctypes.data, rhs.ctypes.data, 0, record.ctypes.data)
    expected = lhs.reshape(-1, shape.m, shape.k).astype(float) @ rhs.reshape(-1, shape.k, shape.n).astype(float)
    np.testing.assert_allclose(out.reshape(expected.shape), expected, atol=1e-5 * shape.k**0.5, rtol=1e-5)
    return out


def test_special_values_stay_in_their_row_and_column() -> None:
    """NaN and infinity reach only the elements that depend on them, also next to padded panels."""
    target, compiled = compiled_gemm("host", GemmTypes())
    m, n, k = 13, 37, 300
    lhs, rhs, out = np.ones((m, k), np.float32), np.ones((k, n), np.float32), np.zeros((m, n), np.float32)
    lhs[3, 7], rhs[299, 36] = np.nan, np.inf
    record = plan_gemm(row_major(m, n, k), GemmTypes(), target).to_array()
    compiled.call(out.ctypes.data, lhs.ctypes.data, rhs.ctypes.data, 0, record.ctypes.data)
    np.testing.assert_array_equal(out, lhs @ rhs)


@pytest.mark.parametrize("level", ["sse2", "avx2"])
def test_groups_of_packed_rows_are_whole_transposed_tiles(level: str) -> None:
    """Else a part of each group of rows that lie next to each other would be copied element by element."""
    target = Target.for_features(level)
    rows = register_tile(target, GemmTypes()).rows
    assert LHS_GROUP_ROWS // rows * rows % min(8, target.vector_width(FLOAT)) == 0


WOVEN = BatchDimension(4, 128, 64, 192)
"""Four matrices that lie between each other, row by row of 64 elements."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("method", "shape"),
    [
        (Method.VECTOR_ALONG_K, GemmShape(3, 300, 64, 512, 1, 1, 256, 1200, batch=(BatchDimension(4, 128, 64, 300),))),
        (Method.VECTOR_ALONG_K, GemmShape(300, 3, 64, 256, 1, 1, 512, 3, batch=(BatchDimension(4, 64, 128, 900),))),
        (Method.TILES, GemmShape(3, 64, 200, 800, 1, 256, 1, 1200, batch=(WOVEN,))),
        (Method.TILES, GemmShape(3, 64, 100, 800, 1, 256, 1, 1200, batch=(WOVEN, BatchDimension(3, 0, 25600, 4800)))),
        (Method.VECTOR_ALONG_N, GemmShape(1, 64, 200, 800, 1, 256, 1, 1200, batch=(WOVEN,))),
    ],
    ids=["dot products", "swapped", "tiles", "tiles of parts", "rows"],
)
def test_matrices_between_each_other(
    level: str, method: Method, shape: GemmShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task has all of them, and reads them first as they lie in memory: not a byte beyond."""
    monkeypatch.setattr(blocking, "MIN_WOVEN_BYTES", 0)
    monkeypatch.setattr(blocking, "WOVEN_BYTES", 128 << 10)
    plan = plan_gemm(shape, GemmTypes(), Target.host() if level == "host" else Target.for_features(level))
    assert (plan.method, plan.woven, plan.woven_stride, plan.batches_per_task % 4) == (method, 4, 1024, 0)
    assert plan.woven_rows == (0 if method is Method.VECTOR_ALONG_K else shape.k)
    run_gemm(shape, GemmTypes(), level, fits=True)


def test_a_small_matrix_is_not_read_before() -> None:
    shape = GemmShape(3, 300, 64, 512, 1, 1, 256, 1200, batch=(WOVEN,))
    assert plan_gemm(shape, GemmTypes(), Target.host()).woven_stride == 0


def test_a_few_columns_are_rows_of_the_transposed_product() -> None:
    """The left operand, contiguous along the rows, fills vectors then: there is one strip, so nothing is packed."""
    shape = row_major(64, 4, 1024, transpose_lhs=True)
    plan = plan_gemm(shape, GemmTypes(), Target.host())
    assert (plan.method, plan.swap_operands, plan.m, plan.pack_rhs) == (Method.TILES, 1, 4, 0)
    run_gemm(shape)
    assert not plan_gemm(row_major(64, 12, 1024, transpose_lhs=True), GemmTypes(), Target.host()).swap_operands
    assert not plan_gemm(row_major(64, 4, 8, transpose_lhs=True), GemmTypes(), Target.host()).swap_operands


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [1, 3])
def test_dot_products_have_the_same_bits_alone_and_together(level: str, rows: int) -> None:
    """Nine equal columns: eight in groups, one by itself, with sums that depend on their order."""
    m, n, k = rows, 9, 2055
    shape = row_major(m, n, k, transpose_rhs=True)
    plan = plan_gemm(shape, GemmTypes(), Target.host() if level == "host" else Target.for_features(level))
    assert plan.method == Method.VECTOR_ALONG_K
    rng = np.random.default_rng(0)
    lhs, column = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=k).astype(np.float32)
    rhs, out, record = np.tile(column, (n, 1)), np.zeros((m, n), np.float32), plan.to_array()
    addresses = (array.ctypes.data for array in (out, lhs, rhs))
    compiled_gemm(level, GemmTypes())[1].call(*addresses, 0, record.ctypes.data)
    np.testing.assert_allclose(out, lhs @ rhs.T, rtol=1e-3, atol=1e-3)
    assert (out == out[:, :1]).all()
