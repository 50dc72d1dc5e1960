"""The pass `linalg-ext-bufferize`: structured ops on tensors become ops on buffers of their own, all others stay."""

from __future__ import annotations

from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import MemRefType, TensorType
from xjit.linalg_ext.structured import StructuredOp, as_structured
from xjit.linalg_ext.structured.creation import size_of

__all__ = ["bufferize"]


def bufferize(module: Operation) -> bool:
    """Gives each init of an op on tensors a new buffer, filled with the init where the op reads it.

    `bufferization.to_memref` and `bufferization.to_tensor` stand where buffers meet tensors; says if anything changed.
    """
    found = [op for op in module.walk() if _has_tensors(op)]
    for operation in found:
        op = as_structured(operation)
        assert op is not None
        _bufferize(op)
    for op in reversed(list(module.walk())):
        if op.name in ("tensor.empty", "bufferization.to_tensor") and not op.result.has_uses:
            op.erase()
    return bool(found)


def _has_tensors(operation: Operation) -> bool:
    op = as_structured(operation)
    return op is not None and any(isinstance(value.type, TensorType) for value in op.operands)


def _bufferize(op: StructuredOp) -> None:
    builder = Builder.before(op.operation)
    inputs = [_buffer_of(builder, value) for value in op.inputs]
    buffers: list[Value] = []
    for number, init in enumerate(op.inits):
        buffer = _allocate(builder, init) if isinstance(init.type, TensorType) else init
        if buffer is not init and op.reads_init(number) and not _is_empty(init):
            builder.create("memref.copy", (_buffer_of(builder, init), buffer))
        buffers.append(buffer)
    regions = [region.clone({}) for region in op.operation.regions]
    builder.create(op.operation.name, (*inputs, *buffers), (), op.operation.attributes, regions)
    tensors = [b for b, init in zip(buffers, op.inits) if isinstance(init.type, TensorType)]
    for result, buffer in zip(op.operation.results, tensors):
        tensor = builder.create("bufferization.to_tensor", (buffer,), (result.type,)).result
        result.replace_all_uses_with(tensor)
    op.operation.erase()


def _is_empty(value: Value) -> bool:
    return value.defining_op is not None and value.defining_op.name == "tensor.empty"


def _buffer_of(builder: Builder, value: Value) -> Value:
    """Returns the buffer of a tensor: the one that it was made of, or a conversion; scalars as they are."""
    if not isinstance(value.type, TensorType):
        return value
    source = value.defining_op
    if source is not None and source.name == "bufferization.to_tensor":
        return source.operands[0]
    kind = MemRefType(value.type.shape, value.type.element)
    return builder.create("bufferization.to_memref", (value,), (kind,)).result


def _allocate(builder: Builder, value: Value) -> Value:
    assert isinstance(value.type, TensorType)
    kind = MemRefType(value.type.shape, value.type.element)
    sizes = [size_of(builder, value, axis) for axis, n in enumerate(kind.shape) if n is None]
    segments = {"operandSegmentSizes": DenseArrayAttr.i32((len(sizes), 0))}  # sizes, and symbols of a layout
    return builder.create("memref.alloc", sizes, (kind,), segments).result
