"""Reduction modulo pi/2 of doubles of any size, for the rare branch of sin, cos and tan.

2/pi is a string of 24-bit digits. x, scaled to an integer of at most 77 bits, times the digits that matter is a sum
of exact products of a 24-bit digit and a 27-bit half of x; multiples of 8 are dropped, so the sum is n + fraction to
about 2^-140.

That is some 300 instructions, so on CPUs they are a library: a function that programs share. It works on memory, in
vectors of the CPU's width: callers of any width keep their registers, but in the branch that calls.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from xjit.llvm.inline_control_flow import do_while
from xjit.llvm.library import Library
from xjit.llvm.math.vec import Vec, fast_two_sum, power_of_two, round_to_int, two_product, two_sum
from xjit.llvm.module import Declaration, Module
from xjit.llvm.structured_builder import define
from xjit.llvm.target import Target
from xjit.llvm.types import DOUBLE, I32, I64, PTR, VOID, vector
from xjit.llvm.values import Value, const_int, poison, zero

_NAME, _PARAMS, _ALIGN = "xjit_reduce_large_angle", ((PTR, "rows"), (I64, "lanes")), 64
_DIGIT_BITS, _PADDING, _TABLE_SIZE = 24, 4, 56
_LARGE_DIGITS, _SMALL_DIGITS = 4, 4  # of the nine that matter; the one between is small, and still has a part of n
_PI_2_HIGH, _PI_2_LOW = float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54")


def reduce_large(x: Vec) -> tuple[Vec, Vec, Vec]:
    """(n modulo 4 as i64, high, low) with x = n pi/2 + high + low; NaN for inf and NaN."""
    if not x.b.target.has_vector_arithmetic:
        return _reduce(x)
    b, step = x.b, x.b.target.vector_width(DOUBLE)
    lanes = -(-x.type.width // step) * step
    rows = b.alloca(DOUBLE, 3 * lanes, _ALIGN, "large")
    if x.type.width < lanes:
        b.store(zero(vector(DOUBLE, step)), rows, _ALIGN)
    b.store(x.v, rows, _ALIGN)
    b.call(_link(b.module), [rows, const_int(I64, lanes)])
    pointers = [b.gep(DOUBLE, rows, const_int(I64, row * lanes)) for row in range(3)]
    types = vector(I64, x.type.width), x.type, x.type
    quadrant, high, low = (Vec(b, b.load(type, pointer, 8)) for type, pointer in zip(types, pointers, strict=True))
    return quadrant, high, low


def _link(module: Module) -> Declaration:
    """Declares the function of the library in `module`, and lists what defines it."""
    module.libraries.setdefault(_NAME, Library.of(_NAME, reduction_module, module.target))
    return module.declare(_NAME, VOID, [type for type, _ in _PARAMS])


def reduction_module(target: Target) -> Module:
    """The module with `void(rows, lanes)`: of three rows of doubles, the first holds x, later n; then high and low."""
    module = Module(f"{_NAME}_library", target)
    b = define(module, _NAME, _PARAMS, linkage="")
    rows, lanes = b.function.args
    step = target.vector_width(DOUBLE)
    with b.loop(b.i64(0), lanes, step) as lane:
        first = b.gep(DOUBLE, rows, lane)
        second = b.gep(DOUBLE, first, lanes)
        places = first, second, b.gep(DOUBLE, second, lanes)
        x = Vec(b, b.load(vector(DOUBLE, step), first, 8))
        for part, place in zip(_reduce(x), places, strict=True):
            b.store(part.v, place, 8)
    b.ret_void()
    return module


def _reduce(x: Vec) -> tuple[Vec, Vec, Vec]:
    exponent = ((x.as_int() >> 52) & 0x7FF) - 1023
    # scaled = x * 2^(-24 j) with exponent in [52, 76): an integer. (t * 2731) >> 16 is t / 24 for t < 4096.
    j = (((exponent - 52 + 24 * _PADDING) * 2731) >> 16) - _PADDING
    scaled = x * power_of_two(j * -_DIGIT_BITS, DOUBLE)
    high_part = (scaled.as_int() & -(1 << 26)).as_float()
    halves = (high_part, scaled - high_part)
    index = j + (_PADDING - 1)
    zeros = x.const(0.0)
    start = zeros, zeros, index, x.const(1.0)
    total, error, index, weight = _add_digits(halves, _LARGE_DIGITS, start, are_large=True)
    first_n, _ = round_to_int(total)
    total, error = two_sum(total - first_n, error)
    total, error, index, weight = _add_digits(halves, 1, (total, error, index, weight))
    second_n, _ = round_to_int(total)
    total, error = two_sum(total - second_n, error)
    total, error, *_ = _add_digits(halves, _SMALL_DIGITS, (total, error, index, weight))
    n_total = first_n + second_n
    _, quadrant = round_to_int(n_total)
    high, low = two_product(total, x.const(_PI_2_HIGH))
    low = low + total.fma(_PI_2_LOW, error * _PI_2_HIGH)
    high, low = fast_two_sum(high, low)
    return quadrant, high, low


def _add_digits(
    halves: tuple[Vec, Vec], count: int, state: tuple[Vec, Vec, Vec, Vec], *, are_large: bool = False
) -> tuple[Vec, Vec, Vec, Vec]:
    """Adds the products with the next `count` digits: a loop. `state` is sum, error, index of a digit, its weight.

    Large ones are reduced modulo 8.
    """
    b = state[0].b

    def body(values: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        total, error, index, weight = (Vec(b, value) for value in values[1:])
        digit = _gather_digit(total, index) * weight
        for half in halves:
            product = half * digit
            if are_large:
                product = product - 8.0 * round_to_int(product * 0.125)[0]
            total, rounding = two_sum(total, product)
            total, error = fast_two_sum(total, error + rounding)
        left = b.sub(values[0], const_int(I64, 1))
        following = total, error, index + 1, weight * 2.0**-_DIGIT_BITS
        return b.icmp_signed(">", left, zero(I64)), [left, *(value.v for value in following)]

    _, *last = do_while(b, [const_int(I64, count), *(value.v for value in state)], body)
    total, error, index, weight = (Vec(b, value) for value in last)
    return total, error, index, weight


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
