"""scatter against the evaluator: dimension numbers, types, windows out of bounds, in place and not, any partition."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check, check_units
from xjit.hlo.types.primitive_type import PrimitiveType


def module(body: str, kind: str = "f32", combiner: str = "add") -> str:
    return f"""HloModule m
f {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {combiner}(a, b)
}}
ENTRY e {{
{body}
}}
"""


def rows(n: int, d: int, k: int, kind: str = "f32", combiner: str = "add", layout: str = "{1,0}") -> str:
    return module(
        f"""  x = {kind}[{n},{d}]{layout} parameter(0)
  i = s32[{k},1] parameter(1)
  u = {kind}[{k},{d}] parameter(2)
  ROOT s = {kind}[{n},{d}]{layout} scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f""",
        kind,
        combiner,
    )


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s8", "s32", "u64", "c64", "pred"])
@pytest.mark.parametrize(("n", "d", "k"), [(7, 64, 20), (5, 19, 9), (3, 1, 6), (1, 5, 0)])
def test_rows(kind: str, n: int, d: int, k: int) -> None:
    text = rows(n, d, k, kind, "or" if kind == "pred" else "add")
    tolerance = {"f32": 1e-5, "c64": 1e-5}.get(kind, 0.0)
    check(text, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("combiner", ["maximum", "minimum"])
def test_extrema_of_single_elements(kind: str, combiner: str) -> None:
    """Which have no vectors: signs of zeros, infinities and NaNs are those of vectors all the same."""
    special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-45], kind.replace("f", "float"))
    x, u = (a.reshape(-1, 1) for a in np.meshgrid(special, special))
    i = np.arange(len(x), dtype=np.int32).reshape(-1, 1)
    check(rows(len(x), 1, len(x), kind, combiner), x, i, u)


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s32", "u32", "s64", "u8", "c64"])
@pytest.mark.parametrize("combiner", ["maximum", "minimum", "add"])
@pytest.mark.parametrize("k", [1, 3, 64, 99])
def test_many_updates_of_few_elements(kind: str, combiner: str, k: int) -> None:
    """Most of which change no extremum, and are not written then."""
    if kind == "c64" and combiner != "add":
        pytest.skip("complex numbers have no order")
    rng, dtype = np.random.default_rng(k), PrimitiveType.from_text(kind).dtype
    i = rng.integers(-1, 5, (k, 1), dtype=np.int32)
    numbers = rng.integers(0, 100, (k + 4, 1)).astype(dtype)
    if kind in ("f32", "f64", "bf16") and combiner != "add":
        special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -1.0]).astype(dtype)
        numbers = rng.choice(special, (k + 4, 1), p=[0.4, 0.4, 0.01, 0.05, 0.05, 0.09])
    check(rows(4, 1, k, kind, combiner), numbers[:4], i, numbers[4:])


def test_rows_split_by_destination() -> None:
    assert check_units(rows(7, 64, 20), rtol=1e-5, atol=1e-5) == 2
    assert check_units(rows(7, 256, 20), rtol=1e-5, atol=1e-5) == 4
    assert check_units(rows(6, 48, 9, layout="{0,1}"), rtol=1e-5, atol=1e-5) == 3


@pytest.mark.parametrize(("n", "d", "k"), [(5000, 16, 30), (3000, 25, 5), (700, 128, 40), (70000, 1, 99)])
def test_destinations_in_large_arrays_are_fetched_ahead(n: int, d: int, k: int) -> None:
    text = rows(n, d, k)
    fetches = "@llvm.prefetch" in xjit.compile(text).as_text("llvm")
    assert fetches == (d > 1)  # of single elements, so many are under way that none is waited for
    rng = np.random.default_rng(n)
    i = rng.integers(-3, n + 3, (k, 1), dtype=np.int32)
    i[-2:] = [[np.iinfo(np.int32).min], [n - 1]]
    x, u = (rng.standard_normal((size, d)).astype(np.float32) for size in (n, k))
    check(text, x, i, u, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows_of", "n", "k"), [("40", 20, 50), ("40", 20, 8), ("4", 33, 70), ("33,40", 20, 50)])
def test_columns(rows_of: str, n: int, k: int) -> None:
    """Many updates of many rows go row by row, others index by index."""
    windows = ",".join(str(d) for d in range(rows_of.count(",") + 1))
    last = rows_of.count(",") + 1
    text = module(
        f"""  x = f32[{rows_of},{n}] parameter(0)
  i = s32[{k},1] parameter(1)
  u = f32[{rows_of},{k}] parameter(2)
  ROOT s = f32[{rows_of},{n}] scatter(x, i, u), update_window_dims={{{windows}}}, inserted_window_dims={{{last}}},
    scatter_dims_to_operand_dims={{{last}}}, index_vector_dim=1, to_apply=f"""
    )
    units = check_units(text, rtol=1e-5, atol=1e-5)
    assert (units > 1) == (rows_of != "4" and not (rows_of == "40" and k == 8))


def test_columns_of_a_batch() -> None:
    text = module(
        """  x = f32[3,40,20] parameter(0)
  i = s32[3,50,1] parameter(1)
  u = f32[3,40,50] parameter(2)
  ROOT s = f32[3,40,20] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={2}, input_batching_dims={0},
    scatter_indices_batching_dims={0}, scatter_dims_to_operand_dims={2}, index_vector_dim=2, to_apply=f"""
    )
    assert check_units(text, rtol=1e-5, atol=1e-5) == 40


def test_columns_of_a_transposed_array() -> None:
    assert check_units(rows(40, 36, 50, layout="{0,1}"), rtol=1e-5, atol=1e-5) == 36


def test_destinations_in_small_arrays_are_not_fetched() -> None:
    assert "@llvm.prefetch" not in xjit.compile(rows(7, 64, 20)).as_text("llvm")


@pytest.mark.parametrize("index_type", ["s8", "u8", "s64", "u64"])
def test_index_types(index_type: str) -> None:
    text = rows(7, 5, 6).replace("s32[", f"{index_type}[")
    dtype = {"s8": np.int8, "u8": np.uint8, "s64": np.int64, "u64": np.uint64}[index_type]
    rng = np.random.default_rng(0)
    far = np.array([0, 6, 7, 127, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype).reshape(6, 1)
    check(text, rng.standard_normal((7, 5)).astype(np.float32), far, np.ones((6, 5), np.float32), rtol=1e-6)


def test_last_update_wins() -> None:
    text = module(
        """  x = s32[6] parameter(0)
  i = s32[9] parameter(1)
  u = s32[9] parameter(2)
  ROOT s = s32[6] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f""",
        "s32",
    ).replace("ROOT r = s32[] add(a, b)", "ROOT r = s32[] copy(b)")
    check(text)


@pytest.mark.parametrize("order", ["{2,1,0}", "{0,1,2}", "{1,2,0}"])
def test_windows_in_every_dimension(order: str) -> None:
    text = module(
        f"""  x = f32[5,6,7]{order} parameter(0)
  i = s32[2,8] parameter(1)
  u = f32[3,8,2,7] parameter(2)
  ROOT s = f32[5,6,7]{order} scatter(x, i, u), update_window_dims={{0,2,3}}, inserted_window_dims={{}},
    scatter_dims_to_operand_dims={{1,0}}, index_vector_dim=0, to_apply=f"""
    )
    check(text, rtol=1e-5, atol=1e-5)
    check_units(text, rtol=1e-5, atol=1e-5)


def test_batching_dimensions() -> None:
    text = module(
        """  x = f32[3,4,9,2] parameter(0)
  i = s32[4,5,3,1] parameter(1)
  u = f32[4,5,3,2] parameter(2)
  ROOT s = f32[3,4,9,2] scatter(x, i, u), update_window_dims={3}, inserted_window_dims={2},
    scatter_dims_to_operand_dims={2}, input_batching_dims={0,1}, scatter_indices_batching_dims={2,0},
    index_vector_dim=3, to_apply=f"""
    )
    assert check_units(text, rtol=1e-5, atol=1e-5) == 4


def test_several_operands_at_once() -> None:
    text = """HloModule m
f {
  a = f32[] parameter(0)
  n = s32[] parameter(1)
  b = f32[] parameter(2)
  k = s32[] parameter(3)
  g = pred[] compare(b, a), direction=GT
  v = f32[] select(g, b, a)
  w = s32[] select(g, k, n)
  ROOT r = (f32[], s32[]) tuple(v, w)
}
ENTRY e {
  x = f32[6,3] parameter(0)
  y = s32[6,3] parameter(1)
  i = s32[8,1] parameter(2)
  u = f32[8,3] parameter(3)
  v = s32[8,3] parameter(4)
  ROOT s = (f32[6,3], s32[6,3]) scatter(x, y, i, u, v), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
}
"""
    check(text)


def test_no_index_moves_the_window() -> None:
    text = module(
        """  x = f32[4] parameter(0)
  i = s32[3,0] parameter(1)
  u = f32[3,4] parameter(2)
  ROOT s = f32[4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
    scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=f"""
    )
    check(text, rtol=1e-6, atol=1e-6)


def test_scalar_operand() -> None:
    text = module(
        """  x = f32[] parameter(0)
  i = s32[5,0] parameter(1)
  u = f32[5] parameter(2)
  ROOT s = f32[] scatter(x, i, u), update_window_dims={}, inserted_window_dims={},
    scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=f"""
    )
    check(text, rtol=1e-6, atol=1e-6)


def test_window_larger_than_operand_is_skipped() -> None:
    text = module(
        """  x = f32[2,3] parameter(0)
  i = s32[4,1] parameter(1)
  u = f32[4,2,3] parameter(2)
  ROOT s = f32[2,3] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f"""
    )
    check(text, rtol=1e-6, atol=1e-6)


def test_in_place_on_an_intermediate() -> None:
    text = rows(9, 33, 12).replace(
        "x = f32[9,33]{1,0} parameter(0)", "p = f32[9,33]{1,0} parameter(0)\n  x = f32[9,33]{1,0} add(p, p)"
    )
    check(text, rtol=1e-5, atol=1e-5)


PROLOGUE = """  x = f32[9,64] parameter(0)  i = s32[40] parameter(1)  v = f32[40,64] parameter(2)
  zero = s32[] constant(0)  zeros = s32[40] broadcast(zero), dimensions={}
  low = pred[40] compare(i, zeros), direction=LT  n = s32[] constant(9)  ns = s32[40] broadcast(n), dimensions={}
  j = s32[40] add(i, ns)  k = s32[40] select(low, j, i)  at = s32[40,1] reshape(k)"""
SCATTER = """scatter(x, at, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=f"""


def prologue_inputs() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(4)
    x, v = (rng.integers(-9, 9, (n, 64)).astype(np.float32) for n in (9, 40))
    return x, rng.integers(-12, 12, 40, dtype=np.int32), v


def test_indices_and_updates_are_computed_in_the_kernel() -> None:
    text = module(f"{PROLOGUE}  u = f32[40,64] multiply(v, v)  ROOT s = f32[9,64] {SCATTER}")
    assert [k.kind for k in xjit.compile(text).kernels] == ["copy", "scatter"]
    check(text, *prologue_inputs())


def test_updates_that_read_the_array_are_not_overwritten_before() -> None:
    body = f"{PROLOGUE}  d = f32[9,64] reverse(x), dimensions={{0}}  p = f32[] constant(0)"
    read = "w = f32[40,64] pad(d, p), padding=0_31x0_0  u = f32[40,64] add(w, v)"
    check(module(f"{body}  {read}  ROOT s = f32[9,64] {SCATTER}"), *prologue_inputs())
    loop = f"""HloModule m
    f {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
    cond {{ q = (s32[], f32[9,64], s32[40], f32[40,64]) parameter(0)  c = s32[] get-tuple-element(q), index=0
      t = s32[] constant(3)  ROOT l = pred[] compare(c, t), direction=LT }}
    body {{ q = (s32[], f32[9,64], s32[40], f32[40,64]) parameter(0)  c = s32[] get-tuple-element(q), index=0
      one = s32[] constant(1)  e = s32[] add(c, one)
      {
        body.replace("parameter(0)", "get-tuple-element(q), index=1")
        .replace("parameter(1)", "get-tuple-element(q), index=2")
        .replace("parameter(2)", "get-tuple-element(q), index=3")
    }
      {read}  s = f32[9,64] {SCATTER}
      ROOT r = (s32[], f32[9,64], s32[40], f32[40,64]) tuple(e, s, i, v) }}
    ENTRY e {{ x = f32[9,64] parameter(0)  i = s32[40] parameter(1)  v = f32[40,64] parameter(2)  z = s32[] constant(0)
      t = (s32[], f32[9,64], s32[40], f32[40,64]) tuple(z, x, i, v)
      ROOT w = (s32[], f32[9,64], s32[40], f32[40,64]) while(t), condition=cond, body=body }}"""
    check(loop, *prologue_inputs())
    assert "copy" not in [k.kind for k in xjit.compile(loop).kernels]  # but is updated in place


@pytest.mark.parametrize("columns", [2, 3, 4, 7, 8, 12])
def test_short_rows_are_updated_without_masks(columns: int) -> None:
    module = f"""HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{
  x = f32[16,{columns}] parameter(0)
  i = s32[60,1] parameter(1)
  u = f32[60,{columns}] parameter(2)
  ROOT s = f32[16,{columns}] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}
"""
    check(module, rtol=1e-5, atol=1e-5)
    assert "masked.store" not in xjit.compile(module).as_text("llvm")
