"""Values and errors that XLA:CPU decides: complex division, dots of floats into integers, stochastic rounding, tokens."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.support import xla
from tests.support.kernels import check

PARTS = (1.0, -0.0, 2.5, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize(("kind", "dtype"), [("c64", np.complex64), ("c128", np.complex128)])
def test_complex_division_of_infinities_and_nans(kind: str, dtype: type) -> None:
    numbers = np.array([complex(x, y) for x, y in itertools.product(PARTS, PARTS)], dtype)
    a, b = (np.ascontiguousarray(m).reshape(-1) for m in np.meshgrid(numbers, numbers))
    text = f"""HloModule m
ENTRY e {{
  a = {kind}[{a.size}] parameter(0)
  b = {kind}[{a.size}] parameter(1)
  ROOT r = {kind}[{a.size}] divide(a, b)
}}"""
    expected = xla.run(text, a, b)[0]
    for actual in (xjit.compile(text)(a, b), xjit.evaluate(text, a, b)):
        for part in ("real", "imag"):
            np.testing.assert_allclose(getattr(actual, part), getattr(expected, part), rtol=1e-6, atol=1e-7)


def test_integers_from_dots_of_floats_are_converted_at_the_end() -> None:
    text = """HloModule m
ENTRY e {
  x = bf16[8] parameter(0)
  y = bf16[8] parameter(1)
  ROOT r = s32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}"""
    y = np.arange(8).astype(ml_dtypes.bfloat16)
    x = (y.astype(np.float32) / 2).astype(ml_dtypes.bfloat16)
    assert check(text, x, y)[0] == 70 == xla.run(text, x, y)[0]


def test_stochastic_convert_compares_whole_numbers() -> None:
    """The fraction times 2^bits loses its own fraction before random bits are compared with it."""
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  r = u32[4] parameter(1)
  ROOT c = s8[4] stochastic-convert(x, r)
}"""
    x = np.array([2.0**-33, 0.5, 1.5, -1.5], np.float32)
    random = np.array([0, 2**31, 2**31 - 1, 2**31 - 1], np.uint32)
    assert check(text, x, random)[0].tolist() == [0, 0, 2, -2] == xla.run(text, x, random)[0].tolist()


@pytest.mark.parametrize("dimension", [0, 1])
def test_reducers_that_ignore_their_arguments(dimension: int) -> None:
    """Only the first lane of a vector got the constant."""
    text = f"""HloModule m
three {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] constant(3) }}
ENTRY e {{
  x = f32[40,40] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[40] reduce(x, z), dimensions={{{dimension}}}, to_apply=three
}}"""
    assert (check(text, np.ones((40, 40), np.float32))[0] == 3).all()


@pytest.mark.padded
def test_layouts_with_a_padded_tail() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[11]{0:L(127)} parameter(0)
  c = f32[3]{0:L(8)} constant({1, 2, 3})
  n = f32[11]{0:L(127)} negate(x)
  ROOT r = (f32[11]{0:L(127)}, f32[3]{0:L(8)}) tuple(n, c)
}"""
    results = check(text, np.arange(11, dtype=np.float32))
    assert results[1].tolist() == [1, 2, 3]


def test_an_array_of_one_element_is_no_scalar() -> None:
    text = "HloModule m\nENTRY e { x = f32[] parameter(0)\n ROOT r = f32[] negate(x) }"
    for use in (xjit.compile(text), lambda x: xjit.evaluate(text, x)):
        with pytest.raises(xjit.HloError, match=r"float32 ?[\[(]1"):
            use(np.ones(1, np.float32))


def test_tokens_are_empty_tuples() -> None:
    text = "HloModule m\nENTRY e { x = f32[] parameter(0)\n t = token[] after-all()\n ROOT r = (f32[], token[]) tuple(x, t) }"
    x = np.array(2, np.float32)
    assert xjit.compile(text)(x)[1] == () == xjit.evaluate(text, x)[1]


def test_a_kernel_call_with_a_tuple_operand_names_its_instruction() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  t = (f32[8], f32[8]) tuple(x, x)
  ROOT r = f32[8] custom-call(t), custom_call_target="foo"
}"""
    with pytest.raises(xjit.Unsupported, match="with the tuple") as caught:
        xjit.compile(text)
    assert caught.value.span is not None
