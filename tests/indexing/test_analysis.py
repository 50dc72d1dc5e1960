"""Coalescing, operand utilisation and tile propagation against enumeration."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.affine.strategies import indexing_maps, relation
from xjit.affine import UNKNOWN, AffineMap, IndexingError, IndexingMap, reshape_map
from xjit.indexing import (
    AccessKind,
    classify_warp_access,
    image_size,
    operand_utilization,
    propagate_tile,
)


def _access(text: str, sizes: list[int], symbols: tuple[int, ...] = ()) -> IndexingMap:
    return IndexingMap.from_tensor_sizes(AffineMap.parse(text), sizes, symbols)


@pytest.mark.parametrize(
    ("text", "sizes", "kind", "stride", "sectors"),
    [
        ("(d0, d1) -> (d0 + d1 * 128)", [128, 10], AccessKind.CONTIGUOUS, 1, 4),
        ("(d0, d1) -> (d0 + d1 * 129)", [128, 10], AccessKind.CONTIGUOUS, 1, 5),
        ("(d0, d1) -> (-d0 + 127)", [128, 10], AccessKind.CONTIGUOUS, -1, 4),
        ("(d0, d1) -> (d0 * 8 + d1)", [128, 8], AccessKind.STRIDED, 8, 32),
        ("(d0, d1) -> (d0 * 2 + d1)", [128, 2], AccessKind.STRIDED, 2, 8),
        ("(d0, d1) -> (d1 * 8)", [128, 8], AccessKind.BROADCAST, 0, 1),
        ("(d0) -> (d0 floordiv 32)", [128], AccessKind.BROADCAST, 0, 1),
        ("(d0) -> ((d0 mod 8) * 128 + d0 floordiv 8)", [128], AccessKind.SCATTERED, None, 8),
        ("(d0)[s0] -> (d0 + s0 * 64)", [64], AccessKind.CONTIGUOUS, 1, 4),
    ],
)
def test_warp_access(text: str, sizes: list[int], kind: AccessKind, stride: int | None, sectors: int) -> None:
    access = classify_warp_access(_access(text, sizes, (4,) if "s0" in text else ()), 4)
    assert (access.kind, access.stride, access.sectors, access.exact) == (kind, stride, sectors, True)


def test_warp_access_with_domain_and_vectors() -> None:
    masked = IndexingMap.parse("(d0) -> (d0 * 4)\ndomain:\nd0 in [0, 31]\nd0 * 2 + d0 floordiv 3 in [0, 15]")
    assert classify_warp_access(masked, 4).sectors == 4
    vector = _access("(d0, d1) -> (d0 * 4 + d1)", [128, 4])
    found = classify_warp_access(vector, 4, vector_dim=1)
    assert (found.kind, found.stride, found.sectors) == (AccessKind.CONTIGUOUS, 4, 16)
    split = _access("(d0, d1) -> (d0 + d1 * 128)", [128, 4])
    assert classify_warp_access(split, 4, vector_dim=1).kind is AccessKind.SCATTERED
    empty = IndexingMap.parse("(d0) -> (d0)\ndomain:\nd0 in [0, -1]")
    assert classify_warp_access(empty, 4).kind is AccessKind.NONE
    assert not classify_warp_access(UNKNOWN, 4).exact
    with pytest.raises(IndexingError, match="one result"):
        classify_warp_access(IndexingMap.identity([4, 4]), 4)


@given(indexing_maps())
def test_image_size(m: IndexingMap) -> None:
    assert image_size(m) == len({out for _, out in relation(m)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(d0, d1)[s0] -> (d0, d1 + s0)\ndomain:\nd0 in [0, 1023]\nd1 in [0, 2]\ns0 in [0, 511]", 1024 * 514),
        ("(d0, d1)[s0] -> (d0, d1 * 600 + s0)\ndomain:\nd0 in [0, 1023]\nd1 in [0, 2]\ns0 in [0, 511]", 1024 * 1536),
        ("(d0, d1) -> (d1)\ndomain:\nd0 in [0, 99999]\nd1 in [0, 99999999]", 10**8),
        ("(d0) -> (d0, d0)\ndomain:\nd0 in [0, 999]", 1000),
        ("(d0) -> (7)\ndomain:\nd0 in [0, 9]", 1),
    ],
)
def test_image_size_in_closed_form(text: str, expected: int) -> None:
    assert image_size(IndexingMap.parse(text)) == expected


def test_operand_utilization() -> None:
    part = IndexingMap.parse("(d0) -> (d0 * 2 + 5)\ndomain:\nd0 in [0, 9]")
    found = operand_utilization([part], [100], 4)
    assert (found.elements_read, found.bytes_read, found.fraction, found.exact) == (10, 40, 0.1, True)
    shifted = IndexingMap.parse("(d0) -> (d0 * 2 + 11)\ndomain:\nd0 in [0, 9]")
    assert operand_utilization([part, shifted], [100], 4).elements_read == 13
    identity, transposed = IndexingMap.identity([8, 8]), _access("(d0, d1) -> (d1, d0)", [8, 8])
    assert operand_utilization([identity, transposed], [8, 8], 4).elements_read == 64
    offset = "(d0)[s0] -> (d0 + s0)\ndomain:\nd0 in [0, 9]\ns0 in [0, 80]\n  hlo: o\n  (d0) -> ({})"
    uniform = operand_utilization([IndexingMap.parse(offset.format("0"))], [91], 4)
    assert (uniform.elements_read, uniform.exact) == (10, True)
    gathered = operand_utilization([IndexingMap.parse(offset.format("d0"))], [91], 4)
    assert (gathered.elements_read, gathered.exact) == (10, False)
    assert operand_utilization([UNKNOWN], [91], 4).elements_read == 91


def _elements(offsets: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...]) -> set[tuple[int, ...]]:
    return set(product(*[[o + s * j for j in range(n)] for o, n, s in zip(offsets, sizes, strides)]))


def _check_tile(m: IndexingMap, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Compares a propagated tile with the elements that the output tile reads; False if it is not valid."""
    tile = propagate_tile(m)
    if not tile.is_valid(offsets, sizes):
        return False
    found = tile.evaluate(offsets, sizes)
    inside = _elements(offsets, sizes, (1,) * len(sizes))
    read = {out for dims, out in relation(m) if dims in inside}
    covered = _elements(found.offsets, found.sizes, found.strides)
    assert read <= covered
    if tile.exact:
        assert read == covered
    return True


@pytest.mark.parametrize(
    ("m", "valid"),
    [
        (reshape_map([4, 8], [32]), 10),
        (reshape_map([32], [4, 8]), 10),
        (reshape_map([4, 8], [2, 4, 4]), 20),
        (reshape_map([2, 3, 4], [24]), 10),
        (reshape_map([6, 10], [15, 4]), 10),
        (_access("(d0, d1) -> (d1, d0)", [4, 5]), 100),
        (_access("(d0, d1) -> (-d0 + 3, d1 * 3 + 2)", [4, 5]), 100),
        (_access("(d0)[s0] -> (d0, s0)", [5], (7,)), 10),
        (_access("(d0)[s0] -> (d0 + s0)", [5], (3,)), 10),
        (_access("(d0)[s0] -> (d0 * 2 + s0)", [5], (3,)), 10),
        (_access("(d0)[s0] -> (d0 * 4 + s0)", [5], (3,)), 5),
        (_access("(d0) -> (d0, d0)", [5]), 10),
        (_access("(d0) -> (d0 floordiv 2, d0 floordiv 3)", [12]), 5),
    ],
)
def test_tile_propagation(m: IndexingMap, valid: int) -> None:
    count = 0
    shape = [b.size for b in m.dim_bounds]
    for offsets in product(*[range(n) for n in shape]):
        for sizes in product(*[range(1, n - o + 1) for n, o in zip(shape, offsets)]):
            count += _check_tile(m, offsets, sizes)
    assert count >= valid


@given(
    indexing_maps(max_constraints=0),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.tuples(*[st.integers(1, 4)] * 2),
)
def test_tile_propagation_covers(m: IndexingMap, start: tuple[int, int], sizes: tuple[int, int]) -> None:
    bounds = m.dim_bounds
    offsets = tuple(min(b.lower + s, b.upper) for b, s in zip(bounds, start))
    sizes = tuple(min(n, b.upper - o + 1) for b, n, o in zip(bounds, sizes, offsets))
    _check_tile(m, offsets, sizes)


def test_symbolic_tile_text() -> None:
    tile = propagate_tile(_access("(d0, d1)[s0] -> (d0, s0 + d1 * 2)", [8, 8], (4,)))
    assert [str(e) for e in tile.offsets] == ["d0", "d1 * 2"]
    assert [str(e) for e in tile.sizes] == ["s0", "s1 * 2 + 2"]
    assert tile.strides == (1, 1) and tile.constraints == () and tile.exact
    with pytest.raises(IndexingError, match="positive strides"):
        propagate_tile(IndexingMap.identity([4]), [0])
