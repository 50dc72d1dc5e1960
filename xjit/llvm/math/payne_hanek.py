"""Reduction modulo pi/2 of doubles of any size, for the rare branch of sin, cos and tan.

2/pi is a string of 24-bit digits. x, scaled to an integer of at most 77 bits, times the digits that matter is a sum
of exact products of a 24-bit digit and a 27-bit half of x; multiples of 8 are dropped, so the sum is n + fraction to
about 2^-140.
"""

from __future__ import annotations

import functools

import numpy as np

from xjit.llvm.math.vec import Vec, fast_two_sum, power_of_two, round_to_int, two_product, two_sum
from xjit.llvm.types import DOUBLE, I32
from xjit.llvm.values import poison

_DIGIT_BITS, _PADDING, _TABLE_SIZE, _USED_DIGITS = 24, 4, 56, 9
_PI_2_HIGH, _PI_2_LOW = float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54")


def reduce_large(x: Vec) -> tuple[Vec, Vec, Vec]:
    """(n modulo 4 as i64, high, low) with x = n pi/2 + high + low; NaN for inf and NaN."""
    exponent = ((x.as_int() >> 52) & 0x7FF) - 1023
    # scaled = x * 2^(-24 j) with exponent in [52, 76): an integer. (t * 2731) >> 16 is t / 24 for t < 4096.
    j = (((exponent - 52 + 24 * _PADDING) * 2731) >> 16) - _PADDING
    scaled = x * power_of_two(j * -_DIGIT_BITS, DOUBLE)
    high_part = (scaled.as_int() & -(1 << 26)).as_float()
    halves = (high_part, scaled - high_part)
    total, error = x.const(0.0), x.const(0.0)
    n_total = x.const(0.0)
    for i in range(_USED_DIGITS):
        digit = _gather_digit(x, j + (_PADDING - 1 + i)) * 2.0 ** (-_DIGIT_BITS * i)
        for half in halves:
            product = half * digit
            if i < 4:  # later ones are small
                product = product - 8.0 * round_to_int(product * 0.125)[0]
            total, rounding = two_sum(total, product)
            total, error = fast_two_sum(total, error + rounding)
        if i in (3, 4):
            n, _ = round_to_int(total)
            total, error = two_sum(total - n, error)
            n_total = n_total + n
    _, quadrant = round_to_int(n_total)
    high, low = two_product(total, x.const(_PI_2_HIGH))
    low = low + total.fma(_PI_2_LOW, error * _PI_2_HIGH)
    high, low = fast_two_sum(high, low)
    return quadrant, high, low


def _gather_digit(x: Vec, index: Vec) -> Vec:
    space = x.b.target.address_spaces.global_
    table = x.b.module.add_constant_array(_two_over_pi_digits(), hint="two_over_pi", address_space=space)
    # inf and NaN have an exponent beyond the table; their result is NaN whatever the digit
    index = index.where(index < _TABLE_SIZE - 1, _TABLE_SIZE - 1).trunc(I32)
    pointers = x.b.gep(DOUBLE, table, index.v)
    if not x.type.is_vector:
        return Vec(x.b, x.b.load(DOUBLE, pointers, 8))
    if x.b.target.has_vector_arithmetic:
        return Vec(x.b, x.b.masked_gather(x.type, pointers, 8))
    digits = poison(x.type)
    for lane in range(x.type.width):
        digit = x.b.load(DOUBLE, x.b.extract_element(pointers, lane), 8)
        digits = x.b.insert_element(digits, digit, lane)
    return Vec(x.b, digits)


@functools.cache
def _two_over_pi_digits() -> np.ndarray:
    """Padding zeros, then the digits of 2/pi after the point, as doubles."""
    num_digits = _TABLE_SIZE - _PADDING
    bits = _DIGIT_BITS * num_digits
    two_over_pi = (2 << (2 * bits + 64)) // _pi_fixed_point(bits + 64)
    digits = [two_over_pi >> (bits - _DIGIT_BITS * (k + 1)) & ((1 << _DIGIT_BITS) - 1) for k in range(num_digits)]
    return np.array([0.0] * _PADDING + [float(digit) for digit in digits])


def _pi_fixed_point(bits: int) -> int:
    """pi * 2^bits by Machin's formula."""

    def arctan_of_inverse(n: int) -> int:
        power = total = (1 << (bits + 16)) // n
        k = 1
        while power:
            power //= -n * n
            k += 2
            total += power // k
        return total

    return (16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) >> 16
