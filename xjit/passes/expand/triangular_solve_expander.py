"""triangular-solve by blocks: the blocks on the diagonal are inverted, all else are matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import TriangularSolveAttributes
from xjit.passes.expand import matrices as mat
from xjit.passes.expand.call_expander import CallExpander
from xjit.passes.expand.writing import Writer, counted_loop


@dataclass
class TriangularSolveExpander(CallExpander):
    """The system is brought to the form a x = b, with `a` or its transpose, and solved block row by block row.

    The other triangle is never read. A zero on the diagonal gives infinities and NaN. With `one_block`, triangles for
    which GPUs have a kernel are left, and blocks are as large as such, and not inverted.
    """

    block_size: int = mat.BLOCK_SIZE
    one_block: bool = False
    name = "triangular-solve-expander"
    opcodes = frozenset({"triangular-solve"})

    def __post_init__(self) -> None:
        """InvalidArgument for a block without rows."""
        mat.check_block_size(self.name, self.block_size)

    def applies(self, instruction: HloInstruction) -> bool:
        """Whether the triangle is too large to be left."""
        a = instruction.operand(0).shape
        return not (self.one_block and 1 < a.dimensions[-1] <= mat.one_block_rows(a.element_type))

    def write(
        self, instruction: HloInstruction, writer: Writer, parameters: Sequence[HloInstruction]
    ) -> HloInstruction:
        """Writes the solution."""
        options = instruction.attributes_as(TriangularSolveAttributes)
        a, b = parameters
        kind = b.shape.element_type
        if not b.shape.num_elements:
            return b
        a, b = (writer.convert(x, mat.working_type(kind)) for x in (a, b))
        transposed = options.transpose_a != "NO_TRANSPOSE"
        if options.transpose_a == "ADJOINT":
            a = mat.conjugated(writer, a)
        turned = transposed == options.left_side  # x a = b is aᵀ xᵀ = bᵀ
        if turned:
            a = mat.swapped(writer, a)
        if not options.left_side:
            b = mat.swapped(writer, b)
        x = self._solve(writer, a, b, options.lower != turned, options.unit_diagonal)
        return writer.convert(x if options.left_side else mat.swapped(writer, x), kind)

    def _solve(self, writer: Writer, a: HloInstruction, b: HloInstruction, lower: bool, unit: bool) -> HloInstruction:
        """Returns x with a x = b."""
        n, width = b.shape.dimensions[-2:]
        if n == 1:
            return b if unit else writer.make("divide", b, mat.repeated(writer, a, b))
        size = min(n, mat.one_block_rows(a.shape.element_type) if self.one_block else self.block_size)
        starts = list(range(0, n, size))
        inverses: HloInstruction | None = None
        if not self.one_block:
            a = _triangle(writer, a, lower, unit, -(-n // size) * size)
            inverses = _inverses(writer, _diagonal_blocks(writer, a, size), lower)
        solved: list[HloInstruction] = []
        for j in starts if lower else reversed(starts):
            end = min(j + size, n)
            rest = mat.part(writer, b, (j, end), (0, width))
            if solved:
                known = (0, j) if lower else (end, n)
                row, found = mat.part(writer, a, (j, end), known), writer.concatenate(solved, b.shape.rank - 2)
                rest = writer.make("subtract", rest, mat.product(writer, row, found))
            if inverses is None:
                block = mat.part(writer, a, (j, end), (j, end))
                options = TriangularSolveAttributes(True, lower, unit, "NO_TRANSPOSE")
                x = writer.make("triangular-solve", block, rest, attributes=options)
            else:
                inverse = mat.part(writer, _block(writer, inverses, j // size), (0, end - j), (0, end - j))
                x = mat.product(writer, inverse, rest)
            solved = [*solved, x] if lower else [x, *solved]
        return writer.concatenate(solved, b.shape.rank - 2)


def _triangle(writer: Writer, a: HloInstruction, lower: bool, unit: bool, size: int) -> HloInstruction:
    """Returns the triangle of `a`, zeros in the other, the unit matrix in what is missing to `size` rows."""
    n = a.shape.dimensions[-1]
    a = mat.padded(writer, a, (0, size - n), (0, size - n))
    rows, columns = mat.places(writer, a.shape.dimensions)
    inside = writer.compare("GE" if lower else "LE", rows, columns)
    a = writer.make("select", inside, a, writer.like(a, 0))
    if not unit and size == n:
        return a
    one = writer.compare("EQ", rows, columns)
    if not unit:
        one = writer.make("and", one, writer.compare("GE", rows, writer.like(rows, n)))
    return writer.make("select", one, writer.like(a, 1), a)


def _diagonal_blocks(writer: Writer, a: HloInstruction, size: int) -> HloInstruction:
    """Returns the blocks on the diagonal: [.., n, n] becomes [.., n / size, size, size]."""
    *batch, n, _ = a.shape.dimensions
    blocks = [mat.part(writer, a, (j, j + size), (j, j + size)) for j in range(0, n, size)]
    return writer.concatenate([writer.reshape(b, [*batch, 1, size, size]) for b in blocks], len(batch))


def _block(writer: Writer, blocks: HloInstruction, index: int) -> HloInstruction:
    *batch, count, n, m = blocks.shape.dimensions
    zeros = [0 for _ in batch]
    if count > 1:
        blocks = writer.slice(blocks, [*zeros, index, 0, 0], [*batch, index + 1, n, m])
    return writer.reshape(blocks, [*batch, n, m])


def _inverses(writer: Writer, a: HloInstruction, lower: bool) -> HloInstruction:
    """Returns the inverses of triangular matrices, row by row: (unit row - row of a · rows found) / pivot.

    The pivot stands not in the row: rows that are not found yet are zeros, and it may be infinite.
    """
    rank, (n, _) = a.shape.rank, a.shape.dimensions[-2:]
    rows, columns = mat.places(writer, a.shape.dimensions)
    off_diagonal = writer.make("select", writer.compare("EQ", rows, columns), writer.like(a, 0), a)
    single = [*a.shape.dimensions[:-2], 1, n]

    def step(body: Writer, counter: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        a, pivots, found = state
        i = counter if lower else body.make("subtract", body.constant(n - 1, PrimitiveType.S32), counter)
        start = mat.starts(body, rank, i)
        row = body.dynamic_slice(a, start, single)
        pivot = body.dynamic_slice(pivots, start, [*single[:-1], 1])
        column = body.iota(PrimitiveType.S32, single, rank - 1)
        here = body.compare("EQ", column, body.broadcast(i, single))
        unit = body.make("select", here, body.like(row, 1), body.like(row, 0))
        difference = body.make("subtract", unit, mat.product(body, row, found))
        result = body.make("divide", difference, mat.repeated(body, pivot, row))
        return [a, pivots, body.make("dynamic-update-slice", found, result, *start)]

    empty = mat.zeros(writer, a.shape.element_type, a.shape.dimensions)
    loop = counted_loop(writer, "invert", n, [off_diagonal, mat.diagonal(writer, a), empty], step)
    return writer.element(loop, 3)
