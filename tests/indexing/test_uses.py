"""Utilisation, coalescing and tiles of instructions and fusions."""

from __future__ import annotations

import pytest

from tests.indexing.relations import relation
from tests.indexing.test_document_examples import SOFTMAX, fusion_of, root_of
from xjit.hlo.diagnostics import InvalidArgument
from xjit.indexing import AccessKind, Tile
from xjit.indexing.coalescing import operand_accesses, work_item_map
from xjit.indexing.hlo_indexing import compute_output_to_input_indexing
from xjit.indexing.tiling import propagate_output_tile
from xjit.indexing.utilization import bytes_moved, operand_utilizations

PARTIAL = {
    "slice": ("x = f32[10,20] parameter(0)\nr = f32[3,20] slice(x), slice={[0:9:3], [0:20]}", 60),
    "reverse": ("x = f32[10,20] parameter(0)\nr = f32[10,20] reverse(x), dimensions={0}", 200),
    "window": (
        "x = f32[10] parameter(0)\nc = f32[] constant(0)\n"
        "r = f32[3] reduce-window(x, c), window={size=2 stride=4}, to_apply=add_f32", 6,
    ),
    "dynamic slice": (
        "x = f32[10,20] parameter(0)\ni = s32[] parameter(1)\nr = f32[2,5] dynamic-slice(x, i, i), dynamic_slice_sizes={2,5}", 10,
    ),
    "broadcast": ("x = f32[10] parameter(0)\nr = f32[10,99] broadcast(x), dimensions={0}", 10),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTIAL)
def test_elements_read(name: str) -> None:
    text, count = PARTIAL[name]
    used = operand_utilizations(root_of(text))[0]
    assert (used.elements_read, used.exact) == (count, True)


def test_gather_reads_at_most_what_it_gathers() -> None:
    root = root_of(
        "x = f32[100,4] parameter(0)\ni = s32[7,1] parameter(1)\nr = f32[7,4] gather(x, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"
    )
    used, indices = operand_utilizations(root)
    assert used.elements_read == 28 and not used.exact and indices.elements_read == 7


def test_utilisation_of_a_fusion_is_the_union_of_its_paths() -> None:
    root = fusion_of(
        "p = f32[12] parameter(0)\na = f32[6] slice(p), slice={[0:6]}\nb = f32[6] slice(p), slice={[3:9]}\n"
        "ROOT r = f32[6] add(a, b)",
        "x = f32[12] parameter(0)",
    )
    (used,) = operand_utilizations(root)
    brute = relation(compute_output_to_input_indexing(root)[0], (6,), (12,), lambda _: NotImplemented).any(axis=0).sum()
    assert used.elements_read == brute == 9
    moved = bytes_moved(root)
    assert (moved.read, moved.written, moved.total) == ((36,), 24, 60)


@pytest.mark.parametrize(
    ("second", "read", "exact"),
    [
        ("dynamic-slice(p, i), dynamic_slice_sizes={5}", 5, True),  # the same place
        ("dynamic-slice(p, j), dynamic_slice_sizes={5}", 10, False),  # another one: apart, or over each other
        ("slice(p), slice={[0:5]}", 10, False),
    ],
)
def test_places_known_at_run_time_may_lie_apart(second: str, read: int, exact: bool) -> None:
    root = fusion_of(
        "p = f32[20] parameter(0)\ni = s32[] parameter(1)\nj = s32[] parameter(2)\n"
        f"a = f32[5] dynamic-slice(p, i), dynamic_slice_sizes={{5}}\nb = f32[5] {second}\nROOT r = f32[5] add(a, b)",
        "x = f32[20] parameter(0)\ny = s32[] parameter(1)\nz = s32[] parameter(2)",
    )
    used = operand_utilizations(root)[0]
    assert (used.elements_read, used.exact) == (read, exact)


def test_coalescing_of_copy_transpose_and_broadcast() -> None:
    copy = root_of("x = f32[64,64] parameter(0)\nr = f32[64,64] negate(x)")
    work = work_item_map((64, 64), 128)
    ((access,),) = operand_accesses(copy, work)
    assert (access.kind, access.sectors) == (AccessKind.CONTIGUOUS, 4)
    turned = root_of("x = f32[64,64] parameter(0)\nr = f32[64,64] transpose(x), dimensions={1,0}")
    ((access,),) = operand_accesses(turned, work)
    assert (access.kind, access.stride, access.sectors) == (AccessKind.STRIDED, 64, 32)
    spread = root_of("x = f32[64] parameter(0)\nr = f32[64,64] broadcast(x), dimensions={0}")
    ((access,),) = operand_accesses(spread, work)
    assert (access.kind, access.sectors) == (AccessKind.BROADCAST, 1)


def test_coalescing_sees_layouts_and_vectors() -> None:
    turned = root_of("x = f32[64,64]{0,1} parameter(0)\nr = f32[64,64]{1,0} copy(x)")
    ((access,),) = operand_accesses(turned, work_item_map((64, 64), 128))
    assert access.stride == 64
    copy = root_of("x = f32[64,64] parameter(0)\nr = f32[64,64] negate(x)")
    ((access,),) = operand_accesses(copy, work_item_map((64, 64), 128, vector=4))
    assert (access.kind, access.sectors) == (AccessKind.CONTIGUOUS, 16)
    tiled = root_of("x = f32[64,64]{1,0:T(8,8)} parameter(0)\nr = f32[64,64]{1,0} copy(x)")
    ((access,),) = operand_accesses(tiled, work_item_map((64, 64), 128))
    assert access.sectors == 4  # four tiles, one row of 8 floats each


def test_coalescing_wants_a_map_of_the_output() -> None:
    root = root_of("x = f32[64,64] parameter(0)\nr = f32[64,64] negate(x)")
    with pytest.raises(InvalidArgument, match="expected a map of 3 dims"):
        operand_accesses(root, work_item_map((64,), 128))


def tiles_of(text: str, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> list[tuple[Tile, ...]]:
    root = root_of(text)
    tiled = propagate_output_tile(root)
    return [tiled.evaluate(n, offsets, sizes) for n in range(root.operand_count)]


def test_tiles_of_a_dot() -> None:
    lhs, rhs = tiles_of(
        "x = f32[32,16] parameter(0)\ny = f32[16,64] parameter(1)\n"
        "r = f32[32,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}", (8, 32), (4, 16),
    )  # fmt: skip
    assert lhs == (Tile((8, 0), (4, 16), (1, 1)),) and rhs == (Tile((0, 32), (16, 16), (1, 1)),)


def test_tiles_of_a_reduction() -> None:
    source, _ = tiles_of(
        "x = f32[32,16] parameter(0)\nc = f32[] constant(0)\nr = f32[32] reduce(x, c), dimensions={1}, to_apply=add_f32",
        (8,), (4,),
    )  # fmt: skip
    assert source == (Tile((8, 0), (4, 16), (1, 1)),)


def test_tiles_of_softmax_are_rows() -> None:
    tiled = propagate_output_tile(fusion_of(SOFTMAX, "x = f32[2,65,125] parameter(0)"))
    tiles = tiled.evaluate(0, (1, 13, 0), (1, 5, 125))
    assert set(tiles) == {Tile((1, 13, 0), (1, 5, 125), (1, 1, 1))}
    narrow = tiled.evaluate(0, (1, 13, 25), (1, 5, 25))
    assert set(narrow) == {Tile((1, 13, 25), (1, 5, 25), (1, 1, 1)), Tile((1, 13, 0), (1, 5, 125), (1, 1, 1))}


def test_tiles_of_slices_windows_pads_and_concatenates() -> None:
    (source,) = tiles_of("x = f32[40] parameter(0)\nr = f32[10] slice(x), slice={[3:33:3]}", (2,), (4,))
    assert source == (Tile((9,), (4,), (3,)),)
    source, _ = tiles_of(
        "x = f32[40] parameter(0)\nc = f32[] constant(0)\n"
        "r = f32[38] reduce-window(x, c), window={size=3}, to_apply=add_f32", (4,), (8,),
    )  # fmt: skip
    assert source == (Tile((4,), (10,), (1,)),)
    pad = propagate_output_tile(
        root_of("x = f32[10] parameter(0)\nc = f32[] constant(0)\nr = f32[14] pad(x, c), padding=2_2")
    )
    (tile,) = pad.operands[0] or ()
    assert str(tile.offsets[0]) == "d0 - 2"
    concat = propagate_output_tile(
        root_of("x = f32[8] parameter(0)\ny = f32[8] parameter(1)\nr = f32[16] concatenate(x, y), dimensions={0}")
    )
    assert [str(t[0].offsets[0]) for t in concat.operands if t] == ["d0", "d0 - 8"]


def test_tiles_of_parts_of_the_output_are_not_exact() -> None:
    root = root_of("x = f32[4] parameter(0)\ny = f32[6] parameter(1)\nr = f32[10] concatenate(x, y), dimensions={0}")
    first, second = propagate_output_tile(root).operands
    assert first is not None and second is not None
    assert not first[0].exact and not second[0].exact  # a tile [2, 6) lies in both
    assert second[0].evaluate((2,), (4,)) == Tile((-2,), (4,), (1,))
    whole = propagate_output_tile(root_of("x = f32[4] parameter(0)\nr = f32[4] negate(x)")).operands[0]
    assert whole is not None and whole[0].exact


def test_a_reshape_constrains_its_tiles() -> None:
    tiled = propagate_output_tile(root_of("x = f32[8,16] parameter(0)\nr = f32[128] reshape(x)"))
    assert tiled.is_valid((16,), (32,)) and tiled.is_valid((4,), (8,))
    assert not tiled.is_valid((8,), (16,))
    assert tiled.evaluate(0, (16,), (32,)) == (Tile((1, 0), (2, 16), (1, 1)),)


def test_tiles_of_unknown_accesses_are_none() -> None:
    root = root_of('x = f32[8] parameter(0)\nr = f32[8] custom-call(x), custom_call_target="f"')
    tiled = propagate_output_tile(root)
    assert tiled.operands == (None,) and not tiled.is_valid((0,), (8,))
