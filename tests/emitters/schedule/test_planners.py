"""What the planners for CPUs decide, read off their schedules: no LLVM IR is made here."""

from __future__ import annotations

import pytest

from tests.support.kernels import view_of
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.planners.cpu.kernels import plan_kernels
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import Combination, Loop, Role, reductions_of, statements_of
from xjit.llvm.target import Target
from xjit.text.parser import parse_hlo

CONTEXT = PlanContext(Target.for_features("avx2"), MapCache())
SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"


def plans(result: str, call: str, *parameters: str, level: str = "avx512") -> list[Schedule]:
    """The schedules of one instruction of parameters p0, p1, ...; `z` is zero."""
    lines = "\n".join(f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters))
    text = f"HloModule m\n{SUM}\nENTRY e {{\n{lines}\n  z = f32[] constant(0)\n  ROOT r = {result} {call}\n}}\n"
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    found: list[Schedule] = []
    for schedule in plan_kernels(PlanContext(Target.for_features(level), MapCache()), view):
        assert isinstance(schedule, Schedule) and parse_schedule(str(schedule)) == schedule
        found.append(schedule)
    return found


def body(schedule: Schedule) -> str:
    """The lines between the outermost braces, without indentation."""
    return "\n".join(line[2:] for line in str(schedule).splitlines()[1:-1])


def loops(schedule: Schedule, part: int = 0) -> list[tuple[Role, int, int]]:
    """Role, trips and lanes of the loops of a part."""
    found = [s for s in statements_of(schedule.parts[part].body) if isinstance(s, Loop)]
    return [(loop.role, schedule.size(loop.variable), loop.lanes) for loop in found]


def test_what_walks_as_one_is_one_vector_loop_that_is_shared_out() -> None:
    (schedule,) = plans("f32[30,50]", "negate(p0)", "f32[30,50]")
    assert (
        body(schedule)
        == """part {  // 93 units
  task vector(16) d0 in [0, 1499] {  // last step: 12 of 16 lanes
    out0[d0 floordiv 50, d0 mod 50] = %r[d0 floordiv 50, d0 mod 50]
  }
}"""
    )
    assert schedule.cost.operations == 1500 and schedule.cost.byte_count == 12_000


@pytest.mark.parametrize(("level", "lanes"), [("sse2", 4), ("avx2", 8), ("avx512", 16)])
def test_lanes_are_those_of_the_target(level: str, lanes: int) -> None:
    (schedule,) = plans("f32[100]", "negate(p0)", "f32[100]", level=level)
    assert loops(schedule) == [(Role.TASK, 100, lanes)] and schedule.units == 100 // lanes


@pytest.mark.parametrize(("level", "lanes"), [("sse2", 8), ("avx2", 16), ("avx512", 32)])
def test_transcendental_functions_of_long_rows_are_computed_two_registers_at_a_time(level: str, lanes: int) -> None:
    (schedule,) = plans("f32[1003]", "tanh(p0)", "f32[1003]", level=level)
    assert loops(schedule) == [(Role.TASK, 1003, lanes)]
    (plain,) = plans("f32[1003]", "negate(p0)", "f32[1003]", level=level)
    assert loops(plain) == [(Role.TASK, 1003, lanes // 2)], "nothing waits there"
    (short,) = plans("f32[100,9]{0,1}", "tanh(p0)", "f32[100,9]", level=level)
    assert all(width <= lanes // 2 for _, _, width in loops(short)), "rows are short"
    (counted,) = plans("f32[40]", "tanh(p0)", "f32[40]", level=level)
    assert loops(counted) == [(Role.TASK, 40, lanes // 2)], "few elements are not worth more code"


def test_outer_loops_are_merged_until_there_is_work_for_many() -> None:
    (schedule,) = plans("f32[4,5,7,64]", "broadcast(p0), dimensions={1,2}", "f32[5,7]")
    assert loops(schedule) == [(Role.TASK, 140, 0), (Role.VECTOR, 64, 16)]


def test_divisions_are_split_away() -> None:
    (schedule,) = plans("f32[96,64]", "reshape(p0)", "f32[3,2048]{0,1}")
    message = "96 rows are 3 times 32, and 32 rows of 64 walk through the operand as one"
    assert loops(schedule) == [(Role.TASK, 3, 0), (Role.VECTOR, 2048, 16)], message


def test_operands_of_a_concatenate_are_parts() -> None:
    (schedule,) = plans("f32[9,40]", "concatenate(p0, p1), dimensions={0}", "f32[2,40]", "f32[7,40]")
    assert [schedule.units_of(part) for part in schedule.parts] == [2, 7] and schedule.units == 9
    assert "out0[d3 + 2, d2] = %r[d3 + 2, d2]" in str(schedule)


def test_transposed_operands_are_read_in_squares() -> None:
    (schedule,) = plans("f32[64,48]", "transpose(p0), dimensions={1,0}", "f32[48,64]")
    assert loops(schedule) == [(Role.TASK, 4, 0), (Role.VECTOR, 48, 16), (Role.UNROLL, 16, 0)]
    (ragged,) = plans("f32[65,50]", "transpose(p0), dimensions={1,0}", "f32[50,65]")
    tiled = [any(role is Role.UNROLL for role, _, _ in loops(ragged, n)) for n in range(len(ragged.parts))]
    assert tiled == [True, False, False, False], "whole squares, and what is left at the edges"


def test_rows_are_reduced_by_lanes_columns_in_strips_few_rows_in_registers() -> None:
    call = "reduce(p0, z), dimensions={{{}}}, to_apply=sum"
    (rows,) = plans("f32[100]", call.format(1), "f32[100,1000]")
    assert (
        body(rows)
        == """part {  // 100 units
  task d0 in [0, 99] {
    reduce %r[d0] tree over vector(16) x 4 d1 in [0, 999] of (d1)
    out0[d0] = %r[d0]
  }
}"""
    )
    (columns,) = plans("f32[1000]", call.format(0), "f32[100,1000]")
    assert columns.kind == "column-reduction" and loops(columns)[0] == (Role.TASK, 3, 0)
    assert loops(columns)[1] == (Role.VECTOR, 256, 16), "a strip"
    assert len(columns.parts) == 2 and columns.units == 4
    (few,) = plans("f32[1000]", call.format(0), "f32[7,1000]")
    (reduction,) = [r for part in few.parts for r in reductions_of(part.body)]
    assert few.kind == "loop" and reduction.combination is Combination.SERIAL and not few.parts[0].tiles


def test_strips_are_shorter_where_there_would_be_too_few() -> None:
    call = "reduce(p0, z), dimensions={0}, to_apply=sum"
    wide, narrow = (plans(f"f32[{n}]", call, f"f32[100,{n}]")[0] for n in (65_536, 4096))
    assert loops(wide)[1] == (Role.VECTOR, 2048, 16) and loops(narrow)[1] == (Role.VECTOR, 1024, 16)


def test_an_update_reads_its_place_once_and_writes_nothing_else() -> None:
    parameters = ("f32[10,100]", "f32[2,30]", "s32[]", "s32[]")
    base, update = plans("f32[10,100]", "dynamic-update-slice(p0, p1, p2, p3)", *parameters)
    assert (base.kind, base.suffix, base.lets) == ("copy", ".base", ())
    assert str(update).splitlines()[1:3] == ["  let d0 in [0, 8] = %p2[]", "  let d1 in [0, 70] = %p3[]"]
    assert "out0[d0 + d2, d1 + d3] = %p1[d2, d3]" in str(update)


def test_results_of_different_shapes_are_schedules_of_their_own() -> None:
    text = """HloModule m
    fused { x = f32[8,32] parameter(0) y = f32[8] parameter(1)
      n = f32[8,32] negate(x) m = f32[8] exponential(y) ROOT t = (f32[8,32], f32[8]) tuple(n, m) }
    ENTRY e { x = f32[8,32] parameter(0) y = f32[8] parameter(1)
      ROOT f = (f32[8,32], f32[8]) fusion(x, y), kind=kLoop, calls=fused }"""
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    schedules = [plan for plan in plan_kernels(CONTEXT, view) if isinstance(plan, Schedule)]
    assert [s.suffix for s in schedules] == [".0", ".1"]
    assert "out1[d0] = %m[d0]" in str(schedules[1])


def plan_of(text: str) -> list[KernelPlan]:
    """The plans of a module's root instruction."""
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    return list(plan_kernels(CONTEXT, view))


def test_what_is_written_by_hand_says_why() -> None:
    (plan,) = plan_of("ENTRY e { x = f32[9] parameter(0) ROOT f = c64[5] fft(x), fft_type=RFFT, fft_length={9} }")
    assert isinstance(plan, HandWritten)
    assert plan.to_text(CONTEXT) == "// fft %f: written by hand, its transforms are functions of their own\n"


DOT = "dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"


@pytest.mark.parametrize(
    ("kind", "m"), [("f32", 200), ("f32", 4), ("s8", 200), ("u8", 1), ("c64", 200)], ids=lambda value: str(value)
)
def test_a_dot_is_a_multiplication_of_the_gemm_or_loops(kind: str, m: int) -> None:
    text = f"ENTRY e {{ x = {kind}[{m},40] parameter(0)  y = {kind}[40,7] parameter(1)  ROOT d = {kind}[{m},7] {DOT} }}"
    (plan,) = plan_of(text)
    by_hand = kind != "c64" and not (kind == "u8" and m == 1)
    assert isinstance(plan, HandWritten) == by_hand
    if isinstance(plan, HandWritten):
        assert plan.kind == "gemm" and f"product: 1 x [{m}, 40] * [40, 7]" in plan.to_text(CONTEXT)


def test_the_plan_of_a_multiplication_can_be_read() -> None:
    text = f"ENTRY e {{ x = f32[256,300] parameter(0)  y = f32[300,64] parameter(1)  ROOT d = f32[256,64] {DOT} }}"
    (plan,) = plan_of(text)
    assert isinstance(plan, HandWritten)
    assert (
        plan.to_text(CONTEXT)
        == """// gemm %d: written by hand, blocked for registers and caches
//   product: 1 x [256, 300] * [300, 64]
//   types: f32 * f32 -> f32, summed in f32
//   method: register tiles of 6x16
//   blocks: m 132, n 64, k 1 x 150
//   packed: right
//   result: in place
//   tasks: 2, shared out
//   epilogue: none
"""
    )


def test_the_plan_of_a_small_multiplication_can_be_read() -> None:
    text = f"ENTRY e {{ x = f32[130,64] parameter(0)  y = f32[64,64] parameter(1)  ROOT d = f32[130,64] {DOT} }}"
    (plan,) = plan_of(text)
    assert isinstance(plan, HandWritten)
    lines = plan.to_text(CONTEXT).splitlines()
    assert "//   method: register tiles of 5 rows and 2 vectors, of constant sizes" in lines
    assert "//   tasks: 26 units" in lines


def test_the_plan_of_a_convolution_can_be_read() -> None:
    text = """ENTRY e { x = f32[2,16,16,8] parameter(0)  k = f32[3,3,8,32] parameter(1)
      ROOT c = f32[2,16,16,32] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f }"""
    (plan,) = plan_of(text)
    assert isinstance(plan, HandWritten) and plan.kind == "convolution"
    lines = plan.to_text(CONTEXT).splitlines()
    assert "//   method: slabs, register tiles of 6x16" in lines and "//   chunk: 3 x 3 taps, 8 channels" in lines


def test_the_plan_of_a_convolution_over_a_spread_input_is_that_of_a_phase() -> None:
    text = """ENTRY e { x = f32[2,16,16,8] parameter(0)  k = f32[5,4,8,32] parameter(1)
      ROOT c = f32[2,31,32,32] convolution(x, k), window={size=5x4 pad=2_2x2_2 lhs_dilate=2x2},
        dim_labels=b01f_01io->b01f }"""
    (plan,) = plan_of(text)
    assert isinstance(plan, HandWritten)
    lines = plan.to_text(CONTEXT).splitlines()
    assert "//   phases: 4" in lines and "//   chunk: 3 x 2 taps, 8 channels" in lines


def test_updates_are_copied_by_loops_before_they_are_scattered() -> None:
    text = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[50] parameter(0) i = s32[3] parameter(1) u = f32[3] parameter(2)
      ROOT s = f32[50] scatter(x, i, u), to_apply=add, update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1 }"""
    copy, update = plan_of(text)
    assert isinstance(copy, Schedule) and copy.kind == "copy"
    assert isinstance(update, HandWritten) and update.kind == "scatter"


def test_what_is_padded_and_what_lies_around_it_are_parts() -> None:
    (schedule,) = plans("f32[105,201]", "pad(p0, z), padding=2_3x0_1", "f32[100,200]")
    assert [schedule.units_of(part) for part in schedule.parts] == [2, 3, 6, 100], "a column is a strided vector"
    assert loops(schedule, 3) == [(Role.TASK, 100, 0), (Role.VECTOR, 200, 16)]
    (cropped,) = plans("f32[102,300]", "pad(p0, z), padding=-1_3x0_0", "f32[100,300]")
    assert [cropped.units_of(part) for part in cropped.parts] == [3, 99]


def test_padding_between_elements_is_cut_at_its_edges_and_that_of_few_elements_is_asked_for() -> None:
    (spread,) = plans("f32[205,200]", "pad(p0, z), padding=2_4_1x0_0", "f32[100,200]")
    assert [spread.units_of(part) for part in spread.parts] == [2, 4, 99, 12], "edges, pairs of rows, and the last one"
    (few,) = plans("f32[12,201]", "pad(p0, z), padding=1_1x0_1", "f32[10,200]")
    assert len(few.parts) == 1, "they are not worth more code"


@pytest.mark.parametrize(
    ("operand", "result", "window", "count"),
    [
        ("256,300", "256,150", "1x7 stride=1x2 pad=0_0x2_3", 3),  # the inside, and its edges along one dimension
        ("256,300", "256,300", "3x3 pad=1_1x1_1", 5),
        ("256,300", "256,298", "1x3", 1),  # nothing is padded
        ("4,30", "4,15", "1x7 stride=1x2 pad=0_0x2_3", 1),  # too few elements
        ("256,75", "256,149", "1x3 pad=0_0x2_0 lhs_dilate=1x2", 1),  # spread inputs are tested for anyway
    ],
)
def test_windows_without_padding_are_parts(operand: str, result: str, window: str, count: int) -> None:
    call = f"reduce-window(p0, z), window={{size={window}}}, to_apply=sum"
    (schedule,) = plans(f"f32[{result}]", call, f"f32[{operand}]")
    assert len(schedule.parts) == count
