"""Edges of sums and dots, as stated facts: signs of zeros, copies of a number, types that meet."""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.test_numerics import F32, INF, NAN, run, same

ADD = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y) }"


def both(text: str, *arguments: Any) -> list[Any]:
    return [xjit.compile(text)(*arguments), xjit.evaluate(text, *arguments)]


def sum_of_copies(copies: int, start: str = "0") -> str:
    return f"""HloModule m
{ADD}
ENTRY e {{
  x = f32[8] parameter(0)
  many = f32[{copies},8] broadcast(x), dimensions={{1}}
  start = f32[] constant({start})
  ROOT r = f32[8] reduce(many, start), dimensions={{0}}, to_apply=add
}}"""


@pytest.mark.parametrize(("start", "zero"), [("0", 0.0), ("-0", -0.0)])
def test_sums_of_copies_have_the_special_values_of_sums(start: str, zero: float) -> None:
    x = np.array([-0.0, 0.0, INF, -INF, NAN, 2e38, 1e-40, 1.5], F32)
    flushed = [zero, 0.0, INF, -INF, NAN, INF, 0.0, 4.5]
    same(xjit.compile(sum_of_copies(3, start))(x), flushed)


def test_sums_of_very_many_copies_are_exact_and_take_no_time() -> None:
    begin = time.perf_counter()
    x = np.array([0, 1, 0.1, 3, -7, 0.5, 2**-60, -INF], F32)
    same(xjit.compile(sum_of_copies(1 << 38))(x), [v * 2.0**38 for v in x.tolist()])
    assert time.perf_counter() - begin < 10  # a loop would take some minutes


TERM = "dot(a, b), lhs_batch_dims={%s}, rhs_batch_dims={%s}, lhs_contracting_dims={%s}, rhs_contracting_dims={%s}"


@pytest.mark.parametrize("dtype", [F32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("a", "b", "result", "dims"),
    [
        ((1,), (1,), "", ("", "", "0", "0")),
        ((1, 1), (1, 5), "1,5", ("", "", "1", "0")),
        ((5, 1), (1,), "5", ("", "", "1", "0")),
        ((3, 5, 1, 1), (1, 1, 3, 4), "3,5,4", ("0", "2", "2,3", "0,1")),
        ((40, 1), (1, 70), "40,70", ("", "", "1", "0")),
        ((3, 40, 1), (3, 1, 70), "3,40,70", ("0", "0", "2", "1")),
    ],
)
def test_a_dot_of_one_term_keeps_the_sign_of_zero(
    dtype: Any, a: tuple[int, ...], b: tuple[int, ...], result: str, dims: tuple[str, ...]
) -> None:
    kind = {"float32": "f32", "float64": "f64", "bfloat16": "bf16"}[np.dtype(dtype).name]
    x, y = np.full(a, -0.0, dtype), np.full(b, 3.0, dtype)
    assert np.signbit(run(f"{kind}[{result}]", TERM % dims, x, y).astype(F32)).all()


def test_a_complex_dot_of_one_term_is_the_product() -> None:
    text = """ENTRY e { a = c64[2,1] parameter(0)  b = c64[1,2] parameter(1)
      ROOT r = c64[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    x = np.array([[-0.0], [2]], np.complex64)
    y = np.array([[1, 3j]], np.complex64)
    for result in both(text, x, y):
        np.testing.assert_array_equal(np.signbit(result.real), [[True, True], [False, False]])
        np.testing.assert_array_equal(result, [[0, 0], [2, 6j]])


def test_a_dot_of_two_terms_starts_at_zero() -> None:
    result = run("f32[]", TERM % ("", "", "0", "0"), np.full(2, -0.0, F32), np.ones(2, F32))
    assert not np.signbit(result)


@pytest.mark.parametrize(("kind", "expected"), [("f32", [4.5, -11.5]), ("f64", [4.5, -11.5]), ("s32", [4, -11])])
def test_a_real_dot_of_complex_numbers_is_the_real_part(kind: str, expected: list[float]) -> None:
    text = f"""ENTRY e {{ a = c64[2,2] parameter(0)  b = c64[2] parameter(1)
      ROOT r = {kind}[2] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    a, b = np.array([[1 + 2j, 3], [-4, 5j]], np.complex64), np.array([2 - 0.5j, 0.5 + 0.7j], np.complex64)
    for result in both(text, a, b):
        np.testing.assert_array_equal(result, np.array(expected, result.dtype))


@pytest.mark.parametrize(("left", "right"), [("f8e4m3fn", "f8e5m2"), ("f8e5m2", "f8e4m3fn")])
def test_integers_of_two_kinds_of_8_bits_are_rounded_in_the_one_with_more_range(left: str, right: str) -> None:
    text = f"""ENTRY e {{ a = {left}[2] parameter(0)  b = {right}[2] parameter(1)
      ROOT r = s32[] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}} }}"""
    types = {"f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
    for result in both(text, np.array([32, 16], types[left]), np.array([16, 12], types[right])):
        assert int(result) == 768  # of 704: f8e5m2 has 640 and 768, f8e4m3fn ends with 448
