"""What the planner of contractions decides, as text; and the PTX that becomes of it on each architecture."""

from __future__ import annotations

import pytest

from tests.emitters.gpu.test_contractions import PLAIN, convolution, dot
from tests.support.gpu_planning import gpu_kernels, ptx_of, schedule_lines
from xjit.emitters.planners.gpu.tilings import THREAD_TILINGS, choose_tiling, warp_tilings
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.verify import ScheduleError, verify_schedule
from xjit.llvm.gpu_models import GPU_MODELS

ROWS = dot("bf16[64,48]", "bf16[48,64]", "f32[64,64]")


def test_edges_are_bound_within_the_array() -> None:
    lines = schedule_lines(dot("f32[37,19]", "f32[19,29]", "f32[37,29]"))
    assert lines[:4] == [
        "part {  // 6 units",
        "tile %r over d7, d8 in register",
        "operand 0 of %r as f32 16 x 16 at d0 + d1 * 20",
        "operand 1 of %r as f32 16 x 16 at d0 + d1 * 20",
    ]
    assert "bind d0 in [0, 36] to d9 * 4 + (d4 floordiv 2) * 16 + d5 floordiv 16 {" in lines
    assert "stage operand 0 of %r[d0, 0] of (d3) at (d9 * 4 + d5 floordiv 16, d5 mod 16) along 1" in lines
    assert "contract %r of 0[d7 + (d5 floordiv 8) * 2], 1[d8 + (d5 mod 8) * 2] step d11" in lines


def test_operands_are_staged_along_memory_in_vectors() -> None:
    lines = schedule_lines(ROWS)
    assert "operand 0 of %r as bf16 16 x 64 at d0 * 72 + d1" in lines  # steps are contiguous; there are two chunks
    assert "operand 1 of %r as bf16 16 x 64 at d0 + d1 * 24" in lines  # rows (of the right one: columns) are
    assert any(line.startswith("bind vector(8) d3 in [0, 47]") for line in lines)
    assert any(line.startswith("bind vector(8) d1 in [0, 63]") for line in lines)
    assert any(line.endswith("by m16n8k16.bf16.bf16") for line in lines)


def test_features_are_the_steps_that_go_fastest() -> None:
    text = convolution("f32[2,8,8,6]", "f32[3,3,6,12]", "f32[2,6,6,12]", "size=3x3")
    assert any("of (d3 floordiv 18, (d3 floordiv 6) mod 3, d3 mod 6)" in line for line in schedule_lines(text))


def test_padding_is_skipped_by_whole_vectors() -> None:
    """Lanes go along the features: all of them are in the padding, or none."""
    text = convolution("f32[2,8,8,16]", "f32[3,3,16,16]", "f32[2,8,8,16]", "size=3x3 pad=1_1x1_1")
    assert any(line.startswith("bind vector(4) d3 in [0, 143]") for line in schedule_lines(text))
    ptx = ptx_of(text)
    assert "ld.global.nc.v4.b32" in ptx and "cp.async" in ptx and "ld.global.nc.b32" not in ptx


def test_the_next_chunk_is_copied_while_one_is_multiplied() -> None:
    lines = schedule_lines(ROWS)
    loop = lines.index("serial d6 in [0, 1] carries %r {")
    assert lines[loop - 1] == "barrier" and lines[loop:].count("barrier") == 1
    assert any("d6 * 32 + (d5 mod 4) * 8 + 32" in line for line in lines[loop:])  # the step: one chunk ahead
    ptx = ptx_of(ROWS)
    assert "cp.async.cg.shared.global" in ptx and "ld.global" not in ptx
    assert ptx.count("cp.async.wait_all") == ptx.count("bar.sync")
    older = ptx_of(dot("f16[64,48]", "f16[48,64]", "f32[64,64]"), "sm_75")
    assert "cp.async" not in older and "ld.global.nc.v2" in older


def test_the_operand_whose_dimension_is_stored_contiguously_gives_columns() -> None:
    text = "f32[24,36]{0,1}"
    lines = schedule_lines(dot("f32[24,40]", "f32[40,36]", text))
    assert any(line.startswith("contract %r of 1[") for line in lines)


@pytest.mark.parametrize(
    ("rows", "columns", "batches", "expected"),
    [(4096, 4096, 1, (128, 128)), (512, 512, 1, (32, 32)), (1024, 1024, 1, (64, 64)), (8, 16384, 1, (16, 64)),
     (16384, 8, 1, (64, 16)), (20, 20, 1, (16, 16)), (64, 64, 512, (64, 64))],
)  # fmt: skip
def test_tiles_are_as_large_as_leaves_enough_blocks(
    rows: int, columns: int, batches: int, expected: tuple[int, int]
) -> None:
    for tilings in (THREAD_TILINGS, warp_tilings(16)):
        tiling = choose_tiling(tilings, rows, columns, batches)
        assert (tiling.rows, tiling.columns) == expected


BROKEN = [
    ("clear %r", "", "%r has no initial value here"),
    ("operand 1 of %r as f32 16 x 16 at d0 + d1 * 20", "", "operand 1 has no tile"),
    ("at (d9 * 4 + d5 floordiv 16, d5 mod 16) along 1", "at (d5 floordiv 16, d11) along 1", "d11 has no value here"),
    ("give %r[d0, d1]", "give %r[d0, d3]", "d3 has no value here"),
    ("bind d2 in [0, 0] to 0", "bind vector(2) d2 in [0, 0] to 0", "2 lanes of 1 values"),
    ("thread d5 in [0, 63]", "thread d5 in [0, 127]", "stands in the thread loop of d5"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_broken_schedules_are_refused(old: str, new: str, message: str) -> None:
    (kernel,) = gpu_kernels(dot("f32[37,19]", "f32[19,29]", "f32[37,29]"))
    text = str(kernel.schedule)
    assert old in text
    broken = text.replace(old, new) if "d5 in" in old else text.replace(old, new, 1)
    with pytest.raises(ScheduleError, match=message):
        verify_schedule(parse_schedule(broken))


KINDS = [("bf16", "f32", ""), ("f16", "f16", ""), ("s8", "s32", ""), ("f8e4m3fn", "f32", ""), ("f64", "f64", ""),
         ("f32", "f32", ", algorithm=dot_tf32_tf32_f32"), ("f32", "f32", "")]  # fmt: skip
FIRST = {"bf16": 80, "f16": 75, "s8": 75, "f8e4m3fn": 89, "f64": 80}


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_units_are_used_where_there_are_some(architecture: str) -> None:
    for kind, result, more in KINDS:
        text = dot(f"{kind}[32,64]", f"{kind}[64,32]", f"{result}[32,32]", PLAIN + more)
        ptx = ptx_of(text, architecture)
        first = FIRST.get(kind, 80 if more else 1000)
        assert ("mma.sync.aligned" in ptx) == (GPU_MODELS[architecture].compute_capability >= first), (kind, more)
        assert ".local" not in ptx and "bar.sync" in ptx


def test_versions_of_ptx_are_those_of_the_units() -> None:
    f8 = dot("f8e4m3fn[32,64]", "f8e4m3fn[64,32]", "f32[32,32]")
    assert ".version 8.4" in ptx_of(f8, "sm_90") and ".version 7.8" in ptx_of(ROWS, "sm_90")
    f16 = dot("f16[32,64]", "f16[64,32]", "f32[32,32]")
    assert ".version 6.5" in ptx_of(f16, "sm_75") and ".version 6.3" in ptx_of(ROWS, "sm_75")
