"""Integer functions with XLA's answers where LLVM leaves them undefined, for scalars and vectors. Nothing here can
trap.

x/0 is all ones, x%0 is x, MIN/-1 is MIN with remainder 0; a shift by the width or more, or by a negative amount,
gives 0 (or the sign). `bits` is the width of the HLO type, less than the register's for s4 and the like.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm import constant_division
from xjit.llvm.inline_control_flow import do_while
from xjit.llvm.math.vec import Vec
from xjit.llvm.types import DOUBLE, FLOAT, I32, I64, int_type
from xjit.llvm.values import Value, const_int


def _intrinsic(name: str, x: Vec, *others: Value) -> Vec:
    return Vec(x.b, x.b.intrinsic(name, x.type, (x.v, *others)))


def maximum(a: Vec, b: Vec, signed: bool) -> Vec:
    """The larger."""
    return _intrinsic("smax" if signed else "umax", a, b.v)


def minimum(a: Vec, b: Vec, signed: bool) -> Vec:
    """The smaller."""
    return _intrinsic("smin" if signed else "umin", a, b.v)


def absolute(x: Vec) -> Vec:
    """|x|; MIN is its own."""
    return _intrinsic("abs", x, const_int(int_type(1), 0))


def sign(x: Vec, signed: bool) -> Vec:
    """-1, 0 or 1."""
    one = const_int(x.type, 1)
    if not signed:
        return _intrinsic("umin", x, one)
    return _intrinsic("smin", _intrinsic("smax", x, const_int(x.type, -1)), one)


def divide(a: Vec, b: Vec, signed: bool) -> Vec:
    """The quotient, rounded toward zero."""
    is_zero, quotient, _ = _quotient(a, b, signed)
    return a.const(-1).where(is_zero, quotient)


def remainder(a: Vec, b: Vec, signed: bool) -> Vec:
    """The remainder, with the sign of a."""
    is_zero, quotient, divisor = _quotient(a, b, signed)
    return a.where(is_zero, a - quotient * divisor)


def _quotient(a: Vec, b: Vec, signed: bool) -> tuple[Vec, Vec, Vec]:
    """(b == 0, a / b where b is not 0, a divisor that is safe)."""
    is_zero = b.eq(0)
    constant = b.v.constant
    is_long = a.type.is_vector and a.type.elem.bits == 64
    if constant is not None and is_long and constant_division.divides(int(constant)):
        divide_by = constant_division.signed_quotient if signed else constant_division.unsigned_quotient
        return is_zero, divide_by(a, int(constant), _multiply_high_unsigned_64), b
    if constant is not None and constant > 0:  # LLVM multiplies by the inverse of constants
        return is_zero, _plain_quotient(a, b, signed), b
    if a.type.is_vector and a.type.elem.bits <= 32:
        divisor = b.const(1).where(is_zero, b)
        return is_zero, _quotient_by_floats(a, divisor, signed), divisor
    if not signed:
        divisor = b.const(1).where(is_zero, b)
        return is_zero, _plain_quotient(a, divisor, signed), divisor
    is_minus_one = b.eq(-1)
    safe = b.const(1).where(is_zero | is_minus_one, b)
    return is_zero, (-a).where(is_minus_one, _plain_quotient(a, safe, signed)), b


def _plain_quotient(a: Vec, b: Vec, signed: bool) -> Vec:
    return Vec(a.b, (a.b.sdiv if signed else a.b.udiv)(a.v, b.v))


def _quotient_by_floats(a: Vec, b: Vec, signed: bool) -> Vec:
    """a / b by a float of more than twice the bits: the rounded quotient never reaches the next integer."""
    wide = DOUBLE if a.type.elem.bits == 32 else FLOAT
    integer = I64 if wide is DOUBLE and not signed else I32
    builder = a.b
    to_float = builder.sitofp if signed else builder.uitofp
    quotient = builder.fdiv(to_float(a.v, wide), to_float(b.v, wide), flags="")
    if integer is I64:
        return Vec(builder, builder.fptoui(quotient, I32))
    if wide is DOUBLE:  # 2^31 = MIN / -1 does not fit: its bits are made by hand
        too_large = Vec(builder, quotient) >= 2.0**31
        inside = Vec(builder, quotient).const(0.0).where(too_large, Vec(builder, quotient))
        return a.const(-(1 << 31)).where(too_large, Vec(builder, builder.fptosi(inside.v, I32)))
    return Vec(builder, builder.trunc(builder.fptosi(quotient, I32), a.type.elem))


def _shift_amount(amount: Vec, bits: int) -> tuple[Vec, Vec]:
    """(amount, or 0 where it is out of range; where it is out of range)."""
    constant = amount.v.constant
    if constant is not None:
        inside = 0 <= constant < bits
        flag = Vec(amount.b, const_int(amount.type.with_elem(int_type(1)), not inside))
        return (amount if inside else amount.const(0)), flag
    over = Vec(amount.b, amount.b.icmp_unsigned(">=", amount.v, const_int(amount.type, bits)))
    return amount.const(0).where(over, amount), over


def _low_bits(x: Vec, bits: int) -> Vec:
    return x if bits == x.type.elem.bits else x & ((1 << bits) - 1)


def shift_left(x: Vec, amount: Vec, bits: int) -> Vec:
    """x * 2^amount modulo 2^bits."""
    by, over = _shift_amount(amount, bits)
    return x.const(0).where(over, x << by)


def shift_right_logical(x: Vec, amount: Vec, bits: int) -> Vec:
    """Zeros come in."""
    by, over = _shift_amount(amount, bits)
    return x.const(0).where(over, _low_bits(x, bits) >> by)


def shift_right_arithmetic(x: Vec, amount: Vec, bits: int) -> Vec:
    """Copies of the sign bit come in, also for unsigned types."""
    spare = x.type.elem.bits - bits
    signed = (x << spare).sar(spare) if spare else x
    by, over = _shift_amount(amount, bits)
    return signed.sar(amount.const(bits - 1).where(over, by))


def population_count(x: Vec, bits: int) -> Vec:
    """The number of one bits."""
    return _intrinsic("ctpop", _low_bits(x, bits))


def count_leading_zeros(x: Vec, bits: int) -> Vec:
    """The number of zero bits above the highest one bit."""
    return _intrinsic("ctlz", _low_bits(x, bits), const_int(int_type(1), 0)) - (x.type.elem.bits - bits)


def multiply_high(a: Vec, b: Vec, bits: int, signed: bool) -> Vec:
    """The upper `bits` bits of the double-width product."""
    wide = int_type(a.type.elem.bits * 2)
    if a.type.elem.bits < 64:
        x, y = (v.sext(wide) if signed else v.zext(wide) for v in (a, b))
        return ((x * y) >> bits).trunc(a.type.elem)
    high = _multiply_high_unsigned_64(a, b)
    return high - (b & a.sar(63)) - (a & b.sar(63)) if signed else high


def _multiply_high_unsigned_64(a: Vec, b: Vec) -> Vec:
    """From four 32-bit products: 128-bit multiplication of vectors would be a library call on some targets."""
    mask = 0xFFFFFFFF
    a_low, a_high, b_low, b_high = a & mask, a >> 32, b & mask, b >> 32
    low = a_low * b_low
    middle = a_high * b_low + (low >> 32)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> 32) + (other >> 32)


def power(a: Vec, exponent: Vec, signed: bool) -> Vec:
    """a^exponent modulo 2^bits by repeated squaring; a negative exponent gives 0 unless the base is 1 or -1."""
    b = a.b

    def step(state: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        result, square, rest = (Vec(b, value) for value in state)
        result = (result * square).where((rest & 1).ne(0), result)
        rest = rest >> 1
        return rest.ne(0).any(), (result.v, (square * square).v, rest.v)

    result = Vec(b, do_while(b, [a.const(1).v, a.v, exponent.v], step)[0])
    if not signed:
        return result
    is_odd = (exponent & 1).ne(0)
    inverse = a.where(is_odd, 1).where(a.eq(-1), a.where(a.eq(1), 0))
    return inverse.where(exponent < 0, result)
