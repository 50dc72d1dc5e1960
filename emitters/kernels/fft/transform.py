"""Complex Fourier transforms of one length, as functions of the module.

Lengths whose prime factors are small are done by Stockham's algorithm (mixed radix, in order, no bit reversal): each
stage reads one pair of arrays and writes the other. Other lengths are a convolution with a chirp (Bluestein), done
with a power of two. Real and imaginary parts are separate arrays. Sources: Stockham 1966; Bluestein 1970; Van Loan,
"Computational Frameworks for the FFT" (1992), chapters 1 and 4.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.memory import EVERYWHERE, Buffer, MemoryAccess
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import Pair, butterfly, interleave, multiply
from xjit.emitters.kernels.fft.stages import WOVEN_RADICES, wide_stage, woven_stage
from xjit.emitters.kernels.fft.tables import emit_root_table, roots_of_unity
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.kernels.loops.hand_loops import here
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Function
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64, PTR, VOID
from xjit.llvm.values import Value, const_float, const_int

PRIMES = (2, 3, 5, 7, 11, 13)
MAX_CONSTANT_TABLE = 2048
ALIGNMENT = 64


def radices_of(n: int, eights_from: int | None = None) -> list[int] | None:
    """Returns the radices of the stages of a transform of length n, or None if a prime factor is too large.

    Eights are stages from a product `eights_from` of those before; there are none if that is None.
    """
    counts: dict[int, int] = {}
    for prime in PRIMES:
        while n % prime == 0 and n > 1:
            counts[prime] = counts.get(prime, 0) + 1
            n //= prime
    if n != 1:
        return None
    twos, stride, found = counts.pop(2, 0), 1, list[int]()
    while twos >= 2 and (eights_from is None or stride < eights_from or twos % 3):
        found.append(4)
        twos, stride = twos - 2, 4 * stride
    found += [8] * (twos // 3) + [2] * (twos % 3)
    return [*found, *(prime for prime, count in counts.items() for _ in range(count))]


def split_complex(kind: PrimitiveType, size: int, pointers: Sequence[Value]) -> tuple[Buffer, Buffer]:
    """Buffers of the real and the imaginary parts of an array."""
    shape = Shape.array(kind, (size,))
    return Buffer(shape, pointers[0]), Buffer(shape, pointers[1])


def spread(nest: LoopNest, value: Value) -> Value:
    """Returns the value in all lanes, if there are any."""
    width = nest.vector.width if nest.vector is not None else 0
    return nest.builder.splat(value, width) if width and not value.type.is_vector else value


def load_pair(nest: LoopNest, memory: MemoryAccess, buffers: Sequence[Buffer], index: Sequence[AffineExpr]) -> Pair:
    """Loads a complex element from memory that changes while the kernel runs; a vector if there are lanes."""
    offset = physical_offset(nest.table, buffers[0].shape, index)
    guard = EVERYWHERE if nest.uses_vector(offset) or nest.depth_of(offset) == nest.level.depth else here(nest)
    parts = [memory.load(b, index, guard) for b in buffers]
    real, imag = parts
    assert isinstance(real, Value) and isinstance(imag, Value)
    return spread(nest, real), spread(nest, imag)


def store_pair(memory: MemoryAccess, buffers: Sequence[Buffer], index: Sequence[AffineExpr], value: Pair) -> None:
    """Stores a complex element, or one per lane if the index differs between lanes."""
    nest = memory.nest
    varies = nest.uses_vector(physical_offset(nest.table, buffers[0].shape, index))
    for buffer, part in zip(buffers, value, strict=True):
        memory.store(buffer, index, part if varies else nest.builder.extract_element(part, 0))


@dataclass(frozen=True, slots=True)
class Transform:
    """A forward transform of one length. `prepare(work)` fills the tables, `apply(re, im, work)` transforms.

    `apply` transforms the columns of arrays [length, columns], in place or to the start of `work` (`result`).
    `work_bytes` of memory belong to one user at a time.
    """

    length: int
    kind: PrimitiveType
    work_bytes: int
    prepare: Function
    apply: Function
    part_bytes: int = 0
    """Of a part of the result in `work`; 0 if it is in place."""

    def result(self, builder: IRBuilder, parts: Sequence[Value], work: Value) -> Sequence[Value]:
        """Where `apply` leaves the real and the imaginary parts."""
        if not self.part_bytes:
            return parts
        return work, StructuredBuilder(builder.block).offset(work, const_int(I64, self.part_bytes))

    @staticmethod
    def of(
        context: KernelContext, length: int, kind: PrimitiveType, columns: int = 1, *, in_place: bool = True
    ) -> Transform:
        """Returns the transform; its functions are emitted once per module. If not `in_place`, see `result`.

        Several columns need a length whose prime factors are small (`radices_of`).
        """
        if radices_of(length) is not None:
            return _Stockham(context, length, kind, columns, in_place=in_place).build()
        assert columns == 1, f"{columns} columns of length {length}"
        return _Bluestein(context, length, kind).build()


class _Maker(abc.ABC):
    """State while the functions of one length are emitted."""

    def __init__(self, context: KernelContext, length: int, kind: PrimitiveType) -> None:
        self.context = context
        self.length = length
        self.kind = kind
        self.register = register_type(kind)
        self.width = context.target.vector_width(self.register)
        self.name = f"fft.{length}.{kind.text}"

    def build(self) -> Transform:
        module = self.context.module
        functions: list[Function] = []
        pointers = {"prepare": ["work"], "apply": ["re", "im", "work"]}
        for role, emit in (("prepare", self.emit_prepare), ("apply", self.emit_apply)):
            name = f"{self.name}.{role}"
            function = module.functions.get(name)
            if function is None:
                function = module.add_function(name, VOID, [(PTR, p) for p in pointers[role]], linkage="internal")
                nest = LoopNest(module, function, self.context.target)
                emit(nest)
                nest.builder.ret_void()
            functions.append(function)
        return Transform(self.length, self.kind, self.work_bytes(), functions[0], functions[1], self.part_bytes())

    @abc.abstractmethod
    def work_bytes(self) -> int:
        """Bytes of memory for one user."""

    def part_bytes(self) -> int:
        """See `Transform`."""
        return 0

    @abc.abstractmethod
    def emit_prepare(self, nest: LoopNest) -> None:
        """Emits the body of `prepare`."""

    @abc.abstractmethod
    def emit_apply(self, nest: LoopNest) -> None:
        """Emits the body of `apply`."""

    def array_bytes(self, size: int) -> int:
        """Bytes of an array of real parts, rounded up so that the next one is aligned."""
        return -(-size * self.kind.byte_width // ALIGNMENT) * ALIGNMENT

    def pieces(self, builder: IRBuilder, work: Value, sizes: Sequence[int]) -> list[Value]:
        """Addresses of consecutive arrays of those sizes."""
        structured_builder = StructuredBuilder(builder.block)
        found: list[Value] = []
        offset = 0
        for size in sizes:
            found.append(structured_builder.offset(work, const_int(I64, offset)))
            offset += self.array_bytes(size)
        return found

    def vector_loop(self, nest: LoopNest, size: int, body: Callable[[AffineExpr], None]) -> None:
        """Calls `body(index)` for every index below size, in vectors."""
        position = nest.new_variable(size)

        def run(_: Sequence[Value]) -> Sequence[Value]:
            body(dim(position))
            return ()

        nest.vector_loop(position, self.width, run)


class _Stockham(_Maker):
    """Mixed-radix stages between the array and a second one; work holds that and the twiddle factors.

    A transform of c columns is one of c times its length without the stages that would combine columns.
    """

    def __init__(
        self, context: KernelContext, length: int, kind: PrimitiveType, columns: int, *, in_place: bool
    ) -> None:
        super().__init__(context, length, kind)
        self.columns = columns
        self.radices = radices_of(length, self.width // math.gcd(self.width, columns)) or []
        self.ends_in_work = not in_place and len(self.radices) % 2 == 1
        names = "fft", f"{length}x{columns}" if columns > 1 else f"{length}", kind.text
        self.name = ".".join((*names, "moves") if self.ends_in_work else names)

    def work_bytes(self) -> int:
        table = 0 if self.length <= MAX_CONSTANT_TABLE else self.length
        return 2 * (self.array_bytes(self.length * self.columns) + self.array_bytes(table))

    def part_bytes(self) -> int:
        return self.array_bytes(self.length * self.columns) if self.ends_in_work else 0

    def emit_prepare(self, nest: LoopNest) -> None:
        n, size = self.length, self.length * self.columns
        if n <= MAX_CONSTANT_TABLE:
            return
        pieces = self.pieces(nest.builder, nest.function.args[0], [size, size, n, n])
        builder = StructuredBuilder(nest.builder.block)
        emit_root_table(builder, n, n, lambda k: k, self.kind, pieces[2:])
        nest.builder.position_at_end(builder.block)

    def emit_apply(self, nest: LoopNest) -> None:
        n, size = self.length, self.length * self.columns
        re, im, work = nest.function.args
        pieces = self.pieces(nest.builder, work, [size, size, n, n])
        arrays = split_complex(self.kind, size, (re, im)), split_complex(self.kind, size, pieces[:2])
        memory = MemoryAccess(nest)
        twiddles = split_complex(self.kind, n, self._table(pieces[2:]))
        remaining, stride, source = n, self.columns, 0
        for radix in self.radices:
            self._stage(nest, memory, (radix, remaining // radix, stride), arrays[source], arrays[1 - source], twiddles)
            remaining, stride, source = remaining // radix, stride * radix, 1 - source
        if source and not self.ends_in_work:
            self.vector_loop(nest, size, lambda i: store_pair(
                memory, arrays[0], (i,), load_pair(nest, memory, arrays[1], (i,))))  # fmt: skip

    def _table(self, pieces: Sequence[Value]) -> Sequence[Value]:
        return pieces if self.length > MAX_CONSTANT_TABLE else self._constants(self._roots)

    def _stage_table(self, sizes: tuple[int, int, int]) -> Sequence[Value]:
        """The factors of a woven stage, in the order in which it needs them."""
        radix, m, stride = sizes
        powers = np.arange(m * stride) // stride * (stride // self.columns)
        return self._constants(self._roots[np.arange(1, radix)[:, None] * powers])

    @functools.cached_property
    def _roots(self) -> np.ndarray[Any, Any]:
        return roots_of_unity(self.length, self.length)

    def _constants(self, numbers: np.ndarray[Any, Any]) -> list[Value]:
        """The real and the imaginary parts, as arrays of the module."""
        module, dtype = self.context.module, self.kind.dtype
        return [module.add_constant_array(part.astype(dtype), hint="twiddles") for part in (numbers.real, numbers.imag)]

    def _stage(
        self, nest: LoopNest, memory: MemoryAccess, sizes: tuple[int, int, int],
        source: Sequence[Buffer], target: Sequence[Buffer], twiddles: Sequence[Buffer],
    ) -> None:  # fmt: skip
        """One of `stages`, or code of this function: for strides that no vectors fit, and without tables."""
        radix, m, stride = sizes
        module, builder = self.context.module, nest.builder
        arrays = [buffer.pointer for pair in (source, target) for buffer in pair]
        numbers = [const_int(I64, n) for n in (m, stride, stride // self.columns)]
        if stride % self.width == 0:
            roots = [buffer.pointer for buffer in twiddles]
            builder.call(wide_stage(module, radix, self.kind), [*arrays, *roots, *numbers])
        elif self._is_woven(sizes) and self.length <= MAX_CONSTANT_TABLE:
            stage = woven_stage(module, radix, stride, self.kind)
            builder.call(stage, [*arrays, *self._stage_table(sizes), *numbers])
        else:
            self._stage_of_its_own(nest, memory, sizes, source, target, twiddles)

    def _is_woven(self, sizes: tuple[int, int, int]) -> bool:
        """Whether vectors along p and q hold whole runs of q: then outputs are stored in turn, not scattered."""
        radix, m, stride = sizes
        return radix in WOVEN_RADICES and m * stride % self.width == 0 and self.width % stride == 0

    def _stage_of_its_own(
        self, nest: LoopNest, memory: MemoryAccess, sizes: tuple[int, int, int],
        source: Sequence[Buffer], target: Sequence[Buffer], twiddles: Sequence[Buffer],
    ) -> None:  # fmt: skip
        radix, m, stride = sizes
        step = stride // self.columns

        def outputs(p: AffineExpr, q: AffineExpr) -> list[Pair]:
            inputs = [load_pair(nest, memory, source, (q + (p + m * j) * stride,)) for j in range(radix)]
            first, *others = butterfly(nest.builder, inputs)
            if m == 1:
                return [first, *others]
            roots = [load_pair(nest, memory, twiddles, (p * (k * step),)) for k in range(1, radix)]
            return [first, *(multiply(nest.builder, x, root) for x, root in zip(others, roots, strict=True))]

        def element(p: AffineExpr, q: AffineExpr) -> Sequence[Value]:
            for k, value in enumerate(outputs(p, q)):
                store_pair(memory, target, (q + (p * radix + k) * stride,), value)
            return ()

        def woven(both: AffineExpr) -> Sequence[Value]:
            pairs = outputs(both.floordiv(stride), both.mod(stride))
            parts = [interleave(nest.builder, part, stride) for part in zip(*pairs, strict=True)]
            for n, value in enumerate(zip(*parts, strict=True)):
                place = both.floordiv(self.width) * (radix * self.width) + both.mod(self.width) + n * self.width
                store_pair(memory, target, (place,), value)
            return ()

        if stride > self.width:
            p, q = nest.new_variable(m), nest.new_variable(stride)
            nest.scalar_loop(p, lambda _: nest.vector_loop(q, self.width, lambda _: element(dim(p), dim(q))))
            return
        both = nest.new_variable(m * stride)
        if self._is_woven(sizes):
            nest.vector_loop(both, self.width, lambda _: woven(dim(both)))
            return
        p_of, q_of = dim(both).floordiv(stride), dim(both).mod(stride)
        nest.vector_loop(both, self.width, lambda _: element(p_of, q_of))


class _Bluestein(_Maker):
    """X[k] = c[k] (a * conj(c))[k] with a = x c and the chirp c[k] = exp(-pi i k^2 / n), as a cyclic convolution."""

    def __init__(self, context: KernelContext, length: int, kind: PrimitiveType) -> None:
        super().__init__(context, length, kind)
        self.padded = 1 << (2 * length - 2).bit_length()
        self.inner = Transform.of(context, self.padded, kind)

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
        nest.builder.call(self.inner.prepare, [inner])
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
