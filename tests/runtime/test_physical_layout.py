"""Layouts: dimension order and tiles, against a definition that walks over single elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.programs import array
from xjit.affine.layout_maps import COMBINED
from xjit.runtime.arrays.physical_layout import from_physical, to_physical
from xjit.runtime.program import ArraySignature


def _element_offset(index: Sequence[int], shape: Sequence[int], tiles: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Offset of one element in physical dimension order, and the size of the buffer: XLA's definition, tile by tile."""
    indices, bounds = list(index), list(shape)
    for tile in tiles:
        lead = len(bounds) - len(tile)
        inner_indices, inner_bounds, sizes = [], [], []
        carried_index, carried_bound = 0, 1
        for i, bound, size in zip(indices[lead:], bounds[lead:], tile, strict=True):
            carried_index, carried_bound = carried_index * bound + i, carried_bound * bound
            if size != COMBINED:
                inner_indices.append(carried_index)
                inner_bounds.append(carried_bound)
                sizes.append(size)
                carried_index, carried_bound = 0, 1
        pairs = list(zip(inner_indices, inner_bounds, sizes, strict=True))
        indices = indices[:lead] + [i // size for i, _, size in pairs] + [i % size for i, _, size in pairs]
        bounds = bounds[:lead] + [math.ceil(bound / size) for _, bound, size in pairs] + sizes
    offset = 0
    for i, bound in zip(indices, bounds, strict=True):
        offset = offset * bound + i
    return offset, math.prod(bounds)


def _check(signature: ArraySignature) -> None:
    order = (
        signature.minor_to_major[::-1] if signature.minor_to_major is not None else tuple(range(len(signature.shape)))
    )
    physical_shape = [signature.shape[dim] for dim in order]
    logical = np.arange(1, math.prod(signature.shape) + 1, dtype=np.int64).reshape(signature.shape)
    size = _element_offset([0] * len(physical_shape), physical_shape, signature.tiles)[1]
    expected = np.zeros(size, np.int64)
    for index in np.ndindex(*signature.shape):
        expected[_element_offset([index[dim] for dim in order], physical_shape, signature.tiles)[0]] = logical[index]
    np.testing.assert_array_equal(to_physical(logical, signature), expected)
    np.testing.assert_array_equal(from_physical(expected, signature), logical)


@pytest.mark.parametrize(
    ("shape", "layout", "tiles"),
    [
        ((3, 5), (1, 0), ((2, 2),)),
        ((4, 8), (1, 0), ((2, 4), (2, 1))),
        ((17, 130), (1, 0), ((8, 128), (2, 1))),
        ((3, 5), (0, 1), ((2, 2),)),
        ((2, 7, 8, 11, 10), (4, 3, 2, 1, 0), ((COMBINED, COMBINED, 2, COMBINED, 3),)),
        ((5,), (0,), ((4,),)),
        ((0, 5), (1, 0), ((2, 2),)),
        ((2, 3, 4), (1, 2, 0), ()),
        ((), None, ()),
    ],
)
def test_examples(shape: tuple[int, ...], layout: tuple[int, ...] | None, tiles: tuple[tuple[int, ...], ...]) -> None:
    _check(array(np.int64, *shape, layout=layout, tiles=tiles))


@st.composite
def _signatures(draw: st.DrawFn) -> ArraySignature:
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    layout = tuple(draw(st.permutations(range(len(shape)))))
    tiles: list[tuple[int, ...]] = []
    rank = len(shape)
    for _ in range(draw(st.integers(0, 2)) if rank else 0):
        tile = draw(st.lists(st.sampled_from([1, 2, 3, 4, COMBINED]), min_size=1, max_size=rank))
        tile[-1] = abs(tile[-1])
        tiles.append(tuple(tile))
        rank += len([size for size in tile if size != COMBINED]) - tile.count(COMBINED)
    return array(np.int64, *shape, layout=layout, tiles=tuple(tiles))


@settings(max_examples=150, deadline=None)
@given(_signatures())
def test_random_layouts(signature: ArraySignature) -> None:
    _check(signature)


def test_dimension_order_alone_copies_nothing() -> None:
    signature = array(np.int64, 4, 6, layout=(0, 1))
    buffer = np.arange(24)
    view = from_physical(buffer, signature)
    assert np.shares_memory(view, buffer) and view.strides == (8, 32)
    assert np.shares_memory(to_physical(view, signature), buffer)


def test_bad_tiles() -> None:
    for tile, message in [((2, 2, 2), "only 2 dims are left"), ((2, COMBINED), "nothing to combine with")]:
        with pytest.raises(ValueError, match=message):
            to_physical(np.zeros((3, 5)), array(np.float64, 3, 5, tiles=(tile,)))
