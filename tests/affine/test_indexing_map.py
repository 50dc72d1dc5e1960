"""Text form: every map of the indexing document that needs no HLO, printed and parsed exactly; queries and inverse."""

from __future__ import annotations

import pytest

from tests.affine.strategies import relation
from xjit.affine import (
    AffineExpr,
    AffineMap,
    DimVar,
    IndexingError,
    IndexingMap,
    Interval,
    RangeVar,
    RTVar,
    compose_indexing_maps,
    dim,
    reshape_map,
)

DOCUMENT = {
    "elementwise": "(d0, d1) -> (d0, d1)\ndomain:\nd0 in [0, 9]\nd1 in [0, 19]",
    "broadcast_out_in": "(d0, d1, d2) -> (d1)\ndomain:\nd0 in [0, 9]\nd1 in [0, 19]\nd2 in [0, 29]",
    "broadcast_in_out": "(d0)[s0, s1] -> (s0, d0, s1)\ndomain:\nd0 in [0, 19]\ns0 in [0, 9]\ns1 in [0, 29]",
    "dynamic_slice": """(d0, d1, d2)[s0, s1, s2] -> (d0 + s0, d1 + s1, d2 + s2)
domain:
d0 in [0, 0]
d1 in [0, 1]
d2 in [0, 31]
s0 in [0, 1]
  hlo: of1 = s32[] parameter(1)
  (d0, d1, d2) -> ()
s1 in [0, 0]
  hlo: of2 = s32[] parameter(2)
  (d0, d1, d2) -> ()
s2 in [0, 226]
  hlo: of3 = s32[] parameter(3)
  (d0, d1, d2) -> ()""",
    "dynamic_slice_offsets": "(d0, d1, d2) -> ()\ndomain:\nd0 in [0, 0]\nd1 in [0, 1]\nd2 in [0, 31]",
    "dynamic_update_slice": """(d0, d1)[s0, s1] -> (d0 - s0, d1 - s1)
domain:
d0 in [0, 19]
d1 in [0, 29]
s0 in [0, 15]
  hlo: of1 = s32[] parameter(2)
  (d0, d1) -> ()
s1 in [0, 20]
  hlo: of2 = s32[] parameter(3)
  (d0, d1) -> ()""",
    "gather_operand": """(d0, d1, d2, d3)[s0, s1] -> (d1 + s0, d2 + s1, d3)
domain:
d0 in [0, 1805]
d1 in [0, 6]
d2 in [0, 7]
d3 in [0, 3]
s0 in [0, 26]
  hlo: indices = s32[1806,2]{1,0} parameter(1)
  (d0, d1, d2, d3) -> (d0, 0)
s1 in [0, 68]
  hlo: indices = s32[1806,2]{1,0} parameter(1)
  (d0, d1, d2, d3) -> (d0, 1)""",
    "gather_indices": """(d0, d1, d2, d3)[s0] -> (d0, s0)
domain:
d0 in [0, 1805]
d1 in [0, 6]
d2 in [0, 7]
d3 in [0, 3]
s0 in [0, 1]""",
    "reverse": """(d0, d1, d2, d3) -> (d0, -d1 + 16, -d2 + 8, d3)
domain:
d0 in [0, 0]
d1 in [0, 16]
d2 in [0, 8]
d3 in [0, 8]""",
    "reduce_out_in": "(d0)[s0] -> (s0, d0)\ndomain:\nd0 in [0, 9]\ns0 in [0, 255]",
    "reduce_out_init": "(d0) -> ()\ndomain:\nd0 in [0, 9]",
    "reduce_init_out": "()[s0] -> (s0)\ndomain:\ns0 in [0, 9]",
    "slice_out_in": """(d0, d1, d2) -> (d0 + 5, d1 * 7 + 3, d2 * 2)
domain:
d0 in [0, 4]
d1 in [0, 2]
d2 in [0, 24]""",
    "slice_in_out": """(d0, d1, d2) -> (d0 - 5, (d1 - 3) floordiv 7, d2 floordiv 2)
domain:
d0 in [5, 9]
d1 in [3, 17]
d2 in [0, 48]
(d1 - 3) mod 7 in [0, 0]
d2 mod 2 in [0, 0]""",
    "generic_reshape_out_in": """(d0, d1, d2) -> (d0 * 2 + d1 floordiv 2, d2 + (d1 mod 2) * 4)
domain:
d0 in [0, 1]
d1 in [0, 3]
d2 in [0, 3]""",
    "generic_reshape_in_out": """(d0, d1) -> (d0 floordiv 2, d1 floordiv 4 + (d0 mod 2) * 2, d1 mod 4)
domain:
d0 in [0, 3]
d1 in [0, 7]""",
    "concatenate": "(d0, d1, d2) -> (d0, d1 - 16, d2)\ndomain:\nd0 in [0, 1]\nd1 in [16, 32]\nd2 in [0, 6]",
    "dot": "(d0, d1, d2)[s0] -> (d0, s0, d2)\ndomain:\nd0 in [0, 3]\nd1 in [0, 127]\nd2 in [0, 63]\ns0 in [0, 255]",
    "pad": "(d0, d1) -> ((d0 - 1) floordiv 2, d1 - 4)\ndomain:\nd0 in [1, 7]\nd1 in [4, 7]\n(d0 - 1) mod 2 in [0, 0]",
    "reduce_window": "(d0, d1)[s0] -> (d0, d1 + s0)\ndomain:\nd0 in [0, 1023]\nd1 in [0, 2]\ns0 in [0, 511]",
}


@pytest.mark.parametrize("text", DOCUMENT.values(), ids=DOCUMENT)
def test_document_maps_print_parse_and_are_simple(text: str) -> None:
    m = IndexingMap.parse(text)
    assert str(m) == text
    assert str(m.simplify()) == text
    assert IndexingMap.parse(str(m)) == m


def _same(first: str, second: str) -> IndexingMap:
    return compose_indexing_maps(IndexingMap.parse(DOCUMENT[first]), IndexingMap.parse(DOCUMENT[second])).simplify()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("slice_out_in", "slice_in_out"),
        ("generic_reshape_out_in", "generic_reshape_in_out"),
        ("generic_reshape_in_out", "generic_reshape_out_in"),
        ("reverse", "reverse"),
    ],
)
def test_there_and_back_is_identity(first: str, second: str) -> None:
    assert _same(first, second).is_identity


def test_slice_back_and_there_keeps_its_domain() -> None:
    m = _same("slice_in_out", "slice_out_in")
    assert str(m) == DOCUMENT["slice_in_out"].replace("(d0 - 5, (d1 - 3) floordiv 7, d2 floordiv 2)", "(d0, d1, d2)")


def test_pad_from_bounds() -> None:
    text = """(d0, d1) -> ((d0 - 1) floordiv 2, d1 - 4)
domain:
d0 in [0, 11]
d1 in [0, 15]
(d0 - 1) floordiv 2 in [0, 3]
(d0 - 1) mod 2 in [0, 0]
d1 - 4 in [0, 3]"""
    assert str(IndexingMap.parse(text).simplify()) == DOCUMENT["pad"]


def test_diamond_of_transposes_gives_one_map() -> None:
    def transpose(permutation: list[int], sizes: list[int]) -> IndexingMap:
        return IndexingMap.from_tensor_sizes(AffineMap.permutation(permutation), sizes)

    # dimensions={0, 2, 1} of {1, 0, 2}, and {1, 0, 2} of {2, 1, 0}
    left = compose_indexing_maps(transpose([0, 2, 1], [10, 50, 20]), transpose([1, 0, 2], [10, 20, 50])).simplify()
    right = compose_indexing_maps(transpose([1, 0, 2], [10, 50, 20]), transpose([2, 1, 0], [50, 10, 20])).simplify()
    assert left == right and hash(left) == hash(right)
    assert str(left.map) == "(d0, d1, d2) -> (d2, d0, d1)"


def test_newer_text_form() -> None:
    text = "(d0, d1)[s0]{rt0} -> (d0 + rt0, d1 + s0), domain: d0 in [0, 9], d1 in [0, 4], s0 in [0, 3], rt0 in [0, 6]"
    m = IndexingMap.parse(text + ", d0 mod 2 in [0, 0]")
    assert str(m.map) == "(d0, d1)[s0, s1] -> (d0 + s1, d1 + s0)"
    assert [v.bounds for v in m.range_vars] == [Interval(0, 3)]
    assert [v.feasible_values for v in m.rt_vars] == [Interval(0, 6)]
    assert len(m.constraints) == 1
    named = IndexingMap.parse(
        "(th_x, bl_x)[i] -> (bl_x * 32 + th_x + i), domain: th_x in [0, 31], bl_x in [0, 3], i in [0, 1]"
    )
    assert [v.name for v in named.dim_vars] == ["th_x", "bl_x"]
    assert str(named.map) == "(d0, d1)[s0] -> (d0 + d1 * 32 + s0)"
    assert IndexingMap.parse("(d0) -> (d0),\ndomain:\nKNOWN EMPTY").is_known_empty


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(d0) -> (d0)\ndomain:\nd0 in [0", "expected ','|unexpected end"),
        ("(d0) -> (d0)\ndomain:\n", "no bounds for d0|unexpected"),
        ("(d0, d1) -> (d0)\ndomain:\nd0 in [0, 1]", "no bounds for d1"),
        ("(d0, d0) -> (d0)\ndomain:\nd0 in [0, 1]", "declared twice"),
        ("(d0) -> (d1)\ndomain:\nd0 in [0, 1]", "unknown name 'd1'"),
        ("(d0)[s0] -> (d0)\ndomain:\nd0 in [0, 1]\ns0 in [0, 1]\n  hlo: x", "map of the run-time variable"),
        ("(d0) -> (d0)\ndomain:\nKNOWN EMPTY more", "after KNOWN EMPTY"),
        ("", "expected '\\('"),
    ],
)
def test_parse_errors(text: str, message: str) -> None:
    with pytest.raises(IndexingError, match=message):
        IndexingMap.parse(text)


def test_queries() -> None:
    m = IndexingMap.parse(DOCUMENT["slice_in_out"])
    assert m.domain_size() == 5 * 3 * 25 and len(list(m.enumerate_domain())) == 375
    assert bool(m.contains([5, 10, 4])) and not bool(m.contains([5, 11, 4]))
    assert m.evaluate([5, 10, 4]) == (0, 1, 2)
    assert IndexingMap.identity([3, 0]).is_known_empty and IndexingMap.identity([3, 4]).is_identity
    assert IndexingMap.parse(DOCUMENT["dot"]).domain_size() == 4 * 128 * 64 * 256
    with pytest.raises(IndexingError, match="found bounds for 1 and 0"):
        IndexingMap(AffineMap.identity(2), (DimVar(Interval(0, 1)),))
    with pytest.raises(IndexingError, match="must not be negative"):
        IndexingMap.identity([-1])
    with pytest.raises(IndexingError, match="over the limit"):
        list(IndexingMap.identity([10_000, 10_000]).enumerate_domain())


@pytest.mark.parametrize(
    "m",
    [
        IndexingMap.from_tensor_sizes(AffineMap.permutation([2, 0, 1]), [3, 4, 5]),
        IndexingMap.parse(DOCUMENT["reverse"]),
        IndexingMap.parse(DOCUMENT["concatenate"]),
        reshape_map([4, 8], [2, 4, 4]),
        reshape_map([6, 10, 15], [9, 10, 10]),
        IndexingMap.parse("(d0) -> (d0 mod 4, d0 floordiv 4)\ndomain:\nd0 in [0, 19]"),
        IndexingMap.parse("(d0, d1) -> (-d0 * 5 + d1 + 3)\ndomain:\nd0 in [1, 3]\nd1 in [0, 4]"),
    ],
)
def test_inverse(m: IndexingMap) -> None:
    inverse = m.inverse()
    assert inverse is not None
    assert {(b, a) for a, b in relation(m)} == relation(inverse)
    assert all(b.is_point or e is dim(i) for i, (b, e) in enumerate(zip(m.dim_bounds, _round_trip(m, inverse))))


def _round_trip(m: IndexingMap, inverse: IndexingMap) -> tuple[AffineExpr, ...]:
    return compose_indexing_maps(m, inverse).simplify().results


@pytest.mark.parametrize(
    "text", [DOCUMENT["broadcast_out_in"], DOCUMENT["slice_out_in"], "(d0) -> (d0 mod 3)\ndomain:\nd0 in [0, 9]"]
)
def test_no_inverse(text: str) -> None:
    assert IndexingMap.parse(text).inverse() is None


def test_runtime_variables_follow_composition() -> None:
    source = object()
    gather = IndexingMap(
        AffineMap.parse("(d0, d1)[s0] -> (d1 + s0)"),
        (DimVar(Interval(0, 9)), DimVar(Interval(0, 3))),
        (),
        (RTVar(Interval(0, 5), source, AffineMap.parse("(d0, d1) -> (d0, 0)")),),
    )
    reduce = IndexingMap(
        AffineMap.parse("(d0)[s0] -> (s0, d0)"), (DimVar(Interval(0, 3)),), (RangeVar(Interval(0, 9)),)
    )
    m = compose_indexing_maps(reduce, gather).simplify()
    assert str(m.map) == "(d0)[s0, s1] -> (d0 + s1)"
    assert m.rt_vars[0].source is source and str(m.rt_vars[0].map) == "(d0)[s0, s1] -> (s0, 0)"
