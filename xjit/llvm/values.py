"""SSA values and constants.

Role: what instructions take and yield. Invariant: `text` is valid wherever LLVM expects an operand of `type`;
`constant` holds the Python number of a scalar or splat constant, so folding never parses text.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from dataclasses import field

import ml_dtypes
import numpy as np

from xjit.dataclass import dataclass
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, HALF, I1, LLVMType


@dataclass(slots=True, unsafe_hash=True)
class Value:
    """An SSA name or a constant. `constant` is the number of a scalar or splat constant (integers signed, i1 0 or 1).

    Never changed once it is made. It is no frozen dataclass, as making one takes as long as the rest of an instruction.
    """

    type: LLVMType
    text: str
    constant: int | float | None = field(default=None, compare=False)

    @property
    def is_constant(self) -> bool:
        """Whether this is a constant (globals' addresses included)."""
        return not self.text.startswith("%")

    @property
    def typed(self) -> str:
        """`i32 %x`: the operand with its type."""
        return f"{self.type.text} {self.text}"

    def __str__(self) -> str:
        return self.typed


def same_type(a: Value, b: Value, what: str) -> LLVMType:
    """The common type of both operands of `what`; TypeError if they differ."""
    if a.type is not b.type:
        raise TypeError(f"operands of {what} differ in type: {a} and {b}")
    return a.type


def wrap_signed(value: int, bits: int) -> int:
    """`value` modulo 2^bits, in two's complement; one bit is 0 or 1."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def float_text(type: LLVMType, value: float) -> str:
    """The exact LLVM spelling of `value` rounded to the scalar float type."""
    if type is FLOAT:  # LLVM spells floats with the bits of the equal double
        value = struct.unpack("<f", _float32_bytes(value))[0]
        return f"0x{_double_bits(value):016X}"
    if type is DOUBLE:
        return f"0x{_double_bits(value):016X}"
    if type is HALF:
        return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
    if type is BFLOAT:
        return f"0xR{int(np.asarray(value, dtype=ml_dtypes.bfloat16).view(np.uint16)):04X}"
    raise TypeError(f"{type} is not a floating-point type")


def _float32_bytes(value: float) -> bytes:
    with np.errstate(over="ignore"):
        return np.float32(value).tobytes()


def _double_bits(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def const_int(type: LLVMType, value: int) -> Value:
    """An integer constant, modulo 2^bits; a splat if `type` is a vector."""
    return _const_int(type, int(value))


@functools.lru_cache(maxsize=8192)
def _const_int(type: LLVMType, value: int) -> Value:
    elem = type.elem
    if not elem.is_int:
        raise TypeError(f"integer constant {value} of type {type}")
    value = wrap_signed(value, elem.bits)
    text = ("true" if value else "false") if elem is I1 else str(value)
    return Value(type, f"splat ({elem.text} {text})" if type.is_vector else text, value)


def const_float(type: LLVMType, value: float) -> Value:
    """A floating-point constant, rounded to nearest even; a splat if `type` is a vector."""
    value = float(value)
    return _const_float(type, struct.pack("<d", value))


@functools.lru_cache(maxsize=8192)
def _const_float(type: LLVMType, double_bytes: bytes) -> Value:  # keyed by bits: -0.0 == 0.0
    value: float = struct.unpack("<d", double_bytes)[0]
    text = float_text(type.elem, value)
    return Value(type, f"splat ({type.elem.text} {text})" if type.is_vector else text, value)


def constant(type: LLVMType, value: float) -> Value:
    """`const_int` or `const_float`, as the type asks."""
    return const_float(type, value) if type.is_float else const_int(type, int(value))


def zero(type: LLVMType) -> Value:
    """All-zero bits of any type."""
    if type.is_int:
        return const_int(type, 0)
    if type.is_float:
        return const_float(type, 0.0)
    return Value(type, "null" if type.kind == "ptr" else "zeroinitializer")


def undef(type: LLVMType) -> Value:
    """`undef`: any bits, the initializer of memory without contents."""
    return Value(type, "undef")


def poison(type: LLVMType) -> Value:
    """`poison`: a value that must not matter."""
    return Value(type, "poison")


def const_vector(type: LLVMType, values: Sequence[float]) -> Value:
    """A vector or array constant of those elements; a splat where all are equal."""
    elem = type.elem
    if len(values) != type.width:
        raise TypeError(f"{type} needs {type.width} elements, not {len(values)}")
    if type.kind != "array" and len({(v, math.copysign(1.0, v)) for v in values}) == 1:
        return constant(type, values[0])
    body = ", ".join(constant(elem, value).typed for value in values)
    return Value(type, f"[{body}]" if type.kind == "array" else f"<{body}>")


def scalar_constant(splat: Value) -> Value:
    """The element of a constant that is the same in all lanes."""
    text = splat.text.removeprefix(f"splat ({splat.type.elem.text} ").removesuffix(")")
    return Value(splat.type.elem, text, splat.constant)
