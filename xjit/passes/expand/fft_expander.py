"""fft as small Fourier matrices, twiddle factors and moves of data: every stage is a product that any target has.

Lengths of small prime factors are done by Stockham's algorithm (mixed radix, in order). Other lengths are a convolution
with a chirp (Bluestein), done with a power of two. Sources: Stockham 1966; Bluestein 1970; Van Loan, "Computational
Frameworks for the FFT" (1992), chapters 1 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import DimensionsAttributes, DotAttributes, FftAttributes
from xjit.ops import build
from xjit.passes.expand.call_expander import CallExpander
from xjit.passes.expand.writing import Writer

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
LONGEST_MATRIX = 16
"""Lengths up to this one are one Fourier matrix, prime or not."""

ONE_BLOCK_BYTES = 32 * 1024
"""Bytes of the longest line that is a GPU's kernel of its own."""

Array = np.ndarray[Any, Any]


@dataclass
class FftExpander(CallExpander):
    """Transforms one dimension after the other; a real transform is a complex one of which half is computed in vain.

    With `one_block`, transforms of one dimension for which GPUs have a kernel are left, and longer ones become such.
    """

    one_block: bool = False
    name = "fft-expander"
    opcodes = frozenset({"fft"})

    def applies(self, instruction: HloInstruction) -> bool:
        """Whether the transform is not one to be left."""
        lengths = instruction.attributes_as(FftAttributes).fft_length
        has_elements = instruction.shape.num_elements and instruction.operand(0).shape.num_elements
        lines = _Lines(self.one_block, instruction.shape.element_type)
        return not (len(lengths) == 1 and has_elements and lines.are_left(lengths[0]))

    def write(
        self, instruction: HloInstruction, writer: Writer, parameters: Sequence[HloInstruction]
    ) -> HloInstruction:
        """Writes the transform."""
        (x,) = parameters
        attributes = instruction.attributes_as(FftAttributes)
        shape, lengths = instruction.shape, attributes.fft_length
        if not x.shape.num_elements or not shape.num_elements:
            return writer.full(Shape.array(shape.element_type, shape.dimensions), 0)
        last = x.shape.rank - 1
        others = [last - 1 - i for i in range(len(lengths) - 1)]
        inverse = attributes.fft_type in ("IFFT", "IRFFT")
        lines = _Lines(self.one_block, shape.element_type)
        if attributes.fft_type == "RFFT":
            x = writer.make("complex", x, writer.like(x, 0))
        if attributes.fft_type != "IRFFT":
            x = _transformed(writer, lines, x, last, inverse)
        if attributes.fft_type == "RFFT":
            x = _part(writer, x, 0, lengths[-1] // 2 + 1)
        for axis in others:
            x = _transformed(writer, lines, x, axis, inverse)
        if attributes.fft_type == "IRFFT":
            x = _transformed(writer, lines, _whole_spectrum(writer, x, lengths[-1]), last, inverse)
            x = writer.make("real", x)
        scale = math.prod(n for n in lengths if not lines.are_scaled(n)) if inverse else 1
        return writer.make("multiply", x, writer.like(x, 1.0 / scale)) if scale > 1 else x


@dataclass(frozen=True, slots=True)
class _Lines:
    """What becomes of lines of complex numbers, whose parts are of the type of `kind`'s."""

    one_block: bool
    kind: PrimitiveType

    @property
    def longest(self) -> int:
        """The longest line that fits in the shared memory of a GPU's block."""
        return ONE_BLOCK_BYTES // (2 * self.kind.component.byte_width)

    def are_left(self, length: int) -> bool:
        """Whether lines stay an instruction."""
        return self.one_block and 1 < length <= self.longest and radices_of(length) is not None

    def factors(self, length: int) -> tuple[int, int] | None:
        """Returns two lengths of lines that are left, whose product is a length; None if there are none."""
        if not self.one_block or length <= self.longest:
            return None
        firsts = (n for n in range(math.isqrt(length), 1, -1) if length % n == 0)
        return next(((n, length // n) for n in firsts if self.are_left(n) and self.are_left(length // n)), None)

    def are_scaled(self, length: int) -> bool:
        """Whether inverse transforms are divided by the length, as those that are left are."""
        return self.are_left(length) or self.factors(length) is not None


def radices_of(length: int) -> list[int] | None:
    """Returns the radices of the stages of a transform, or None if a prime factor is too large."""
    if length <= LONGEST_MATRIX:
        return [length]
    found: list[int] = []
    for radix in RADICES:
        while length % radix == 0:
            found.append(radix)
            length //= radix
    return found if length == 1 else None


def roots_of_unity(numbers: Array, order: int, inverse: bool) -> Array:
    """Returns exp(-2 pi i k / order) for every number k, conjugated for an inverse transform; in c128."""
    angle = 2 * np.pi * (numbers % order) / order
    real, imaginary = (np.where(np.abs(part) < 1e-15, 0.0, part) for part in (np.cos(angle), np.sin(angle)))
    return real + (1j if inverse else -1j) * imaginary


def _part(writer: Writer, x: HloInstruction, start: int, limit: int) -> HloInstruction:
    """Returns some elements of each line along the last dimension."""
    *batch, _ = x.shape.dimensions
    return writer.slice(x, [*(0 for _ in batch), start], [*batch, limit])


def _whole_spectrum(writer: Writer, x: HloInstruction, length: int) -> HloInstruction:
    """Returns the spectrum of a real signal, given its first half; the first and the middle element count as real."""
    half, last = length // 2 + 1, x.shape.rank - 1
    real, imaginary = writer.make("real", x), writer.make("imag", x)
    place = writer.iota(PrimitiveType.S32, x.shape.dimensions, last)
    for alone in (0, length // 2) if length % 2 == 0 else (0,):
        here = writer.compare("EQ", place, writer.like(place, alone))
        imaginary = writer.make("select", here, writer.like(imaginary, 0), imaginary)
    head = writer.make("complex", real, imaginary)
    if half == length:
        return head
    turned = writer.make("complex", real, writer.make("negate", imaginary))
    tail = writer.make("reverse", _part(writer, turned, 1, length - half + 1), attributes=DimensionsAttributes((last,)))
    return writer.concatenate([head, tail], last)


def _transformed(writer: Writer, lines: _Lines, x: HloInstruction, axis: int, inverse: bool) -> HloInstruction:
    """Returns the transform of every line along a dimension; an inverse one is scaled if `are_scaled` says so."""
    rank, length = x.shape.rank, x.shape.dimensions[axis]
    if length == 1:
        return x
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    x = writer.transpose(x, swap)
    dimensions = x.shape.dimensions
    found = writer.reshape(x, [math.prod(dimensions[:-1]), length])
    if lines.are_left(length):
        found = _left(writer, found, inverse)
    elif (factors := lines.factors(length)) is not None:
        found = _in_two_passes(writer, found, factors, inverse)
    elif (radices := radices_of(length)) is not None:
        found = _stockham(writer, found, radices, inverse)
    else:
        found = _bluestein(writer, lines, found, inverse)
    return writer.transpose(writer.reshape(found, dimensions), swap)


def _left(writer: Writer, x: HloInstruction, inverse: bool) -> HloInstruction:
    """Returns the transform of the last dimension as an instruction."""
    attributes = FftAttributes("IFFT" if inverse else "FFT", x.shape.dimensions[-1:])
    return writer.make("fft", x, attributes=attributes)


def _in_two_passes(writer: Writer, x: HloInstruction, factors: tuple[int, int], inverse: bool) -> HloInstruction:
    """X[k1 + n1 k2] = sum_j2 w^(j2 k1) w2^(j2 k2) sum_j1 w1^(j1 k1) x[j1 n2 + j2], scaled if inverse."""
    (first, second), (count, length) = factors, x.shape.dimensions
    x = writer.transpose(writer.reshape(x, [count, first, second]), [0, 2, 1])
    x = _left(writer, x, inverse)
    x = writer.make("multiply", x, writer.broadcast(_twiddles(writer, x.shape, inverse), x.shape.dimensions, (1, 2)))
    x = _left(writer, writer.transpose(x, [0, 2, 1]), inverse)
    return writer.reshape(writer.transpose(x, [0, 2, 1]), [count, length])


def _twiddles(writer: Writer, shape: Shape, inverse: bool) -> HloInstruction:
    """Returns exp(-2 pi i j k / (m n)) for j < m and k < n, conjugated for an inverse transform, computed at run time.

    Such a table would be as large as the line. Angles are within half a turn.
    """
    part, (m, n) = shape.element_type.component, shape.dimensions[1:]
    places = [writer.iota(PrimitiveType.S32, [m, n], along) for along in range(2)]
    product = writer.make("multiply", *places)
    is_far = writer.compare("GT", product, writer.like(product, m * n // 2))
    nearest = writer.make("select", is_far, writer.make("subtract", product, writer.like(product, m * n)), product)
    turn = writer.convert(nearest, part)
    angle = writer.make("multiply", turn, writer.like(turn, (2 if inverse else -2) * math.pi / (m * n)))
    return writer.make("complex", writer.make("cosine", angle), writer.make("sine", angle))


def _stockham(writer: Writer, x: HloInstruction, radices: Sequence[int], inverse: bool) -> HloInstruction:
    """y[p, k, q] = w^(p k) sum_j x[j, p, q] w_r^(j k), stage by stage, with p < m, q < stride."""
    lines, length = x.shape.dimensions
    kind, stride, rest = x.shape.element_type, 1, length
    for radix in radices:
        m = rest // radix
        numbers = np.arange(radix)
        matrix = writer.constant(roots_of_unity(np.outer(numbers, numbers), radix, inverse), kind)
        x = writer.reshape(x, [lines, radix, m, stride])
        product = DotAttributes((), (1,), (), (0,), ("highest", "highest"))
        y = writer.make("dot", x, matrix, attributes=product)
        if m > 1:
            twiddles = writer.constant(roots_of_unity(np.outer(np.arange(m), numbers), rest, inverse), kind)
            y = writer.make("multiply", y, writer.broadcast(twiddles, y.shape.dimensions, (1, 3)))
        x = writer.reshape(writer.transpose(y, [0, 1, 3, 2]), [lines, length])
        stride, rest = stride * radix, m
    return x


def _bluestein(writer: Writer, of: _Lines, x: HloInstruction, inverse: bool) -> HloInstruction:
    """X[k] = c[k] (a * conj(c))[k] with a = x c and the chirp c[k] = exp(-pi i k^2 / n), as a cyclic convolution."""
    lines, n = x.shape.dimensions
    kind = x.shape.element_type
    padded = 1 << (2 * n - 2).bit_length()
    chirp = roots_of_unity(np.arange(n) ** 2, 2 * n, inverse)
    response = np.zeros(padded, np.complex128)
    response[:n] = np.conj(chirp)
    response[-(n - 1) :] = np.conj(chirp[1:])[::-1]
    spectrum = np.fft.fft(response) / (1 if of.are_scaled(padded) else padded)

    def times(a: HloInstruction, factors: Array) -> HloInstruction:
        return writer.make("multiply", a, writer.broadcast(writer.constant(factors, kind), a.shape.dimensions, (1,)))

    zero = writer.constant(0, kind)
    a = writer.add(build.pad(times(x, chirp), zero, [(0, 0, 0), (0, padded - n, 0)]))
    a = _transformed(writer, of, times(_transformed(writer, of, a, 1, False), spectrum), 1, True)
    return times(writer.slice(a, [0, 0], [lines, n]), chirp)
