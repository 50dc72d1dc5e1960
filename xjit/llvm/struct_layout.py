"""Structs that generated code and Python share: fields by name, with the offsets that C gives them."""

from __future__ import annotations

from functools import cached_property

from xjit.dataclass import dataclass
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I8, I64, LLVMType
from xjit.llvm.values import Value, const_int


@dataclass(frozen=True)
class StructLayout:
    """A struct of scalars and pointers in C's layout: each field is aligned to its own size, the whole to `align`."""

    name: str
    fields: tuple[tuple[str, LLVMType], ...]
    align: int = 8

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Byte offset of every field."""
        offsets: dict[str, int] = {}
        end = 0
        for name, kind in self.fields:
            size = kind.bits // 8
            offsets[name] = end = -(-end // size) * size
            end += size
        return offsets

    @cached_property
    def size(self) -> int:
        """Bytes of the struct, a multiple of its alignment."""
        name, kind = self.fields[-1]
        return -(-(self.offsets[name] + kind.bits // 8) // self.align) * self.align

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """Where every field starts and ends."""
        return {name: (self.offsets[name], self.offsets[name] + kind.bits // 8) for name, kind in self.fields}

    @cached_property
    def _types(self) -> dict[str, LLVMType]:
        return dict(self.fields)

    def type_of(self, field: str) -> LLVMType:
        """Type of a field; KeyError if there is none of that name."""
        return self._types[field]

    def pack(self, **values: int) -> bytes:
        """The bytes of a struct with these fields set and the others zero; KeyError for a field there is not."""
        packed = bytearray(self.size)
        places = self._places
        for field, value in values.items():
            start, end = places[field]
            packed[start:end] = value.to_bytes(end - start, "little", signed=value < 0)
        return bytes(packed)

    def unpack(self, data: bytes) -> dict[str, int]:
        """The fields of a struct as signed numbers."""
        sizes = {name: kind.bits // 8 for name, kind in self.fields}
        return {
            name: int.from_bytes(data[start : start + sizes[name]], "little", signed=True)
            for name, start in self.offsets.items()
        }

    def pointer(self, builder: IRBuilder, base: Value, field: str) -> Value:
        """Emits the address of a field."""
        return builder.gep(I8, base, const_int(I64, self.offsets[field]))

    def load(self, builder: IRBuilder, base: Value, field: str) -> Value:
        """Emits a load of a field."""
        kind = self.type_of(field)
        return builder.load(kind, self.pointer(builder, base, field), align=kind.bits // 8, name=field)

    def store(self, builder: IRBuilder, base: Value, field: str, value: Value) -> None:
        """Emits a store to a field."""
        builder.store(value, self.pointer(builder, base, field), align=self.type_of(field).bits // 8)

    def element(self, builder: IRBuilder, base: Value, index: Value) -> Value:
        """Emits the address of struct number `index` (i64) of an array of them."""
        return builder.gep(I8, base, builder.mul(index, const_int(I64, self.size)))

    def load_atomic(self, builder: IRBuilder, base: Value, field: str, ordering: str) -> Value:
        """Emits an atomic load of a field."""
        kind = self.type_of(field)
        return builder.load_atomic(kind, self.pointer(builder, base, field), kind.bits // 8, ordering, field)

    def store_atomic(self, builder: IRBuilder, base: Value, field: str, value: Value, ordering: str) -> None:
        """Emits an atomic store to a field."""
        place = self.pointer(builder, base, field)
        builder.store_atomic(value, place, self.type_of(field).bits // 8, ordering)
