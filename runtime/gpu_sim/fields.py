"""How the simulator's own IR reads and writes its structs."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I1, I32, I64, LLVMType
from xjit.llvm.values import Value, const_int


@dataclass(frozen=True, slots=True)
class Fields:
    """A struct in memory, by the names of its fields."""

    builder: StructuredBuilder
    layout: StructLayout
    base: Value

    def __getitem__(self, field: str) -> Value:
        return self.layout.load(self.builder, self.base, field)

    def __setitem__(self, field: str, value: Value | int) -> None:
        typed = const_int(self.layout.type_of(field), value) if isinstance(value, int) else value
        self.layout.store(self.builder, self.base, field, typed)

    def pointer(self, field: str) -> Value:
        """The address of a field."""
        return self.layout.pointer(self.builder, self.base, field)

    def is_(self, field: str, value: Value | int) -> Value:
        """Whether a field has a value, as an i1."""
        return equal(self.builder, self[field], value)


def element(builder: StructuredBuilder, layout: StructLayout, array: Value, index: Value) -> Fields:
    """The struct number `index` (i64) of an array."""
    address = builder.offset(array, builder.mul(index, const_int(I64, layout.size)))
    return Fields(builder, layout, address)


def equal(builder: StructuredBuilder, a: Value, b: Value | int) -> Value:
    """Whether two integers are equal, as an i1."""
    return builder.icmp_signed("==", a, const_int(a.type, b) if isinstance(b, int) else b)


def either(builder: StructuredBuilder, *conditions: Value) -> Value:
    """Whether one of some i1 holds; all of them are computed."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = builder.or_(result, condition)
    return result


def both(builder: StructuredBuilder, *conditions: Value) -> Value:
    """Whether all of some i1 hold; all of them are computed."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = builder.and_(result, condition)
    return result


def has_bits(builder: StructuredBuilder, value: Value, bits: int) -> Value:
    """Whether any of some bits is set, as an i1."""
    return builder.not_(equal(builder, builder.and_(value, const_int(value.type, bits)), 0))


def i32(number: int) -> Value:
    """An i32 constant."""
    return const_int(I32, number)


def widened(builder: StructuredBuilder, value: Value, type: LLVMType = I64) -> Value:
    """A value zero-extended; an i1 becomes 0 or 1."""
    return value if value.type is type else builder.zext(value, type)


TRUE, FALSE = const_int(I1, 1), const_int(I1, 0)
