"""Which scatters are split, and that the result stays what it was."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.ops.evaluation import evaluate
from xjit.passes.fusion.scatter_parallelizer import ScatterParallelizer

TEXT = """HloModule m
combine {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT r = {kind}[] {combiner} }}
ENTRY e {{ x = {kind}[{rows}{window}] parameter(0) i = s32[{count},1] parameter(1) u = {kind}[{count}{window}] parameter(2)
  ROOT s = {kind}[{rows}{window}] scatter(x, i, u), update_window_dims={{{windows}}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=combine }}
"""


def scatter(
    rows: int = 50, count: int = 40_000, combiner: str = "add(a, b)", kind: str = "f32", window: int = 0
) -> str:
    """The text of a scatter of numbers, or of rows of `window` numbers."""
    sizes = {"window": f",{window}" if window else "", "windows": "1" if window else ""}
    return TEXT.format(rows=rows, count=count, combiner=combiner, kind=kind, **sizes)


def values(text: str) -> list[np.ndarray]:
    """Arguments with some indices outside of the operand."""
    rng = np.random.default_rng(0)
    x, i, u = xjit.parse_hlo(text).entry_computation.parameter_instructions
    indices = rng.integers(-3, x.shape.dimensions[0] + 3, i.shape.dimensions, dtype=np.int32)
    kind = x.shape.element_type.dtype
    arrays = [(8 * rng.standard_normal(p.shape.dimensions)).astype(kind) for p in (x, u)]
    return [arrays[0], indices, arrays[1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (scatter(), True),
        (scatter(combiner="maximum(a, b)"), True),
        (scatter(rows=5000), True),  # in two parts
        (scatter(rows=6000), False),  # partial results would be many beside the updates
        (scatter(count=20_000), False),  # too few updates
        (scatter(combiner="subtract(a, b)"), False),  # no identity
        (scatter(count=2000, window=20), True),
    ],
)
def test_what_is_split(text: str, expected: bool) -> None:
    assert ScatterParallelizer().run(xjit.parse_hlo(text)) is expected


@pytest.mark.parametrize("combiner", ["add(a, b)", "maximum(a, b)", "multiply(a, b)"])
@pytest.mark.parametrize("count", [40_000, 40_003])
def test_integers_are_the_same(combiner: str, count: int) -> None:
    text = scatter(count=count, combiner=combiner, kind="s32")
    arguments = values(text)
    np.testing.assert_array_equal(xjit.compile(text)(*arguments), evaluate(xjit.parse_hlo(text), *arguments))


@pytest.mark.parametrize("window", [0, 20])
def test_sums_of_floats(window: int) -> None:
    text = scatter(count=2003 if window else 40_001, window=window)
    x, i, u = values(text)
    x[:3], i[i < 3] = -0.0, 7
    executable = xjit.compile(text)
    result = executable(x, i, u)
    np.testing.assert_allclose(result, evaluate(xjit.parse_hlo(text), x, i, u), rtol=1e-4, atol=1e-3)
    assert np.signbit(result[:3]).all()  # what no update reaches keeps its sign
    np.testing.assert_array_equal(executable(x, i, u), result)


def test_maxima_keep_nans() -> None:
    text = scatter(combiner="maximum(a, b)")
    x, i, u = values(text)
    u[::1000] = np.nan
    np.testing.assert_array_equal(xjit.compile(text)(x, i, u), evaluate(xjit.parse_hlo(text), x, i, u))


@pytest.mark.parametrize("combiner", ["maximum(a, b)", "multiply(a, b)"])
def test_parts_are_filled_up_where_no_index_is_outside(combiner: str) -> None:
    text = scatter(rows=256, count=40_003, combiner=combiner, kind="s32").replace("s32[40003,1]", "u8[40003,1]")
    rng = np.random.default_rng(0)
    x, u = rng.integers(-9, -1, 256, dtype=np.int32), np.full(40_003, -1, np.int32)
    arguments = x, rng.integers(0, 256, (40_003, 1), dtype=np.uint8), u
    np.testing.assert_array_equal(xjit.compile(text)(*arguments), evaluate(xjit.parse_hlo(text), *arguments))


def test_complex_infinities_stay() -> None:
    assert not ScatterParallelizer().run(xjit.parse_hlo(scatter(combiner="multiply(a, b)", kind="c64")))
