"""Narrow floats (bf16, f16, the f8, f6 and f4 families, f8e8m0fnu) to and from f32, bit-exact with ml_dtypes.

In registers a narrow float is the f32 of equal value. Encoding rounds to nearest even; what lies beyond the largest
number becomes infinity, or NaN in formats without infinity, or saturates where there is neither (f4, f6). Subnormals of
the narrow type are normal f32 numbers: MXCSR's flush modes do not touch them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.dataclass import dataclass
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.math.vec import Vec
from xjit.llvm.target import Target
from xjit.llvm.types import FLOAT, HALF, I8, I16, I32

P = PrimitiveType


@dataclass(frozen=True, slots=True)
class Format:
    """A sign-magnitude binary float: codes of the largest number, infinity and NaN, sign aside; None where there is
    none.

    `fnuz`: no negative zero, and the code of negative zero is the only NaN.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    infinity: int | None = None
    nan: int | None = None
    fnuz: bool = False

    @property
    def sign_shift(self) -> int:
        """The position of the sign bit."""
        return self.exponent_bits + self.mantissa_bits


FORMATS: Mapping[PrimitiveType, Format] = MappingProxyType(
    {
        P.F16: Format(5, 10, 15, 0x7BFF, infinity=0x7C00, nan=0x7E00),
        P.F8E5M2: Format(5, 2, 15, 0x7B, infinity=0x7C, nan=0x7E),
        P.F8E4M3: Format(4, 3, 7, 0x77, infinity=0x78, nan=0x7C),
        P.F8E3M4: Format(3, 4, 3, 0x6F, infinity=0x70, nan=0x78),
        P.F8E4M3FN: Format(4, 3, 7, 0x7E, nan=0x7F),
        P.F8E4M3B11FNUZ: Format(4, 3, 11, 0x7F, fnuz=True),
        P.F8E4M3FNUZ: Format(4, 3, 8, 0x7F, fnuz=True),
        P.F8E5M2FNUZ: Format(5, 2, 16, 0x7F, fnuz=True),
        P.F6E2M3FN: Format(2, 3, 1, 0x1F),
        P.F6E3M2FN: Format(3, 2, 3, 0x1F),
        P.F4E2M1FN: Format(2, 1, 1, 0x7),
    }
)

_ABS = 0x7FFFFFFF
_F32_INFINITY = 0x7F800000


def decode(kind: PrimitiveType, code: Vec) -> Vec:
    """Storage bits (i8, or i16 for 16-bit types) as f32."""
    if kind is P.BF16:
        return (code.zext(I32) << 16).as_float()
    if kind is P.F8E8M0FNU:
        return _decode_e8m0(code.zext(I32))
    if kind is P.F16 and code.b.target.has_f16c:
        return Vec(code.b, code.b.fpext(code.b.bitcast(code.v, HALF), FLOAT))
    form = FORMATS[kind]
    if code.b.target.has_f16c and is_shortened(kind, P.F16):
        return decode(P.F16, code.zext(I16) << (FORMATS[P.F16].mantissa_bits - form.mantissa_bits))
    return _decode(form, code.zext(I32))


def encode(kind: PrimitiveType, x: Vec) -> Vec:
    """An f32 rounded to `kind`, as storage bits."""
    storage = I16 if kind.bit_width == 16 else I8
    if kind is P.BF16:
        return high_half(_round_bf16(x).as_float())
    if kind is P.F8E8M0FNU:
        return _encode_e8m0(x).trunc(I8)
    if kind is P.F16 and x.b.target.has_f16c:
        return Vec(x.b, x.b.bitcast(x.b.fptrunc(x.v, HALF), I16))
    return _encode(FORMATS[kind], x).trunc(storage)


def has_all_of(kind: PrimitiveType, source: PrimitiveType) -> bool:
    """Whether `kind`, f16 or bf16, has every number of `source`, a type of at most a byte: nothing is rounded then."""
    if kind is P.F16:
        return source in FORMATS and source is not P.F16
    return kind is P.BF16 and (source is P.F8E8M0FNU or has_all_of(P.F16, source))


def has_signalling_nans(kind: PrimitiveType) -> bool:
    """Whether a narrow float, which takes whole bytes then, is one of IEEE's kind, with several NaNs."""
    form = FORMATS.get(kind)
    return form is not None and form.infinity is not None


def is_shortened(kind: PrimitiveType, source: PrimitiveType) -> bool:
    """Whether a number of `kind` is one of `source` with fewer bits of the mantissa."""
    a, b = FORMATS.get(kind), FORMATS.get(source)
    if a is None or b is None or a.infinity is None or b.infinity is None:
        return False
    return (a.exponent_bits, a.bias) == (b.exponent_bits, b.bias) and a.mantissa_bits < b.mantissa_bits


def shorten(kind: PrimitiveType, source: PrimitiveType, code: Vec) -> Vec:
    """The bits of a number of `source` rounded to `kind`, where `is_shortened`: what carries over is right, too."""
    form, drop = FORMATS[kind], FORMATS[source].mantissa_bits - FORMATS[kind].mantissa_bits
    short = (code >> drop) & ((1 << (form.sign_shift + 1)) - 1)
    rounded = (code + ((short & 1) + ((1 << (drop - 1)) - 1))) >> drop
    assert form.infinity is not None and form.nan is not None
    quiet = short | (form.nan & ~form.infinity)
    is_nan = (code & ((1 << FORMATS[source].sign_shift) - 1)) > (FORMATS[source].infinity or 0)
    return quiet.where(is_nan, rounded).trunc(I8)


def rounds_through_f16(kind: PrimitiveType, target: Target) -> bool:
    """Whether `encode_through_f16` rounds sums, differences, products, quotients and square roots of numbers of `kind`,
    and numbers of bf16, as `encode` does: it is f16 with at most 5 bits of the 11, so a result halfway between two
    numbers of `kind` has those of f16 around it, and what f16 rounds to a subnormal is far from halfway.
    """
    return target.has_f16c and is_shortened(kind, P.F16)


def encode_through_f16(kind: PrimitiveType, x: Vec) -> Vec:
    """An f32 rounded to f16 by the CPU, and then to `kind`, in lanes of half the size."""
    return shorten(kind, P.F16, encode(P.F16, x))


def round_to_bf16(x: Vec) -> Vec:
    """An f32 rounded to bf16, as f32."""
    return (_round_bf16(x) & -0x10000).as_float()


def high_half(x: Vec) -> Vec:
    """The storage bits of an f32 that bf16 has."""
    return (x.as_int() >> 16).trunc(I16)


def round_arithmetic_to_bf16(x: Vec) -> Vec:
    """What was computed from bf16 numbers by a processor whose NaNs have the payload of an operand or none, rounded.

    Their low half is zero then, and stays so: they need no case of their own.
    """
    return (_nearest_bf16(x.as_int()) & -0x10000).as_float()


def _nearest_bf16(bits: Vec) -> Vec:
    return bits + (((bits >> 16) & 1) + 0x7FFF)


def _round_bf16(x: Vec) -> Vec:
    bits = x.as_int()
    return (bits | 0x400000).where(x.is_nan(), _nearest_bf16(bits))


def _decode(form: Format, code: Vec) -> Vec:
    """`code` in i32 lanes."""
    m = form.mantissa_bits
    magnitude = code & ((1 << form.sign_shift) - 1)
    sign = (code & (1 << form.sign_shift)) << (31 - form.sign_shift)
    bits = (magnitude << (23 - m)) + ((127 - form.bias) << 23)
    small = magnitude.sitofp(FLOAT) * 2.0 ** (1 - form.bias - m)
    bits = small.as_int().where(magnitude < (1 << m), bits)
    if form.infinity is not None:  # infinity and NaN: all exponent bits set, the payload kept
        bits = ((magnitude << (23 - m)) | _F32_INFINITY).where(magnitude >= form.infinity, bits)
    elif form.nan is not None:
        bits = code.const(0x7FC00000).where(magnitude.eq(form.nan), bits)
    bits = bits | sign
    if form.fnuz:
        bits = code.const(-0x400000).where(code.eq(1 << form.sign_shift), bits)
    return bits.as_float()


def _encode(form: Format, x: Vec) -> Vec:
    """The code in i32 lanes."""
    m, drop = form.mantissa_bits, 23 - form.mantissa_bits
    bits = x.as_int()
    magnitude = bits & _ABS
    rounded = magnitude + (((magnitude >> drop) & 1) + ((1 << (drop - 1)) - 1))
    code = (rounded >> drop) - ((127 - form.bias) << m)
    # adding a number whose last place is the smallest subnormal rounds to a multiple of that
    magic = x.const(2.0 ** (24 - form.bias - m))
    subnormal = (magnitude.as_float() + magic).as_int() - magic.as_int()
    code = subnormal.where(magnitude < ((128 - form.bias) << 23), code)
    nan = form.nan if form.nan is not None else form.largest
    beyond = form.infinity if form.infinity is not None else nan
    is_beyond = code > form.largest
    code = code.const(beyond).where(is_beyond, code)
    is_nan = magnitude > _F32_INFINITY
    sign = (bits >> (31 - form.sign_shift)) & (1 << form.sign_shift)
    if form.fnuz:
        code = code.const(0).where(code.eq(0), code | sign)
        return code.const(1 << form.sign_shift).where(is_nan | is_beyond, code)
    if form.nan is None:  # f4, f6: as in ml_dtypes, NaN is zero with the other sign
        return (sign ^ (1 << form.sign_shift)).where(is_nan, code | sign)
    nan_code = code.const(nan)
    if form.infinity is not None:
        payload = (bits >> drop) & ((1 << m) - 1)
        nan_code = nan_code.where(payload.eq(0), payload | form.infinity)
    return nan_code.where(is_nan, code) | sign


def _decode_e8m0(code: Vec) -> Vec:
    bits = code.const(1 << 22).where(code.eq(0), code << 23)  # 2^-127 is subnormal
    return code.const(0x7FC00000).where(code.eq(255), bits).as_float()


def _encode_e8m0(x: Vec) -> Vec:
    """The nearest power of two, halfway up; NaN for zero, negative numbers and what is too large."""
    bits = x.as_int()
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    half = bits.const(0x600000).where(exponent.eq(0), 0x400000)  # below 2^-126 the leading bit is in the mantissa
    code = exponent + bits.const(1).where(mantissa >= half, 0)
    return bits.const(255).where((bits < 1) | (code > 254), code)
