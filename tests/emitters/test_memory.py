"""Element access: which instructions a stride gives, and that they read and write what they should."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from tests.llvm.jit import available_levels
from tests.support.loop_nests import Array, EmittedNest, emit_nest
from xjit.affine import AffineExpr, Interval, dim, parse_affine_expr
from xjit.emitters.access.guards import EVERYWHERE, Guard, restrict
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.attributes.codecs.shapes import parse_shape
from xjit.hlo.types.shape import Shape
from xjit.llvm.target import Target
from xjit.llvm.values import Value

WIDTH = 8
TARGET = Target.for_features("avx2")
GuardOf = Callable[[LoopNest], Guard | None]


@dataclass(frozen=True, slots=True)
class Copy:
    """out[d0, d1] = in[index(d0, d1)] for d0 < rows, d1 < columns (the vector), where the guard allows it."""

    index: str
    source: Shape
    rows: int = 3
    columns: int = 20
    guard: tuple[tuple[str, int, int], ...] = ()

    def emit(self, width: int = WIDTH, target: Target = TARGET) -> EmittedNest:
        result = Shape.array(self.source.element_type, (self.rows, self.columns))

        def body(nest: LoopNest, pointers: Sequence[Value]) -> None:
            memory = MemoryAccess(nest)
            conditions = [(parse_affine_expr(e), Interval(low, high)) for e, low, high in self.guard]
            guard = restrict(nest, EVERYWHERE, conditions)
            if guard is None:
                return
            index = [nest.simplify(parse_affine_expr(e)) for e in self.index.split(",")]
            value = memory.load(Buffer(self.source, pointers[0]), index, guard)
            memory.store(Buffer(result, pointers[1]), (dim(0), dim(1)), value, guard)

        def loops(nest: LoopNest, pointers: Sequence[Value]) -> None:
            i, j = nest.new_variable(self.rows), nest.new_variable(self.columns)

            def inner(_: Sequence[Value]) -> Sequence[Value]:
                body(nest, pointers)
                return ()

            def outer(_: Sequence[Value]) -> Sequence[Value]:
                return nest.vector_loop(j, width, inner) if width else nest.scalar_loop(j, inner)

            nest.scalar_loop(i, outer)

        return emit_nest(2, loops, target)

    def check(self, *, target: Target = TARGET) -> str:
        """Runs the copy with vectors and without; returns the text of the former."""
        rng = np.random.default_rng(0)
        source = random_elements(rng, self.source)
        texts: list[str] = []
        for width in (WIDTH, 0):
            emitted = self.emit(width, target)
            out = np.zeros((self.rows, self.columns), self.source.dtype)
            emitted.run(np.ascontiguousarray(source.transpose(self.source.minor_to_major[::-1])), out)
            np.testing.assert_array_equal(out.view(np.uint8), self.expected(source).view(np.uint8))
            texts.append(emitted.text)
        return texts[0]

    def expected(self, source: Array) -> Array:
        out = np.zeros((self.rows, self.columns), self.source.dtype)
        for i, j in np.ndindex(self.rows, self.columns):
            if all(low <= value(e, i, j) <= high for e, low, high in self.guard):
                out[i, j] = source[tuple(value(e, i, j) for e in self.index.split(","))]
        return out


def value(text: str, i: int, j: int) -> int:
    return int(eval(text.replace("floordiv", "//").replace("mod", "%"), {"d0": i, "d1": j}))


def random_elements(rng: np.random.Generator, shape: Shape) -> Array:
    if shape.element_type.is_complex:
        parts = rng.standard_normal((2, *shape.dimensions))
        return (parts[0] + 1j * parts[1]).astype(shape.dtype)
    if shape.dtype == np.bool_:
        return rng.integers(0, 2, shape.dimensions).astype(np.bool_)
    return rng.integers(-60, 60, shape.dimensions).astype(shape.dtype)


ACCESSES = {
    "vector load": r"= load <8 x ",
    "part load": r"= load <[24] x ",
    "scalar load": r"= load (float|i\d+|double)",
    "masked load": r"masked\.load",
    "gather": r"masked\.gather",
    "shuffle": r"shufflevector(?!.*zeroinitializer)",
    "vector store": r"store <8 x ",
    "scalar store": r"store (float|i\d+|double) ",
    "masked store": r"masked\.store",
    "scatter": r"masked\.scatter",
}


def instructions(text: str) -> set[str]:
    """The kinds of memory access in a text, without its declarations."""
    body = re.sub(r"(?m)^declare.*$", "", text)
    return {kind for kind, pattern in ACCESSES.items() if re.search(pattern, body)}


@pytest.mark.parametrize(
    ("index", "source", "expected"),
    [
        ("d0,d1", "f32[3,16]", {"vector load"}),
        ("d0,d1+2", "f32[3,30]", {"vector load"}),
        ("d1,d0", "f32[16,3]{0,1}", {"vector load"}),
        ("d0,3", "f32[3,4]", {"scalar load"}),
        ("d0,d1 floordiv 8", "f32[3,3]", {"scalar load"}),
        ("d0,15-d1", "f32[3,16]", {"vector load", "shuffle"}),
        ("d0,d1*2", "f32[3,31]", {"vector load", "shuffle"}),
        ("d0,d1 floordiv 2", "f32[3,8]", {"part load", "shuffle"}),
        ("d0,d1 mod 4", "f32[3,4]", {"part load", "shuffle"}),
        ("d0,d1 mod 2", "f32[3,2]", {"part load", "shuffle"}),
        ("d0,d1 floordiv 3", "f32[3,6]", {"gather"}),
        ("d0,d1*5", "f32[3,76]", {"gather"}),
        ("d1,d0", "f32[16,3]", {"shuffle"}),  # of what lies between
        ("d1,d0", "f32[16,5]", {"gather"}),
    ],
)
def test_strides_choose_the_load(index: str, source: str, expected: set[str]) -> None:
    assert instructions(Copy(index, parse_shape(source), columns=16).check()) == expected | {"vector store"}


@pytest.mark.parametrize("first", [1, 2, 4, 7])
def test_runs_of_any_length_are_loaded_at_a_time(first: int) -> None:
    """Lanes lie in two places, which are far from each other; the first or the second may have one of them."""
    copy = Copy(f"(d1+{7 - first}) floordiv 7,(d1+{7 - first}) mod 7", parse_shape("f32[3,100]"), columns=8)
    assert instructions(copy.check()) <= {"vector load", "part load", "scalar load", "shuffle", "vector store"}


def test_tails_are_masked() -> None:
    """What a mask makes safe is masked; of a window, only what lies between the elements wanted is read. Stores are of
    parts of vectors, if elements are large enough."""
    tail = {"vector load", "masked load", "vector store"}
    assert instructions(Copy("d0,d1", parse_shape("f32[3,20]")).check()) == tail | {"shuffle"}
    assert instructions(Copy("d0,d1", parse_shape("s16[3,40]")).check()) == tail | {"masked store"}
    window = {"vector load", "part load", "shuffle", "vector store"}
    assert instructions(Copy("d0,19-d1", parse_shape("f32[3,20]")).check()) == window


KINDS = ["f32", "f64", "bf16", "f16", "s8", "u16", "s64", "pred", "c64", "c128", "f8e5m2", "s32"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "index", ["d0,d1", "d0,19-d1", "d1,d0", "d0,d1 floordiv 2", "2-d0,7", "d0 + d1 floordiv 4,d1 mod 4"]
)
def test_every_storage_type(kind: str, index: str) -> None:
    """Bits arrive as they are: small floats, bytes for pred, pairs for complex."""
    Copy(index, parse_shape(f"{kind}[20,20]")).check()


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 16, 23])
@pytest.mark.parametrize("index", ["d0,d1", "d0,22-d1", "d0,d1 floordiv 2", "d1,d0"])
def test_tails(columns: int, index: str) -> None:
    Copy(index, parse_shape("f32[23,23]"), columns=columns).check()


@pytest.mark.parametrize("level", available_levels())
@pytest.mark.parametrize("index", ["d0,d1", "d0,19-d1", "d1,d0", "d0,d1 floordiv 2"])
def test_other_vector_units(level: str, index: str) -> None:
    Copy(index, parse_shape("f32[20,20]")).check(target=Target.for_features(level))


GUARDS = [
    (("d1", 3, 11),),
    (("d1", 0, 4),),
    (("d1", 15, 30),),
    (("d0", 1, 1),),
    (("d0 * 20 + d1", 10, 45),),
    (("d0", 0, 1), ("d1", 5, 9)),
    (("d1 mod 2", 0, 0),),
    (("d1 - d0 * 7", 0, 6),),
    (("d1 floordiv 8", 1, 1),),
]


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("index", ["d0,d1", "d1,d0", "d0,19-d1", "d0,5"])
def test_guards(guard: tuple[tuple[str, int, int], ...], index: str) -> None:
    Copy(index, parse_shape("f32[20,20]"), guard=guard).check()


@pytest.mark.parametrize("kind", ["c64", "bf16", "pred"])
@pytest.mark.parametrize("guard", GUARDS[4:6])
def test_guards_of_other_types(kind: str, guard: tuple[tuple[str, int, int], ...]) -> None:
    Copy("d0,d1", parse_shape(f"{kind}[20,20]"), guard=guard).check()


def test_guarded_elements_are_not_read() -> None:
    """The array ends where the guard does: a vector load there must be masked, a scalar one must be elsewhere."""
    text = Copy("d0,d1-4", parse_shape("f32[3,8]"), guard=(("d1", 4, 11),)).check()
    assert "masked load" in instructions(text) and "vector load" not in instructions(text)
    Copy("d0-1,d1", parse_shape("f32[1,20]"), guard=(("d0", 1, 1),)).check()


@pytest.mark.parametrize(("width", "branches"), [(16, True), (32, False)])
def test_many_lanes_are_gathered_without_a_branch_for_each(width: int, branches: bool) -> None:
    """Of types that no instruction gathers: those that are not wanted read element 0."""
    copy = Copy("d1-3,d0", parse_shape("s16[64,11]"), columns=64, guard=(("d0 + d1", 5, 40),))
    emitted = copy.emit(width)
    source, out = random_elements(np.random.default_rng(0), copy.source), np.zeros((3, 64), np.int16)
    emitted.run(source, out)
    np.testing.assert_array_equal(out, copy.expected(source))
    masks = re.findall(r"call <\d+ x i16> @llvm\.masked\.gather.*<\d+ x i1> (\S+)", emitted.text)
    assert masks and all((mask != "splat") is branches for mask in masks)


def test_conditions_that_always_or_never_hold() -> None:
    """What the bounds decide costs nothing."""

    def guard_of(expression: str, low: int, high: int) -> Guard | None:
        found: list[Guard | None] = []

        def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
            i = nest.new_variable(10)

            def body(_: Sequence[Value]) -> Sequence[Value]:
                found.append(restrict(nest, EVERYWHERE, [(parse_affine_expr(expression), Interval(low, high))]))
                return ()

            nest.scalar_loop(i, body)

        emit_nest(0, emit)
        return found[0]

    assert guard_of("d0", 0, 9) is EVERYWHERE
    assert guard_of("d0 * 2 + 1", 0, 30) is EVERYWHERE
    assert guard_of("d0", 10, 20) is None
    assert guard_of("d0 - 5", 5, 9) is None
    partial = guard_of("d0", 3, 5)
    assert partial is not None and partial.scalar is not None and partial.lanes is None and partial.depth == 1


def test_loads_are_hoisted_and_shared() -> None:
    """A load that does not depend on the inner loop is in front of it; equal loads are one."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        memory = MemoryAccess(nest)
        x = Buffer(parse_shape("f32[9]"), pointers[0])
        out = Buffer(parse_shape("f32[9,40]"), pointers[1])
        i, j = nest.new_variable(9), nest.new_variable(40)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            first, second = (memory.load(x, (dim(i),)) for _ in range(2))
            assert first is second
            memory.store(out, (dim(i), dim(j)), first)
            return ()

        nest.loop(i, lambda _: nest.loop(j, body, step=8, vector_width=8, name="inner"), name="outer")

    emitted = emit_nest(2, emit, TARGET)
    assert emitted.text.count("= load") == 1 and "= load float" in emitted.block("outer.loop")
    assert "splat" not in emitted.block("entry")
    x, out = np.arange(9, dtype=np.float32), np.zeros((9, 40), np.float32)
    emitted.run(x, out)
    np.testing.assert_array_equal(out, np.repeat(x[:, None], 40, 1))


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(2,4)}", "{0,1:T(8)}", "{1,0:T(8,4)(2,1)}"])
def test_physical_offset(layout: str) -> None:
    """Offsets follow layouts, tiles included: all elements have one of their own."""
    tiled = parse_shape(f"f32[6,10]{layout}")

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        i, j = nest.new_variable(6), nest.new_variable(10)
        offset = physical_offset(nest.table, tiled, (dim(i), dim(j)))
        seen = {int(eval_affine(offset, i0, j0)) for i0, j0 in np.ndindex(6, 10)}
        assert len(seen) == 60 and min(seen) == 0

    emit_nest(0, emit)


def eval_affine(expression: AffineExpr, i: int, j: int) -> int:
    return value(str(expression), i, j)


@pytest.mark.parametrize("kind", ["f32", "bf16", "c64", "s8"])
@pytest.mark.parametrize("place", ["d1,d0", "d0,19-d1", "d0,d1 * 2"])
def test_stores_of_other_strides_scatter(kind: str, place: str) -> None:
    source = parse_shape(f"{kind}[3,20]")
    result = parse_shape(f"{kind}[20,40]")

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        memory = MemoryAccess(nest)
        i, j = nest.new_variable(3), nest.new_variable(20)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            loaded = memory.load(Buffer(source, pointers[0]), (dim(i), dim(j)))
            memory.store(Buffer(result, pointers[1]), [parse_affine_expr(e) for e in place.split(",")], loaded)
            return ()

        nest.scalar_loop(i, lambda _: nest.vector_loop(j, WIDTH, body))

    emitted = emit_nest(2, emit, TARGET)
    assert "scatter" in instructions(emitted.text)
    x, out = random_elements(np.random.default_rng(0), source), np.zeros((20, 40), source.dtype)
    expected = out.copy()
    for i, j in np.ndindex(3, 20):
        expected[tuple(value(e, i, j) for e in place.split(","))] = x[i, j]
    emitted.run(x, out)
    np.testing.assert_array_equal(out.view(np.uint8), expected.view(np.uint8))
