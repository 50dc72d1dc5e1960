"""Schedules made by hand: a softmax in one pass over tiles of rows that are too long for the cache."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check_units, emit_view, view_of
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.schedule import Schedule
from xjit.llvm.target import Target
from xjit.llvm.types import FLOAT
from xjit.text.parser import parse_hlo

ROWS, COLUMNS = 3, 40_000
TILE, TILES, REST = 4096, 9, 3136
SOFTMAX = f"""
HloModule softmax
larger {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }}
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
correct {{
  so_far = f32[] parameter(0)
  old = f32[] parameter(1)
  new = f32[] parameter(2)
  difference = f32[] subtract(old, new)
  factor = f32[] exponential(difference)
  corrected = f32[] multiply(so_far, factor)
  lowest = f32[] constant(-inf)
  nothing = pred[] compare(old, lowest), direction=EQ
  none = f32[] constant(0)
  ROOT follows = f32[] select(nothing, none, corrected)
}}
ENTRY main {{
  x = f32[{ROWS},{COLUMNS}] parameter(0)
  temperature = f32[{ROWS}] parameter(1)
  t = f32[{ROWS},{COLUMNS}] broadcast(temperature), dimensions={{0}}
  scores = f32[{ROWS},{COLUMNS}] divide(x, t)
  low = f32[] constant(-inf)
  top = f32[{ROWS}] reduce(scores, low), dimensions={{1}}, to_apply=larger
  tops = f32[{ROWS},{COLUMNS}] broadcast(top), dimensions={{0}}
  shifted = f32[{ROWS},{COLUMNS}] subtract(scores, tops)
  weights = f32[{ROWS},{COLUMNS}] exponential(shifted)
  zero = f32[] constant(0)
  total = f32[{ROWS}] reduce(weights, zero), dimensions={{1}}, to_apply=sum
  totals = f32[{ROWS},{COLUMNS}] broadcast(total), dimensions={{0}}
  ROOT y = f32[{ROWS},{COLUMNS}] divide(weights, totals)
}}
"""
ONLINE = f"""
schedule %y loop, operations=0, repeated=0, bytes=0 {{
  part {{
    tile %scores over d2 in stack
    tile %top in register
    tile %total in register
    task d0 in [0, {ROWS - 1}] {{
      init %top[d0]
      init %total[d0]
      serial d1 in [0, {TILES - 1}] carries %top, %total {{
        vector(LANES) d2 in [0, {TILE - 1}] {{
          stage %scores[d0, d1 * {TILE} + d2]
        }}
        combine %top[d0] tree over vector(LANES) x 4 d3 in [0, {TILE - 1}] of (d1 * {TILE} + d3)
        rescale %total by %top with %correct
        combine %total[d0] tree over vector(LANES) x 2 d3 in [0, {TILE - 1}] of (d1 * {TILE} + d3)
      }}
      serial d4 in [0, 0] carries %top, %total {{
        combine %top[d0] tree over vector(LANES) x 4 d5 in [{TILE * TILES}, {COLUMNS - 1}] of (d5)
        rescale %total by %top with %correct
        combine %total[d0] tree over vector(LANES) x 2 d5 in [{TILE * TILES}, {COLUMNS - 1}] of (d5)
      }}
      vector(LANES) d6 in [0, {COLUMNS - 1}] {{
        out0[d0, d6] = %y[d0, d6]
      }}
    }}
  }}
}}
"""


def online(target: Target | None = None) -> Schedule:
    return parse_schedule(ONLINE.replace("LANES", str((target or Target.host()).vector_width(FLOAT))))


@pytest.fixture
def rows() -> list[np.ndarray]:
    """Rows whose maximum grows from tile to tile, falls, and jumps about."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) * 3
    x[0] += np.linspace(-30, 30, COLUMNS)
    x[1] += np.linspace(40, -40, COLUMNS)
    return [x.astype(np.float32), np.array([1.0, 2.0, 0.5], np.float32)]


def test_rows_in_tiles_are_rows_at_once(rows: list[np.ndarray]) -> None:
    assert check_units(SOFTMAX, *rows, rtol=2e-5, schedule=online()) == ROWS


LAST = TILES * TILE
"""The first column of the rest behind the whole tiles."""


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize(
    "masked",
    [
        [(0, TILE)],
        [(0, 3 * TILE + 5)],
        [(2 * TILE, 4 * TILE)],
        [(LAST, COLUMNS)],
        [(0, LAST)],
        [(0, COLUMNS - 1)],
        [(1, COLUMNS)],
        [(0, TILE), (3 * TILE, 4 * TILE), (LAST, COLUMNS)],
    ],
    ids=str,
)
def test_tiles_of_nothing_but_minus_infinity_count_for_nothing(
    rows: list[np.ndarray], masked: list[tuple[int, int]], level: str
) -> None:
    """Nothing has been summed while the maximum so far is -inf: neither 0 nor NaN may stay of it."""
    for begin, end in masked:
        rows[0][:, begin:end] = -np.inf
    expected = xjit.evaluate(SOFTMAX, *rows)
    assert not np.isnan(expected).any()
    target = Target.for_features(level)
    if target.vector_bits <= Target.host().vector_bits:
        assert check_units(SOFTMAX, *rows, rtol=2e-5, schedule=online(target)) == ROWS


def test_nan_is_where_the_plain_softmax_has_it(rows: list[np.ndarray]) -> None:
    """Rows of -inf alone, with +inf, with NaN: `check_units` compares with the evaluator, NaN for NaN."""
    rows[0][0, :] = -np.inf
    rows[0][1, :TILE] = -np.inf
    rows[0][1, 2 * TILE + 7] = np.inf
    rows[0][2, LAST] = np.nan
    assert np.isnan(xjit.evaluate(SOFTMAX, *rows)).any(axis=1).all()
    assert check_units(SOFTMAX, *rows, rtol=2e-5, schedule=online()) == ROWS


def test_without_a_correction_for_nothing_a_leading_tile_would_be_nan(rows: list[np.ndarray]) -> None:
    rows[0][0, :TILE] = -np.inf
    text = SOFTMAX.replace("ROOT follows = f32[] select(nothing, none, corrected)", "ROOT c = f32[] copy(corrected)")
    assert text != SOFTMAX
    with pytest.raises(AssertionError, match="nan location mismatch"):
        check_units(text, *rows, rtol=2e-5, schedule=online())


def test_the_correction_matters(rows: list[np.ndarray]) -> None:
    text = str(online()).replace("rescale %total by %top with %correct\n", "\n")
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_units(SOFTMAX, *rows, rtol=2e-5, schedule=parse_schedule(text))


def test_a_tile_is_computed_once_and_kept_on_the_stack() -> None:
    view = view_of(parse_hlo(SOFTMAX).entry_computation.root_instruction)
    text = emit_view(view, schedule=online())[0].to_text()
    assert f"alloca [{TILE} x float]" in text and f"[{COLUMNS}" not in text
    staged, combined = text.split("r_loop", 1)[0], text.split("r_loop", 1)[1].split("r_end", 1)[0]
    assert "fdiv" in staged and "fdiv" not in combined


def test_a_schedule_of_a_softmax_prints_and_parses() -> None:
    assert parse_schedule(str(online())) == online()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("task d0", "block d0", "a block loop: this target has none"),
        ("tile %scores over d2 in stack", "tile %scores over d2 in shared", "a tile in shared over 1 variables"),
        ("tile %top in register", "tile %top in scratch", "accumulators in scratch memory"),
    ],
)
def test_what_this_target_has_not_is_refused(old: str, new: str, message: str) -> None:
    view = view_of(parse_hlo(SOFTMAX).entry_computation.root_instruction)
    with pytest.raises(xjit.Unsupported, match=message):
        emit_view(view, schedule=parse_schedule(str(online()).replace(old, new)))
