"""Affine expressions: canonical at birth, interned, bounded, printed and parsed as MLIR does."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.affine.strategies import Meaning, expressions, intervals
from xjit.affine import (
    AffineExpr,
    AffineExprKind,
    AffineMap,
    IndexingBudgetError,
    IndexingError,
    Interval,
    ceildiv,
    constant,
    dim,
    evaluate,
    interval_of,
    parse_affine_expr,
    pool,
    rules,
    substitute,
    symbol,
)

d0, d1, d2, s0 = dim(0), dim(1), dim(2), symbol(0)

CANONICAL = [
    ("d1 + d0", "d0 + d1"),
    ("s0 + d0 * 8 + d1 - d1", "d0 * 8 + s0"),
    ("(d0 + d1) * 2", "d0 * 2 + d1 * 2"),
    ("d1 * -1 + 16", "-d1 + 16"),
    ("3 - -4", "7"),
    ("(d0 * 6) floordiv 3", "d0 * 2"),
    ("(d0 * 8 + d1) floordiv 4", "d0 * 2 + d1 floordiv 4"),
    ("(d0 * 8 + d1) mod 4", "d1 mod 4"),
    ("(d0 * 4) mod 8", "(d0 mod 2) * 4"),
    ("(d0 * 6 + d1 * 4 + 3) floordiv 8", "(d0 * 3 + d1 * 2 + 1) floordiv 4"),
    ("(d0 floordiv 2) floordiv 3", "d0 floordiv 6"),
    ("(d0 floordiv 2 + d1) floordiv 3", "(d0 + d1 * 2) floordiv 6"),
    ("(d0 mod 6) mod 3", "d0 mod 3"),
    ("(d0 mod 3) mod 6", "d0 mod 3"),
    ("(d0 mod 3) floordiv 3", "0"),
    ("(d0 mod 12) floordiv 4", "(d0 floordiv 4) mod 3"),
    ("((d0 mod 8) * 3 + d1) mod 4", "(d0 * 3 + d1) mod 4"),
    ("(d0 floordiv 4) * 4 + d0 mod 4", "d0"),
    ("(d0 floordiv 4) * 12 + (d0 mod 4) * 3", "d0 * 3"),
    ("(d0 floordiv 6) * 6 + ((d0 floordiv 2) mod 3) * 2 + d0 mod 2", "d0"),
    ("((d0 + d1 - 1) floordiv 4) * 4 + (d0 + d1 - 1) mod 4", "d0 + d1 - 1"),
    ("d0 - (d0 floordiv 4) * 4", "d0 mod 4"),
    ("d0 - d0 mod 4", "(d0 floordiv 4) * 4"),
    ("d0 * 2 - ((d0 + 1) floordiv 4) * 8", "((d0 + 1) mod 4) * 2 - 2"),
    ("d0 ceildiv 4", "(d0 + 3) floordiv 4"),
    ("(d0 + 9) floordiv 4", "(d0 + 1) floordiv 4 + 2"),
    ("(d0 - 9) mod 4", "(d0 - 1) mod 4"),
    ("(-d0) floordiv 3", "(-d0) floordiv 3"),
    ("-(d0 floordiv 3)", "-(d0 floordiv 3)"),
    ("s0 - d0 * 3 - d1 floordiv 2", "d0 * -3 + s0 - d1 floordiv 2"),
]


@pytest.mark.parametrize(("text", "expected"), CANONICAL)
def test_canonical_at_birth(text: str, expected: str) -> None:
    expr = parse_affine_expr(text)
    assert str(expr) == expected
    assert parse_affine_expr(expected) is expr


@pytest.mark.parametrize(
    "text",
    [
        "d0 * 8 + d1",
        "-d1 + 16",
        "d1 floordiv 4 + (d0 mod 2) * 2",
        "(d0 - 1) floordiv 2",
        "d2 + (d1 mod 2) * 4",
        "d0 * 2 + d1 floordiv 2",
        "d0 - s0",
        "d1 * 7 + 3",
        "s1 * 3 + 50",
        "(d1 - 3) floordiv 7",
        "(d1 - 3) mod 7",
    ],
)
def test_prints_as_in_the_documents(text: str) -> None:
    assert str(parse_affine_expr(text)) == text


@given(expressions(), st.lists(st.tuples(*[st.integers(-300, 300)] * 3), min_size=8, max_size=8))
def test_construction_keeps_the_value(pair: tuple[AffineExpr, Meaning], points: list[tuple[int, ...]]) -> None:
    expr, meaning = pair
    for point in points:
        assert evaluate(expr, point[:2], point[2:]) == meaning(point)
    arrays = np.array(points, dtype=np.int64).T
    values = np.broadcast_to(evaluate(expr, arrays[:2], arrays[2:]), len(points))
    assert values.tolist() == [meaning(p) for p in points]


@given(expressions())
def test_print_parse_is_identity(pair: tuple[AffineExpr, Meaning]) -> None:
    expr = pair[0]
    assert parse_affine_expr(str(expr)) is expr
    assert pickle.loads(pickle.dumps(expr)) is expr
    assert sum((t * k for t, k in expr.terms), constant(expr.constant_term)) is expr


@given(expressions(), expressions(2), expressions(2), st.tuples(*[st.integers(-50, 50)] * 3))
def test_substitution_agrees_with_evaluation(
    pair: tuple[AffineExpr, Meaning],
    first: tuple[AffineExpr, Meaning],
    second: tuple[AffineExpr, Meaning],
    point: tuple[int, ...],
) -> None:
    new = substitute(pair[0], [first[0], second[0]], {0: d0 * 2})
    assert evaluate(new, point[:2], point[2:]) == pair[1]((first[1](point), second[1](point), point[0] * 2))


@given(expressions(), st.tuples(intervals(), intervals(), intervals()))
def test_interval_is_sound(pair: tuple[AffineExpr, Meaning], box: tuple[Interval, ...]) -> None:
    found = interval_of(pair[0], box[:2], box[2:])
    for a in range(box[0].lower, box[0].upper + 1):
        for b in range(box[1].lower, box[1].upper + 1):
            for c in (box[2].lower, box[2].upper):
                assert pair[1]((a, b, c)) in found


def test_interval_of_empty_box_is_empty() -> None:
    assert interval_of(d0 + 1, [Interval(0, -1)]).is_empty
    assert interval_of(d1 + 1, [Interval(0, -1), Interval(0, 3)]) == Interval(1, 4)


def test_identity_copy_and_decomposition() -> None:
    e = (d0 * 8 + d1 - 3) % 5
    assert (d1 - 3 + d0 * 8) % 5 is e
    assert copy.copy(e) is e and copy.deepcopy([e])[0] is e
    assert e.kind is AffineExprKind.MOD and e.operands == (d0 * 8 + d1 - 3, constant(5))
    assert (d0 * 8 + d1 - 3).terms == ((d0, 8), (d1, 1)) and (d0 * 8 - 3).constant_term == -3
    assert e.terms == ((e, 1),) and e.dims == {0, 1} and (e + s0).symbols == {0}
    assert constant(True) is constant(1) and str(constant(True)) == "1"
    assert constant(np.int64(7)) is constant(7) and constant(7).value == 7 and dim(3).position == 3
    assert ceildiv(d0, 4) is (d0 + 3) // 4 and 16 - d1 is -d1 + 16
    with pytest.raises(AttributeError):
        e.rhs = 3
    with pytest.raises(AttributeError):
        _ = e.value


def test_pool_is_weak() -> None:
    def build() -> None:
        for i in range(50):
            _ = (dim(0) * 1009 + dim(1) + i) // 977

    pool.release_recent()
    rules.clear_memos()
    gc.collect()
    before = pool.pool_size()
    build()
    assert pool.pool_size() > before
    pool.release_recent()
    rules.clear_memos()
    gc.collect()
    assert pool.pool_size() <= before + 2


def test_threads_agree_on_identity() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    found: list[list[AffineExpr]] = [[] for _ in range(4)]
    barrier = threading.Barrier(4)

    def work(mine: list[AffineExpr]) -> None:
        barrier.wait()
        for i in range(400):
            mine.append((dim(i % 7) * 31 + i) % (1000 + i))

    try:
        threads = [threading.Thread(target=work, args=(f,)) for f in found]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    for other in found[1:]:
        assert all(a is b for a, b in zip(found[0], other, strict=True))


def test_long_sums_and_shared_nodes() -> None:
    start = time.process_time()
    e = d0
    for i in range(10_000):
        e = e + symbol(i % 50) * (i + 1)
    assert len(e.terms) == 51
    for i in range(1_500):
        e = e + dim(i)
    assert len(e.terms) == 1_550 and evaluate(e, [1] * 1_500, [0] * 50) == 1_501
    doubled = d0
    for _ in range(60):
        doubled = doubled + doubled
    assert str(doubled) == f"d0 * {2**60}"
    assert time.process_time() - start < 10


def test_budgets() -> None:
    with pytest.raises(IndexingBudgetError, match="int64"):
        _ = d0 * 2**62 * 4
    with pytest.raises(IndexingBudgetError, match="position"):
        dim(1 << 40)
    e = d0
    with pytest.raises(IndexingBudgetError, match="nests more than"):
        for i in range(10_000):
            e = (e * 2 + dim(i % 3)) % (10_007 + i)
    e = d0
    with pytest.raises(IndexingBudgetError):
        for i in range(200):
            e = (e * 3 + d1) // 7 + (e * 5 + d1) % (11 + i)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d0 +", "1:5: unexpected end of text"),
        ("d0 * d1", "constant side"),
        ("d0 floordiv 0", "positive divisor, found 0"),
        ("d0 mod d1", "constant divisor, found d1"),
        ("x", "found 'x'"),
        ("(d0", "expected '\\)'"),
        ("d0 d1", "after the expression"),
        ("d0 $ 1", "unexpected"),
        ("(" * 500 + "d0" + ")" * 500, "nested"),
    ],
)
def test_parse_errors(text: str, message: str) -> None:
    with pytest.raises(IndexingError, match=message):
        parse_affine_expr(text)


def test_affine_map() -> None:
    m = AffineMap.parse("(d0)[s0, s1] -> (s0 + 5, d0 * 2, s1 * 3 + 50)")
    assert str(m) == "(d0)[s0, s1] -> (s0 + 5, d0 * 2, s1 * 3 + 50)"
    assert m.evaluate([4], [1, 2]) == (6, 8, 56)
    assert str(AffineMap.parse("(a, b)[k] -> (b, a + k)")) == "(d0, d1)[s0] -> (d1, d0 + s0)"
    assert str(AffineMap.permutation([2, 0, 1])) == "(d0, d1, d2) -> (d2, d0, d1)"
    outer, inner = AffineMap.parse("(d0, d1)[s0] -> (d0 + d1 + s0)"), AffineMap.parse("(d0)[s0] -> (d0, s0 * 2)")
    assert str(outer.compose(inner)) == "(d0)[s0, s1] -> (d0 + s0 + s1 * 2)"
    assert AffineMap.identity(3).is_identity and AffineMap.permutation([1, 0]).is_permutation
    with pytest.raises(IndexingError, match="beyond"):
        AffineMap(1, 0, (d1,))
    with pytest.raises(IndexingError, match="unknown name 'd2'"):
        AffineMap.parse("(d0, d1) -> (d2)")


settings.register_profile("indexing", deadline=None, max_examples=150)
settings.load_profile("indexing")
