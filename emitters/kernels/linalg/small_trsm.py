"""Triangular solves with small real matrices, in line: BLAS takes many times as long to look at its arguments.

As many right sides as some vectors have lanes are solved at once, in a tile whose rows are the unknowns:
x[j] = (b[j] - sum over k of t[j, k] x[k]) / t[j, j], where k runs over what is solved already, a few j at a time.
BLAS's own threads, which wait for each other in loops, would also stand in the way of those that share out a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64, LLVMType, vector
from xjit.llvm.values import Value, const_int

MAX_SIZE = 512
"""Rows of the largest matrix that is small: above, blocks of multiplications pay."""
MAX_VECTORS = 2
"""Of right sides that are solved at once, a power of two."""
ROWS = 4
"""Unknowns that are solved at once: with `MAX_VECTORS`, so many sums do not wait for each other, and fill registers."""
TILE_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class SmallTrsm:
    """BLAS's trsm: op(A) X = B, or X op(A) = B unless `left`, for m x n elements of B; matrices are column-major."""

    left: bool
    lower: bool
    transposed: bool
    unit_diagonal: bool
    m: int
    n: int

    @property
    def size(self) -> int:
        """Rows and columns of A."""
        return self.m if self.left else self.n

    @property
    def ascends(self) -> bool:
        """Whether the first unknown is solved first."""
        return (self.lower != self.transposed) == self.left

    @property
    def strides(self) -> tuple[int, int]:
        """How far apart the coefficients of neighbouring unknowns j, and of neighbouring k, are."""
        return (1, self.size) if self.left != self.transposed else (self.size, 1)


def emit_small_trsm(builder: StructuredBuilder, solve: SmallTrsm, kind: LLVMType, a: Value, b: Value) -> None:
    """Emits the solution in the place of `b`; `kind` is the type of the elements, f32 or f64."""
    sides = solve.n if solve.left else solve.m
    width = _lanes(builder.target.vector_width(kind), solve.size * kind.bits // 8, sides)
    tile = builder.alloca(vector(kind, width), solve.size, align=64, name="unknowns")
    steps = (1, solve.m) if solve.left else (solve.m, 1)  # between unknowns, between right sides
    with builder.loop(builder.i64(0), builder.i64(sides), width, "sides") as first:
        count = builder.min(builder.i64(width), builder.sub(builder.i64(sides), first))
        here = builder.gep(kind, b, builder.mul(first, builder.i64(steps[1])))

        def copy(*, back: bool) -> None:
            with (
                builder.loop(builder.i64(0), count, name="side") as side,
                builder.loop(builder.i64(0), builder.i64(solve.size), name="unknown") as unknown,
            ):
                offset = builder.add(_times(builder, unknown, steps[0]), _times(builder, side, steps[1]))
                far = builder.gep(kind, here, offset)
                near = builder.gep(kind, tile, builder.add(_times(builder, unknown, width), side))
                source, target = (near, far) if back else (far, near)
                builder.store(builder.load(kind, source, kind.bits // 8), target, kind.bits // 8)

        copy(back=False)
        _solve_tile(builder, solve, vector(kind, width), a, tile)
        copy(back=True)


def _lanes(width: int, column_bytes: int, sides: int) -> int:
    """Right sides of a tile: a power of two of vectors of `width`, that are there and fit the first-level cache."""
    vectors = MAX_VECTORS
    while vectors > 1 and (vectors * width * column_bytes > TILE_BYTES or (vectors // 2) * width >= sides):
        vectors //= 2
    return width * vectors


def _solve_tile(builder: StructuredBuilder, solve: SmallTrsm, lanes: LLVMType, a: Value, tile: Value) -> None:
    """Solves `ROWS` unknowns at a time: what is solved already is loaded once for all of them."""
    last = solve.size - 1
    whole = solve.size // ROWS

    def unknowns(first: Value, count: int) -> list[Value]:
        steps = [builder.add(first, builder.i64(r)) for r in range(count)]
        return steps if solve.ascends else [builder.sub(builder.i64(last), step) for step in steps]

    if whole:
        with builder.loop(builder.i64(0), builder.i64(whole * ROWS), ROWS, name="step") as step:
            _solve_rows(builder, solve, lanes, a, tile, unknowns(step, ROWS))
    if solve.size % ROWS:
        _solve_rows(builder, solve, lanes, a, tile, unknowns(builder.i64(whole * ROWS), solve.size % ROWS))


def _solve_rows(
    builder: StructuredBuilder, solve: SmallTrsm, lanes: LLVMType, a: Value, tile: Value, rows: Sequence[Value]
) -> None:
    """Solves unknowns that follow each other; all those before them, in the order of solution, lie in the tile."""
    kind, align = lanes.elem, lanes.elem.bits // 8
    next_j, next_k = solve.strides

    def coefficient(j: Value, k: Value) -> Value:
        offset = builder.add(_times(builder, j, next_j), _times(builder, k, next_k))
        return builder.splat(builder.load(kind, builder.gep(kind, a, offset), align), lanes.width)

    places = [builder.gep(lanes, tile, j) for j in rows]
    begin, end = builder.i64(0), rows[0]
    if not solve.ascends:
        begin, end = builder.add(rows[0], builder.i64(1)), builder.i64(solve.size)
    given = [builder.load(lanes, place, align) for place in places]
    with builder.loop_with(begin, end, given, 1, "k") as (k, carried, following):
        known = builder.fneg(builder.load(lanes, builder.gep(lanes, tile, k), align))
        following += [builder.multiply_add(known, coefficient(j, k), rest) for j, rest in zip(rows, carried)]
    rests: list[Value] = list(carried)
    for r, (j, place) in enumerate(zip(rows, places)):
        value = rests[r] if solve.unit_diagonal else builder.fdiv(rests[r], coefficient(j, j))
        builder.store(value, place, align)
        known = builder.fneg(value)
        for later in range(r + 1, len(rows)):
            rests[later] = builder.multiply_add(known, coefficient(rows[later], j), rests[later])


def _times(builder: StructuredBuilder, index: Value, factor: int) -> Value:
    return builder.mul(index, const_int(I64, factor))
