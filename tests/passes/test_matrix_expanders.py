"""Expanded factorizations and solutions against the evaluator's: all options, sizes around a block, batches, types."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from xjit import evaluate, run_passes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes import PASSES, make_pass
from xjit.text.parser import parse_hlo

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
TOLERANCES = {"f32": 2e-4, "f64": 1e-11, "c64": 2e-4, "c128": 1e-11}


def numbers(rng: np.random.Generator, kind: str, *dimensions: int) -> np.ndarray:
    values = rng.standard_normal(dimensions)
    if kind.startswith("c"):
        values = values + 1j * rng.standard_normal(dimensions)
    return values.astype(TYPES[kind])


def expanded(text: str, passes: list[str], *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what the expanded module and the original give."""
    module = parse_hlo(text)
    assert run_passes(module, passes)
    left = {i.opcode for c in module.computations() for i in c.instructions}
    assert not left & {"cholesky", "triangular-solve"}
    return evaluate(module, *inputs), evaluate(parse_hlo(text), *inputs)


def solve(kind: str, n: int, batch: str, options: tuple[bool, bool, bool, str], block: int) -> None:
    left, lower, unit, transpose = options
    rng = np.random.default_rng(n)
    sizes = [int(b) for b in batch.split(",") if b]
    a = numbers(rng, kind, *sizes, n, n) / (n if unit else 1) + (0 if unit else 3 * n) * np.eye(n, dtype=TYPES[kind])
    ignored = np.triu(np.ones((n, n)), 1) if lower else np.tril(np.ones((n, n)), -1)
    ignored = ignored + (np.eye(n) if unit else 0)
    a = np.where(ignored > 0, np.nan, a).astype(TYPES[kind])
    b = numbers(rng, kind, *sizes, *((n, 3) if left else (3, n)))
    text = f"""HloModule m
ENTRY e {{
  a = {kind}{list(a.shape)} parameter(0)
  b = {kind}{list(b.shape)} parameter(1)
  ROOT x = {kind}{list(b.shape)} triangular-solve(a, b), left_side={str(left).lower()}, lower={str(lower).lower()},
    unit_diagonal={str(unit).lower()}, transpose_a={transpose}
}}
"""
    found, expected = expanded(text, [f"triangular-solve-expander{{block_size={block}}}"], a, b)
    assert not np.isnan(expected).any()
    np.testing.assert_allclose(found, expected, TOLERANCES[kind], TOLERANCES[kind])


OPTIONS = list(itertools.product(*[[True, False]] * 3, ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]))


@pytest.mark.parametrize("options", OPTIONS)
def test_solve_options(options: tuple[bool, bool, bool, str]) -> None:
    for kind, n in (("f32", 7), ("c64", 4), ("f64", 1)):
        solve(kind, n, "2", options, 3)


@pytest.mark.parametrize("n", [127, 128, 129])
def test_solve_around_a_block(n: int) -> None:
    solve("f64", n, "", (True, True, False, "NO_TRANSPOSE"), 128)
    solve("f64", n, "", (True, False, True, "ADJOINT"), 128)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("kind", "n", "batch", "block"),
    [("f32", 1, "", 3), ("f32", 2, "2", 3), ("c64", 7, "2,2", 3), ("f64", 6, "", 3), ("f64", 129, "", 128)],
)
def test_cholesky(kind: str, n: int, batch: str, block: int, lower: bool) -> None:
    rng = np.random.default_rng(n)
    a = numbers(rng, kind, *(int(b) for b in batch.split(",") if b), n, n)
    a = a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n)
    ones = np.ones((n, n))
    a = np.where((np.triu(ones, 1) if lower else np.tril(ones, -1)) > 0, np.nan, a).astype(TYPES[kind])
    passes = [f"cholesky-expander{{block_size={block}}}", "triangular-solve-expander"]
    found, expected = expanded(cholesky(kind, a, lower), passes, a)
    assert not np.isnan(expected).any()
    np.testing.assert_allclose(found, expected, TOLERANCES[kind], TOLERANCES[kind])


def cholesky(kind: str, a: np.ndarray, lower: bool) -> str:
    shape = f"{kind}{list(a.shape)}"
    return f"""HloModule m
ENTRY e {{
  a = {shape} parameter(0)
  ROOT l = {shape} cholesky(a), lower={str(lower).lower()}
}}
"""


def test_only_matrices_that_fail_are_nan() -> None:
    good = np.array([[4.0, 2.0], [2.0, 3.0]], np.float32)
    a = np.stack([good, -good, good * 0])
    found, expected = expanded(cholesky("f32", a, True), ["cholesky-expander"], a)
    np.testing.assert_allclose(found, expected, 1e-6)
    assert np.isnan(found[1:]).all() and not np.isnan(found[0]).any()


def test_an_infinite_pivot_is_divided_by() -> None:
    a, b = np.array([[np.inf, 0], [1, 2]], np.float32), np.array([[1], [4]], np.float32)
    text = """HloModule m
ENTRY e {
  a = f32[2,2] parameter(0)
  b = f32[2,1] parameter(1)
  ROOT x = f32[2,1] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
}
"""
    found, expected = expanded(text, ["triangular-solve-expander"], a, b)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["cholesky-expander", "triangular-solve-expander"])
def test_a_block_has_rows(name: str) -> None:
    with pytest.raises(InvalidArgument, match="at least 1"):
        make_pass(PASSES, f"{name}{{block_size=0}}")
