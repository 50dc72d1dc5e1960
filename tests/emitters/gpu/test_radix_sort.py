"""Sorts by the digits of keys: which they are, and that they keep the order of equal keys."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.emitters.gpu.test_sort import PAIRS, lines
from tests.support.gpu_simulation import check_simulated
from xjit.emitters.planners.gpu.radix_sort import RadixPlan, radix_plan
from xjit.hlo.ir.instruction import HloInstruction
from xjit.text.parser import parse_hlo

SLOW = pytest.mark.slow
NETWORK_BYTES = "xjit.emitters.planners.gpu.sort_network.SortNetwork.bytes_moved"


def sort_of(text: str) -> HloInstruction:
    return next(i for i in parse_hlo(text).entry_computation.instructions if i.opcode == "sort")


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every order by one key goes by digits, in tiles of few elements a thread."""
    monkeypatch.setattr(NETWORK_BYTES, lambda network, shapes: 1 << 60)
    monkeypatch.setattr("xjit.emitters.planners.gpu.radix_sort.SHARED_BYTES", 5120)


def keys(kind: str, payload: str, shape: str, direction: str, stable: bool = True) -> str:
    total = ", type=TOTALORDER" if kind[0] in "fb" else ""
    return f"""HloModule m
less {{ a = {kind}[] parameter(0)
 b = {kind}[] parameter(1)
 i = {payload}[] parameter(2)
 j = {payload}[] parameter(3)
 ROOT p = pred[] compare(a, b), direction={direction}{total} }}
ENTRY e {{ k = {kind}[{shape}] parameter(0)
 v = {payload}[{shape}] parameter(1)
 ROOT r = ({kind}[{shape}], {payload}[{shape}]) sort(k, v), dimensions={{{shape.count(",")}}}, is_stable={str(stable).lower()}, to_apply=less }}"""


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    ("kind", "payload", "shape", "direction"),
    [
        ("s8", "s32", "2,700", "GT"),
        *(
            pytest.param(kind, payload, shape, direction, marks=SLOW)
            for kind, payload, shape, direction in [
                ("bf16", "u8", "513", "LT"), ("u8", "f64", "3,2,300", "LT"), ("u8", "pred", "600", "GT"), ("s16", "c64", "2,513", "LT"),
                ("u16", "s32", "300", "GT"), ("u32", "s32", "300", "GT"), ("s32", "u8", "2,300", "LT"),
                ("s64", "s32", "300", "GT"), ("u64", "s32", "300", "LT"), ("f16", "s32", "600", "GT"),
                ("f32", "f16", "600", "GT"), ("f64", "s32", "300", "LT"),
            ]
        ),
    ],
)  # fmt: skip
def test_keys_and_payloads(kind: str, payload: str, shape: str, direction: str) -> None:
    executable = check_simulated(keys(kind, payload, shape, direction))
    assert {kernel.kind for kernel in executable.kernels} == {"radix-sort"}


@pytest.mark.usefixtures("small_tiles")
def test_equal_keys_keep_their_order() -> None:
    """Zeros of both signs, infinities and NaNs of both signs, many times, in tiles of several blocks."""
    values = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -np.nan, 1.5, -2.0], ml_dtypes.bfloat16)
    k = np.random.default_rng(0).choice(values, 600)
    check_simulated(keys("bf16", "s32", "600", "LT"), k, np.arange(600, dtype=np.int32))


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_whole_tiles_of_one_array() -> None:
    check_simulated(lines("2,1024", 1, "LT", "s16"))


def test_long_lines_go_by_digits() -> None:
    """The bytes that either way moves decide; a comparator of two keys, or of complex numbers, has no digits."""
    assert radix_plan(sort_of(lines("4096", 0))) is None
    assert radix_plan(sort_of(lines("7,1048576", 1, "GT", "s32"))) is not None
    plan = RadixPlan.of(sort_of(lines("1048576", 0)))
    assert plan is not None and len(plan.shifts) == 4 and plan.tile == 4096
    assert 2 * plan.bytes_moved < plan.network.bytes_moved(plan.shapes)
    both = keys("s32", "s32", "1048576", "LT").replace("compare(a, b)", "compare(a, j)")
    assert radix_plan(sort_of(both)) is None
    assert radix_plan(sort_of(lines("1048576", 0, "LT", "pred"))) is None


def test_a_stable_sort_by_digits_sorts_no_positions() -> None:
    text = keys("u8", "s32", "65536", "LT")
    executable = xjit.compile(text, "cuda-sim")
    assert [kernel.kind for kernel in executable.kernels] == ["radix-sort"] * 3
    assert "iota" not in executable.as_text("optimized-hlo")
    assert "match.any.sync" in executable.as_text("ptx")
    assert executable.program.arena_size > 65536 * 5  # another place for the elements


def test_short_stable_sorts_still_compare_positions() -> None:
    executable = xjit.compile(PAIRS.format(shape="4,50", axis=1, stable="true"), "cuda-sim")
    assert {kernel.kind for kernel in executable.kernels} == {"loop", "bitonic-sort"}
