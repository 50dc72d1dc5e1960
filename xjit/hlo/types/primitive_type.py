"""XLA's element types: their HLO names, widths, NumPy dtypes and numbers in `xla_data.proto`."""

from __future__ import annotations

import enum

import ml_dtypes
import numpy as np

from xjit.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Facts:
    text: str
    proto: int
    bit_width: int
    kind: str  # "pred", "signed", "unsigned", "float", "complex", or "" for types without elements
    dtype: np.dtype | None


def _facts(text: str, proto: int, bits: int = 0, kind: str = "", dtype: object = None) -> _Facts:
    return _Facts(text, proto, bits, kind, None if dtype is None else np.dtype(dtype))  # type: ignore[call-overload]


class PrimitiveType(enum.Enum):
    """An element type. Sub-byte types take one byte per element in a NumPy array, as ml_dtypes stores them."""

    PRED = _facts("pred", 1, 8, "pred", np.bool_)
    S1 = _facts("s1", 30, 1, "signed", getattr(ml_dtypes, "int1", None))
    S2 = _facts("s2", 26, 2, "signed", ml_dtypes.int2)
    S4 = _facts("s4", 21, 4, "signed", ml_dtypes.int4)
    S8 = _facts("s8", 2, 8, "signed", np.int8)
    S16 = _facts("s16", 3, 16, "signed", np.int16)
    S32 = _facts("s32", 4, 32, "signed", np.int32)
    S64 = _facts("s64", 5, 64, "signed", np.int64)
    U1 = _facts("u1", 31, 1, "unsigned", getattr(ml_dtypes, "uint1", None))
    U2 = _facts("u2", 27, 2, "unsigned", ml_dtypes.uint2)
    U4 = _facts("u4", 22, 4, "unsigned", ml_dtypes.uint4)
    U8 = _facts("u8", 6, 8, "unsigned", np.uint8)
    U16 = _facts("u16", 7, 16, "unsigned", np.uint16)
    U32 = _facts("u32", 8, 32, "unsigned", np.uint32)
    U64 = _facts("u64", 9, 64, "unsigned", np.uint64)
    F16 = _facts("f16", 10, 16, "float", np.float16)
    F32 = _facts("f32", 11, 32, "float", np.float32)
    F64 = _facts("f64", 12, 64, "float", np.float64)
    BF16 = _facts("bf16", 16, 16, "float", ml_dtypes.bfloat16)
    F4E2M1FN = _facts("f4e2m1fn", 32, 4, "float", ml_dtypes.float4_e2m1fn)
    F6E2M3FN = _facts("f6e2m3fn", 36, 6, "float", ml_dtypes.float6_e2m3fn)
    F6E3M2FN = _facts("f6e3m2fn", 35, 6, "float", ml_dtypes.float6_e3m2fn)
    F8E5M2 = _facts("f8e5m2", 19, 8, "float", ml_dtypes.float8_e5m2)
    F8E4M3 = _facts("f8e4m3", 28, 8, "float", ml_dtypes.float8_e4m3)
    F8E4M3FN = _facts("f8e4m3fn", 20, 8, "float", ml_dtypes.float8_e4m3fn)
    F8E4M3B11FNUZ = _facts("f8e4m3b11fnuz", 23, 8, "float", ml_dtypes.float8_e4m3b11fnuz)
    F8E5M2FNUZ = _facts("f8e5m2fnuz", 24, 8, "float", ml_dtypes.float8_e5m2fnuz)
    F8E4M3FNUZ = _facts("f8e4m3fnuz", 25, 8, "float", ml_dtypes.float8_e4m3fnuz)
    F8E3M4 = _facts("f8e3m4", 29, 8, "float", ml_dtypes.float8_e3m4)
    F8E8M0FNU = _facts("f8e8m0fnu", 33, 8, "float", ml_dtypes.float8_e8m0fnu)
    C64 = _facts("c64", 15, 64, "complex", np.complex64)
    C128 = _facts("c128", 18, 128, "complex", np.complex128)
    TUPLE = _facts("tuple", 13)
    OPAQUE = _facts("opaque", 14)
    TOKEN = _facts("token", 17)
    BUFFER = _facts("buffer", 34)

    text: str
    """The name in HLO text: `f32`."""

    proto: int
    """The number of the type in XLA's `PrimitiveType` proto enum."""

    bit_width: int
    """Bits of one element; 0 for tuple, opaque, token and buffer."""

    byte_width: int
    """Bytes of one element in memory (sub-byte types are not packed: 1)."""

    is_array: bool
    """Whether arrays of this type exist."""

    is_float: bool
    """Whether this is a real floating-point type."""

    is_complex: bool
    """Whether this is a complex type."""

    is_integer: bool
    """Whether this is a signed or unsigned integer type (pred is not)."""

    is_signed: bool
    """Whether this is a signed integer type."""

    is_unsigned: bool
    """Whether this is an unsigned integer type."""

    def __init__(self, facts: _Facts) -> None:
        self.text = facts.text  # plain attributes: `Enum.value` takes ten times as long, and everything asks for these
        self.proto = facts.proto
        self.bit_width = facts.bit_width
        self.byte_width = (facts.bit_width + 7) // 8
        self.is_array = facts.kind != ""
        self.is_float = facts.kind == "float"
        self.is_complex = facts.kind == "complex"
        self.is_integer = facts.kind in ("signed", "unsigned")
        self.is_signed = facts.kind == "signed"
        self.is_unsigned = facts.kind == "unsigned"

    __hash__ = object.__hash__  # members are unique objects; `Enum` hashes their names, in Python

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of arrays of this type; TypeError for types without elements."""
        dtype = self._value_.dtype
        if dtype is None:
            raise TypeError(f"{self.text} has no NumPy dtype")
        return dtype

    @property
    def component(self) -> PrimitiveType:
        """The type of the real part of a complex type; other types are their own component."""
        return {"c64": PrimitiveType.F32, "c128": PrimitiveType.F64}.get(self.text, self)

    def __repr__(self) -> str:
        return f"PrimitiveType.{self.name}"

    @staticmethod
    def from_text(text: str) -> PrimitiveType:
        """Returns the type of that HLO name; KeyError if there is none."""
        return BY_TEXT[text]

    @staticmethod
    def from_dtype(dtype: object) -> PrimitiveType:
        """Returns the type of a NumPy dtype; KeyError if XLA has none."""
        return BY_DTYPE[np.dtype(dtype)]  # type: ignore[call-overload]


BY_TEXT: dict[str, PrimitiveType] = {t.text: t for t in PrimitiveType}
BY_PROTO: dict[int, PrimitiveType] = {t.proto: t for t in PrimitiveType}
BY_DTYPE: dict[np.dtype, PrimitiveType] = {t.value.dtype: t for t in PrimitiveType if t.value.dtype is not None}
