"""What reports say of memory: needed and moved bytes, coalescing, bank conflicts, and why more moves than must."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.emitters.gpu.test_contractions import convolution, dot
from tests.emitters.gpu.test_schedules import reduced, softmax, transposed, unary
from tests.support.attention_text import AttentionText, fused
from tests.support.kernels import view_of
from xjit.affine import dim
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.gpu.traffic import KernelTraffic, kernel_traffic
from xjit.emitters.planners.gpu.table import gpu_plan_context, plan_gpu_kernels
from xjit.emitters.schedule.accesses import schedule_accesses
from xjit.emitters.schedule.schedule import Schedule
from xjit.llvm.target import Target
from xjit.text.parser import parse_hlo

MIB = 1 << 20


def planned(text: str) -> tuple[Schedule, KernelTraffic]:
    """The only schedule of a module's root, and its traffic."""
    view, maps = view_of(parse_hlo(text).entry_computation.root_instruction), MapCache()
    (schedule,) = plan_gpu_kernels(gpu_plan_context(Target.for_gpu("sm_90"), maps), view)
    assert isinstance(schedule, Schedule)
    return schedule, kernel_traffic(schedule, view, maps)


@pytest.mark.parametrize(
    "text",
    [
        unary("f32[4096,4096]"),
        unary("bf16[4097,33]"),
        transposed("f32[4096,2048]", "f32[2048,4096]", "1,0"),
        reduced("f32[8192,1024]", "f32[8192]", "1"),
        reduced("f32[512,65536]", "f32[512]", "1"),
        reduced("f32[4096,4096]", "f32[4096]", "0"),
        softmax(4096, 2048),
    ],
    ids=["elements", "odd", "transpose", "rows", "long rows", "columns", "softmax"],
)
def test_kernels_move_what_they_must(text: str) -> None:
    """Of a schedule of streams, every access is coalesced, and what is counted is what the planner has counted."""
    schedule, traffic = planned(text)
    assert traffic.efficiency > 0.97 and traffic.reasons == () and traffic.bank_conflicts == 0
    assert traffic.needed == pytest.approx(schedule.cost.byte_count, rel=0.01)
    assert traffic.moved < 1.03 * traffic.needed


@pytest.mark.parametrize(
    "text",
    [
        dot("bf16[256,512]", "bf16[512,256]", "f32[256,256]"),
        dot("f32[130,70]", "f32[90,70]", "f32[130,90]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        convolution("f32[2,12,12,32]", "f32[3,3,32,32]", "f32[2,12,12,32]", "size=3x3 pad=1_1x1_1"),
        fused(AttentionText(queries=128, keys=200, depth=32, width=32, kind="f16", mask="causal").text()),
    ],
    ids=["dot", "edges", "convolution", "attention"],
)
def test_products_of_tiles_are_followed(text: str) -> None:
    """Through bound variables and tiles: all of every array is needed, and the cache has it if it is read again."""
    schedule, traffic = planned(text)
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    whole = {f"%{leaf.name}": leaf.shape.byte_size for leaf in view.leaves} | {"out0": view.result_shapes[0].byte_size}
    assert {a.array: a.needed for a in traffic.arrays} == pytest.approx(whole, rel=0.1)
    assert traffic.efficiency == 1.0 and traffic.reasons == ()
    assert schedule.kind in ("contraction", "attention")


def test_banks_of_tiles_are_looked_at() -> None:
    """A tile without padding: the rows of a fragment begin in one bank."""
    text = dot("bf16[64,64]", "bf16[64,64]", "f32[64,64]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}")
    schedule, traffic = planned(text)
    assert traffic.bank_conflicts <= 1
    (part,) = schedule.parts
    steps = part.operands[0].sizes[1]
    bare = replace(part.operands[0], place=dim(0) * steps + dim(1))
    changed = replace(schedule, parts=(replace(part, operands=(bare, part.operands[1])),))
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    assert steps % 64 == 0 and kernel_traffic(changed, view, MapCache()).bank_conflicts == 7


@pytest.mark.slow
def test_an_array_that_does_not_stay_in_the_cache_is_read_again() -> None:
    _, traffic = planned(dot("bf16[256,16384]", "bf16[16384,1024]", "bf16[256,1024]"))
    (much,) = (a for a in traffic.arrays if a.moved > 1.1 * a.needed)
    assert much.array == "%y" and much.needed == 32 * MIB
    assert "and what lies between is too much for the cache" in traffic.reasons[0]


def test_elements_that_lie_apart() -> None:
    entry = "ENTRY e { x = f32[8388608,2] parameter(0)\n ROOT r = f32[8388608,1] slice(x), slice={[0:8388608], [0:1]} }"
    _, traffic = planned(f"HloModule m\n{entry}")
    source, result = sorted(traffic.arrays, key=lambda array: array.array, reverse=False)
    assert (source.array, source.needed, source.moved) == ("%x", 32 * MIB, 64 * MIB)
    assert source.coalesced == 0 and result.coalesced == 1 and result.moved == result.needed == 32 * MIB
    assert traffic.reasons == ("%x: neighbouring threads take elements 8 bytes apart",)


def test_what_blocks_share_counts_once_while_the_cache_has_it() -> None:
    """A row that every block reads stays in the cache; 64 MiB that are read twice do not."""
    row = "x = f32[8192] parameter(0)\n ROOT r = f32[4096,8192] broadcast(x), dimensions={1}"
    _, traffic = planned(f"HloModule m\nENTRY e {{ {row} }}")
    assert traffic.efficiency == 1.0
    twice = "x = f32[16777216] parameter(0)\n ROOT r = f32[2,16777216] broadcast(x), dimensions={1}"
    _, traffic = planned(f"HloModule m\nENTRY e {{ {twice} }}")
    assert traffic.moved == 256 * MIB and traffic.needed == 192 * MIB
    assert traffic.reasons[0].startswith("%x: blocks read the array 2.0 times")


@pytest.mark.parametrize(
    ("source", "result", "permutation"),
    [("8388608,3", "3,8388608", "1,0"), ("131072,7,9", "9,7,131072", "2,1,0"), ("2,4194304,2", "2,2,4194304", "2,0,1")],
)
def test_short_rows_are_read_once(source: str, result: str, permutation: str) -> None:
    """A thread takes all of a row that lies across the result."""
    _, traffic = planned(transposed(f"f32[{source}]", f"f32[{result}]", permutation))
    assert traffic.efficiency > 0.99


def concatenated(kind: str, rows: int, widths: tuple[int, ...]) -> str:
    operands = " ".join(f"x{i} = {kind}[{rows},{width}] parameter({i})\n" for i, width in enumerate(widths))
    names = ", ".join(f"x{i}" for i in range(len(widths)))
    root = f"ROOT r = {kind}[{rows},{sum(widths)}] concatenate({names}), dimensions={{1}}"
    return f"HloModule m\nENTRY e {{ {operands} {root} }}"


@pytest.mark.parametrize("widths", [(1, 1, 1), (1,) * 16, (9, 7), (64, 64)])
def test_short_pieces_of_a_concatenate_are_written_together(widths: tuple[int, ...]) -> None:
    _, traffic = planned(concatenated("f32", 1 << 20, widths))
    assert traffic.efficiency > 0.99


def test_places_that_are_read_at_run_time() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[4194304] parameter(0)
  i = s32[1048576,1] parameter(1)
  ROOT r = f32[1048576] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
}"""
    _, traffic = planned(text)
    assert traffic.efficiency < 0.9
    assert "%x: which elements are needed is read at run time" in traffic.reasons


def test_bank_conflicts_of_a_tile_without_padding() -> None:
    """Columns of 32 rows of 32 words lie in one bank; the planner's padding spreads them."""
    text = transposed("f32[256,256]", "f32[256,256]", "1,0")
    view, maps = view_of(parse_hlo(text).entry_computation.root_instruction), MapCache()
    (schedule,) = plan_gpu_kernels(gpu_plan_context(Target.for_gpu("sm_90"), maps), view)
    assert isinstance(schedule, Schedule)
    assert kernel_traffic(schedule, view, maps).bank_conflicts == 0
    (part,) = schedule.parts
    (tile,) = part.tiles
    column, row = tile.over
    bare = replace(tile, place=dim(column) * 32 + dim(row))
    schedule = replace(schedule, parts=(replace(part, tiles=(bare,)),))
    assert kernel_traffic(schedule, view, maps).bank_conflicts == 31


def test_accesses_stand_in_their_loops() -> None:
    text = softmax(64, 2048)
    view, maps = view_of(parse_hlo(text).entry_computation.root_instruction), MapCache()
    (schedule,) = plan_gpu_kernels(gpu_plan_context(Target.for_gpu("sm_90"), maps), view)
    assert isinstance(schedule, Schedule)
    (accesses,) = schedule_accesses(schedule, view, maps).parts
    assert [(a.array, a.is_store, len(a.within)) for a in accesses] == [
        ("%x", False, 2),  # for the maximum
        ("%x", False, 2),  # for the sum
        ("%x", False, 2),  # for the quotient
        ("out0", True, 2),
    ]
