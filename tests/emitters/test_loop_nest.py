"""Loop nests: where code goes, what loops do, and that emitted index expressions have the values they should."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.loop_nests import EmittedNest, emit_nest
from xjit.affine import AffineExpr, constant, dim, evaluate, parse_affine_expr
from xjit.emitters.loops.loop_nest import LoopNest, VectorVariable
from xjit.llvm.reductions import vector_reduce_add
from xjit.llvm.target import Target
from xjit.llvm.types import I1, I64, vector
from xjit.llvm.values import Value, const_int, const_vector

NO_VALUES: Sequence[Value] = ()


def store_at(nest: LoopNest, pointer: Value, place: Value, value: Value) -> None:
    nest.builder.store(value, nest.builder.gep(I64, pointer, place), align=8)


# -- loops


def test_scalar_loops_visit_everything_in_order() -> None:
    """Loops over 3 x 1 x 5 points, the last one from 10 on, count their steps."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        i, j, k = nest.new_variable(3), nest.new_variable(1, 7), nest.new_variable(5, 10)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            place = nest.index_value(dim(i) * 5 + dim(k) - 10)
            store_at(nest, pointers[0], place, nest.index_value(dim(i) * 10000 + dim(j) * 100 + dim(k)))
            return ()

        def middle(_: Sequence[Value]) -> Sequence[Value]:
            return nest.scalar_loop(j, lambda _: nest.scalar_loop(k, body))

        nest.scalar_loop(i, middle)

    emitted = emit_nest(1, emit)
    assert len(emitted.nest.levels) == 1
    assert emitted.text.count("phi") == 2, "the loop of one trip is no loop"
    out = np.zeros((3, 5), np.int64)
    emitted.run(out)
    np.testing.assert_array_equal(out, [[i * 10000 + 700 + k for k in range(10, 15)] for i in range(3)])


def test_empty_loops_emit_nothing() -> None:
    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        start = [const_int(I64, 5)]
        for loop in (nest.scalar_loop, lambda p, body, a: nest.vector_loop(p, 4, body, a)):
            assert loop(nest.new_variable(0), _never, start) == start

    assert emit_nest(0, emit).block("entry").count("\n") == 1


def _never(_: Sequence[Value]) -> Sequence[Value]:
    raise AssertionError("the body of an empty loop")


def test_accumulators_go_through_all_loops() -> None:
    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        i, j = nest.new_variable(7), nest.new_variable(11)

        def add(sums: Sequence[Value]) -> Sequence[Value]:
            product = nest.builder.mul(nest.index_value(dim(i)), nest.index_value(dim(j)))
            return [nest.builder.add(sums[0], product), nest.builder.add(sums[1], const_int(I64, 1))]

        sums = nest.loops((i, j), add, [const_int(I64, 100), const_int(I64, 0)])
        for number, value in enumerate(sums):
            store_at(nest, pointers[0], const_int(I64, number), value)

    out = np.zeros(2, np.int64)
    emit_nest(1, emit).run(out)
    assert out.tolist() == [100 + 21 * 55, 77]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 21, 40])
@pytest.mark.parametrize("lower", [0, 8])
def test_vector_loops_have_a_masked_tail(size: int, lower: int) -> None:
    """Every element is counted once, and none beyond the end."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        v = nest.new_variable(size, lower)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            lanes = nest.vector
            assert lanes is not None and lanes.position == v and lanes.width == 8
            assert (lanes.mask is None) == (lanes.present == 8)
            builder = nest.builder
            address = builder.gep(I64, pointers[0], nest.index_value(dim(v)))
            everything = const_vector(vector(I1, 8), [True] * 8)
            old = builder.masked_load(vector(I64, 8), address, lanes.mask or everything, 8)
            new = builder.add(old, builder.splat(const_int(I64, 1), 8))
            builder.masked_store(new, address, lanes.mask or everything, 8)
            return ()

        nest.vector_loop(v, 8, body)

    emitted = emit_nest(1, emit)
    assert ("phi" in emitted.text) == (size >= 16), "whole vectors of one trip and tails are no loops"
    out = np.zeros(64, np.int64)
    emitted.run(out)
    assert out.tolist() == [int(lower <= i < lower + size) for i in range(64)]


@pytest.mark.parametrize("size", [3, 4, 8, 9, 12, 15, 16, 24, 31, 35])
def test_interleaved_loops_use_every_element_once(size: int) -> None:
    """Two sets of sums take turns; the sums over both are those of all elements."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        v = nest.new_variable(size)

        def body(sums: Sequence[Value]) -> Sequence[Value]:
            lanes, builder = nest.vector, nest.builder
            assert lanes is not None
            added = builder.add(sums[0], nest.lane_values(dim(v) + 2**40))
            return [added if lanes.mask is None else builder.select(lanes.mask, added, sums[0])]

        zero = nest.builder.splat(const_int(I64, 0), 4)
        sums = nest.interleaved_vector_loop(v, 4, 2, body, [zero, zero])
        assert len(sums) == 2
        total = vector_reduce_add(nest.builder, nest.builder.add(*sums))
        store_at(nest, pointers[0], const_int(I64, 0), total)

    out = np.zeros(1, np.int64)
    emit_nest(1, emit).run(out)
    assert out[0] == size * (size - 1) // 2 + size * 2**40


# -- where code goes


def hoisting(*expressions: str) -> EmittedNest:
    """Three nested loops, 20 x 30 x 40, whose innermost body stores expressions of d0, d1, d2."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        i, j, k = (nest.new_variable(n) for n in (20, 30, 40))

        def body(_: Sequence[Value]) -> Sequence[Value]:
            for number, text in enumerate(expressions):
                store_at(nest, pointers[0], const_int(I64, number), nest.index_value(parse_affine_expr(text)))
            return ()

        nest.loop(i, lambda _: nest.loop(j, lambda _: nest.loop(k, body, name="inner"), name="middle"), name="outer")

    return emit_nest(1, emit)


def test_expressions_are_computed_where_they_are_known_first() -> None:
    emitted = hoisting("(d0 floordiv 7) * 5 + d2 + (d1 mod 3)")
    assert "udiv" in emitted.block("outer.loop") and "urem" not in emitted.block("outer.loop")
    assert "urem" in emitted.block("middle.loop") and "udiv" not in emitted.block("middle.loop")
    inner = emitted.block("inner.loop")
    assert "udiv" not in inner and "urem" not in inner and "mul" not in inner
    assert inner.count(" add ") == 2, "one for the sum of both parts, one for the loop"


def test_equal_expressions_are_computed_once() -> None:
    emitted = hoisting("d0 * 9 + d1", "d0 * 9 + d1", "d0 * 9 + d1 + d2", "d0 * 9 + d1 + d2")
    assert emitted.text.count("= mul") == 1
    assert emitted.block("inner.loop").count(" add ") == 2


def test_depth_of() -> None:
    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        i, j = nest.new_variable(3), nest.new_variable(4)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            assert [nest.depth_of(e) for e in (constant(3), dim(i), dim(i) + dim(j), dim(j).mod(2))] == [0, 1, 2, 2]
            assert nest.level.depth == 2
            return ()

        nest.scalar_loop(i, lambda _: nest.scalar_loop(j, body))

    emit_nest(0, emit)


def test_code_can_be_placed_in_front_of_open_loops() -> None:
    """A whole loop emitted from inside another one at depth 0 runs before it, and its result is known inside."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        i, k = nest.new_variable(4), nest.new_variable(10)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            with nest.at_depth(0) as level:
                assert nest.level is level and level.depth == 0
                (total,) = nest.scalar_loop(
                    k, lambda a: [nest.builder.add(a[0], nest.index_value(dim(k)))], [const_int(I64, 0)]
                )
            assert nest.level.depth == 1
            place = nest.index_value(dim(i))
            store_at(nest, pointers[0], place, nest.builder.add(total, place))
            return ()

        nest.scalar_loop(i, body)

    out = np.zeros(4, np.int64)
    emit_nest(1, emit).run(out)
    assert out.tolist() == [45, 46, 47, 48]


def test_what_a_branch_computes_is_forgotten() -> None:
    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        nest.level.cache["before"] = 1
        with nest.branch():
            nest.level.cache["inside"] = 2
            assert (nest.lookup("before"), nest.lookup("inside")) == (1, 2)
        assert (nest.lookup("before"), nest.lookup("inside")) == (1, None)

    emit_nest(0, emit)


# -- index expressions

FIXED = (
    "d0", "d0 * 7 + d1", "d0 - d1 * 3", "d0 floordiv 3", "d0 mod 5", "(d0 * 4 + d1) floordiv 6", "(d0 * 4 + d1) mod 6",
    "(d0 - d1) floordiv 4", "(d0 - d1) mod 4", "(d0 - d1) floordiv 3", "(d0 - d1) mod 3", "(d0 * 3 - 20) floordiv 7 + d1",
    "((d0 * 5 + d1) floordiv 3) mod 4", "(d0 * 5 + d1) floordiv 3 - ((d0 * 5 + d1) floordiv 9) * 3", "d0 * -1000000007",
)  # fmt: skip


def random_expression(rng: random.Random, depth: int = 3) -> AffineExpr:
    """Returns a sum of terms, some of them divided."""
    total = constant(rng.randint(-9, 9))
    for _ in range(rng.randint(1, 3)):
        term = dim(rng.randrange(2))
        if depth and rng.random() < 0.5:
            inner, divisor = random_expression(rng, depth - 1), rng.choice((2, 3, 4, 7, 8, 12))
            term = inner.floordiv(divisor) if rng.random() < 0.5 else inner.mod(divisor)
        total = total + term * rng.choice((1, 1, 2, -1, -3, 5))
    return total


EXPRESSIONS = [parse_affine_expr(text) for text in FIXED] + [
    random_expression(random.Random(seed)) for seed in range(60)
]
SIZES = (6, 20)
LOWERS = (-3, 2)


def values_of(expressions: Sequence[AffineExpr]) -> np.ndarray:
    """The values over the box of SIZES from LOWERS on: [expression, d0, d1]."""
    points = np.meshgrid(*[np.arange(lower, lower + n) for lower, n in zip(LOWERS, SIZES)], indexing="ij")
    return np.stack([np.broadcast_to(evaluate(e, points), SIZES) for e in expressions])


def test_index_values() -> None:
    """Scalar index expressions of every kind equal their evaluation at all points."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        i, j = (nest.new_variable(n, lower) for n, lower in zip(SIZES, LOWERS))
        place = (dim(i) - LOWERS[0]) * SIZES[1] + dim(j) - LOWERS[1]

        def body(_: Sequence[Value]) -> Sequence[Value]:
            for number, expression in enumerate(EXPRESSIONS):
                at = nest.index_value(place + number * SIZES[0] * SIZES[1])
                store_at(nest, pointers[0], at, nest.index_value(nest.simplify(expression)))
            return ()

        nest.scalar_loop(i, lambda _: nest.scalar_loop(j, body))

    out = np.zeros((len(EXPRESSIONS), *SIZES), np.int64)
    emit_nest(1, emit).run(out)
    for got, want, expression in zip(out, values_of(EXPRESSIONS), EXPRESSIONS, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=str(expression))


@pytest.mark.parametrize("level", ["sse2", "avx2", ""])
def test_lane_values(level: str) -> None:
    """Index expressions per lane, in i32 where they fit and in i64 where they do not; the last vector is partial."""
    target = Target.for_features(level) if level else Target.host()
    shift = 2**33

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        i, j = (nest.new_variable(n, lower) for n, lower in zip(SIZES, LOWERS))
        place = (dim(i) - LOWERS[0]) * SIZES[1] + dim(j) - LOWERS[1]

        def body(_: Sequence[Value]) -> Sequence[Value]:
            builder, lanes = nest.builder, nest.vector
            assert lanes is not None
            for number, expression in enumerate(EXPRESSIONS):
                address = builder.gep(I64, pointers[0], nest.index_value(place + number * SIZES[0] * SIZES[1]))
                value = nest.lane_values(nest.simplify(expression + (shift if number % 2 else 0)))
                value = builder.sext(value, I64) if value.type.elem.bits < 64 else value
                builder.masked_store(value, address, lanes.mask or const_vector(vector(I1, 8), [True] * 8), 8)
            return ()

        nest.scalar_loop(i, lambda _: nest.vector_loop(j, 8, body))

    emitted = emit_nest(1, emit, target)
    assert "<8 x i32>" in emitted.text and "<8 x i64>" in emitted.text
    out = np.zeros((len(EXPRESSIONS), *SIZES), np.int64)
    emitted.run(out)
    for number, (got, want) in enumerate(zip(out, values_of(EXPRESSIONS), strict=True)):
        np.testing.assert_array_equal(got, want + shift * (number % 2), err_msg=str(EXPRESSIONS[number]))


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ("d1", (0, 1, 2, 3)),
        ("d0 * 9 + d1 * -2", (0, -2, -4, -6)),
        ("d0 * 9", (0, 0, 0, 0)),
        ("d1 floordiv 2", (0, 0, 1, 1)),
        ("d1 mod 2", (0, 1, 0, 1)),
        ("d1 mod 4 + (d1 floordiv 4) * 100", (0, 1, 2, 3)),
        ("d1 * 3 + d1 floordiv 4", (0, 3, 6, 9)),
        ("d1 floordiv 3", None),
        ("(d0 + d1) mod 4", None),
        ("(d0 * 4 + d1) mod 8", (0, 1, 2, 3)),
    ],
)
def test_lane_pattern(expression: str, pattern: tuple[int, ...] | None) -> None:
    assert pattern_of(parse_affine_expr(expression), 12, 0, 4) == pattern


def pattern_of(expression: AffineExpr, size: int, lower: int, width: int) -> tuple[int, ...] | None:
    """The pattern of an expression of d0 in [0, 7] and the vector variable d1."""
    found: list[tuple[int, ...] | None] = []

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        nest.new_variable(8)
        v = nest.new_variable(size, lower)
        lanes = VectorVariable(v, width)
        nest.scalar_loop(
            0,
            lambda _: nest.once(
                v, const_int(I64, lower), lambda _: found.append(nest.lane_pattern(nest.simplify(expression))) or (), (),
                lanes,
            ),
        )  # fmt: skip

    emit_nest(0, emit)
    return found[0]


@pytest.mark.parametrize("seed", range(40))
def test_lane_patterns_hold_everywhere(seed: int) -> None:
    """If there is a pattern, the lanes of every vector of the loop have these distances."""
    rng = random.Random(seed)
    expression, lower, width = random_expression(rng), rng.choice((0, 4, 8)), rng.choice((4, 8))
    size = rng.randint(1, 3) * width
    pattern = pattern_of(expression, size, lower, width)
    distances = {
        tuple(evaluate(expression, (d0, first + lane)) - evaluate(expression, (d0, first)) for lane in range(width))
        for d0, first in itertools.product(range(8), range(lower, lower + size, width))
    }
    if pattern is not None:
        assert distances == {pattern}


def test_run_time_values_take_part_in_expressions() -> None:
    """A variable bound to a loaded value, and one bound to a vector of values, one per lane."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        n, per_lane, v = nest.new_variable(100), nest.new_variable(100), nest.new_variable(8)
        nest.bind(n, nest.builder.load(I64, pointers[0], align=8), 0)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            lanes = nest.builder.load(vector(I64, 8), pointers[0], align=8)
            nest.bind_lanes(per_lane, lanes, nest.level.depth)
            expression = dim(n) * 1000 + dim(per_lane) * 10 + dim(v)
            assert nest.lane_pattern(expression) is None and nest.uses_vector(dim(per_lane))
            assert not nest.uses_vector(dim(n))
            value = nest.builder.sext(nest.lane_values(expression), I64)
            nest.builder.store(value, pointers[1], align=8)
            return ()

        nest.vector_loop(v, 8, body)

    given, out = np.arange(3, 11), np.zeros(8, np.int64)
    emit_nest(2, emit).run(given, out)
    np.testing.assert_array_equal(out, 3000 + given * 10 + np.arange(8))
