"""Vectors of 64-bit integers divided by a constant, in vector registers: LLVM divides lane by lane.

With 2^s < d < 2^(s+1) and m = floor(2^(64+s) / d) + 1 the quotient of n is floor(n m / 2^(64+s)), if
n (m d - 2^(64+s)) < 2^(64+s). (Granlund and Montgomery, Division by invariant integers using multiplication, 1994.)
"""

from __future__ import annotations

from collections.abc import Callable

from xjit.llvm.math.vec import Vec

MultiplyHigh = Callable[[Vec, Vec], Vec]
"""The upper halves of unsigned products."""


def divides(divisor: int) -> bool:
    """Whether a divisor is one of this file: more than 2, and no power of two."""
    return divisor > 2 and divisor & (divisor - 1) != 0


def unsigned_quotient(n: Vec, divisor: int, multiply_high: MultiplyHigh) -> Vec:
    """floor(n / divisor) of any n below 2^64."""
    s = divisor.bit_length() - 1
    multiplier = (1 << (64 + s)) // divisor + 1
    if multiplier * divisor - (1 << (64 + s)) <= 1 << s:
        return multiply_high(n, _constant(n, multiplier)) >> s
    multiplier = (1 << (65 + s)) // divisor + 1 - (1 << 64)  # of 65 bits: the highest one is a sum
    high = multiply_high(n, _constant(n, multiplier))
    return (((n - high) >> 1) + high) >> s


def signed_quotient(n: Vec, divisor: int, multiply_high: MultiplyHigh) -> Vec:
    """n / divisor toward zero: magnitudes are at most 2^63, which the first form divides whatever the divisor."""
    s = divisor.bit_length() - 1
    sign = n.sar(63)
    magnitude = (n ^ sign) - sign
    quotient = multiply_high(magnitude, _constant(n, (1 << (64 + s)) // divisor + 1)) >> s
    return (quotient ^ sign) - sign


def _constant(n: Vec, bits: int) -> Vec:
    return n.const(bits - (1 << 64) if bits >> 63 else bits)
