"""The floating-point remainder, C's fmod: exact, with the sign of the dividend.

Long division by shifted divisors, one bit of the quotient at a time: every step is exact. The loop ends with the
longest lane. By a constant power of two all of it is: the quotient, its whole part, and what that leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.llvm.inline_control_flow import do_while
from xjit.llvm.math.rounding import truncate
from xjit.llvm.math.vec import Vec
from xjit.llvm.values import Value


def remainder(x: Vec, y: Vec) -> Vec:
    """x - trunc(x / y) * y, computed exactly; f32 works in f64. NaN for y = 0 and for infinite x; x for infinite y."""
    divisor = abs(y.v.constant) if y.v.constant is not None else 0.0
    if 1.0 <= divisor < math.inf and math.frexp(divisor)[0] == 0.5:  # by a smaller one, the quotient could overflow
        return (x - truncate(x * (1.0 / divisor)) * divisor).copysign(x)
    if not x.is_double:
        return _remainder_f64(x.to_double(), y.to_double()).to_float()
    return _remainder_f64(x, y)


def _remainder_f64(x: Vec, y: Vec) -> Vec:
    b = x.b
    divisor = y.abs()
    valid = (divisor > 0.0) & (x.abs() < math.inf)
    whole = valid & (divisor < math.inf)
    start = x.abs().where(whole, 0.0)
    safe = divisor.where(whole, 1.0)

    def step(state: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        rest = Vec(b, state[0])
        shifted = _scaled_divisor(rest, safe)
        rest = (rest - shifted).where(rest >= shifted, rest)  # exact: within a factor of two
        return (rest >= safe).any(), (rest.v,)

    result = Vec(b, do_while(b, [start.v], step)[0]).copysign(x)
    result = result.where(whole, x)
    nan = x.is_nan() | y.is_nan()
    result = x.const(math.nan).where(nan, result)
    return x.const(-math.nan).where((y.eq(0.0) | x.abs().eq(math.inf)) & ~nan, result)


def _scaled_divisor(rest: Vec, divisor: Vec) -> Vec:
    """divisor * 2^k, k >= 0: at most `rest` (or the divisor itself), and more than half of it."""
    exponent_mask = 0x7FF << 52
    gap = (rest.as_int() & exponent_mask) - (divisor.as_int() & exponent_mask)
    scaled = (divisor.as_int() + gap.where(gap > 0, 0)).as_float()
    return (scaled * 0.5).where((scaled > rest) & (gap > 0), scaled)
