"""Conditions on element types, and which type represents all values of another."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops.reducers import integer_limits
from xjit.passes.framework.match import of_shapes


@of_shapes
def is_integer(i: HloInstruction) -> bool:
    """Signed or unsigned integers."""
    return i.shape.element_type.is_integer


@of_shapes
def is_signed(i: HloInstruction) -> bool:
    """Signed integers."""
    return i.shape.element_type.is_signed


@of_shapes
def is_unsigned(i: HloInstruction) -> bool:
    """Unsigned integers."""
    return i.shape.element_type.is_unsigned


@of_shapes
def is_pred(i: HloInstruction) -> bool:
    """Booleans."""
    return i.shape.element_type is PrimitiveType.PRED


@of_shapes
def is_discrete(i: HloInstruction) -> bool:
    """Integers or booleans."""
    return is_integer(i) or is_pred(i)


@of_shapes
def is_float(i: HloInstruction) -> bool:
    """Real floating-point numbers with a sign and a zero: all but bare exponents."""
    return i.shape.element_type.is_float and i.shape.element_type is not PrimitiveType.F8E8M0FNU


@of_shapes
def is_real(i: HloInstruction) -> bool:
    """Integers or floats."""
    return is_integer(i) or is_float(i)


@of_shapes
def is_real_or_pred(i: HloInstruction) -> bool:
    """Integers, floats or booleans."""
    return is_discrete(i) or is_float(i)


@of_shapes
def is_signed_or_float(i: HloInstruction) -> bool:
    """Signed integers or floats."""
    return is_signed(i) or is_float(i)


@of_shapes
def is_number(i: HloInstruction) -> bool:
    """Integers, floats or complex numbers."""
    return is_real(i) or i.shape.element_type.is_complex


@of_shapes
def is_complex(i: HloInstruction) -> bool:
    """Complex numbers."""
    return i.shape.element_type.is_complex


@of_shapes
def is_inexact(i: HloInstruction) -> bool:
    """Floats or complex numbers."""
    return is_float(i) or is_complex(i)


@of_shapes
def is_wide_float(i: HloInstruction) -> bool:
    """Floats with infinities: of 16 bits and more."""
    return i.shape.element_type.is_float and i.shape.element_type.bit_width >= 16


@cache
def embeds(narrow: PrimitiveType, wide: PrimitiveType) -> bool:
    """Whether every value of a real type, NaN and signed zeros included, is one of another real type."""
    if narrow is wide:
        return True
    if not (_is_real(narrow) and _is_real(wide)) or wide is PrimitiveType.PRED:
        return False
    if narrow is PrimitiveType.PRED:
        return wide.bit_width > 1
    if narrow.is_integer and wide.is_integer:
        (low, high), (least, greatest) = integer_limits(narrow), integer_limits(wide)
        return least <= low and high <= greatest
    if narrow.is_integer:
        return _integers_fit(narrow, wide)
    return wide.is_float and _floats_fit(narrow, wide)


def _is_real(kind: PrimitiveType) -> bool:
    signless = kind is PrimitiveType.F8E8M0FNU
    return not signless and (kind.is_integer or kind.is_float or kind is PrimitiveType.PRED)


def _integers_fit(narrow: PrimitiveType, wide: PrimitiveType) -> bool:
    info = ml_dtypes.finfo(wide.dtype)
    low, high = integer_limits(narrow)
    return max(-low, high) <= min(2 ** (info.nmant + 1), float(info.max))


def _floats_fit(narrow: PrimitiveType, wide: PrimitiveType) -> bool:
    a, b = ml_dtypes.finfo(narrow.dtype), ml_dtypes.finfo(wide.dtype)
    if a.nmant > b.nmant or float(a.max) > float(b.max) or float(a.smallest_subnormal) < float(b.smallest_subnormal):
        return False
    specials = np.array([np.nan, np.inf, -0.0]).astype(narrow.dtype)
    kept = specials.astype(wide.dtype).astype(np.float64)
    return _signed(specials.astype(np.float64)) == _signed(kept)


def _signed(values: np.ndarray) -> list[str]:
    return ["nan" if v != v else repr(float(v)) for v in values]
