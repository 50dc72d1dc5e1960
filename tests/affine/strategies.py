"""Random affine expressions paired with a plain Python meaning, boxes and maps."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from xjit.affine import AffineExpr, AffineMap, DimVar, IndexingMap, Interval, RangeVar, constant, dim, symbol

Meaning = Callable[[tuple[int, ...]], int]
NUM_DIMS = 2
NUM_SYMBOLS = 1
DIVISORS = (2, 3, 4, 6, 8, 10, 12)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> tuple[AffineExpr, Meaning]:
    """An expression over d0, d1, s0 and its value as a function of (d0, d1, s0), computed without the library."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        i = draw(st.integers(0, NUM_DIMS + NUM_SYMBOLS))
        if i < NUM_DIMS:
            return dim(i), lambda v: v[i]
        if i < NUM_DIMS + NUM_SYMBOLS:
            return symbol(i - NUM_DIMS), lambda v: v[i]
        c = draw(st.integers(-20, 20))
        return constant(c), lambda v: c
    e, f = draw(expressions(depth - 1))
    c = draw(st.sampled_from(DIVISORS))
    op = draw(st.integers(0, 6))
    if op <= 1:
        other, g = draw(expressions(depth - 1))
        return (e + other, lambda v: f(v) + g(v)) if op else (e - other, lambda v: f(v) - g(v))
    if op == 2:
        k = draw(st.integers(-12, 12))
        return e * k, lambda v: f(v) * k
    if op == 3:
        return e // c, lambda v: f(v) // c
    if op == 4:
        return e % c, lambda v: f(v) % c
    if op == 5:
        k = draw(st.sampled_from([-2, -1, 1, 3]))
        return (e // c) * (c * k) + (e % c) * k, lambda v: f(v) * k
    return ((e // c) % 3) * c + e % c, lambda v: f(v) % (3 * c)


@st.composite
def intervals(draw: st.DrawFn, low: int = -6, high: int = 12, longest: int = 7) -> Interval:
    lower = draw(st.integers(low, high))
    return Interval(lower, lower + draw(st.integers(0, longest)))


@st.composite
def indexing_maps(draw: st.DrawFn, num_results: int = 2, max_constraints: int = 2) -> IndexingMap:
    """A map of two dims and one range variable with constraints that may contradict each other."""
    results = tuple(draw(expressions(3))[0] for _ in range(num_results))
    constraints = []
    for _ in range(draw(st.integers(0, max_constraints))):
        lower = draw(st.integers(-6, 10))
        constraints.append((draw(expressions(2))[0], Interval(lower, lower + draw(st.integers(0, 12)))))
    return IndexingMap(
        AffineMap(NUM_DIMS, NUM_SYMBOLS, results),
        tuple(DimVar(draw(intervals())) for _ in range(NUM_DIMS)),
        tuple(RangeVar(draw(intervals(longest=4))) for _ in range(NUM_SYMBOLS)),
        (),
        tuple(constraints),
    )


def relation(m: IndexingMap) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The (input, output) pairs that a small map relates."""
    return {(dims, m.evaluate(dims, symbols)) for dims, symbols in m.enumerate_domain()}
