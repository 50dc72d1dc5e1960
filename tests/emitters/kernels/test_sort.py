"""sort against the evaluator: comparators, types, dimensions, layouts, stability; comparators that are no order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check, check_units

TYPES = ["f32", "f64", "bf16", "f16", "s8", "u8", "s16", "u32", "s32", "s64", "u64", "pred", "f8e4m3fn"]


def sort_text(kind: str, dims: str, axis: int, direction: str = "LT", layout: str = "", extra: str = "") -> str:
    return f"""HloModule m
less {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = pred[] compare(a, b), direction={direction}{extra}
}}
ENTRY e {{
  x = {kind}[{dims}]{layout} parameter(0)
  ROOT s = {kind}[{dims}]{layout} sort(x), dimensions={{{axis}}}, is_stable=true, to_apply=less
}}
"""


def jax_comparator(kind: str, number: int = 0) -> str:
    """The lines of JAX's comparator of operand `number`: NaNs equal and last, zeros equal."""
    lines = []
    for side, parameter in (("a", 2 * number), ("b", 2 * number + 1)):
        lines.append(f"""  {side} = {kind}[] parameter({parameter})
  n{side} = pred[] compare({side}, {side}), direction=NE
  z{side} = pred[] compare({side}, zero), direction=EQ
  s{side} = {kind}[] select(z{side}, zero, {side})
  k{side} = {kind}[] select(n{side}, nan, s{side})""")
    return f"  nan = {kind}[] constant(nan)\n  zero = {kind}[] constant(0)\n" + "\n".join(lines)


def argsort_text(kind: str, dims: str, axis: int) -> str:
    return f"""HloModule m
less {{
{jax_comparator(kind)}
  p = s32[] parameter(2)
  q = s32[] parameter(3)
  ROOT r = pred[] compare(ka, kb), direction=LT, type=TOTALORDER
}}
ENTRY e {{
  x = {kind}[{dims}] parameter(0)
  i = s32[{dims}] iota(), iota_dimension={axis}
  ROOT s = ({kind}[{dims}], s32[{dims}]) sort(x, i), dimensions={{{axis}}}, is_stable=true, to_apply=less
}}
"""


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_types(kind: str, direction: str) -> None:
    check(sort_text(kind, "3,29", 1, direction))


@pytest.mark.parametrize("dims", ["1", "2", "8", "9", "767", "2500", "0"])
@pytest.mark.parametrize("kind", ["f32", "s64"])
def test_lengths(kind: str, dims: str) -> None:
    check(sort_text(kind, dims, 0))
    check(argsort_text("f32", dims, 0))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0}"])
def test_dimensions_and_layouts(axis: int, layout: str) -> None:
    check(sort_text("f32", "5,13,4", axis, layout=layout), options=LAYOUTS)
    check_units(sort_text("f32", "5,13,4", axis, "GT", layout=layout))


@pytest.mark.parametrize("kind", ["pred", "s8", "u8", "s16", "u16"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_bytes(kind: str, direction: str) -> None:
    """Runs longer than what is written at once, all values, few values, any place of the line."""
    dtype = np.dtype({"pred": bool, "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16}[kind])
    rng = np.random.default_rng(1)
    ends = [False, True] if kind == "pred" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1]
    few = np.array(ends, dtype)[rng.integers(0, len(ends), (3, 100))]
    check(sort_text(kind, "3,100", 1, direction), few)
    every = rng.integers(0, 1 << 16, (48, 70)).astype(np.uint16)
    every = every % 2 == 0 if kind == "pred" else every.astype(dtype)
    for axis, layout in ((0, ""), (1, ""), (0, "{0,1}")):
        check(sort_text(kind, "48,70", axis, direction, layout), every, options=LAYOUTS)
        assert check_units(sort_text(kind, "48,70", axis, direction, layout)) == (70, 48)[axis]


@pytest.mark.parametrize("level", ["sse2", "avx2"])
def test_bytes_at_levels(level: str) -> None:
    for kind in ("s8", "u16"):
        check(sort_text(kind, "5,60", 1), options=xjit.CompileOptions(cpu_level=level))


def special_values(dtype: type) -> np.ndarray:
    tiny = np.finfo(dtype).tiny
    pattern = [0.0, -0.0, np.nan, 1.0, -1.0, np.inf, -np.inf, -np.nan, tiny, -tiny, -0.0, 0.0, 2.0]
    return np.array(list(itertools.chain.from_iterable([pattern[::-1], pattern] * 8)), dtype)


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16)])
def test_special_values_are_stable(kind: str, dtype: type) -> None:
    x = special_values(dtype)
    text = argsort_text(kind, str(x.size), 0)
    check(text, x)
    alone = text.replace(", s32[208]) sort(x, i)", ") sort(x)").replace(
        f"ROOT s = ({kind}[208])", f"ROOT s = {kind}[208]"
    )
    alone = alone.replace("  p = s32[] parameter(2)\n  q = s32[] parameter(3)\n", "").replace(
        "  i = s32[208] iota(), iota_dimension=0\n", ""
    )
    check(alone, x)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_long_lines_of_few_numbers(kind: str) -> None:
    size = 4905
    executable = xjit.compile(sort_text(kind, str(size), 0))
    dtype = xjit.parse_hlo(sort_text(kind, "2", 0)).entry_computation.root_instruction.shape.dtype
    for seed in range(20):
        x = np.random.default_rng(seed).integers(-3, 4, size)
        np.testing.assert_array_equal(executable(x.astype(dtype)).astype(np.int64), np.sort(x))


def test_total_order() -> None:
    x = special_values(np.float32)
    for direction in ("LT", "GT"):
        result = check(sort_text("f32", str(x.size), 0, direction, extra=", type=TOTALORDER"), x)[0]
        assert np.signbit(result[0 if direction == "LT" else -1]) and np.isnan(result[0 if direction == "LT" else -1])


def test_key_computed_by_the_comparator() -> None:
    text = """HloModule m
less {
  a = s32[] parameter(2)
  b = s32[] parameter(3)
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  x = s32[] abs(a)
  y = s32[] abs(b)
  ROOT r = pred[] compare(y, x), direction=LT
}
ENTRY e {
  v = f32[3,40] parameter(0)
  k = s32[3,40] parameter(1)
  ROOT s = (f32[3,40], s32[3,40]) sort(v, k), dimensions={1}, to_apply=less
}
"""
    check(text)


@pytest.mark.parametrize("size", [5, 100, 1000])
def test_two_keys(size: int) -> None:
    text = f"""HloModule m
less {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  p = c64[] parameter(4)
  q = c64[] parameter(5)
  l = pred[] compare(a, b), direction=LT
  e = pred[] compare(a, b), direction=EQ
  g = pred[] compare(c, d), direction=GT
  n = pred[] and(e, g)
  ROOT r = pred[] or(l, n)
}}
ENTRY e {{
  x = s32[2,{size}] parameter(0)
  y = f32[2,{size}] parameter(1)
  z = c64[2,{size}] parameter(2)
  ROOT s = (s32[2,{size}], f32[2,{size}], c64[2,{size}]) sort(x, y, z), dimensions={{1}}, to_apply=less
}}
"""
    check(text)
    check_units(text)


@pytest.mark.parametrize("direction", ["LE", "NE", "GE", "EQ"])
def test_comparators_that_are_no_order_give_a_permutation(direction: str) -> None:
    text = sort_text("s32", "1000", 0, direction)
    x = np.random.default_rng(1).integers(-9, 9, 1000).astype(np.int32)
    result = xjit.compile(text)(x)
    np.testing.assert_array_equal(np.sort(result), np.sort(x))
