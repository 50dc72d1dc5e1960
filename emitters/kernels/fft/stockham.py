"""Transforms of lengths whose prime factors are small: Stockham's algorithm, of mixed radix, without bit reversal.

Each stage reads one pair of arrays and writes the other. Sources: Stockham 1966; Van Loan, "Computational Frameworks
for the FFT" (1992), chapter 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.kernels.fft.parts import MIN_ROW
from xjit.emitters.kernels.fft.stages import weaves, wide_stage, woven_stage
from xjit.emitters.kernels.fft.strided_stages import strided_stage
from xjit.emitters.kernels.fft.tables import emit_roots_in_order, roots_of_unity
from xjit.emitters.kernels.fft.transform import TransformMaker, load_pair, split_complex, store_pair
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

PRIMES = (2, 3, 5, 7, 11, 13)
MAX_CONSTANT_TABLE = 2048


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


def weaves_all(n: int, width: int) -> bool:
    """Whether every stage of a row's transform takes whole vectors, and none fills vectors by gathers and scatters."""
    stride, radices = 1, radices_of(n, width) or []
    for radix in radices:
        m = n // (stride * radix)
        if stride % width and not (n <= MAX_CONSTANT_TABLE and weaves(radix, m, stride, width)):
            return False
        stride *= radix
    return True


class Stockham(TransformMaker):
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
        table = self.length if self.fills_tables() else 0
        return 2 * (self.array_bytes(self.length * self.columns) + self.array_bytes(table))

    def part_bytes(self) -> int:
        return self.array_bytes(self.length * self.columns) if self.ends_in_work else 0

    def only_calls(self, role: str) -> bool:
        if self.length * self.columns < MIN_ROW:
            return False
        return role == "prepare" or self.ends_in_work or len(self.radices) % 2 == 0

    def fills_tables(self) -> bool:
        return self.length > MAX_CONSTANT_TABLE

    def emit_prepare(self, nest: LoopNest) -> None:
        n, size = self.length, self.length * self.columns
        pieces = self.pieces(nest.builder, nest.function.args[0], [size, size, n, n])
        emit_roots_in_order(nest.builder, n, n, self.kind, pieces[2:])

    def emit_apply(self, nest: LoopNest) -> None:
        n, size = self.length, self.length * self.columns
        re, im, work = nest.function.args
        pieces = self.pieces(nest.builder, work, [size, size, n, n])
        arrays = split_complex(self.kind, size, (re, im)), split_complex(self.kind, size, pieces[:2])
        memory = MemoryAccess(nest)
        twiddles = split_complex(self.kind, n, self._table(pieces[2:]))
        remaining, stride, source = n, self.columns, 0
        for radix in self.radices:
            self._stage(nest, (radix, remaining // radix, stride), arrays[source], arrays[1 - source], twiddles)
            remaining, stride, source = remaining // radix, stride * radix, 1 - source
        if source and not self.ends_in_work:
            self.vector_loop(nest, size, lambda i: store_pair(
                memory, arrays[0], (i,), load_pair(nest, memory, arrays[1], (i,))))  # fmt: skip

    def _table(self, pieces: Sequence[Value]) -> Sequence[Value]:
        return pieces if self.fills_tables() else self._constants(self._roots)

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
        self, nest: LoopNest, sizes: tuple[int, int, int],
        source: Sequence[Buffer], target: Sequence[Buffer], twiddles: Sequence[Buffer],
    ) -> None:  # fmt: skip
        """One of `stages`, or of `strided_stages`."""
        radix, m, stride = sizes
        step = stride // self.columns
        module, builder = self.context.module, nest.builder
        arrays = [buffer.pointer for pair in (source, target) for buffer in pair]
        roots = [buffer.pointer for buffer in twiddles]
        numbers = [const_int(I64, n) for n in (m, stride, step)]
        if stride % self.width == 0:
            builder.call(wide_stage(module, radix, self.kind), [*arrays, *roots, *numbers])
        elif weaves(*sizes, self.width) and not self.fills_tables():
            stage = woven_stage(module, radix, stride, self.kind)
            builder.call(stage, [*arrays, *self._stage_table(sizes), *numbers])
        else:
            builder.call(strided_stage(module, sizes, step, self.kind), [*arrays, *roots])
