"""Operands of structured ops in buffers of their own, nearer to where they are used: `promote`, `linalg-data-place`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.linalg_ext.ir import (
    ArrayAttr,
    Attribute,
    Builder,
    DenseArrayAttr,
    IntegerAttr,
    IntegerType,
    LinalgError,
    MemRefType,
    Operation,
    OpResult,
    TensorType,
    Value,
)
from xjit.linalg_ext.structured import as_structured, structured
from xjit.linalg_ext.structured.creation import empty_like, size_of

__all__ = ["DATA_PLACE", "data_place", "promote"]

DATA_PLACE = "__byteir_data_place__"
"""The attribute of ops on memrefs whose operands are to be placed: a list of memory spaces, or those of the pass."""

_UNPLACED = -1


def promote(operation: Operation, spaces: Mapping[int, Attribute | None], alloca: bool = False) -> Operation:
    """Gives operands, memrefs, of a structured op buffers in these memory spaces (None: the default one).

    What is read is copied into them first, what is written is copied back. Returns the op, which has changed in place.
    LinalgError for operands that are no memrefs.
    """
    op = structured(operation)
    before, after = Builder.before(operation), Builder.after(operation)
    for number in spaces:
        if not 0 <= number < len(op.operands) or not isinstance(op.operands[number].type, MemRefType):
            what = f"operand #{number} of {len(op.operands)} is no memref"
            raise LinalgError(f"'{operation.name}' op cannot be promoted: {what}", operation.location)
    for number, space in spaces.items():
        value, init = op.operands[number], number - len(op.inputs)
        buffer = _allocate(before, value, space, "memref.alloca" if alloca else "memref.alloc")
        if init < 0 or op.reads_init(init):
            _copy(before, value, buffer)
        operation.set_operand(number, buffer)
        if init >= 0:
            _copy(after, buffer, value)
    return operation


def _allocate(builder: Builder, value: Value, space: Attribute | None, name: str) -> Value:
    assert isinstance(value.type, MemRefType)
    kind = MemRefType(value.type.shape, value.type.element, None, space)
    sizes = [size_of(builder, value, axis) for axis, n in enumerate(kind.shape) if n is None]
    segments = {"operandSegmentSizes": DenseArrayAttr.i32((len(sizes), 0))}  # sizes, and symbols of a layout
    return builder.create(name, sizes, (kind,), segments).result


def _copy(builder: Builder, source: Value, target: Value) -> Operation:
    results = [target.type] if isinstance(target.type, TensorType) else []
    segments = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    return builder.create("linalg.copy", (source, target), results, segments)


def data_place(module: Operation, mem_spaces: Sequence[int] = ()) -> None:
    """The pass `linalg-data-place`.

    Marked ops on memrefs get their operands in memory spaces, -1 for one that stays; the last space is that of all
    further operands. On tensors, what a generic gives both to another one and to an `insert_slice` is computed into a
    tensor of its own, and copied for the latter, so that the other generic need not read the large tensor.
    """
    for op in list(module.walk()):
        mark = op.attributes.pop(DATA_PLACE, None) if as_structured(op) is not None else None
        if mark is not None:
            spaces = _spaces(mark, mem_spaces) or [_UNPLACED]
            wanted = {i: spaces[min(i, len(spaces) - 1)] for i in range(len(op.operands))}
            promote(op, {i: IntegerAttr(s, IntegerType(64)) for i, s in wanted.items() if s != _UNPLACED})
        elif op.name == "linalg.generic":
            for result in op.results:
                _place_tensor(result)


def _spaces(mark: Attribute, given: Sequence[int]) -> list[int]:
    if not isinstance(mark, ArrayAttr):
        return list(given)
    return [e.value if isinstance(e, IntegerAttr) else _UNPLACED for e in mark.elements]


def _place_tensor(result: OpResult) -> None:
    users = [use.owner for use in result.uses]
    slices = [op for op in users if op.name == "tensor.insert_slice" and op.operands[0] is result]
    op = structured(result.owner)
    if not slices or all(user.name != "linalg.generic" for user in users) or op.reads_init(result.index):
        return
    builder = Builder.before(op.operation)
    op.operation.set_operand(len(op.inputs) + result.index, empty_like(builder, op.inits[result.index]))
    for each in slices:
        builder = Builder.before(each)
        each.set_operand(0, _copy(builder, result, empty_like(builder, result)).result)
