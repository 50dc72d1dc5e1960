"""Tiled layouts: three definitions agree; reshape maps; errors."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.affine.strategies import relation
from xjit.affine import (
    IndexingError,
    compose_indexing_maps,
    linear_index,
    linear_index_with_tile,
    logical_map,
    physical_map,
    reshape_map,
    tile_array,
    tiled_shape,
    untile_array,
    validate_layout,
)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], list[int], list[tuple[int, ...]]]:
    dims = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(dims))))
    tiles: list[tuple[int, ...]] = []
    rank = len(dims)
    for _ in range(draw(st.integers(0, 3))):
        n = draw(st.integers(1, min(rank, 4)))
        tile = draw(st.lists(st.sampled_from([-1, 1, 2, 3, 4]), min_size=n - 1, max_size=n - 1))
        tiles.append((*tile, draw(st.integers(1, 4))))
        rank += n - 2 * tile.count(-1)
    return dims, list(order), tiles


@given(layouts())
def test_definitions_agree(layout: tuple[list[int], list[int], list[tuple[int, ...]]]) -> None:
    dims, order, tiles = layout
    x = np.arange(1, 1 + prod(dims)).reshape(dims)
    buffer = tile_array(x, order, tiles)
    major_to_minor = order[::-1]
    shape = tiled_shape([dims[i] for i in major_to_minor], tiles)
    assert buffer.shape == (prod(shape),)
    assert np.array_equal(untile_array(buffer, dims, order, tiles), x)
    indices = np.indices(dims)
    formula = linear_index_with_tile([indices[i] for i in major_to_minor], [dims[i] for i in major_to_minor], tiles)
    assert np.array_equal(buffer[formula], x)
    physical = physical_map(dims, order, tiles)
    assert np.array_equal(np.broadcast_to(physical.evaluate(list(indices))[0], x.shape), formula)
    logical = logical_map(dims, order, tiles)
    assert relation(logical) == {(offset, index) for index, offset in relation(physical)}


@given(layouts())
def test_physical_then_logical_is_identity(layout: tuple[list[int], list[int], list[tuple[int, ...]]]) -> None:
    dims, order, tiles = layout
    there_and_back = compose_indexing_maps(physical_map(dims, order, tiles), logical_map(dims, order, tiles)).simplify()
    assert relation(there_and_back) == {(i, i) for i in np.ndindex(*dims)}


def test_known_values() -> None:
    assert linear_index_with_tile((2, 3), (3, 5), (2, 2)) == 17
    assert linear_index((1, 1, 0, 1), (2, 3, 2, 2)) == 17
    assert tiled_shape((3, 5), [(2, 2)]) == (2, 3, 2, 2)
    assert tiled_shape((2, 7, 8, 11, 10), [(-1, -1, 2, -1, 3)]) == (56, 37, 2, 3)
    assert tiled_shape((4, 8), [(2, 4), (2, 1)]) == (2, 2, 1, 4, 2, 1)
    assert tiled_shape((10, 64, 512), [(8, 128), (2, 1)]) == (10, 8, 4, 4, 128, 2, 1)
    assert linear_index((), ()) == 0 and tiled_shape((), []) == ()
    figure_two = np.arange(32).reshape(4, 8)[[0, 1, 0, 1], [0, 0, 1, 1]]
    assert tile_array(np.arange(32).reshape(4, 8), (1, 0), [(2, 4), (2, 1)])[:4].tolist() == figure_two.tolist()
    # Combining by * is the same as tiling the reshaped array.
    x = np.arange(2 * 7 * 8 * 11 * 10).reshape(2, 7, 8, 11, 10)
    combined = tile_array(x, (4, 3, 2, 1, 0), [(-1, -1, 2, -1, 3)])
    assert np.array_equal(combined, tile_array(x.reshape(112, 110), (1, 0), [(2, 3)]))


@pytest.mark.parametrize(
    ("dims", "order", "tiles", "expected"),
    [
        ((3, 5), (1, 0), [], "(d0, d1) -> (d0 * 5 + d1)"),
        ((3, 5), (0, 1), [], "(d0, d1) -> (d0 + d1 * 3)"),
        ((2, 3, 4), (2, 1, 0), [], "(d0, d1, d2) -> (d0 * 12 + d1 * 4 + d2)"),
        ((), (), [], "() -> (0)"),
        ((8, 128), (1, 0), [(8, 128)], "(d0, d1) -> (d0 * 128 + d1)"),
        ((16, 128), (1, 0), [(8, 128)], "(d0, d1) -> (d0 * 128 + d1)"),
        ((4, 8), (1, 0), [(2, 4), (2, 1)], "(d0, d1) -> (d1 * 2 + (d0 floordiv 2) * 16 + d0 mod 2)"),
    ],
)
def test_few_divisions(
    dims: tuple[int, ...], order: tuple[int, ...], tiles: list[tuple[int, ...]], expected: str
) -> None:
    assert str(physical_map(dims, order, tiles).map) == expected


@pytest.mark.parametrize(
    ("dims", "order", "tiles", "message"),
    [
        ((3, 5), (0, 0), [], "each of the 2 dims once"),
        ((3, 5), (1,), [], "each of the 2 dims once"),
        ((3, 5), (1, 0), [(0, 2)], "positive or \\*"),
        ((3, 5), (1, 0), [(2, -2)], "positive or \\*"),
        ((3, 5), (1, 0), [(2, 2, 2)], "only 2 dims"),
        ((3, 5), (1, 0), [(2, 2), (1, 1, 1, 1, 1)], "only 4 dims"),
        ((3, 5), (1, 0), [(2, -1)], "most minor"),
        ((3, 5), (1, 0), [()], "at least one size"),
        ((-3, 5), (1, 0), [], "negative"),
    ],
)
def test_invalid_layouts(
    dims: tuple[int, ...], order: tuple[int, ...], tiles: list[tuple[int, ...]], message: str
) -> None:
    for use in (validate_layout, physical_map, logical_map):
        with pytest.raises(IndexingError, match=message):
            use(dims, order, tiles)
    with pytest.raises(IndexingError, match="expected 15"):
        untile_array(np.zeros(14), (3, 5), (1, 0))


def test_empty_arrays() -> None:
    assert physical_map((0, 4), (1, 0), [(2, 2)]).is_known_empty
    assert logical_map((0, 4), (1, 0), [(2, 2)]).is_known_empty
    assert untile_array(tile_array(np.zeros((0, 4)), (1, 0), [(2, 2)]), (0, 4), (1, 0), [(2, 2)]).shape == (0, 4)


@pytest.mark.parametrize(
    ("from_dims", "to_dims", "expected"),
    [
        ([4, 8], [32], "(d0) -> (d0 floordiv 8, d0 mod 8)"),
        ([32], [4, 8], "(d0, d1) -> (d0 * 8 + d1)"),
        ([4, 8], [2, 4, 4], "(d0, d1, d2) -> (d0 * 2 + d1 floordiv 2, d2 + (d1 mod 2) * 4)"),
        ([2, 4, 4], [4, 8], "(d0, d1) -> (d0 floordiv 2, d1 floordiv 4 + (d0 mod 2) * 2, d1 mod 4)"),
        ([4, 8, 12], [32, 3, 4], "(d0, d1, d2) -> (d0 floordiv 8, d0 mod 8, d1 * 4 + d2)"),
        ([32, 3, 4], [4, 8, 12], "(d0, d1, d2) -> (d0 * 8 + d1, d2 floordiv 4, d2 mod 4)"),
        ([1, 4, 1, 8, 1], [32, 1], "(d0, d1) -> (0, d0 floordiv 8, 0, d0 mod 8, 0)"),
        ([1], [], "() -> (0)"),
        ([], [1, 1], "(d0, d1) -> ()"),
    ],
)
def test_reshape_maps(from_dims: list[int], to_dims: list[int], expected: str) -> None:
    m = reshape_map(from_dims, to_dims)
    assert str(m.map) == expected
    assert m.simplify() == m


@given(st.lists(st.integers(1, 4), max_size=4), st.randoms(use_true_random=False))
def test_reshape_agrees_with_numpy(sizes: list[int], rng: object) -> None:
    factors = [f for n in sizes for f in {1: [], 2: [2], 3: [3], 4: [2, 2]}[n]]
    rng.shuffle(factors)  # type: ignore[attr-defined]
    to_dims: list[int] = []
    for f in factors:
        if to_dims and rng.random() < 0.5:  # type: ignore[attr-defined]
            to_dims[-1] *= f
        else:
            to_dims.append(f)
    x = np.arange(prod(sizes)).reshape(sizes)
    y = x.reshape(to_dims)
    for dims, _ in reshape_map(sizes, to_dims).enumerate_domain():
        assert x[reshape_map(sizes, to_dims).evaluate(dims)] == y[dims]


def test_reshape_errors() -> None:
    with pytest.raises(IndexingError, match="element counts"):
        reshape_map([4], [5])
    assert reshape_map([0, 4], [3, 0]).is_known_empty
