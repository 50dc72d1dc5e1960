"""Batches of matrices in expansions: products, parts and transposes. The two minor dimensions are a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import DotAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops import build
from xjit.passes.expand.writing import Writer

BLOCK_SIZE = 128
"""Rows of the blocks into which factorizations and solutions are divided."""

_ONE_BLOCK_ROWS = {4: 96, 8: 64, 16: 40}


def one_block_rows(kind: PrimitiveType) -> int:
    """Returns the rows of a matrix that, with some columns of another, fits in the shared memory of a GPU's block."""
    return _ONE_BLOCK_ROWS[working_type(kind).byte_width]


def check_block_size(pass_name: str, block_size: int) -> None:
    """Raises InvalidArgument for blocks without rows."""
    if block_size < 1:
        raise InvalidArgument(f"block_size of {pass_name} is at least 1, found {block_size}")


def swapped(writer: Writer, a: HloInstruction, conjugate: bool = False) -> HloInstruction:
    """Returns the transposes of the matrices, or their conjugate transposes."""
    rank = a.shape.rank
    a = writer.transpose(a, [*range(rank - 2), rank - 1, rank - 2])
    return conjugated(writer, a) if conjugate else a


def conjugated(writer: Writer, a: HloInstruction) -> HloInstruction:
    """Returns the conjugate; real numbers are their own."""
    if not a.shape.element_type.is_complex:
        return a
    return writer.make("complex", writer.make("real", a), writer.make("negate", writer.make("imag", a)))


def product(writer: Writer, a: HloInstruction, b: HloInstruction, transpose_b: bool = False) -> HloInstruction:
    """Returns a b, or a bᵀ, of every two matrices, in the highest precision."""
    rank = a.shape.rank
    batch, inner = tuple(range(rank - 2)), rank - 1 if transpose_b else rank - 2
    precise = DotAttributes(batch, (rank - 1,), batch, (inner,), ("highest", "highest"))
    return writer.make("dot", a, b, attributes=precise)


def part(writer: Writer, a: HloInstruction, rows: tuple[int, int], columns: tuple[int, int]) -> HloInstruction:
    """Returns some rows and columns, from the first to in front of the second number."""
    batch, whole = a.shape.dimensions[:-2], a.shape.dimensions[-2:]
    if (rows, columns) == ((0, whole[0]), (0, whole[1])):
        return a
    return writer.slice(a, [*(0 for _ in batch), rows[0], columns[0]], [*batch, rows[1], columns[1]])


def padded(writer: Writer, a: HloInstruction, rows: tuple[int, int], columns: tuple[int, int]) -> HloInstruction:
    """Returns the matrices with rows and columns of zeros in front and behind."""
    if rows == columns == (0, 0):
        return a
    zero = writer.constant(0, a.shape.element_type)
    padding = [(0, 0, 0)] * (a.shape.rank - 2) + [(*rows, 0), (*columns, 0)]
    return writer.add(build.pad(a, zero, padding))


def places(writer: Writer, dimensions: Sequence[int]) -> tuple[HloInstruction, HloInstruction]:
    """Returns the row and the column of every element."""
    rank = len(dimensions)
    return writer.iota(PrimitiveType.S32, dimensions, rank - 2), writer.iota(PrimitiveType.S32, dimensions, rank - 1)


def starts(
    writer: Writer, rank: int, row: HloInstruction | None = None, column: HloInstruction | None = None
) -> list[HloInstruction]:
    """Returns where the part at a row and a column begins, one scalar s32 per dimension; what is not given is 0."""
    zero = writer.constant(0, PrimitiveType.S32)
    return [*(zero for _ in range(rank - 2)), row or zero, column or zero]


def diagonal(writer: Writer, a: HloInstruction) -> HloInstruction:
    """Returns the diagonals as columns: [.., n, n] becomes [.., n, 1]."""
    rows, columns = places(writer, a.shape.dimensions)
    rank = a.shape.rank
    alone = writer.make("select", writer.compare("EQ", rows, columns), a, writer.like(a, 0))
    return writer.reshape(total(writer, alone, (rank - 1,)), [*a.shape.dimensions[:-1], 1])


def total(writer: Writer, a: HloInstruction, dimensions: tuple[int, ...]) -> HloInstruction:
    """Returns the sum over some dimensions."""
    kind = a.shape.element_type
    reducer = writer.into.embed(build.make_binary_computation("add", kind))
    return writer.add(build.make_reduce(a, writer.constant(0, kind), dimensions, reducer))


def repeated(writer: Writer, a: HloInstruction, like: HloInstruction) -> HloInstruction:
    """Returns columns [.., n, 1] or rows [.., 1, n] repeated to the dimensions of another array."""
    kept = [d for d in range(a.shape.rank) if a.shape.dimensions[d] == like.shape.dimensions[d]]
    narrow = writer.reshape(a, [a.shape.dimensions[d] for d in kept])
    return writer.broadcast(narrow, like.shape.dimensions, kept)


def working_type(kind: PrimitiveType) -> PrimitiveType:
    """Returns the type in which elements of a type are computed: f32 for those below."""
    return PrimitiveType.F32 if kind.is_float and kind.bit_width < 32 else kind


def zeros(writer: Writer, kind: PrimitiveType, dimensions: Sequence[int]) -> HloInstruction:
    """Returns an array of zeros."""
    return writer.full(Shape.array(kind, tuple(dimensions)), 0)
