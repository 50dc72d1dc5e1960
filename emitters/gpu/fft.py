"""fft of lines that fit in the shared memory of a block of threads: one kernel, which reads and writes a line once.

Stages of Stockham's algorithm (in order, mixed radix): each thread has some butterflies in registers, and puts what
they give where the next stage finds it. The first stage reads the operand, the last writes the result. An inverse
transform is a forward one of numbers whose parts have changed places. Lengths with large prime factors, longer lines
and several dimensions are written in terms of these by `fft-expander`. Source: Van Loan, "Computational Frameworks
for the FFT" (1992), chapter 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.affine import AffineExpr, delinearize
from xjit.dataclass import dataclass
from xjit.emitters.elemental import ComplexValue
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.block_lanes import emit_barrier
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.shared_memory import SharedMemory
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.fft.butterflies import Pair, butterfly, multiply
from xjit.emitters.kernels.fft.tables import roots_of_unity
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo import attributes as at
from xjit.llvm.builder import IRBuilder
from xjit.llvm.element_types import register_type
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_float, const_int, zero

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
BLOCK_ELEMENTS = 2048
MAX_THREADS = 256
ELEMENTS_OF_THREAD = 8
BANKS = 32


def emit_gpu_fft(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a transform of the last dimension, whose length has the factors `RADICES` alone."""
    return [_Transforms(context.for_one_kernel(view.instruction.name), view).emit()]


@dataclass(frozen=True, slots=True)
class _Stage:
    """y[p, k, q] = w^(p k stride) sum_j x[j, p, q] w_r^(j k), with p < m, q < stride, and w of the line's length."""

    radix: int
    m: int
    stride: int

    @property
    def butterflies(self) -> int:
        """How many there are in a line."""
        return self.m * self.stride


def _stages(length: int) -> list[_Stage]:
    stages: list[_Stage] = []
    rest, stride = length, 1
    while rest > 1:
        radix = next(r for r in RADICES if rest % r == 0)
        rest //= radix
        stages.append(_Stage(radix, rest, stride))
        stride *= radix
    return stages


class _Transforms:
    """The code of one thread of a block, which has `lines_of_block` lines."""

    def __init__(self, context: GpuKernelContext, view: KernelView) -> None:
        self._hero = hero = view.hero
        attributes = hero.attributes_as(at.FftAttributes)
        self._type = attributes.fft_type
        self._length = n = attributes.fft_length[0]
        self._batch = hero.shape.dimensions[:-1]
        self._lines = math.prod(self._batch)
        self._lines_of_block = max(1, min(self._lines, BLOCK_ELEMENTS // n))
        elements = self._lines_of_block * n
        self._threads = min(MAX_THREADS, max(WARP_SIZE, 1 << (elements // ELEMENTS_OF_THREAD - 1).bit_length()))
        self._is_inverse = self._type in ("IFFT", "IRFFT")
        self._part = register_type(hero.shape.element_type.component)
        function, leaves, (self._result,) = context.new_gpu_kernel(view, self._threads)
        self._nest = nest = LoopNest(context.module, function, context.target)
        self._fused = FusedIrEmitter(nest, leaves, context.maps)
        shared = SharedMemory(context.module, function)
        self._pitch = n + n // BANKS
        self._arrays = [shared.allocate(self._part, self._lines_of_block * self._pitch) for _ in range(2)]
        roots = roots_of_unity(n, n)
        kind = hero.shape.element_type.component.dtype
        space = context.target.address_spaces.global_
        self._roots = [
            context.module.add_constant_array(part.astype(kind), hint="roots", address_space=space)
            for part in (roots.real, roots.imag)
        ]
        self._thread = special_register(nest, "tid.x")
        self._block = special_register(nest, "ctaid.x")

    def emit(self) -> Kernel:
        """Returns the kernel."""
        nest, stages = self._nest, _stages(self._length)
        for number, stage in enumerate(stages):
            total = self._lines_of_block * stage.butterflies
            rounds = range(0, total, self._threads)
            is_first, is_last = number == 0, number == len(stages) - 1
            found = [self._butterfly(stage, first, is_first) for first in rounds]
            if not is_first:
                emit_barrier(nest.builder)  # all have read what is overwritten now
            for first, values in zip(rounds, found, strict=True):
                self._put(stage, first, values, is_last)
            if not is_last:
                emit_barrier(nest.builder)
        finish(nest)
        blocks = -(-self._lines // self._lines_of_block)
        launch = launch_dimensions(blocks, self._threads)
        traffic = self._hero.operand(0).shape.byte_size + self._hero.shape.byte_size
        work = self._lines * self._length * sum(4 * stage.radix for stage in stages)
        return Kernel(nest.function, blocks, 0.0, "fft-in-block", traffic, work, launch=launch)

    def _number(self, first: int) -> Value:
        return self._nest.builder.add(self._thread, const_int(I64, first), nsw=True)

    def _exists(self, stage: _Stage, first: int) -> Value:
        """Whether the thread has a butterfly of this round, of a line that exists."""
        builder, number = self._nest.builder, self._number(first)
        of_block = builder.icmp_signed("<", number, const_int(I64, self._lines_of_block * stage.butterflies))
        lines = builder.sub(
            const_int(I64, self._lines), builder.mul(self._block, const_int(I64, self._lines_of_block), nsw=True)
        )
        left = builder.mul(lines, const_int(I64, stage.butterflies), nsw=True)
        return builder.and_(of_block, builder.icmp_signed("<", number, left))

    def _place(self, stage: _Stage, first: int) -> tuple[AffineExpr, AffineExpr]:
        """The line in the block, and the number in it, of the thread's butterfly."""
        count = stage.butterflies
        number = bind_index(self._nest, self._number(first), self._lines_of_block * count)
        return self._nest.simplify(number.floordiv(count)), self._nest.simplify(number.mod(count))

    def _butterfly(self, stage: _Stage, first: int, is_first: bool) -> list[Pair]:
        """Reads and computes a butterfly, with its twiddle factors."""
        nest = self._nest

        def read(_: Sequence[Value]) -> Sequence[Value]:
            line, place = self._place(stage, first)
            read_one = self._load if is_first else self._get
            values = [read_one(line, nest.simplify(place + j * stage.butterflies)) for j in range(stage.radix)]
            results = fourier(nest.builder, values)
            p = nest.simplify(place.floordiv(stage.stride))
            if stage.m > 1:
                results[1:] = [
                    multiply(nest.builder, value, self._root(nest.simplify(p * (k * stage.stride))))
                    for k, value in enumerate(results)
                    if k
                ]
            return [part for value in results for part in value]

        nothing = [zero(self._part)] * (2 * stage.radix)
        parts = nest.where(self._exists(stage, first), read, nothing)
        return list(zip(parts[::2], parts[1::2], strict=True))

    def _put(self, stage: _Stage, first: int, values: Sequence[Pair], is_last: bool) -> None:
        """Puts the results of a butterfly where the next stage, or who reads the result, finds them."""
        nest = self._nest

        def put(_: Sequence[Value]) -> Sequence[Value]:
            line, place = self._place(stage, first)
            p, q = place.floordiv(stage.stride), place.mod(stage.stride)
            for k, value in enumerate(values):
                position = nest.simplify((p * stage.radix + k) * stage.stride + q)
                if is_last:
                    self._store(line, position, value)
                else:
                    where = self._shared_place(line, position)
                    for array, part in zip(self._arrays, value, strict=True):
                        array.store(nest.builder, where, part)
            return ()

        nest.where(self._exists(stage, first), put)

    def _root(self, exponent: AffineExpr) -> Pair:
        builder, number = self._nest.builder, self._nest.index_value(exponent)
        size = self._part.bits // 8
        real, imaginary = (builder.load(self._part, builder.gep(self._part, t, number), size) for t in self._roots)
        return real, imaginary

    def _shared_place(self, line: AffineExpr, position: AffineExpr) -> Value:
        """Every 32 elements one place stays empty, so that fewer of those a power of two apart share a bank."""
        return self._nest.index_value(self._nest.simplify(line * self._pitch + position + position.floordiv(BANKS)))

    def _get(self, line: AffineExpr, position: AffineExpr) -> Pair:
        where = self._shared_place(line, position)
        real, imaginary = (array.load(self._nest.builder, where) for array in self._arrays)
        return real, imaginary

    def _index(self, line: AffineExpr, position: AffineExpr) -> tuple[AffineExpr, ...]:
        nest = self._nest
        whole = nest.index_value(nest.simplify(line))
        first = nest.builder.mul(self._block, const_int(I64, self._lines_of_block), nsw=True)
        number = bind_index(nest, nest.builder.add(first, whole, nsw=True), self._lines)
        batch = delinearize(number, self._batch) if self._batch else []
        return (*(nest.simplify(e) for e in batch), position)

    def _load(self, line: AffineExpr, position: AffineExpr) -> Pair:
        """Reads an element of a line: of the whole spectrum, given its first half, for an IRFFT."""
        nest, operand = self._nest, self._hero.operand(0)
        if self._type != "IRFFT":
            value, _ = self._fused.element(operand, self._index(line, position))
            if isinstance(value, ComplexValue):
                return (value.imag, value.real) if self._is_inverse else (value.real, value.imag)
            return value, zero(self._part)
        builder, place = nest.builder, nest.index_value(position)
        mirrored = builder.sub(const_int(I64, self._length), place)
        is_second_half = builder.icmp_signed(">", place, const_int(I64, self._length // 2))
        own = bind_index(nest, builder.select(is_second_half, mirrored, place), self._length // 2 + 1)
        value, _ = self._fused.element(operand, self._index(line, own))
        assert isinstance(value, ComplexValue)
        builder = nest.builder
        imaginary = builder.select(is_second_half, builder.fneg(value.imag), value.imag)
        is_real = builder.icmp_signed("==", mirrored, place)  # the middle one; and the first
        is_real = builder.or_(is_real, builder.icmp_signed("==", place, const_int(I64, 0)))
        return builder.select(is_real, zero(self._part), imaginary), value.real

    def _store(self, line: AffineExpr, position: AffineExpr, value: Pair) -> None:
        """Writes an element of a line of the result: of the first half of the spectrum for an RFFT."""
        nest, memory = self._nest, self._fused.memory
        if self._is_inverse:
            scale = const_float(self._part, 1.0 / self._length)
            value = nest.builder.fmul(value[1], scale), nest.builder.fmul(value[0], scale)
        if self._type == "IRFFT":
            memory.store(self._result, self._index(line, position), value[0])
        elif self._type != "RFFT":
            memory.store(self._result, self._index(line, position), ComplexValue(*value))
        else:
            place, size = nest.index_value(position), self._length // 2 + 1

            def store(_: Sequence[Value]) -> Sequence[Value]:
                memory.store(self._result, self._index(line, bind_index(nest, place, size)), ComplexValue(*value))
                return ()

            nest.where(nest.builder.icmp_signed("<", place, const_int(I64, size)), store)


def fourier(b: IRBuilder, x: Sequence[Pair]) -> list[Pair]:
    """The forward transform of a radix: of 8 values as one of 4, twiddle factors, and one of 2."""
    if len(x) != 8:
        return butterfly(b, x)
    halves = [butterfly(b, x[j::2]) for j in range(2)]
    roots = roots_of_unity(8, 4)
    turned = [
        multiply(b, value, (const_float(value[0].type, root.real), const_float(value[0].type, root.imag)))
        if k
        else value
        for k, (value, root) in enumerate(zip(halves[1], roots, strict=True))
    ]
    pairs = [butterfly(b, pair) for pair in zip(halves[0], turned, strict=True)]
    return [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
