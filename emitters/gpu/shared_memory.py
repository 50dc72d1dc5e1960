"""Shared memory of one kernel: arrays that all threads of a block read and write."""

from __future__ import annotations

from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import Unsupported
from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Function
from xjit.llvm.module import Module
from xjit.llvm.types import I1, I8, LLVMType, array, vector
from xjit.llvm.values import Value, const_int, undef

ALIGNMENT = 16


@dataclass(slots=True)
class SharedMemory:
    """The arrays so far, and their bytes in all."""

    module: Module
    function: Function
    byte_size: int = 0
    _arrays: int = field(default=0)

    def allocate(self, kind: LLVMType, count: int) -> SharedArray:
        """Returns a new array of scalars. Errors: Unsupported if a kernel cannot declare as much."""
        stored = I8 if kind is I1 else kind
        size = -(-count * stored.bits // 8 // ALIGNMENT) * ALIGNMENT
        self.byte_size += size
        gpu = self.module.target.gpu
        assert gpu is not None
        if self.byte_size > gpu.static_shared_bytes:
            raise Unsupported(f"a kernel with {self.byte_size} bytes of shared memory for {gpu.name}")
        name = f"{self.function.name}_shared{self._arrays}"
        self._arrays += 1
        type = array(stored, count)
        space = self.module.target.address_spaces.shared
        pointer = self.module.add_global(name, type, undef(type), ALIGNMENT, address_space=space)
        return SharedArray(pointer, kind)


@dataclass(frozen=True, slots=True)
class SharedArray:
    """Values of one kind; a predicate takes a byte."""

    pointer: Value
    kind: LLVMType

    def address(self, builder: IRBuilder, position: Value) -> Value:
        """The address of a value."""
        return builder.gep(I8 if self.kind is I1 else self.kind, self.pointer, position)

    def store(self, builder: IRBuilder, position: Value, value: Value, alignment: int = 0) -> None:
        """Writes a scalar, or a vector from `position` on, aligned to so many bytes (0: to those of a scalar)."""
        stored = builder.zext(value, I8) if self.kind is I1 else value
        elem = stored.type.elem
        builder.store(stored, builder.gep(elem, self.pointer, position), align=alignment or elem.bits // 8)

    def load(self, builder: IRBuilder, position: Value, width: int = 0, alignment: int = 0) -> Value:
        """Reads a scalar, or a vector of `width` values from `position` on, aligned as in `store`."""
        elem = I8 if self.kind is I1 else self.kind
        type = vector(elem, width) if width else elem
        value = builder.load(type, builder.gep(elem, self.pointer, position), align=alignment or elem.bits // 8)
        if self.kind is not I1:
            return value
        zero = const_int(I8, 0)
        return builder.icmp_unsigned("!=", value, builder.splat(zero, width) if width else zero)
