"""Iteration spaces: every transformation visits the same points, each once, and does what it is for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from xjit.affine import AffineExpr, dim, evaluate, substitute
from xjit.emitters.loops.iteration_space import (
    IterationSpace,
    collapse_loops,
    find_split,
    merge_short_innermost,
    remove_divisions,
    sort_loops,
    unit_index,
)
from xjit.emitters.loops.variables import VariableTable

Expressions = Callable[[IterationSpace], list[AffineExpr]]
Point = tuple[int, ...]


def space_over(*sizes: int) -> IterationSpace:
    """A space over a box, row-major."""
    return IterationSpace.over(VariableTable(), sizes, range(len(sizes)))


def always(space: IterationSpace, position: int, divisor: int) -> bool:
    return True


def points(space: IterationSpace) -> list[Point]:
    """The output indices that the loops visit, in order."""
    bounds = [space.table.intervals[p] for p in space.loops]
    ranges = [range(b.lower, b.upper + 1) for b in bounds]
    values = [0] * len(space.table.intervals)
    found: list[Point] = []
    for at in itertools.product(*ranges):
        for position, value in zip(space.loops, at, strict=True):
            values[position] = value
        found.append(tuple(evaluate(e, values) for e in space.index))
    return found


def box(*sizes: int) -> list[Point]:
    return list(itertools.product(*map(range, sizes)))


def of_index(function: Callable[..., AffineExpr]) -> Expressions:
    """Expressions of a space that are a function of its index."""

    def expressions(space: IterationSpace) -> list[AffineExpr]:
        result = function(*space.index)
        results = result if isinstance(result, tuple) else (result,)
        return [space.table.simplify(e) for e in results]

    return expressions


def flat(*sizes: int) -> Expressions:
    """The row-major offset in an array."""

    def offset(*index: AffineExpr) -> AffineExpr:
        total = index[0]
        for e, size in zip(index[1:], sizes[1:], strict=True):
            total = total * size + e
        return total

    return of_index(offset)


def test_over_follows_the_order() -> None:
    space = IterationSpace.over(VariableTable(), (2, 3, 4), (2, 0, 1))
    assert [space.size(p) for p in space.loops] == [4, 2, 3]
    assert points(space) == [(i, j, k) for k in range(4) for i in range(2) for j in range(3)]


@pytest.mark.parametrize("sizes", [(), (7,), (3, 1, 5), (2, 3, 4)])
def test_units_number_a_box(sizes: tuple[int, ...]) -> None:
    table, count = space_over(1).table, len(box(*sizes))
    unit = table.new_variable(count)
    index = unit_index(table, unit, sizes)
    values = [0] * len(table.intervals)
    found = [tuple(evaluate(e, [*values[:unit], n]) for e in index) for n in range(count)]
    assert found == box(*sizes)


@pytest.mark.parametrize("factor", [1, 2, 5, 10])
def test_split(factor: int) -> None:
    space = space_over(3, 10)
    split = space.split(space.loops[1], factor)
    assert [split.size(p) for p in split.loops] == [3, 10 // factor, factor]
    assert points(split) == box(3, 10)


@pytest.mark.parametrize(("size", "factor"), [(10, 3), (9, 3), (2, 3), (1, 8), (17, 16)])
def test_peel(size: int, factor: int) -> None:
    space = space_over(size, 2)
    parts = space.peel(space.loops[0], factor)
    sizes = [part.size(part.loops[0]) for part in parts]
    assert sizes == [n for n in (size - size % factor, size % factor) if n]
    assert [p for part in parts for p in points(part)] == box(size, 2)


@pytest.mark.parametrize("first", [4, 9, 18])
@pytest.mark.parametrize("second", [2, 8, 16])
def test_a_part_can_be_peeled_and_split_again(first: int, second: int) -> None:
    """What is peeled off starts anywhere, not at a multiple of the next factor."""
    space = space_over(53)
    found: list[Point] = []
    for part in space.peel(space.loops[0], first):
        for piece in part.peel(part.loops[0], second):
            whole = piece.size(piece.loops[0]) % second == 0
            found += points(piece.split(piece.loops[0], second) if whole else piece)
    assert found == box(53)


DIVIDED: list[tuple[tuple[int, ...], Expressions]] = [
    ((12,), of_index(lambda i: i.floordiv(4) * 100 + i.mod(4))),
    ((14,), of_index(lambda i: i.floordiv(4) * 100 + i.mod(4))),
    ((3,), of_index(lambda i: i.floordiv(4) + i.mod(2))),
    ((24, 5), of_index(lambda i, j: (i.floordiv(6) + j.mod(5), i.mod(6).floordiv(2) * 7 + i.mod(2)))),
    ((25, 7), of_index(lambda i, j: (i.floordiv(10) * 9 + j.mod(3) * 5, i.mod(10), j.floordiv(3)))),
    ((60,), of_index(lambda i: i.floordiv(20) * 3 + i.mod(20).floordiv(4) * 50 + i.mod(4) * 7)),
]


@pytest.mark.parametrize("number", range(len(DIVIDED)))
def test_remove_divisions(number: int) -> None:
    """The parts cover the box; no expression divides a loop variable any more."""
    sizes, expressions = DIVIDED[number]
    parts = remove_divisions(space_over(*sizes), expressions, always)
    assert sorted(p for part in parts for p in points(part)) == box(*sizes)
    for part in parts:
        assert find_split(part, expressions(part), always) is None
        assert not any("div" in str(e) or "mod" in str(e) for e in expressions(part))


def test_divisions_stay_where_splitting_is_refused() -> None:
    sizes, expressions = DIVIDED[0]
    (part,) = remove_divisions(space_over(*sizes), expressions, lambda space, position, divisor: False)
    assert len(part.loops) == 1 and points(part) == box(*sizes)


def test_divisions_of_sums_end() -> None:
    """A division of two variables cannot be split away; and many divisors do not split for ever."""
    (part,) = remove_divisions(space_over(8, 9), of_index(lambda i, j: (i * 9 + j).floordiv(5)), always)
    assert points(part) == box(8, 9)
    many = of_index(lambda i: tuple(i.floordiv(n) for n in range(2, 40)))
    parts = remove_divisions(space_over(200), many, always)
    assert sorted(p for part in parts for p in points(part)) == box(200)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_sort_loops(order: tuple[int, ...]) -> None:
    """Loops follow the output's memory, whatever order they had; loops that it does not use go outside."""
    space = space_over(2, 3, 4)
    shuffled = IterationSpace(space.table, [space.loops[i] for i in order], space.index)
    assert points(sort_loops(shuffled, flat(2, 3, 4)(space)[0])) == box(2, 3, 4)
    i, _, k = space.index
    assert sort_loops(shuffled, k * 2 + i).loops == [space.loops[1], space.loops[2], space.loops[0]]


COLLAPSED: list[tuple[tuple[int, ...], Expressions, list[int]]] = [
    ((2, 3, 4), flat(2, 3, 4), [24]),
    ((2, 3, 4), of_index(lambda i, j, k: i * 100 + j * 4 + k), [2, 12]),
    ((2, 3, 4), of_index(lambda i, j, k: (i * 12 + j * 4 + k, i * 3 + j)), [6, 4]),
    ((2, 3, 4), of_index(lambda i, j, k: (i * 12 + j * 4 + k, k)), [6, 4]),
    ((2, 3, 4), of_index(lambda i, j, k: (i * 12 + j * 4 + k, j)), [2, 3, 4]),
    ((5, 6), of_index(lambda i, j: (i * 6 + j).floordiv(5)), [5, 6]),
    ((2, 3, 4), of_index(lambda i, j, k: i + j + k), [2, 3, 4]),
]


@pytest.mark.parametrize("number", range(len(COLLAPSED)))
def test_collapse_loops(number: int) -> None:
    """Loops merge only where every access walks through them as one, and no expression gets a division."""
    sizes, expressions, expected = COLLAPSED[number]
    space = space_over(*sizes)
    before = sum("div" in str(e) or "mod" in str(e) for e in expressions(space))
    collapsed = collapse_loops(space, expressions)
    assert [collapsed.size(p) for p in collapsed.loops] == expected
    assert points(collapsed) == box(*sizes)
    assert sum("div" in str(e) or "mod" in str(e) for e in expressions(collapsed)) == before


def test_peeled_loops_do_not_collapse() -> None:
    """A loop that does not start at 0 cannot become the remainder of a merged one."""
    space = space_over(10, 4)
    rest = space.peel(space.loops[0], 8)[1]
    collapsed = collapse_loops(rest, flat(10, 4))
    assert points(collapsed) == [p for p in box(10, 4) if p[0] >= 8]


@pytest.mark.parametrize(
    ("sizes", "period", "expected"),
    [
        ((9, 2), 1, [18]), ((9, 4), 1, [36]), ((5, 2, 2), 1, [5 * 4]), ((9, 3), 1, [9, 3]), ((9, 8), 7, [9, 8]),
        ((2,), 1, [2]), ((9, 3), 3, [27]), ((7, 3), 3, [7, 3]), ((9, 7), 7, [63]), ((9, 7), 6, [9, 7]),
        ((9, 2, 3), 3, [9 * 6]), ((9, 2, 3), 1, [9, 2, 3]), ((5, 9, 2, 3), 3, [5, 9 * 6]), ((2, 2, 3), 3, [2, 2, 3]),
    ],
)  # fmt: skip
def test_merge_short_innermost(sizes: tuple[int, ...], period: int, expected: list[int]) -> None:
    merged = merge_short_innermost(space_over(*sizes), 8, period)
    assert [merged.size(p) for p in merged.loops] == expected
    assert points(merged) == box(*sizes)


@pytest.mark.parametrize("seed", range(40))
def test_all_together(seed: int) -> None:
    """The steps of the loop kernel on accesses of random reshapes keep every point, and values at the points."""
    rng = random.Random(seed)
    sizes = [rng.choice((1, 2, 3, 4, 6, 10)) for _ in range(rng.randint(1, 3))]
    divisors = [rng.choice((2, 3, 4, 5)) for _ in sizes]
    factors = [rng.choice((1, 2, 7)) for _ in range(2 * len(sizes))]

    def access(index: Sequence[AffineExpr]) -> AffineExpr:
        total = index[0] * 0
        for i, e in enumerate(index):
            total = total + e.floordiv(divisors[i]) * factors[2 * i] + e.mod(divisors[i]) * factors[2 * i + 1]
        return total

    expressions = of_index(lambda *index: access(index))
    found: list[tuple[Point, int]] = []
    for part in remove_divisions(space_over(*sizes), expressions, always):
        part = collapse_loops(sort_loops(part, flat(*sizes)(part)[0]), lambda s: [*expressions(s), *flat(*sizes)(s)])
        part = merge_short_innermost(part, 4, rng.choice((1, 3)))
        # the access, too, as a coordinate: it must have the value that it has at the point
        with_access = IterationSpace(part.table, part.loops, (*part.index, *expressions(part)))
        found += [(p[:-1], p[-1]) for p in points(with_access)]
    original = [dim(i) for i in range(len(sizes))]
    expected = [(p, evaluate(substitute(access(original), original), p)) for p in box(*sizes)]
    assert sorted(found) == expected
