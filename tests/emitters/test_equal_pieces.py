"""Equal pieces of a concatenate that read the same elements: one loop stores an element of each."""

from __future__ import annotations

import numpy as np
import pytest

import xjit

LEVELS = ("sse2", "avx2", "")


def crossed(rows: int) -> str:
    """Cross products of rows of three, component by component; the middle one is a rotation of the first."""
    columns = "\n".join(
        f"  {v}{n} = f32[1,{rows}] slice({v}), slice={{[{n}:{n + 1}], [0:{rows}]}}" for v in "xy" for n in range(3)
    )
    terms = "\n".join(
        f"  a{n} = f32[1,{rows}] multiply(x{i}, y{j}) b{n} = f32[1,{rows}] multiply(x{j}, y{i})"
        f" c{n} = f32[1,{rows}] subtract(a{n}, b{n})"
        for n, (i, j) in enumerate([(1, 2), (2, 0), (0, 1)])
    )
    return f"""HloModule crossed
ENTRY main {{
  x = f32[3,{rows}] parameter(0)
  y = f32[3,{rows}] parameter(1)
{columns}
{terms}
  ROOT r = f32[3,{rows}] concatenate(c0, c1, c2), dimensions={{0}}
}}"""


def rotated(rows: int, half: int, axis: int) -> str:
    """Halves of rows turned by angles, as positions of tokens are."""
    shape, whole = (f"f32[{rows},{half}]", f"f32[{rows},{2 * half}]") if axis else (
        f"f32[{half},{rows}]", f"f32[{2 * half},{rows}]"
    )  # fmt: skip
    return f"""HloModule rotated
ENTRY main {{
  x = {shape} parameter(0)
  y = {shape} parameter(1)
  t = {shape} parameter(2)
  c = {shape} cosine(t)
  s = {shape} sine(t)
  a = {shape} multiply(x, c)  b = {shape} multiply(y, s)  left = {shape} subtract(a, b)
  d = {shape} multiply(y, c)  e = {shape} multiply(x, s)  right = {shape} add(d, e)
  ROOT r = {whole} concatenate(left, right), dimensions={{{axis}}}
}}"""


def stores_per_trip(executable: xjit.Executable) -> int:
    """How many elements the first loop of the last kernel stores in a trip."""
    schedule = executable.as_text("schedule").split("schedule %")[-1]
    return schedule.split("part {")[1].count("out0[")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [5461, 20_003])
def test_components_of_cross_products(rows: int, level: str) -> None:
    exe = xjit.compile(crossed(rows), options=xjit.CompileOptions(cpu_level=level))
    x, y = np.random.default_rng(0).standard_normal((2, 3, rows), np.float32)
    assert np.array_equal(exe(x, y), xjit.evaluate(crossed(rows), x, y))
    assert stores_per_trip(exe) == (3 if 3 * rows >= 1 << 14 else 1), "few elements are not worth it"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("rows", "half", "axis"), [(300, 32, 1), (300, 33, 1), (64, 130, 0), (1001, 17, 0)])
def test_halves_that_are_rotated(rows: int, half: int, axis: int, level: str) -> None:
    text = rotated(rows, half, axis)
    exe = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))
    shape = (3, rows, half) if axis else (3, half, rows)
    arguments = np.random.default_rng(1).standard_normal(shape, np.float32)
    np.testing.assert_allclose(exe(*arguments), xjit.evaluate(text, *arguments), rtol=0, atol=2e-6)
    assert stores_per_trip(exe) == 2


def test_pieces_that_share_nothing_are_loops_of_their_own() -> None:
    text = """HloModule apart
ENTRY main {
  x = f32[100,200] parameter(0)
  y = f32[100,200] parameter(1)
  a = f32[100,200] negate(x)
  b = f32[100,200] abs(y)
  ROOT r = f32[200,200] concatenate(a, b), dimensions={0}
}"""
    assert stores_per_trip(xjit.compile(text)) == 1
