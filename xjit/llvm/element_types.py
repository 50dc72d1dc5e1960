"""What one element of each type is in a register and in memory, and what sums of it are computed in.

Facts about types only: `xjit.llvm.conversions` has the code, and says more about what is in a register.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.types import DOUBLE, FLOAT, I1, I8, I16, LLVMType, int_type

P = PrimitiveType


def _register_type(kind: PrimitiveType) -> LLVMType:
    if kind is P.PRED:
        return I1
    if kind.is_integer:
        return int_type(max(8, kind.bit_width))
    return DOUBLE if kind.component is P.F64 else FLOAT


_REGISTER: Mapping[PrimitiveType, LLVMType] = MappingProxyType({t: _register_type(t) for t in P if t.is_array})
_STORAGE: Mapping[PrimitiveType, LLVMType] = MappingProxyType(
    {t: I16 if t in (P.F16, P.BF16) else I8 if t is P.PRED or t.bit_width <= 8 else r for t, r in _REGISTER.items()}
)


def register_type(kind: PrimitiveType) -> LLVMType:
    """The LLVM type of one element in a register; of one part, for complex types."""
    return _REGISTER[kind]


def storage_type(kind: PrimitiveType) -> LLVMType:
    """The LLVM type of one element in memory; of one part, for complex types."""
    return _STORAGE[kind]


PROMOTED: Mapping[PrimitiveType, PrimitiveType] = MappingProxyType(
    {kind: P.F32 for kind in P if kind.is_float and kind.bit_width < 32}
)
"""What sums and other reductions are computed in, where it is not their own type."""
