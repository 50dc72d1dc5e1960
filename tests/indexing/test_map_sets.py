"""Widening: a hull relates all that its maps do, and keeps what they agree on."""

from __future__ import annotations

from xjit.affine import UNKNOWN, IndexingMap
from xjit.indexing.map_sets import MapSet, add, box_map, hull

ROW = "(d0, d1)[s0] -> (d0, s0)\ndomain:\nd0 in [0, 3]\nd1 in [0, 5]\ns0 in [{}, {}]"


def pairs(m: IndexingMap) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    return {(dims, m.evaluate(dims, symbols)) for dims, symbols in m.enumerate_domain()}


def test_hull_keeps_what_maps_agree_on() -> None:
    maps = [IndexingMap.parse(ROW.format(0, 1)), IndexingMap.parse(ROW.format(4, 5))]
    assert str(hull(maps)) == ROW.format(0, 5)


def test_hull_relates_all_that_its_maps_do() -> None:
    texts = [
        "(d0, d1) -> (d0 + d1, d1)\ndomain:\nd0 in [0, 1]\nd1 in [4, 5]",
        "(d0, d1) -> (d0 + d1, d0)\ndomain:\nd0 in [4, 5]\nd1 in [0, 1]",
        "(d0, d1)[s0] -> (d0 + d1, s0 * 2)\ndomain:\nd0 in [2, 3]\nd1 in [2, 3]\ns0 in [0, 9]\nd1 + s0 in [0, 4]",
    ]
    maps = [IndexingMap.parse(text) for text in texts]
    found = pairs(hull(maps))
    assert all(pairs(m) <= found for m in maps)
    # The sum is the same everywhere, but on the larger domain it would leave what the maps reach.
    assert {first for _, (first, _) in found} == {4, 5, 6}


def test_box_map_is_a_composition_that_forgets_the_dims() -> None:
    source = IndexingMap.parse("(d0) -> (d0 floordiv 2)\ndomain:\nd0 in [0, 5]")
    target = IndexingMap.parse("(d0) -> (d0 + 1, 7)\ndomain:\nd0 in [0, 9]")
    assert str(box_map(source, target)) == "(d0)[s0] -> (s0, 7)\ndomain:\nd0 in [0, 5]\ns0 in [1, 10]"
    empty = target.as_known_empty()
    assert box_map(source, empty).is_known_empty and box_map(source, empty).num_dims == 1


def test_full_sets_are_widened() -> None:
    maps: MapSet = {}
    for i in range(4):
        assert add(maps, IndexingMap.parse(ROW.format(i, i)), limit=4)
    assert add(maps, IndexingMap.parse(ROW.format(2, 2)), limit=4)
    assert not add(maps, IndexingMap.parse(ROW.format(5, 5)), limit=4)
    assert [str(m) for m in maps] == [ROW.format(0, 5)]
    assert add(maps, UNKNOWN, limit=4) and list(maps) == [UNKNOWN]
