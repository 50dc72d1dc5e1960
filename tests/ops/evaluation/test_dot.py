"""dot, convolution and their relatives against XLA:CPU or a direct sum."""

import numpy as np
import pytest

from tests.ops.evaluation import oracle
from tests.ops.evaluation.oracle import module_of, random_array, text_of

RTOL = {"f16": 4e-3, "bf16": 3e-2, "f32": 1e-5, "f64": 1e-13, "c64": 1e-5}


@pytest.mark.parametrize(
    ("t", "result"),
    [("f32", "f32"), ("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f64", "f64"), ("c64", "c64"),
     ("s8", "s8"), ("s8", "s32"), ("s32", "s32"), ("s64", "s64"), ("u8", "u32"), ("pred", "pred"),
     ("f32", "c64"), ("s32", "c64"), ("bf16", "c64")],
)  # fmt: skip
def test_dot(t: str, result: str) -> None:
    shapes = [[2, 3, 4], [2, 4, 5], [4], [4], [3, 0], [0, 2]]
    arrays = [random_array(t, d, i) for i, d in enumerate(shapes)]
    batched = "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"
    two = "lhs_contracting_dims={0,2}, rhs_contracting_dims={0,1}"
    lines = [
        (text_of(result, [2, 3, 5]), f"dot(p0, p1), {batched}"),
        (text_of(result, [3, 5]), f"dot(p0, p1), {two}"),
        (text_of(result, []), "dot(p2, p3), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        (text_of(result, [4, 4]), "dot(p2, p3)"),
        (text_of(result, [3, 2]), "dot(p4, p5), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ]
    rtol = RTOL.get(result, 0)
    oracle.check(module_of(arrays, lines), *arrays, rtol=rtol, atol=rtol)


CONVOLUTIONS = [
    # input, kernel, result, window, labels, further attributes
    ([2, 7, 6, 4], [3, 2, 4, 5], [2, 5, 5, 5], "size=3x2", "b01f_01io->b01f", ""),
    ([2, 4, 7, 6], [5, 4, 3, 3], [2, 5, 4, 3], "size=3x3 stride=2x2 pad=1_1x0_1", "bf01_oi01->bf01", ""),
    ([7, 2, 4], [4, 3, 6], [6, 6, 2], "size=3 pad=2_1 rhs_dilate=2", "0bf_i0o->0fb", ""),
    ([1, 3, 3, 2], [2, 2, 2, 3], [1, 6, 6, 3], "size=2x2 pad=1_1x1_1 lhs_dilate=2x2", "b01f_01io->b01f", ""),
    ([2, 5, 5, 4], [3, 3, 1, 8], [2, 3, 3, 8], "size=3x3", "b01f_01io->b01f", ", feature_group_count=4"),
    ([2, 5, 5, 6], [2, 2, 3, 4], [2, 4, 4, 4], "size=2x2", "b01f_01io->b01f", ", feature_group_count=2"),
    ([4, 5, 5, 3], [2, 2, 3, 4], [2, 4, 4, 4], "size=2x2", "b01f_01io->b01f", ", batch_group_count=2"),
    ([1, 6, 2], [3, 2, 3], [1, 4, 3], "size=3 rhs_reversal=1", "b0f_0io->b0f", ""),
    ([2, 3], [3, 4], [2, 4], "", "bf_io->bf", ""),
    ([2, 6, 3], [5, 3, 2], [2, 2, 2], "size=5", "b0f_0io->b0f", ""),
    ([1, 4, 2], [3, 2, 2], [1, 1, 2], "size=3 pad=-1_0", "b0f_0io->b0f", ""),
    ([1, 3, 4, 5, 2], [2, 2, 2, 2, 3], [1, 2, 3, 4, 3], "size=2x2x2", "b012f_012io->b012f", ""),
]


@pytest.mark.parametrize("t", oracle.some("f32", "bf16 s32 f64"))
def test_convolution(t: str) -> None:
    arrays: list[np.ndarray] = []
    lines = []
    for x, kernel, result, window, labels, more in CONVOLUTIONS:
        n = len(arrays)
        arrays += [random_array(t, x, n), random_array(t, kernel, n + 1)]
        spelled = f", window={{{window}}}" if window else ""
        lines.append((text_of(t, result), f"convolution(p{n}, p{n + 1}){spelled}, dim_labels={labels}{more}"))
    rtol = RTOL.get(t, 0)
    oracle.check(module_of(arrays, lines), *arrays, rtol=rtol, atol=4 * rtol)


def test_ragged_dot_modes() -> None:
    m, k, n, groups = 6, 4, 3, 3
    sizes = np.array([2, 0, 3], np.int32)
    a, b = random_array("f64", [m, k]), random_array("f64", [groups, k, n], 1)
    text = module_of(
        [a, b, sizes],
        [("f64[6,3]", "ragged-dot(p0, p1, p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
                      "lhs_ragged_dims={0}, rhs_group_dims={0}")],
    )  # fmt: skip
    want = np.zeros((m, n))
    want[0:2], want[2:5] = a[0:2] @ b[0], a[2:5] @ b[2]
    np.testing.assert_allclose(oracle.run(text, a, b, sizes)[0], want)
    c = random_array("f64", [m, n], 2)
    text = module_of(
        [a, c, sizes],
        [("f64[3,4,3]", "ragged-dot(p0, p1, p2), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
                        "lhs_ragged_dims={0}")],
    )  # fmt: skip
    want = np.stack([a[0:2].T @ c[0:2], np.zeros((k, n)), a[2:5].T @ c[2:5]])
    np.testing.assert_allclose(oracle.run(text, a, c, sizes)[0], want)


def test_scaled_dot_repeats_its_scales_over_blocks() -> None:
    a, b = random_array("f8e4m3fn", [4, 8]), random_array("f8e4m3fn", [8, 2], 1)
    sa, sb = np.abs(random_array("f32", [4, 2], 2)), np.abs(random_array("f32", [4, 2], 3))
    arrays = [a, b, sa, sb]
    text = module_of(
        arrays,
        [("f32[4,2]", "scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={1}, rhs_contracting_dims={0}")],
    )
    left = a.astype(np.float64) * np.repeat(sa, 4, axis=1)
    right = b.astype(np.float64) * np.repeat(sb, 2, axis=0)
    np.testing.assert_allclose(oracle.run(text, *arrays)[0], left @ right, rtol=1e-5, atol=1e-5)
