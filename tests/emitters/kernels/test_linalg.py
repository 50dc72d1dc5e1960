"""cholesky and triangular-solve against the evaluator: types, flags, batches, layouts, failures."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check, leaves_of
from tests.support.tolerance import ulp
from xjit import CompileOptions, PrimitiveType


def matrices(kind: str, *shape: int) -> np.ndarray:
    """Random matrices with a strong diagonal."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind.startswith("c") else 0)
    return x + 2 * shape[-1] * np.eye(shape[-1]) if shape[-1] == shape[-2] else x


def cast(kind: str, x: np.ndarray) -> np.ndarray:
    return x.astype(PrimitiveType.from_text(kind).dtype)


def cholesky_text(kind: str, dims: str, lower: str, layout: str = "") -> str:
    return f"""HloModule m
ENTRY e {{
  x = {kind}[{dims}]{layout} parameter(0)
  ROOT c = {kind}[{dims}]{layout} cholesky(x), lower={lower}
}}
"""


@pytest.mark.parametrize("kind", ["f32", "f64", "c64", "c128", "bf16", "f16"])
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky(kind: str, lower: str) -> None:
    x = matrices(kind, 2, 3, 7, 7)
    x = cast(kind, (x + np.conj(np.swapaxes(x, -1, -2))) / 2)
    check_factor(cholesky_text(kind, "2,3,7,7", lower), x, lower)


def check_factor(text: str, x: np.ndarray, lower: str, options: CompileOptions | None = None) -> None:
    """The product of the factors is x up to some units in the last place of its terms, element by element.

    What lies in the other triangle of the result is as the evaluator has it.
    """
    (c,) = leaves_of(xjit.compile(text, options=options)(x))
    (e,) = leaves_of(xjit.evaluate(text, x))
    own, other = (np.tril, np.triu) if lower == "true" else (np.triu, np.tril)
    assert c.dtype == x.dtype and c.shape == x.shape
    np.testing.assert_array_equal(other(c, 1 if lower == "true" else -1), other(e, 1 if lower == "true" else -1))
    factor = own(c).astype(np.complex128)
    left, right = (factor, factor.conj().mT) if lower == "true" else (factor.conj().mT, factor)
    error, terms = np.abs(left @ right - x), np.abs(left) @ np.abs(right)
    assert bool((own(error) <= own(8 * ulp(x.dtype) * terms)).all())


@pytest.mark.parametrize("n", [0, 1, 2, 33])
def test_cholesky_sizes(n: int) -> None:
    x = matrices("f64", n, n)
    check_factor(cholesky_text("f64", f"{n},{n}", "true"), x @ x.T, "true")


def test_cholesky_reads_one_triangle_and_any_layout() -> None:
    x = matrices("f64", 3, 5, 5)
    check_factor(cholesky_text("f64", "3,5,5", "true"), x, "true")
    check_factor(cholesky_text("f64", "3,5,5", "false", "{0,1,2}"), x, "false", LAYOUTS)


def test_cholesky_of_indefinite_matrices_is_nan() -> None:
    x = np.stack([np.eye(4), -np.eye(4), np.full((4, 4), np.nan)]).astype(np.float32)
    check(cholesky_text("f32", "3,4,4", "true"), x, rtol=1e-6)


def solve_text(kind: str, batch: str, n: int, m: int, flags: str, left: bool, layout: str = "") -> str:
    b = f"{n},{m}" if left else f"{m},{n}"
    return f"""HloModule m
ENTRY e {{
  a = {kind}[{batch}{n},{n}]{layout} parameter(0)
  b = {kind}[{batch}{b}]{layout} parameter(1)
  ROOT x = {kind}[{batch}{b}]{layout} triangular-solve(a, b), left_side={str(left).lower()}, {flags}
}}
"""


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("operation", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(left: bool, lower: str, operation: str) -> None:
    for kind, unit in (("f64", "false"), ("c64", "true")):
        a = cast(kind, matrices(kind, 2, 5, 5) / 10)
        b = cast(kind, matrices(kind, 2, 5, 3) if left else matrices(kind, 2, 3, 5))
        flags = f"lower={lower}, unit_diagonal={unit}, transpose_a={operation}"
        (x,) = leaves_of(xjit.compile(solve_text(kind, "2,", 5, 3, flags, left))(a, b))
        triangle = np.tril(a) if lower == "true" else np.triu(a)
        if unit == "true":
            triangle = triangle - triangle * np.eye(5) + np.eye(5)
        matrix = {"NO_TRANSPOSE": triangle, "TRANSPOSE": triangle.mT, "ADJOINT": triangle.conj().mT}[operation]
        check_residual(matrix, x, b, left)


def check_residual(a: np.ndarray, x: np.ndarray, b: np.ndarray, left: bool) -> None:
    """Substitution makes a x = b up to some units in the last place of the products, element by element."""
    assert x.dtype == b.dtype and x.shape == b.shape
    wide = [v.astype(np.complex128) for v in ((a, x) if left else (x, a))]
    product, terms = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
    assert bool((np.abs(product - b) <= 8 * ulp(x.dtype) * terms).all())


def check_solution(text: str, a: np.ndarray, b: np.ndarray, options: CompileOptions | None = None) -> None:
    """A solution by the lower triangle, from the left."""
    (x,) = leaves_of(xjit.compile(text, options=options)(a, b))
    check_residual(np.tril(a), x, b, True)


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16", "c128"])
def test_triangular_solve_types(kind: str) -> None:
    a, b = cast(kind, matrices(kind, 6, 6)), cast(kind, matrices(kind, 6, 2))
    check_solution(solve_text(kind, "", 6, 2, "lower=true", True), a, b)


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (1, 1), (40, 17)])
def test_triangular_solve_sizes(n: int, m: int) -> None:
    check_solution(solve_text("f64", "", n, m, "lower=true", True), matrices("f64", n, n), matrices("f64", n, m))


def test_triangular_solve_layouts() -> None:
    a, b = matrices("f64", 3, 4, 4), matrices("f64", 3, 4, 2)
    check_solution(solve_text("f64", "3,", 4, 2, "lower=true", True, "{0,1,2}"), a, b, LAYOUTS)
