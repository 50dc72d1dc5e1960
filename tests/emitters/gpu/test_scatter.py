"""scatter on GPUs: updates that meet, are alone, overwrite, or are outside."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.gpu_simulation import check_simulated
from xjit.compile_options import CompileOptions
from xjit.llvm.gpu_models import GPU_MODELS


def rows(kind: str, opcode: str, unique: bool = False, combined: str = "") -> str:
    body = combined or f"ROOT c = {kind}[] {opcode}(a, b)"
    return f"""HloModule m
combine {{ a = {kind}[] parameter(0)
 b = {kind}[] parameter(1)
 {body} }}
ENTRY e {{ x = {kind}[9,40] parameter(0)
 n = s32[30,1] parameter(1)
 u = {kind}[30,40] parameter(2)
 ROOT r = {kind}[9,40] scatter(x, n, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
   index_vector_dim=1, unique_indices={str(unique).lower()}, to_apply=combine }}"""


def inputs(kind: str, low: int = -2, high: int = 12) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    dtype = xjit.PrimitiveType[kind.upper()].dtype
    values = [rng.integers(0, 2, size) if kind == "pred" else rng.integers(0, 3, size) for size in ((9, 40), (30, 40))]
    x, u = (v.astype(dtype) for v in values)
    return [x, rng.integers(low, high, (30, 1)).astype(np.int32), u]


@pytest.mark.parametrize("kind", ["s8", "s16", "u32", "s64", "f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("opcode", ["add", "maximum"])
def test_updates_that_meet_are_all_there(kind: str, opcode: str) -> None:
    """Small whole numbers: sums are exact, in any order. Some windows are outside."""
    check_simulated(rows(kind, opcode), *inputs(kind))


def test_predicates() -> None:
    check_simulated(rows("pred", "or"), *inputs("pred"))


def test_a_combiner_of_several_operations() -> None:
    combined = "s = f32[] add(a, b)\n ROOT c = f32[] add(s, b)"
    check_simulated(rows("f32", "", combined=combined), *inputs("f32"))


@pytest.mark.parametrize("combined", ["", "ROOT c = c64[] add(b, a)", "z = c64[] add(a, a)\n ROOT c = c64[] add(b, z)"])
def test_unique_indices_need_no_atomic_operation(combined: str) -> None:
    text = rows("c64" if combined else "f32", "multiply", unique=True, combined=combined)
    x, _, u = inputs("c64" if combined else "f32")
    order = np.random.default_rng(1).permutation(30).astype(np.int32).reshape(30, 1)
    check_simulated(text, x, order, u)
    assert "atom." not in xjit.compile(text, "cuda-sim").as_text("ptx")


def test_what_overwrites_is_stored() -> None:
    text = rows("f32", "add").replace(
        " b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)", " ROOT b = f32[] parameter(1)"
    )
    x, _, u = inputs("f32")
    order = np.random.default_rng(1).permutation(30).astype(np.int32).reshape(30, 1)
    check_simulated(text, x, order, u)
    assert "atom." not in xjit.compile(text, "cuda-sim").as_text("ptx")


@pytest.mark.parametrize("kind", ["s8", "bf16", "f32", "s64"])
def test_every_architecture_selects_the_atomic_operations(kind: str) -> None:
    for architecture in GPU_MODELS:
        ptx = xjit.compile(rows(kind, "add"), f"cuda-sim:{architecture}").as_text("ptx")
        assert "atom." in ptx or "red." in ptx


@pytest.mark.parametrize("opcode", ["add", "multiply"])
def test_complex_numbers(opcode: str) -> None:
    """Sums are two atomic operations; products are taken in order."""
    text = rows("c64", opcode)
    check_simulated(text, *inputs("c64"))
    assert ("atom." in (ptx := xjit.compile(text, "cuda-sim").as_text("ptx")) or "red." in ptx) == (opcode == "add")


@pytest.mark.parametrize("unique", [False, True])
def test_several_operands(unique: bool) -> None:
    text = f"""HloModule m
combine {{ a = f32[] parameter(0)
 i = s32[] parameter(1)
 b = f32[] parameter(2)
 j = s32[] parameter(3)
 c = f32[] add(a, b)
 k = s32[] subtract(j, i)
 ROOT t = (f32[], s32[]) tuple(c, k) }}
ENTRY e {{ x = f32[9,4] parameter(0)
 y = s32[9,4] parameter(1)
 n = s32[{5 if unique else 30},1] parameter(2)
 u = f32[{5 if unique else 30},4] parameter(3)
 v = s32[{5 if unique else 30},4] parameter(4)
 ROOT r = (f32[9,4], s32[9,4]) scatter(x, y, n, u, v), update_window_dims={{1}}, inserted_window_dims={{0}},
   scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, unique_indices={str(unique).lower()}, to_apply=combine }}"""
    rng = np.random.default_rng(0)
    count = 5 if unique else 30
    n = (rng.permutation(9)[:count] if unique else rng.integers(-1, 10, count)).astype(np.int32).reshape(-1, 1)
    x, u = (rng.random((rows, 4)).astype(np.float32) for rows in (9, count))
    y, v = (rng.integers(0, 9, (rows, 4)).astype(np.int32) for rows in (9, count))
    check_simulated(text, x, y, n, u, v)


def test_deterministic_sums_are_taken_in_order() -> None:
    """The bits are the evaluator's, whatever the order of threads is."""
    x, n, u = inputs("f32")
    u = np.random.default_rng(0).random((30, 40)).astype(np.float32)
    executable = check_simulated(rows("f32", "add"), x, n, u, options=CompileOptions(deterministic=True))
    assert "atom." not in (ptx := executable.as_text("ptx")) and "red." not in ptx


def sorted_rows(kind: str, rows: int, window: int, opcode: str = "add", combined: str = "") -> str:
    body = combined or f"ROOT c = {kind}[] {opcode}(a, b)"
    return f"""HloModule m
combine {{ a = {kind}[] parameter(0)
 b = {kind}[] parameter(1)
 {body} }}
ENTRY e {{ x = {kind}[40,{window}] parameter(0)
 n = s32[{rows},1] parameter(1)
 u = {kind}[{rows},{window}] parameter(2)
 ROOT r = {kind}[40,{window}] scatter(x, n, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
   index_vector_dim=1, indices_are_sorted=true, to_apply=combine }}"""


def sorted_inputs(kind: str, rows: int, window: int, n: np.ndarray) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    dtype = xjit.PrimitiveType[kind.upper()].dtype
    x, u = (rng.integers(0, 3, (size, window)).astype(dtype) for size in (40, rows))
    return [x, n.astype(np.int32).reshape(-1, 1), u]


RNG = np.random.default_rng(2)
SEGMENTS = {
    "short": np.sort(RNG.integers(-1, 42, 100)),
    "one": np.full(100, 7),
    "beyond a group": np.sort(np.r_[np.full(70, 3), RNG.integers(4, 40, 26)]),
    "outside": np.r_[np.full(33, -5), np.full(31, 0), np.full(36, 40)],
    "single row": np.array([39]),
}


@pytest.mark.parametrize("segments", SEGMENTS)
@pytest.mark.parametrize("window", [1, pytest.param(3, marks=pytest.mark.slow), 33])
def test_segments_of_sorted_indices_need_no_atomic_operation(segments: str, window: int) -> None:
    """A warp scans rows of short windows; long windows have a thread per element."""
    n = SEGMENTS[segments]
    text = sorted_rows("f32", len(n), window)
    ptx = check_simulated(text, *sorted_inputs("f32", len(n), window, n)).as_text("ptx")
    assert "atom." not in ptx and "red." not in ptx and ("shfl" in ptx) == (window < 32)


@pytest.mark.parametrize(("kind", "opcode"), [("bf16", "add"), ("s8", "minimum"), ("pred", "or"), ("c64", "add")])
def test_types_of_segments(kind: str, opcode: str) -> None:
    n = SEGMENTS["short"]
    inputs = sorted_inputs("s32", len(n), 2, n)
    dtype = xjit.PrimitiveType[kind.upper()].dtype
    check_simulated(
        sorted_rows(kind, len(n), 2, opcode), *(a if a is inputs[1] else (a != 0).astype(dtype) for a in inputs)
    )


def test_segments_keep_the_order_of_any_combiner() -> None:
    n = SEGMENTS["short"]
    combined = "d = f32[] add(a, a)\n ROOT c = f32[] add(d, b)"
    check_simulated(sorted_rows("f32", len(n), 2, combined=combined), *sorted_inputs("f32", len(n), 2, n))


def test_indices_that_are_not_sorted_stay_inside() -> None:
    """Any value may be there, but nowhere else: rows that no index names are as they were."""
    n = np.r_[RNG.integers(-3, 20, 60), RNG.integers(30, 50, 40)]
    x, n, u = sorted_inputs("f32", 100, 2, n)
    result = xjit.compile(sorted_rows("f32", 100, 2), "cuda-sim")(x, n, u)
    assert (result[20:30] == x[20:30]).all()


def test_windows_that_overlap_are_no_segments() -> None:
    text = """HloModule m
combine { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[20] parameter(0)
 n = s32[9,1] parameter(1)
 u = f32[9,4] parameter(2)
 ROOT r = f32[20] scatter(x, n, u), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0},
   index_vector_dim=1, indices_are_sorted=true, to_apply=combine }"""
    x, u = np.zeros(20, np.float32), np.ones((9, 4), np.float32)
    check_simulated(text, x, np.arange(9, dtype=np.int32).reshape(9, 1), u)
