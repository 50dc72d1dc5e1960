"""fft as small Fourier matrices, twiddle factors and moves of data: every stage is a product that any target has.

Lengths of small prime factors are done by Stockham's algorithm (mixed radix, in order). Other lengths are a convolution
with a chirp (Bluestein), done with a power of two. Sources: Stockham 1966; Bluestein 1970; Van Loan, "Computational
Frameworks for the FFT" (1992), chapters 1 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import DimensionsAttributes, DotAttributes, FftAttributes
from xjit.ops import build
from xjit.passes.expand.call_expander import CallExpander
from xjit.passes.expand.writing import Writer

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
LONGEST_MATRIX = 16
"""Lengths up to this one are one Fourier matrix, prime or not."""

Array = np.ndarray[Any, Any]


@dataclass
class FftExpander(CallExpander):
    """Transforms one dimension after the other; a real transform is a complex one of which half is computed in vain."""

    name = "fft-expander"
    opcodes = frozenset({"fft"})

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
        if attributes.fft_type == "RFFT":
            x = writer.make("complex", x, writer.like(x, 0))
        if attributes.fft_type != "IRFFT":
            x = _transformed(writer, x, last, inverse)
        if attributes.fft_type == "RFFT":
            x = _part(writer, x, 0, lengths[-1] // 2 + 1)
        for axis in others:
            x = _transformed(writer, x, axis, inverse)
        if attributes.fft_type == "IRFFT":
            x = writer.make("real", _transformed(writer, _whole_spectrum(writer, x, lengths[-1]), last, inverse))
        return writer.make("multiply", x, writer.like(x, 1.0 / math.prod(lengths))) if inverse else x


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


def _transformed(writer: Writer, x: HloInstruction, axis: int, inverse: bool) -> HloInstruction:
    """Returns the transform of every line along a dimension, not scaled."""
    rank, length = x.shape.rank, x.shape.dimensions[axis]
    if length == 1:
        return x
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    x = writer.transpose(x, swap)
    dimensions = x.shape.dimensions
    lines = writer.reshape(x, [math.prod(dimensions[:-1]), length])
    radices = radices_of(length)
    if radices is not None:
        lines = _stockham(writer, lines, radices, inverse)
    else:
        lines = _bluestein(writer, lines, inverse)
    return writer.transpose(writer.reshape(lines, dimensions), swap)


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


def _bluestein(writer: Writer, x: HloInstruction, inverse: bool) -> HloInstruction:
    """X[k] = c[k] (a * conj(c))[k] with a = x c and the chirp c[k] = exp(-pi i k^2 / n), as a cyclic convolution."""
    lines, n = x.shape.dimensions
    kind = x.shape.element_type
    padded = 1 << (2 * n - 2).bit_length()
    chirp = roots_of_unity(np.arange(n) ** 2, 2 * n, inverse)
    response = np.zeros(padded, np.complex128)
    response[:n] = np.conj(chirp)
    response[-(n - 1) :] = np.conj(chirp[1:])[::-1]
    spectrum = np.fft.fft(response) / padded
    stages = radices_of(padded)
    assert stages is not None, "a power of two has small factors"

    def times(a: HloInstruction, factors: Array) -> HloInstruction:
        return writer.make("multiply", a, writer.broadcast(writer.constant(factors, kind), a.shape.dimensions, (1,)))

    zero = writer.constant(0, kind)
    a = writer.add(build.pad(times(x, chirp), zero, [(0, 0, 0), (0, padded - n, 0)]))
    a = _stockham(writer, times(_stockham(writer, a, stages, False), spectrum), stages, True)
    return times(writer.slice(a, [0, 0], [lines, n]), chirp)
