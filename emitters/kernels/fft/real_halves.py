"""Real transforms of an even length n as complex ones of half the length: neighbours are one complex number.

With z[j] = x[2j] + i x[2j + 1], Z its transform of length m = n / 2 and w = exp(-2 pi i / n), the spectrum of x is
X[k] = E[k] + w^k O[k], where E[k] = (Z[k] + conj Z[m - k]) / 2 and O[k] = (Z[k] - conj Z[m - k]) / 2i are those of its
even and its odd numbers; inverse transforms take that back. X[0] and X[m] are real. Source: Press et al., "Numerical
Recipes" (1992), section 12.3. Here are the loops of short rows, and those of rows side by side (`row_groups`); those of
long ones are libraries (`half_joins`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import Pair, join_halves, split_halves
from xjit.emitters.kernels.fft.tables import emit_roots_in_order, roots_of_unity
from xjit.emitters.kernels.fft.transform import load_pair, spread, store_pair
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.values import Value, const_float

MAX_CONSTANT_TABLE = 2048
COMPLEX = {kind.component: kind for kind in (PrimitiveType.C64, PrimitiveType.C128)}

Index = tuple[AffineExpr, ...]
Store = Callable[[Index, Pair], None]
"""Emits the store of an element of a spectrum: (k,), or (k, column)."""


def pairs_of(real: Buffer) -> Buffer | None:
    """Returns the same memory as complex numbers, each two neighbours of a row; None if rows have none."""
    shape = real.shape
    *others, n = shape.dimensions
    tiled = shape.layout is not None and shape.layout.tile_dimensions
    if n % 2 or n < 4 or tiled or shape.minor_to_major[0] != len(others):
        return None
    pairs = Shape.array(COMPLEX[shape.element_type], (*others, n // 2), shape.minor_to_major)
    return Buffer(pairs, real.pointer)


class RealHalves:
    """Emits what lies between the spectrum of n real numbers and that of n / 2 complex ones, in scratch memory.

    With `columns` arrays are [k, columns], and vectors lie along these.
    """

    def __init__(self, nest: LoopNest, memory: MemoryAccess, n: int, kind: PrimitiveType, columns: int = 0) -> None:
        self.nest, self.memory = nest, memory
        self.n, self.m, self.kind, self.columns = n, n // 2, kind, columns
        self.width = nest.target.vector_width(register_type(kind))
        self._roots: Sequence[Buffer] = ()

    @property
    def table_bytes(self) -> Sequence[int]:
        """Of scratch memory that tables need: of real and of imaginary parts."""
        size = self.m * self.kind.byte_width if self.m > MAX_CONSTANT_TABLE else 0
        return size, size

    def prepare(self, scratch: Sequence[Value]) -> None:
        """Makes the table of w^k: constants, or code that fills `scratch`."""
        if self.m > MAX_CONSTANT_TABLE:
            emit_roots_in_order(self.nest.builder, self.n, self.m, self.kind, scratch)
            pointers = list(scratch)
        else:
            roots, module = roots_of_unity(self.n, self.m), self.nest.builder.module
            parts = (part.astype(self.kind.dtype) for part in (roots.real, roots.imag))
            pointers = [module.add_constant_array(part, hint="half_roots") for part in parts]
        shape = Shape.array(self.kind, (self.m,))
        self._roots = [Buffer(shape, pointer) for pointer in pointers]

    @property
    def roots(self) -> Sequence[Value]:
        """Where w^k is, for k < m, once prepared: real and imaginary parts."""
        return [buffer.pointer for buffer in self._roots]

    def spectrum(self, halves: Sequence[Buffer], store: Store) -> None:
        """Stores X[k] for k <= m, of the transform Z of the pairs."""

        def edges(columns: Index) -> None:
            re, im = load_pair(self.nest, self.memory, halves, (constant(0), *columns))
            zero = spread(self.nest, const_float(register_type(self.kind), 0.0))
            store((constant(0), *columns), (self.nest.builder.fadd(re, im), zero))
            store((constant(self.m), *columns), (self.nest.builder.fsub(re, im), zero))

        def element(k: AffineExpr, columns: Index) -> None:
            store((k, *columns), join_halves(self.nest.builder, *self._operands(halves, k, columns)))

        self._edges(edges)
        self._inside(element)

    def join(self, spectrum: Sequence[Buffer], halves: Sequence[Buffer]) -> None:
        """Stores 2 Z[k] for k < m, of the spectrum X[k] for k <= m; the imaginary parts of its edges are not read."""

        def edges(columns: Index) -> None:
            first, last = (load_pair(self.nest, self.memory, spectrum, (constant(k), *columns))[0] for k in (0, self.m))
            ends = self.nest.builder.fadd(first, last), self.nest.builder.fsub(first, last)
            for buffer, part in zip(halves, ends, strict=True):
                self.memory.store(buffer, (constant(0), *columns), part)

        def element(k: AffineExpr, columns: Index) -> None:
            pair = split_halves(self.nest.builder, *self._operands(spectrum, k, columns))
            store_pair(self.memory, halves, (k, *columns), pair)

        self._edges(edges)
        self._inside(element)

    def _operands(self, values: Sequence[Buffer], k: AffineExpr, columns: Index) -> tuple[Pair, Pair, Pair]:
        """v[k], v[m - k], w^k."""
        places = (values, (k, *columns)), (values, (constant(self.m) - k, *columns)), (self._roots, (k,))
        here, there, root = (load_pair(self.nest, self.memory, buffers, place) for buffers, place in places)
        return here, there, root

    def _edges(self, edges: Callable[[Index], None]) -> None:
        """Calls `edges(columns)`: once, or in vectors."""
        if not self.columns:
            edges(())
            return
        column = self.nest.new_variable(self.columns)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            edges((dim(column),))
            return ()

        self.nest.vector_loop(column, self.width, body)

    def _inside(self, element: Callable[[AffineExpr, Index], None]) -> None:
        """Calls `element(k, columns)` for 0 < k < m, in vectors."""
        position = self.nest.new_variable(self.m - 1, 1)
        columns = [self.nest.new_variable(self.columns)] if self.columns else []

        def body(_: Sequence[Value]) -> Sequence[Value]:
            element(dim(position), tuple(map(dim, columns)))
            return ()

        self.nest.loops([position, *columns], body, vector_width=self.width)
