"""Short Fourier transforms of complex numbers in registers: the butterflies of an FFT's stages."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.llvm.builder import IRBuilder
from xjit.llvm.values import Value, const_float

Pair = tuple[Value, Value]
"""A complex number: real and imaginary part, scalars or vectors."""


def add(b: IRBuilder, x: Pair, y: Pair) -> Pair:
    """x + y."""
    return b.fadd(x[0], y[0]), b.fadd(x[1], y[1])


def subtract(b: IRBuilder, x: Pair, y: Pair) -> Pair:
    """x - y."""
    return b.fsub(x[0], y[0]), b.fsub(x[1], y[1])


def multiply(b: IRBuilder, x: Pair, y: Pair) -> Pair:
    """x y, in the textbook way; fused where the target has that as instructions."""
    cross, other = b.fmul(x[1], y[1]), b.fmul(x[1], y[0])
    if b.target.has_fma:
        return b.fma(x[0], y[0], b.fneg(cross)), b.fma(x[0], y[1], other)
    return b.fsub(b.fmul(x[0], y[0]), cross), b.fadd(b.fmul(x[0], y[1]), other)


def rotate(b: IRBuilder, x: Pair) -> Pair:
    """-i x."""
    return x[1], b.fneg(x[0])


def scaled(b: IRBuilder, value: Value, scale: float) -> Value:
    """A part times a number; nothing is done for 1."""
    return value if scale == 1.0 else b.fmul(value, const_float(value.type, scale))


def conjugate(b: IRBuilder, x: Pair) -> Pair:
    """x with the other sign of its imaginary part."""
    return x[0], b.fneg(x[1])


def join_halves(b: IRBuilder, here: Pair, there: Pair, root: Pair) -> Pair:
    """X[k] of Z[k], Z[m - k] and w^k, see `real_halves`. Halved first, they overflow no sooner than Z."""
    half, turned = _scale(b, here, 0.5), _scale(b, conjugate(b, there), 0.5)
    even, odd = add(b, half, turned), subtract(b, half, turned)
    return add(b, even, multiply(b, rotate(b, odd), root))


def split_halves(b: IRBuilder, here: Pair, there: Pair, root: Pair) -> Pair:
    """2 Z[k] of X[k], X[m - k] and w^k."""
    turned = conjugate(b, there)
    even, odd = add(b, here, turned), subtract(b, here, turned)
    re, im = multiply(b, odd, conjugate(b, root))
    return add(b, even, (b.fneg(im), re))  # i times it


def interleave(b: IRBuilder, x: Sequence[Value], group: int) -> list[Value]:
    """Groups of lanes of 1, 2 or 4 vectors in turn: of the first, of the second, ..., then the next group of each."""
    if len(x) == 1:
        return list(x)
    first, second = interleave(b, x[::2], group), interleave(b, x[1::2], group)
    width = x[0].type.width
    order = [n * width + g + lane for g in range(0, width, group) for n in range(2) for lane in range(group)]
    halves = order[:width], order[width:]
    return [b.shuffle_vector(a, c, half) for a, c in zip(first, second, strict=True) for half in halves]


def butterfly(b: IRBuilder, x: Sequence[Pair]) -> list[Pair]:
    """The forward transform of 2, 4, 8 or an odd number of values."""
    if len(x) == 2:
        return [add(b, x[0], x[1]), subtract(b, x[0], x[1])]
    if len(x) == 4:
        even, odd = (add(b, x[0], x[2]), add(b, x[1], x[3])), (subtract(b, x[0], x[2]), subtract(b, x[1], x[3]))
        turned = rotate(b, odd[1])
        return [
            add(b, even[0], even[1]), add(b, odd[0], turned), subtract(b, even[0], even[1]), subtract(b, odd[0], turned)
        ]  # fmt: skip
    return _eight(b, x) if len(x) == 8 else _odd(b, x)


def _eight(b: IRBuilder, x: Sequence[Pair]) -> list[Pair]:
    """Those of the even and of the odd places, turned by eighths, and added."""
    even, odd = butterfly(b, x[::2]), butterfly(b, x[1::2])
    half = math.sqrt(0.5)
    turned = [
        odd[0],
        _scale(b, (b.fadd(*odd[1]), b.fsub(odd[1][1], odd[1][0])), half),
        rotate(b, odd[2]),
        _scale(b, (b.fsub(odd[3][1], odd[3][0]), b.fneg(b.fadd(*odd[3]))), half),
    ]
    return [f(b, p, q) for f in (add, subtract) for p, q in zip(even, turned, strict=True)]


def _odd(b: IRBuilder, x: Sequence[Pair]) -> list[Pair]:
    """Pairs x[j], x[r - j] share cosines and sines: outputs k and r - k differ in one sign."""
    radix, half = len(x), len(x) // 2
    sums = [add(b, x[j], x[radix - j]) for j in range(1, half + 1)]
    differences = [rotate(b, subtract(b, x[j], x[radix - j])) for j in range(1, half + 1)]
    outputs: list[Pair] = [x[0]] * radix
    for s in sums:
        outputs[0] = add(b, outputs[0], s)
    for k in range(1, half + 1):
        even, odd = x[0], None
        for j in range(1, half + 1):
            angle = 2 * math.pi * (j * k % radix) / radix
            even = add(b, even, _scale(b, sums[j - 1], math.cos(angle)))
            term = _scale(b, differences[j - 1], math.sin(angle))
            odd = term if odd is None else add(b, odd, term)
        assert odd is not None
        outputs[k], outputs[radix - k] = add(b, even, odd), subtract(b, even, odd)
    return outputs


def _scale(b: IRBuilder, x: Pair, factor: float) -> Pair:
    constant = const_float(x[0].type, factor)
    return b.fmul(x[0], constant), b.fmul(x[1], constant)
