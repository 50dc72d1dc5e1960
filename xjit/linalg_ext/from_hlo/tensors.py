"""Instructions that take arrays apart and put them together."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.reshaping import reshaped
from xjit.linalg_ext.from_hlo.scope import Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.types import has_scalar_code, raised_element
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType, TensorType, element_type
from xjit.linalg_ext.structured.scalars import cast
from xjit.linalg_ext.structured.view import shape_of

__all__ = ["TENSOR_RULES", "padded"]


def _reshape(scope: Scope, instruction: HloInstruction) -> Raised | None:
    if not instruction.shape.is_static_array:
        return None
    return reshaped(scope.builder, scope.value(instruction.operand(0)), instruction.shape.dimensions)


def _slice(scope: Scope, instruction: HloInstruction) -> Raised:
    a = instruction.attributes_as(at.SliceAttributes)
    value = scope.value(instruction.operand(0))
    return scope.slice(value, a.starts, instruction.shape.dimensions, [d.stride for d in a.slice])


def _clamped_starts(scope: Scope, starts: Sequence[HloInstruction], room: Sequence[int]) -> list[int | Value]:
    """Returns the first index of a part, moved so that it lies inside; `room` are the largest indices."""
    found: list[int | Value] = []
    for start, most in zip(starts, room):
        if start.opcode == "constant":
            number = int(start.attributes_as(at.ConstantAttributes).literal.array[()])
            found.append(max(0, min(number, most)))
            continue
        builder = scope.builder
        wide = cast(builder, scope.scalar(start), IntegerType(64), start.shape.element_type.is_signed)
        for name, bound in (("arith.maxsi", 0), ("arith.minsi", most)):
            wide = builder.create(name, (wide, scope.number(bound, IntegerType(64))), (IntegerType(64),)).result
        found.append(cast(builder, wide, IndexType()))
    return found


def _dynamic_slice(scope: Scope, instruction: HloInstruction) -> Raised | None:
    operand, *starts = instruction.operands
    if any(s.shape.rank for s in starts) or not instruction.shape.is_static_array:
        return None
    sizes = instruction.shape.dimensions
    room = [n - m for n, m in zip(operand.shape.dimensions, sizes)]
    return scope.slice(scope.value(operand), _clamped_starts(scope, starts, room), sizes)


def _dynamic_update_slice(scope: Scope, instruction: HloInstruction) -> Raised | None:
    operand, update, *starts = instruction.operands
    if any(s.shape.rank for s in starts) or not instruction.shape.is_static_array:
        return None
    sizes = update.shape.dimensions
    room = [n - m for n, m in zip(operand.shape.dimensions, sizes)]
    offsets = _clamped_starts(scope, starts, room)
    return scope.slice(scope.value(update), offsets, sizes, into=scope.value(operand))


def _concatenate(scope: Scope, instruction: HloInstruction) -> Raised | None:
    if not instruction.shape.is_static_array:
        return None
    axis = instruction.attributes_as(at.ConcatenateAttributes).dimension
    whole = scope.empty(instruction.shape.dimensions, raised_element(instruction.shape.element_type))
    offsets = [0] * instruction.shape.rank
    for operand in instruction.operands:
        whole = scope.slice(scope.value(operand), offsets, operand.shape.dimensions, into=whole)
        offsets[axis] += operand.shape.dimensions[axis]
    return whole


def padded(
    scope: Scope, value: Value, padding: Sequence[at.PaddingDimension], filler: Value, sizes: Sequence[int]
) -> Value:
    """Returns a tensor with `filler`, a scalar, around and between its elements; negative edges are cut off."""
    old = [n or 0 for n in shape_of(value)]
    steps = [p.interior_padding + 1 for p in padding]
    if any(step > 1 for step in steps) and 0 not in old:
        spread = [(n - 1) * step + 1 for n, step in zip(old, steps)]
        value = scope.slice(value, [0] * len(old), old, steps, into=scope.full(filler, spread))
        old = spread
    low = [max(0, p.edge_padding_low) for p in padding]
    high = [max(0, p.edge_padding_high) for p in padding]
    if any(low) or any(high):
        region = scope.region([IndexType()] * len(old), lambda b, _: [filler], "tensor.yield")
        attributes = {
            "operandSegmentSizes": DenseArrayAttr.i32((1, 0, 0)),
            "static_low": DenseArrayAttr.i64(low),
            "static_high": DenseArrayAttr.i64(high),
        }
        wide = tuple(n + a + b for n, a, b in zip(old, low, high))
        kind = TensorType(wide, element_type(value.type))
        value = scope.builder.create("tensor.pad", (value,), (kind,), attributes, (region,)).result
    if shape_of(value) == tuple(sizes):
        return value
    return scope.slice(value, [max(0, -p.edge_padding_low) for p in padding], sizes)


def _pad(scope: Scope, instruction: HloInstruction) -> Raised | None:
    if not has_scalar_code(instruction.shape):
        return None
    value = scope.value(instruction.operand(0))
    padding = instruction.attributes_as(at.PadAttributes).padding
    return padded(scope, value, padding, scope.scalar(instruction.operand(1)), instruction.shape.dimensions)


TENSOR_RULES: dict[str, Rule] = {
    "reshape": _reshape,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "concatenate": _concatenate,
    "pad": _pad,
}
