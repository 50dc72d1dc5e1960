"""LLVM's types, as interned objects.

Role: the types of values that `IRBuilder` makes. Invariants: two equal types are the same object, so compare with `is`;
a vector of one element is its element type, so scalar code is vector code of width 1.
"""

from __future__ import annotations

import functools
from dataclasses import field

from xjit.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class LLVMType:
    """A type. `text` is its LLVM spelling, `mangled` its spelling in names of overloaded intrinsics.

    `elem` and `width` are those of a vector, array or struct; a scalar is its own element, of width 1. `bits` counts
    the whole value. `address_space` is what a pointer, or each of a vector of pointers, points into.
    """

    text: str
    mangled: str
    kind: str  # "int", "float", "ptr", "void", "vector", "array" or "struct"
    bits: int
    width: int = 1
    _elem: LLVMType | None = None
    is_vector: bool = field(default=False)
    is_int: bool = field(default=False)  # integer or vector of integers
    is_float: bool = field(default=False)  # floating point or vector of it
    is_ptr: bool = field(default=False)  # pointer or vector of pointers
    address_space: int = 0

    @property
    def elem(self) -> LLVMType:
        """The element type; a scalar is its own element."""
        return self if self._elem is None else self._elem

    def with_elem(self, elem: LLVMType) -> LLVMType:
        """`elem` in the shape (scalar, or vector of that width) of this type."""
        return vector(elem, self.width)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"LLVMType({self.text})"


@functools.cache
def int_type(bits: int) -> LLVMType:
    """The integer type of that many bits."""
    return LLVMType(f"i{bits}", f"i{bits}", "int", bits, is_int=True)


@functools.cache
def vector(elem: LLVMType, width: int) -> LLVMType:
    """The vector type `<width x elem>`; `elem` itself for width 1."""
    if elem.kind not in ("int", "float", "ptr") or width < 1:
        raise TypeError(f"no vector type of {width} x {elem}")
    if width == 1:
        return elem
    return LLVMType(
        f"<{width} x {elem.text}>", f"v{width}{elem.mangled}", "vector", width * elem.bits, width, elem,
        is_vector=True, is_int=elem.is_int, is_float=elem.is_float, is_ptr=elem.is_ptr,
        address_space=elem.address_space,
    )  # fmt: skip


@functools.cache
def array(elem: LLVMType, width: int) -> LLVMType:
    """The array type `[width x elem]`."""
    return LLVMType(f"[{width} x {elem.text}]", f"a{width}{elem.mangled}", "array", width * elem.bits, width, elem)


@functools.cache
def struct(elem: LLVMType, width: int) -> LLVMType:
    """The struct of `width` equal members, as instructions with several results return it."""
    text = ", ".join([elem.text] * width)
    return LLVMType(f"{{ {text} }}", f"s{width}{elem.mangled}", "struct", width * elem.bits, width, elem)


@functools.cache
def pointer(address_space: int, /) -> LLVMType:
    """The type of pointers into an address space of the target (`Target.address_spaces`); 0 is the generic one."""
    text = f"ptr addrspace({address_space})" if address_space else "ptr"
    return LLVMType(text, f"p{address_space}", "ptr", 64, is_ptr=True, address_space=address_space)


def _float(text: str, mangled: str, bits: int) -> LLVMType:
    return LLVMType(text, mangled, "float", bits, is_float=True)


I1, I8, I16, I32, I64 = (int_type(bits) for bits in (1, 8, 16, 32, 64))
HALF = _float("half", "f16", 16)
BFLOAT = _float("bfloat", "bf16", 16)
FLOAT = _float("float", "f32", 32)
DOUBLE = _float("double", "f64", 64)
PTR = pointer(0)
VOID = LLVMType("void", "isVoid", "void", 0)
