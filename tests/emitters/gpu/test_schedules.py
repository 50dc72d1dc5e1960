"""What GPU planners decide: who runs which loops, as text, and what is left for other blocks."""

from __future__ import annotations

import pytest

from tests.support.gpu_planning import ADD, MAX, gpu_kernels, schedule_lines
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.verify import ScheduleError, verify_schedule


def unary(shape: str, opcode: str = "negate") -> str:
    return f"HloModule m\nENTRY e {{ x = {shape} parameter(0)\n ROOT r = {shape} {opcode}(x) }}"


def reduced(shape: str, result: str, dimensions: str) -> str:
    entry = f"ENTRY e {{ x = {shape} parameter(0)\n z = f32[] parameter(1)\n"
    return f"HloModule m\n{ADD}{entry} ROOT r = {result} reduce(x, z), dimensions={{{dimensions}}}, to_apply=add }}"


def transposed(shape: str, result: str, dimensions: str) -> str:
    entry = f"ENTRY e {{ x = {shape} parameter(0)\n ROOT r = {result} transpose(x), dimensions={{{dimensions}}} }}"
    return f"HloModule m\n{entry}"


def softmax(rows: int, columns: int) -> str:
    full, row = f"f32[{rows},{columns}]", f"f32[{rows}]"
    return f"""HloModule m
{ADD}{MAX}f {{
  x = {full} parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = {row} reduce(x, low), dimensions={{1}}, to_apply=max
  tops = {full} broadcast(top), dimensions={{0}}
  below = {full} subtract(x, tops)
  raised = {full} exponential(below)
  total = {row} reduce(raised, zero), dimensions={{1}}, to_apply=add
  totals = {full} broadcast(total), dimensions={{0}}
  ROOT share = {full} divide(raised, totals)
}}
ENTRY e {{ x = {full} parameter(0)
  ROOT r = {full} fusion(x), kind=kLoop, calls=f }}"""


def test_elements_are_one_loop_of_vectors() -> None:
    assert schedule_lines(unary("f32[64,512]")) == [
        "part {  // 32 units",
        "block d0 in [0, 31] {",
        "thread vector(4) d1 in [0, 1023] {",
        "out0[d0 * 2 + d1 floordiv 512, d1 mod 512] = %r[d0 * 2 + d1 floordiv 512, d1 mod 512]",
        "}",
        "}",
        "}",
    ]


@pytest.mark.parametrize(("shape", "lanes"), [("f64[4096]", 2), ("f32[4096]", 4), ("bf16[8192]", 8), ("s8[8192]", 16)])
def test_a_thread_takes_128_bits(shape: str, lanes: int) -> None:
    assert any(f"thread vector({lanes})" in line for line in schedule_lines(unary(shape)))


def test_what_does_not_fill_a_block_is_another_blocks() -> None:
    (kernel,) = gpu_kernels(unary("f32[3003]"))
    assert kernel.launch is not None and kernel.launch.blocks == (3, 1, 1) and kernel.launch.threads == (256, 1, 1)
    lines = str(kernel.schedule)
    assert "thread vector(4) d2 in [0, 1023]" in lines and "thread d0 in [2048, 3002]" in lines


def test_elements_that_lie_apart_are_taken_one_by_one() -> None:
    entry = "ENTRY e { x = f32[4096,2] parameter(0)\n ROOT r = f32[4096,1] slice(x), slice={[0:4096], [0:1]} }"
    assert not any("vector" in line for line in schedule_lines(f"HloModule m\n{entry}"))


def test_a_short_row_is_a_warps() -> None:
    assert schedule_lines(reduced("f32[64,256]", "f32[64]", "1")) == [
        "part {  // 8 units",
        "block d0 in [0, 7] {",
        "warp d1 in [0, 7] {",
        "reduce %r[d0 * 8 + d1] tree over lane vector(4) x 1 d2 in [0, 255] of (d2)",
        "out0[d0 * 8 + d1] = %r[d0 * 8 + d1]",
        "}",
        "}",
        "}",
    ]


def test_a_long_row_is_a_blocks() -> None:
    lines = schedule_lines(reduced("f32[64,8192]", "f32[64]", "1"))
    assert "reduce %r[d0] tree over thread vector(4) x 1 d1 in [0, 8191] of (d1)" in lines


def test_columns_lie_along_lanes_and_rows_are_shared_out_among_warps() -> None:
    assert schedule_lines(reduced("f32[512,64]", "f32[64]", "0")) == [
        "part {  // 2 units",
        "block d0 in [0, 1] {",
        "lane d1 in [0, 31] {",
        "reduce %r[d0 * 32 + d1] tree over warp vector(1) x 1 d2 in [0, 511] of (d2)",
        "out0[d0 * 32 + d1] = %r[d0 * 32 + d1]",
        "}",
        "}",
        "}",
    ]


def test_reduced_dimensions_become_one_loop() -> None:
    lines = schedule_lines(reduced("f32[6,100,7]", "f32[100]", "0,2"))
    assert any("in [0, 41] of (" in line and "floordiv 7" in line for line in lines)


def test_a_softmax_is_one_kernel() -> None:
    lines = schedule_lines(softmax(100, 4096))
    assert lines[1:3] == [
        "block d0 in [0, 99] {",
        "reduce %top[d0] tree over thread vector(4) x 1 d3 in [0, 4095] of (d3)",
    ]
    assert lines[3].startswith("reduce %total[d0] tree over thread vector(4)") and lines[4].startswith(
        "thread vector(4)"
    )


def test_a_transpose_goes_through_padded_shared_memory() -> None:
    assert schedule_lines(transposed("f32[64,96]", "f32[96,64]", "1,0")) == [
        "part {  // 6 units",
        "tile %x over d0, d1 in shared at d0 * 33 + d1",
        "block d2 in [0, 5] {",
        "warp d1 in [0, 31] {",
        "lane d0 in [0, 31] {",
        "stage %x[d1 + (d2 mod 2) * 32, d0 + (d2 floordiv 2) * 32]",
        "}",
        "}",
        "barrier",
        "warp d0 in [0, 31] {",
        "lane d1 in [0, 31] {",
        "out0[d0 + (d2 floordiv 2) * 32, d1 + (d2 mod 2) * 32] = %r[d0 + (d2 floordiv 2) * 32, d1 + (d2 mod 2) * 32]",
        "}",
        "}",
        "}",
        "}",
    ]


def test_edges_of_a_transpose_are_smaller_tiles() -> None:
    text = "\n".join(schedule_lines(transposed("f32[40,100]", "f32[100,40]", "1,0")))
    assert text.count("barrier") == 4 and "in [32, 39]" in text and "in [96, 99]" in text


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (transposed("f32[64,96]", "f32[96,64]", "1,0"), "stage", "barrier\nstage", "barrier: stands in the warp loop"),
        (softmax(8, 256), "warp d", "thread d", "stands in the thread loop"),
        (reduced("f32[512,64]", "f32[64]", "0"), "lane d", "thread d", "stands in the thread loop"),
        (reduced("f32[64,256]", "f32[64]", "1"), "over lane", "over thread", "stands in the warp loop"),
    ],
)
def test_threads_that_cannot_meet_are_refused(text: str, old: str, new: str, message: str) -> None:
    (kernel,) = gpu_kernels(text)
    assert old in str(kernel.schedule)
    with pytest.raises(ScheduleError, match=message):
        verify_schedule(parse_schedule(str(kernel.schedule).replace(old, new)))
