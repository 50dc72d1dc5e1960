"""Rows of register values on the stack: accumulators of a strip of columns, elements of a row that are needed again.

A row is padded to whole vectors: a vector in which only some lanes exist is stored and loaded without a mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.emitters.elemental import ComplexValue, RegisterValue
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I1, I8, LLVMType, vector
from xjit.llvm.values import Value, const_int

PADDING = 64  # elements: no vector is longer
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class StackRow:
    """Memory for one value per position; a complex value takes two arrays, a predicate a byte."""

    parts: tuple[Value, ...]
    kinds: tuple[LLVMType, ...]
    is_complex: bool

    @staticmethod
    def like(builder: IRBuilder, value: RegisterValue, size: int) -> StackRow:
        """Allocates a row of `size` values of the kind of `value`, once per call of the function."""
        kinds = tuple(part.type.elem for part in _parts(value))
        memory = [I8 if kind is I1 else kind for kind in kinds]
        padded = -(-size // PADDING) * PADDING
        parts = tuple(builder.alloca(kind, padded, align=ALIGNMENT, name="row") for kind in memory)
        return StackRow(parts, kinds, isinstance(value, ComplexValue))

    def store(self, builder: IRBuilder, position: Value, value: RegisterValue) -> None:
        """Stores a value, or a vector of values from `position` on."""
        for array, part in zip(self.parts, _parts(value), strict=True):
            kind = I8 if part.type.elem is I1 else part.type.elem
            stored = builder.zext(part, part.type.with_elem(I8)) if part.type.elem is I1 else part
            builder.store(stored, builder.gep(kind, array, position), align=kind.bits // 8)

    def load(self, builder: IRBuilder, position: Value, width: int) -> RegisterValue:
        """Loads `width` values from `position` on; one scalar for width 0."""
        loaded = [self._load(builder, array, kind, position, width) for array, kind in zip(self.parts, self.kinds)]
        return ComplexValue(loaded[0], loaded[1]) if self.is_complex else loaded[0]

    @staticmethod
    def _load(builder: IRBuilder, array: Value, kind: LLVMType, position: Value, width: int) -> Value:
        memory = I8 if kind is I1 else kind
        wide = vector(memory, width) if width else memory
        value = builder.load(wide, builder.gep(memory, array, position), align=memory.bits // 8)
        if kind is not I1:
            return value
        zero = const_int(I8, 0)
        return builder.icmp_unsigned("!=", value, builder.splat(zero, width) if width else zero)


def _parts(value: RegisterValue) -> Sequence[Value]:
    return (value.real, value.imag) if isinstance(value, ComplexValue) else (value,)
