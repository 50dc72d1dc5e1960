"""cholesky and triangular-solve on GPUs: small matrices in one block of threads, larger ones by blocks of such."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.gpu_simulation import check_simulated

SLOW = pytest.mark.slow


def positive(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def cholesky(kind: str, shape: tuple[int, ...], lower: bool) -> str:
    a = f"{kind}[{','.join(map(str, shape))}]"
    return f"""HloModule m
ENTRY e {{ a = {a} parameter(0)
 ROOT r = {a} cholesky(a), lower={str(lower).lower()} }}"""


TYPES = {"f32": ("float32", 1e-5), "f64": ("float64", 1e-13), "c64": ("complex64", 1e-5), "c128": ("complex128", 1e-13)}


@pytest.mark.parametrize(
    ("kind", "shape", "lower"),
    [
        ("f32", (3, 9, 9), True),
        ("c64", (5, 5), False),
        *(
            pytest.param(*case, marks=SLOW)
            for case in [("f64", (2, 1, 33, 33), False), ("c128", (40, 40), True), ("f32", (96, 96), True), ("f32", (1, 1), True)]
        ),
    ],
)  # fmt: skip
def test_a_block_has_a_matrix(kind: str, shape: tuple[int, ...], lower: bool) -> None:
    """The other triangle of the operand is not read: it is NaN here."""
    dtype, tolerance = TYPES[kind]
    a = positive(shape, dtype)
    a = np.where(np.tri(shape[-1], k=0 if lower else -1, dtype=bool) == lower, a, np.nan).astype(dtype)
    executable = check_simulated(cholesky(kind, shape, lower), a, rtol=tolerance, atol=tolerance)
    assert [kernel.kind for kernel in executable.kernels] == ["cholesky"]


def test_what_has_no_factor_is_nan_and_leaves_others_alone() -> None:
    a = positive((3, 6, 6), "float32")
    a[1, 3, 3] = -1.0
    result = check_simulated(cholesky("f32", (3, 6, 6), True), a, rtol=1e-5, atol=1e-5)(a)
    assert np.isnan(result[1]).all() and np.isfinite(result[[0, 2]]).all()


def solve(
    kind: str, a: tuple[int, ...], b: tuple[int, ...], left: bool, lower: bool, transpose: str, unit: bool
) -> str:
    of_a, of_b = (f"{kind}[{','.join(map(str, shape))}]" for shape in (a, b))
    return f"""HloModule m
ENTRY e {{ a = {of_a} parameter(0)
 b = {of_b} parameter(1)
 ROOT r = {of_b} triangular-solve(a, b), left_side={str(left).lower()}, lower={str(lower).lower()},
   unit_diagonal={str(unit).lower()}, transpose_a={transpose} }}"""


def triangle(shape: tuple[int, ...], lower: bool, unit: bool, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    a = rng.standard_normal(shape) / shape[-1] + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0) / shape[-1]
    a = a + 2 * np.eye(shape[-1])
    inside = np.tri(shape[-1], k=-1 if unit else 0, dtype=bool)
    return np.where(inside if lower else inside.T, a, np.nan).astype(dtype)


ALL = [
    (left, lower, transpose, unit)
    for left in (True, False)
    for lower in (True, False)
    for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    for unit in (True, False)
]
FEW = {(True, True, "NO_TRANSPOSE", False), (False, True, "ADJOINT", False), (True, False, "TRANSPOSE", True)}


@pytest.mark.parametrize(
    ("left", "lower", "transpose", "unit"), [case if case in FEW else pytest.param(*case, marks=SLOW) for case in ALL]
)
def test_every_form_of_a_system(left: bool, lower: bool, transpose: str, unit: bool) -> None:
    """Neither the other triangle of `a` nor a diagonal of ones is read: NaN is there."""
    n, count = 7, 19
    shape = (2, n, count) if left else (2, count, n)
    a, b = triangle((2, n, n), lower, unit, "complex64"), np.random.default_rng(2).random(shape).astype("complex64")
    text = solve("c64", (2, n, n), shape, left, lower, transpose, unit)
    executable = check_simulated(text, a, b, rtol=1e-5, atol=1e-5)
    assert [kernel.kind for kernel in executable.kernels] == ["triangular-solve"]


@pytest.mark.parametrize(("n", "count"), [(30, 1), pytest.param(96, 33, marks=SLOW), pytest.param(2, 40, marks=SLOW)])
def test_sizes_of_systems(n: int, count: int) -> None:
    a, b = triangle((n, n), True, False, "float32"), np.random.default_rng(2).random((n, count)).astype("float32")
    check_simulated(solve("f32", (n, n), (n, count), True, True, "NO_TRANSPOSE", False), a, b, rtol=1e-5, atol=1e-5)


def test_larger_matrices_are_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xjit.passes.expand.matrices._ONE_BLOCK_ROWS", {4: 6})
    a = positive((2, 14, 14), "float32")
    executable = check_simulated(cholesky("f32", (2, 14, 14), True), a, rtol=1e-4, atol=1e-4)
    kinds = [kernel.kind for kernel in executable.kernels]
    assert kinds.count("cholesky") == 3 and "triangular-solve" in kinds and "while" not in executable.as_text()


@pytest.mark.slow
def test_larger_systems_are_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xjit.passes.expand.matrices._ONE_BLOCK_ROWS", {4: 6})
    a, b = triangle((14, 14), False, False, "float32"), np.random.default_rng(2).random((3, 14)).astype("float32")
    a = np.nan_to_num(a)
    text = solve("f32", (14, 14), (3, 14), False, False, "NO_TRANSPOSE", False)
    executable = check_simulated(text, a, b, rtol=1e-4, atol=1e-4)
    assert [kernel.kind for kernel in executable.kernels].count("triangular-solve") == 3


@pytest.mark.parametrize("architecture", ["sm_75", pytest.param("sm_120", marks=SLOW)])
def test_the_largest_matrices_fit_in_shared_memory(architecture: str) -> None:
    for kind, n in (("f32", 96), ("f64", 64), ("c64", 64), ("c128", 40)):
        for text in (cholesky(kind, (n, n), True), solve(kind, (n, n), (n, 99), True, True, "NO_TRANSPOSE", False)):
            assert "bar.sync" in xjit.compile(text, f"cuda-sim:{architecture}").as_text("ptx")
