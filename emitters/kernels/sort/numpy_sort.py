"""NumPy's own sort functions (vectorised on x86) for lines of one operand in ascending order.

They are not stable, which shows only where equal elements have different bits: zeros of both signs (and subnormals,
which count as zeros while they are flushed), and NaNs. Those are written once more, in their original order.
That of float16 is left out: with AVX-512 it leaves long lines of few different numbers out of order (NumPy 2.4).
"""

from __future__ import annotations

from xjit.emitters.kernels.loops.lines import Line
from xjit.emitters.kernels.sort.sort_order import from_raw
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I32, I64, PTR
from xjit.llvm.values import Value, const_int, constant, zero
from xjit.ops.sort_keys import KeyOrder

MIN_SIZE = 12
_NAMES = {
    PrimitiveType.S8: "int8",
    PrimitiveType.U8: "uint8",
    PrimitiveType.S16: "int16",
    PrimitiveType.U16: "uint16",
    PrimitiveType.S32: "int32",
    PrimitiveType.U32: "uint32",
    PrimitiveType.S64: "int64",
    PrimitiveType.U64: "uint64",
    PrimitiveType.F32: "float32",
    PrimitiveType.F64: "float64",
}


def numpy_sort_name(order: KeyOrder, operand_count: int, size: int) -> str | None:
    """Returns the symbol that sorts in this order, or None."""
    name = _NAMES.get(order.kind)
    key_is_operand = (
        order.key.shape.element_type is order.comparator.parameter_instruction(order.parameter).shape.element_type
    )
    if name is None or operand_count != 1 or size < MIN_SIZE or not order.is_plain_ascending() or not key_is_operand:
        return None
    return f"xjit_numpy_sort_{name}"


def emit_numpy_sort(builder: StructuredBuilder, source: Line, target: Line) -> None:
    """Emits the sort of a line into a contiguous line."""
    begin, end = const_int(I64, 0), const_int(I64, source.size)
    counts = [begin, begin, begin]  # negative numbers, NaNs, elements whose order NumPy may change
    with builder.loop_with(begin, end, counts, name="copy") as (i, totals, following):
        bits = source.load_raw(builder, i)
        target.store_raw(builder, i, bits)
        if source.kind.is_float:
            found = _classify(builder, source.kind, bits)
            following.extend(builder.add(t, builder.zext(f, I64)) for t, f in zip(totals, found, strict=True))
        else:
            following.extend(totals)
    name = f"xjit_numpy_sort_{_NAMES[source.kind]}"
    sort = builder.module.declare(name, I32, [PTR, I64, PTR])
    builder.call(sort, [target.pointer, end, zero(PTR)])
    if source.kind.is_float:
        negatives, nans, special = totals
        with builder.when(builder.icmp_signed(">", special, begin)):
            _restore_order(builder, source, target, negatives, builder.sub(end, nans))


def _classify(builder: StructuredBuilder, kind: PrimitiveType, bits: Value) -> tuple[Value, Value, Value]:
    """Whether an element is negative, is NaN, and whether equal elements may have other bits."""
    value = from_raw(builder, kind, bits)
    assert isinstance(value, Value)
    number = constant(value.type, 0.0)
    is_nan = builder.fcmp_unordered("uno", value, value)
    odd_zero = builder.and_(
        builder.fcmp_ordered("==", value, number), builder.icmp_signed("!=", bits, const_int(bits.type, 0))
    )
    return builder.fcmp_ordered("<", value, number), is_nan, builder.or_(is_nan, odd_zero)


def _restore_order(builder: StructuredBuilder, source: Line, target: Line, first_zero: Value, first_nan: Value) -> None:
    """Writes the zeros and the NaNs of the line in the order in which they came."""
    begin, end = const_int(I64, 0), const_int(I64, source.size)
    with builder.loop_with(begin, end, [first_zero, first_nan], name="order") as (i, places, following):
        bits = source.load_raw(builder, i)
        value = from_raw(builder, source.kind, bits)
        assert isinstance(value, Value)
        tests = (
            builder.fcmp_ordered("==", value, constant(value.type, 0.0)),
            builder.fcmp_unordered("uno", value, value),
        )
        for test, place in zip(tests, places, strict=True):
            with builder.when(test):
                target.store_raw(builder, place, bits)
            following.append(builder.add(place, builder.zext(test, I64)))
