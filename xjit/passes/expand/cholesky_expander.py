"""cholesky by blocks of columns: the block on the diagonal in a loop, those below by a triangular solve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import CholeskyAttributes, TriangularSolveAttributes
from xjit.passes.expand import matrices as mat
from xjit.passes.expand.call_expander import CallExpander
from xjit.passes.expand.writing import Writer, counted_loop


@dataclass
class CholeskyExpander(CallExpander):
    """Every block of columns is that of `a` less the products of the factor's columns before it (left-looking).

    The result's other triangle is zero. A matrix that is not positive definite gives NaN everywhere, and leaves
    the others of its batch alone. The triangular solves are left to their own expander. With `one_block`, matrices for
    which GPUs have a kernel are left, and blocks are as large as such.
    """

    block_size: int = mat.BLOCK_SIZE
    one_block: bool = False
    name = "cholesky-expander"
    opcodes = frozenset({"cholesky"})

    def __post_init__(self) -> None:
        """InvalidArgument for a block without columns."""
        mat.check_block_size(self.name, self.block_size)

    def applies(self, instruction: HloInstruction) -> bool:
        """Whether the matrices are too large to be left."""
        rows = instruction.shape.dimensions[-1]
        return not (self.one_block and 0 < rows <= mat.one_block_rows(instruction.shape.element_type))

    def write(
        self, instruction: HloInstruction, writer: Writer, parameters: Sequence[HloInstruction]
    ) -> HloInstruction:
        """Writes the factor."""
        (a,) = parameters
        if not a.shape.num_elements:
            return a
        kind, lower = a.shape.element_type, instruction.attributes_as(CholeskyAttributes).lower
        a = writer.convert(a, mat.working_type(kind))
        if not lower:
            a = mat.swapped(writer, a, conjugate=True)
        factor = _nan_where_failed(writer, self._factor(writer, a))
        if not lower:
            factor = mat.swapped(writer, factor, conjugate=True)
        return writer.convert(factor, kind)

    def _factor(self, writer: Writer, a: HloInstruction) -> HloInstruction:
        """Returns the lower factor, with NaN on the diagonal where a pivot was not positive."""
        n, last = a.shape.dimensions[-1], a.shape.rank - 1
        columns: list[HloInstruction] = []
        size = mat.one_block_rows(a.shape.element_type) if self.one_block else self.block_size
        for start in range(0, n, size):
            end = min(start + size, n)
            panel = mat.part(writer, a, (start, n), (start, end))
            if columns:
                left = mat.part(writer, writer.concatenate(columns, last), (start, n), (0, start))
                top = mat.conjugated(writer, mat.part(writer, left, (0, end - start), (0, start)))
                panel = writer.make("subtract", panel, mat.product(writer, left, top, transpose_b=True))
            block = mat.part(writer, panel, (0, end - start), (0, end - start))
            if self.one_block:
                block = writer.make("cholesky", block, attributes=CholeskyAttributes(lower=True))
            else:
                block = _unblocked(writer, block)
            parts = [block]
            if end < n:
                below = mat.part(writer, panel, (end - start, n - start), (0, end - start))
                solve = TriangularSolveAttributes(False, True, False, "ADJOINT")
                parts.append(writer.make("triangular-solve", block, below, attributes=solve))
            columns.append(mat.padded(writer, writer.concatenate(parts, last - 1), (start, 0), (0, 0)))
        return writer.concatenate(columns, last)


def _unblocked(writer: Writer, a: HloInstruction) -> HloInstruction:
    """Returns the factor of small matrices, column by column; reads only the lower triangle."""
    rank, n = a.shape.rank, a.shape.dimensions[-1]
    *batch, _, _ = a.shape.dimensions
    kind = a.shape.element_type

    def step(body: Writer, j: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        a, factor = state
        row = body.dynamic_slice(factor, mat.starts(body, rank, j), [*batch, 1, n])
        column = body.dynamic_slice(a, mat.starts(body, rank, column=j), [*batch, n, 1])
        known = mat.product(body, factor, mat.conjugated(body, row), transpose_b=True)
        column = body.make("subtract", column, known)
        pivot = body.dynamic_slice(column, mat.starts(body, rank, j), [*batch, 1, 1])
        if kind.is_complex:
            pivot = body.make("real", pivot)
        positive = body.compare("GT", pivot, body.like(pivot, 0))
        root = body.make("select", positive, body.make("sqrt", pivot), body.like(pivot, math.nan))
        if kind.is_complex:
            root = body.make("complex", root, body.like(root, 0))
        roots = mat.repeated(body, root, column)
        place = body.iota(PrimitiveType.S32, [*batch, n, 1], rank - 2)
        here = body.broadcast(j, [*batch, n, 1])
        scaled = body.make("divide", column, roots)
        below = body.make("select", body.compare("GT", place, here), scaled, body.like(column, 0))
        result = body.make("select", body.compare("EQ", place, here), roots, below)
        return [a, body.make("dynamic-update-slice", factor, result, *mat.starts(body, rank, column=j))]

    loop = counted_loop(writer, "cholesky", n, [a, mat.zeros(writer, kind, a.shape.dimensions)], step)
    return writer.element(loop, 2)


def _nan_where_failed(writer: Writer, factor: HloInstruction) -> HloInstruction:
    """Returns NaN for matrices with a NaN on the diagonal: nothing else there is negative, so their sum tells."""
    rank = factor.shape.rank
    on_diagonal = mat.diagonal(writer, factor)
    if factor.shape.element_type.is_complex:
        on_diagonal = writer.make("real", on_diagonal)
    traces = mat.total(writer, on_diagonal, (rank - 2, rank - 1))
    failed = writer.compare("NE", traces, traces)
    mask = writer.broadcast(failed, factor.shape.dimensions, range(rank - 2))
    return writer.make("select", mask, writer.like(factor, math.nan), factor)
