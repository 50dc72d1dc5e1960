"""Transforms of lengths with a large prime factor: a convolution with a chirp, done with a power of two.

Sources: Bluestein 1970; Van Loan, "Computational Frameworks for the FFT" (1992), chapter 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.kernels.fft.butterflies import Pair, multiply
from xjit.emitters.kernels.fft.stockham import Stockham
from xjit.emitters.kernels.fft.tables import emit_root_table
from xjit.emitters.kernels.fft.transform import TransformMaker, load_pair, split_complex, spread, store_pair
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_float, const_int


class Bluestein(TransformMaker):
    """X[k] = c[k] (a * conj(c))[k] with a = x c and the chirp c[k] = exp(-pi i k^2 / n), as a cyclic convolution."""

    def __init__(self, context: KernelContext, length: int, kind: PrimitiveType) -> None:
        super().__init__(context, length, kind)
        self.padded = 1 << (2 * length - 2).bit_length()
        self.inner = Stockham(context, self.padded, kind, 1, in_place=True).build()

    def _sizes(self) -> list[int]:
        n, m = self.length, self.padded
        return [n, n, m, m, m, m]

    def work_bytes(self) -> int:
        return sum(self.array_bytes(s) for s in self._sizes()) + self.inner.work_bytes

    def _arrays(self, nest: LoopNest, work: Value) -> tuple[list[tuple[Buffer, Buffer]], Value]:
        """(chirp, filter, buffer) and the work memory of the inner transform."""
        *arrays, inner = self.pieces(nest.builder, work, [*self._sizes(), 0])
        sizes = (self.length, self.padded, self.padded)
        pairs = [split_complex(self.kind, s, arrays[2 * i : 2 * i + 2]) for i, s in enumerate(sizes)]
        return pairs, inner

    def emit_prepare(self, nest: LoopNest) -> None:
        """The chirp, and the transform of its conjugate, periodic and scaled for the inverse transform."""
        n, m = self.length, self.padded
        (chirp, response, _), inner = self._arrays(nest, nest.function.args[0])
        self.inner.emit_prepare(nest.builder, inner)
        memory = MemoryAccess(nest)
        builder = StructuredBuilder(nest.builder.block)

        def square(k: Value) -> Value:
            return builder.urem(builder.mul(k, k), const_int(I64, 2 * n))

        emit_root_table(builder, 2 * n, n, square, self.kind, [b.pointer for b in chirp])
        nest.builder.position_at_end(builder.block)
        self._clear(nest, memory, response, 0)
        for turned in (False, True):
            position = nest.new_variable(n - 1 if turned else n, 1 if turned else 0)

            def copy(_: Sequence[Value], position: int = position, turned: bool = turned) -> Sequence[Value]:
                re, im = load_pair(nest, memory, chirp, (dim(position),))
                place = constant(m) - dim(position) if turned else dim(position)
                scale = spread(nest, const_float(self.register, 1.0 / m))
                value = nest.builder.fmul(re, scale), nest.builder.fmul(nest.builder.fneg(im), scale)
                store_pair(memory, response, (place,), value)
                return ()

            nest.vector_loop(position, self.width, copy)
        nest.builder.call(self.inner.apply, [response[0].pointer, response[1].pointer, inner])

    def _clear(self, nest: LoopNest, memory: MemoryAccess, array: Sequence[Buffer], begin: int) -> None:
        """Fills a padded array with zeros from `begin` on."""
        position = nest.new_variable(self.padded - begin, begin)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            zero = spread(nest, const_float(self.register, 0.0))
            store_pair(memory, array, (dim(position),), (zero, zero))
            return ()

        nest.vector_loop(position, self.width, body)

    def emit_apply(self, nest: LoopNest) -> None:
        n, m = self.length, self.padded
        re, im, work = nest.function.args
        (chirp, response, buffer), inner = self._arrays(nest, work)
        x = split_complex(self.kind, n, (re, im))
        memory = MemoryAccess(nest)

        def load(array: Sequence[Buffer], i: AffineExpr) -> Pair:
            return load_pair(nest, memory, array, (i,))

        def product(a: Sequence[Buffer], b: Sequence[Buffer], i: AffineExpr) -> Pair:
            return multiply(nest.builder, load(a, i), load(b, i))

        self.vector_loop(nest, n, lambda i: store_pair(memory, buffer, (i,), product(x, chirp, i)))
        self._clear(nest, memory, buffer, n)
        pointers = [b.pointer for b in buffer]
        nest.builder.call(self.inner.apply, [*pointers, inner])
        self.vector_loop(nest, m, lambda i: store_pair(memory, buffer, (i,), product(buffer, response, i)))
        nest.builder.call(self.inner.apply, [pointers[1], pointers[0], inner])  # the inverse: parts exchanged
        self.vector_loop(nest, n, lambda i: store_pair(memory, x, (i,), product(buffer, chirp, i)))
