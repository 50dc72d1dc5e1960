"""`Vec`: arithmetic notation over `IRBuilder`, so that numerical code reads like mathematics.

Invariants: Python numbers become constants of the other operand's type; float operations are always strict IEEE,
whatever the builder's fast-math flags; scalars and vectors of any width are the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.llvm.builder import IRBuilder
from xjit.llvm.reductions import vector_reduce_or
from xjit.llvm.types import DOUBLE, FLOAT, I32, LLVMType, int_type
from xjit.llvm.values import Value, const_int, constant


class Vec:
    """A value and the builder that computes with it. Integers: `/` is not defined, `>>` shifts in zeros."""

    __slots__ = ("b", "v")

    def __init__(self, builder: IRBuilder, value: Value) -> None:
        self.b = builder
        self.v = value

    @property
    def type(self) -> LLVMType:
        """The LLVM type."""
        return self.v.type

    @property
    def is_double(self) -> bool:
        """Whether elements are doubles."""
        return self.v.type.elem is DOUBLE

    @property
    def has_fma(self) -> bool:
        """Whether the target has fused multiply-add."""
        return self.b.target.has_fma

    def const(self, number: float) -> Vec:
        """A constant of this type."""
        return Vec(self.b, constant(self.type, number))

    def _other(self, other: Vec | float) -> Value:
        return other.v if isinstance(other, Vec) else constant(self.type, other)

    def _wrap(self, value: Value) -> Vec:
        return Vec(self.b, value)

    def __add__(self, other: Vec | float) -> Vec:
        o = self._other(other)
        return self._wrap(self.b.fadd(self.v, o, flags="") if self.type.is_float else self.b.add(self.v, o))

    def __sub__(self, other: Vec | float) -> Vec:
        o = self._other(other)
        return self._wrap(self.b.fsub(self.v, o, flags="") if self.type.is_float else self.b.sub(self.v, o))

    def __mul__(self, other: Vec | float) -> Vec:
        o = self._other(other)
        return self._wrap(self.b.fmul(self.v, o, flags="") if self.type.is_float else self.b.mul(self.v, o))

    def __truediv__(self, other: Vec | float) -> Vec:
        return self._wrap(self.b.fdiv(self.v, self._other(other), flags=""))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> Vec:
        return self.const(other) - self

    def __rtruediv__(self, other: float) -> Vec:
        return self.const(other) / self

    def __neg__(self) -> Vec:
        return self._wrap(self.b.fneg(self.v) if self.type.is_float else self.b.neg(self.v))

    def __and__(self, other: Vec | int) -> Vec:
        return self._wrap(self.b.and_(self.v, self._other(other)))

    def __or__(self, other: Vec | int) -> Vec:
        return self._wrap(self.b.or_(self.v, self._other(other)))

    def __xor__(self, other: Vec | int) -> Vec:
        return self._wrap(self.b.xor(self.v, self._other(other)))

    def __invert__(self) -> Vec:
        return self._wrap(self.b.not_(self.v))

    def __lshift__(self, other: Vec | int) -> Vec:
        return self._wrap(self.b.shl(self.v, self._other(other)))

    def __rshift__(self, other: Vec | int) -> Vec:
        return self._wrap(self.b.lshr(self.v, self._other(other)))

    def sar(self, other: Vec | int) -> Vec:
        """Arithmetic shift right."""
        return self._wrap(self.b.ashr(self.v, self._other(other)))

    def _compare(self, op: str, other: Vec | float) -> Vec:
        o = self._other(other)
        if not self.type.is_float:
            return self._wrap(self.b.icmp_signed(op, self.v, o))
        compare = self.b.fcmp_unordered if op == "!=" else self.b.fcmp_ordered
        return self._wrap(compare(op, self.v, o))

    def __lt__(self, other: Vec | float) -> Vec:
        return self._compare("<", other)

    def __le__(self, other: Vec | float) -> Vec:
        return self._compare("<=", other)

    def __gt__(self, other: Vec | float) -> Vec:
        return self._compare(">", other)

    def __ge__(self, other: Vec | float) -> Vec:
        return self._compare(">=", other)

    def eq(self, other: Vec | float) -> Vec:
        """Equal (floats: ordered)."""
        return self._compare("==", other)

    def ne(self, other: Vec | float) -> Vec:
        """Not equal (floats: true if either is NaN)."""
        return self._compare("!=", other)

    def is_nan(self) -> Vec:
        """Whether this is NaN."""
        return self._wrap(self.b.fcmp_unordered("uno", self.v, self.v))

    def where(self, condition: Vec, other: Vec | float) -> Vec:
        """This where `condition` holds, else `other`: `a.where(c, b)` is C's `c ? a : b`."""
        return self._wrap(self.b.select(condition.v, self.v, self._other(other)))

    def abs(self) -> Vec:
        """|x| of a float."""
        return self._wrap(self.b.fabs(self.v))

    def copysign(self, sign: Vec) -> Vec:
        """This magnitude with the sign of `sign`."""
        return self._wrap(self.b.copysign(self.v, sign.v))

    def sqrt(self) -> Vec:
        """The correctly rounded square root."""
        return self._wrap(self.b.intrinsic("sqrt", self.type, (self.v,)))

    def fma(self, factor: Vec | float, addend: Vec | float) -> Vec:
        """self * factor + addend: fused where the target can, else with two roundings."""
        f, a = self._other(factor), self._other(addend)
        if self.has_fma:
            return self._wrap(self.b.fma(self.v, f, a))
        return self._wrap(self.b.fadd(self.b.fmul(self.v, f, flags=""), a, flags=""))

    def minimum(self, other: Vec | float) -> Vec:
        """`other` if it is smaller, or if this is NaN: one instruction on x86."""
        o = self._other(other)
        return self._wrap(self.b.select(self.b.fcmp_ordered("<", self.v, o), self.v, o))

    def maximum(self, other: Vec | float) -> Vec:
        """`other` if it is larger, or if this is NaN: one instruction on x86."""
        o = self._other(other)
        return self._wrap(self.b.select(self.b.fcmp_ordered(">", self.v, o), self.v, o))

    def ieee_maximum(self, other: Vec) -> Vec:
        """The larger one of two floats; NaN if either is; +0 over -0."""
        return self._wrap(self.b.intrinsic("maximum", self.type, (self.v, other.v)))

    def as_int(self) -> Vec:
        """The bits of a float as an integer of the same size."""
        return self._wrap(self.b.bitcast(self.v, int_type(self.type.elem.bits)))

    def as_float(self) -> Vec:
        """32- or 64-bit integers as the bits of floats."""
        return self._wrap(self.b.bitcast(self.v, FLOAT if self.type.elem.bits == 32 else DOUBLE))

    def to_double(self) -> Vec:
        """f32 -> f64."""
        return self._wrap(self.b.fpext(self.v, DOUBLE))

    def to_float(self) -> Vec:
        """f64 -> f32, rounded."""
        return self._wrap(self.b.fptrunc(self.v, FLOAT))

    def sitofp(self, elem: LLVMType) -> Vec:
        """Signed integer to float."""
        return self._wrap(self.b.sitofp(self.v, elem))

    def zext(self, elem: LLVMType) -> Vec:
        """Zero-extended."""
        return self._wrap(self.b.zext(self.v, elem))

    def sext(self, elem: LLVMType) -> Vec:
        """Sign-extended."""
        return self._wrap(self.b.sext(self.v, elem))

    def trunc(self, elem: LLVMType) -> Vec:
        """Truncated to fewer bits."""
        return self._wrap(self.b.trunc(self.v, elem))

    def any(self) -> Value:
        """Whether any lane of an i1 vector is set, as i1."""
        return vector_reduce_or(self.b, self.v)


def floats_as_doubles_without_fma(function: Callable[[Vec], Vec]) -> Callable[[Vec], Vec]:
    """`function`, but of f32 computed in f64 where nothing fuses a product with a sum: there the roundings of f32 would
    add up to more than 1 ULP.
    """

    def widened(x: Vec) -> Vec:
        return function(x) if x.is_double or x.has_fma else function(x.to_double()).to_float()

    widened.__doc__ = function.__doc__
    return widened


def polynomial(x: Vec, coefficients: Sequence[float]) -> Vec:
    """c0 + c1 x + c2 x^2 + ...; long ones as even and odd parts, which halves the latency."""
    if len(coefficients) < 9:
        return _horner(x, coefficients)
    x2 = x * x
    return _horner(x2, coefficients[1::2]).fma(x, _horner(x2, coefficients[0::2]))


def _horner(x: Vec, coefficients: Sequence[float]) -> Vec:
    result = x.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result.fma(x, c)
    return result


def round_to_int(x: Vec) -> tuple[Vec, Vec]:
    """(n as float, n as integer of the same size) for n = x rounded to nearest even; |x| < 2^22 (f64: 2^51)."""
    magic = x.const(1.5 * 2.0 ** (52 if x.is_double else 23))
    shifted = x + magic
    return shifted - magic, shifted.as_int() - magic.as_int()


def round_to_power_of_two(x: Vec, factor: float) -> tuple[Vec, Vec]:
    """(n as float, 2^n) for n = x * factor rounded to nearest even, of f32. Its exponent must be normal."""
    magic = x.const(1.5 * 2.0**23 + 127)  # its lowest bits are the exponent of 1
    shifted = x.fma(factor, magic)
    return shifted - magic, (shifted.as_int() << 23).as_float()


def power_of_two(n: Vec, elem: LLVMType) -> Vec:
    """2^n for an integer n in the range of normal exponents."""
    mantissa, bias = (52, 1023) if elem is DOUBLE else (23, 127)
    return ((n + bias) << mantissa).as_float()


def scale_by_power_of_two(x: Vec, n_float: Vec, n: Vec) -> Vec:
    """x * 2^n without spurious overflow for n in twice the range of exponents."""
    scalef = _SCALEF.get((x.type.elem, x.type.width)) if x.b.target.has_scalef else None
    if scalef is not None:
        mask = const_int(int_type(max(8, x.type.width)), -1)
        current_rounding = const_int(I32, 4)
        args = [x.v, n_float.v, x.v, mask, *([current_rounding] if x.type.bits == 512 else [])]
        return Vec(x.b, x.b.intrinsic(scalef, x.type, args, ()))
    if x.b.target.has_scalef and x.type.bits > 512 and x.type.width % 2 == 0:
        b, count = x.b, x.type.width // 2
        low, high = ([Vec(b, b.lanes(v.v, start, count)) for v in (x, n_float, n)] for start in (0, count))
        return Vec(b, b.concatenate(scale_by_power_of_two(*low).v, scale_by_power_of_two(*high).v))
    half = n.sar(1)
    return x * power_of_two(half, x.type.elem) * power_of_two(n - half, x.type.elem)


def one_more_times_power_of_two(x: Vec, n_float: Vec, n: Vec) -> Vec:
    """(x + 1) * 2^n, with the bits of `scale_by_power_of_two(x + 1, ...)`, for |x| up to 1.

    Half of the power is taken into the sum, which rounds as it would without it: one operation, instead of two that
    wait for each other.
    """
    if x.b.target.has_scalef:
        return scale_by_power_of_two(x + 1.0, n_float, n)
    half = n.sar(1)
    scale = power_of_two(half, x.type.elem)
    return scale.fma(x, scale) * power_of_two(n - half, x.type.elem)


_SCALEF = {
    (elem, bits // elem.bits): f"x86.avx512.mask.scalef.{suffix}.{bits}"
    for elem, suffix in ((FLOAT, "ps"), (DOUBLE, "pd"))
    for bits in (128, 256, 512)
}


def two_sum(a: Vec, b: Vec) -> tuple[Vec, Vec]:
    """a + b = s + e exactly."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


def fast_two_sum(a: Vec, b: Vec) -> tuple[Vec, Vec]:
    """a + b = s + e exactly, for |a| >= |b|."""
    s = a + b
    return s, b - (s - a)


def two_product(a: Vec, b: Vec) -> tuple[Vec, Vec]:
    """a * b = p + e exactly (no overflow or underflow of the parts)."""
    p = a * b
    if a.has_fma:
        return p, a.fma(b, -p)
    a_high, a_low = split(a)
    b_high, b_low = split(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def split(a: Vec) -> tuple[Vec, Vec]:
    """a = high + low, where high has half of the bits."""
    keep = -(1 << 27) if a.is_double else -(1 << 12)
    high = (a.as_int() & keep).as_float()
    return high, a - high


def residual(a: Vec, b: Vec, c: Vec) -> Vec:
    """c - a * b, where a * b is nearly c: exact to working precision."""
    if a.has_fma:
        return (-a).fma(b, c)
    p, e = two_product(a, b)
    return (c - p) - e
