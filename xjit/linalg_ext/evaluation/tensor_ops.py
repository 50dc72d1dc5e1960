"""Operations of `tensor`, and those of `bufferization` that go between tensors and memrefs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xjit.linalg_ext.evaluation.slicing import integer, mixed_values, reassociation_of, slice_of
from xjit.linalg_ext.evaluation.values import Array, Runtime, dtype_of, empty, plain
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import MemRefType, TensorType
from xjit.linalg_ext.structured.view import integers_of

if TYPE_CHECKING:
    from xjit.linalg_ext.evaluation.interpreter import Interpreter

__all__ = ["TENSOR_OPS", "element_at", "expanded_shape", "new_array", "rank_reduced", "reshaped", "shape_from"]

_Handler: TypeAlias = "Callable[[Interpreter, Operation, list[Runtime]], Sequence[Runtime]]"


def shape_with(op: Operation, sizes: Sequence[Runtime]) -> tuple[int, ...]:
    """Returns the shape of the result, with sizes given for the dynamic dimensions."""
    kind = op.result.type
    assert isinstance(kind, TensorType | MemRefType)
    given = list(sizes)
    return tuple(integer(given.pop(0)) if n is None else n for n in kind.shape)


def new_array(op: Operation, sizes: Sequence[Runtime]) -> Array:
    """Returns an array of the type of the result that nothing was written to."""
    kind = op.result.type
    assert isinstance(kind, TensorType | MemRefType)
    return empty(shape_with(op, sizes), kind.element)


def _empty(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [new_array(op, operands)]


def _dim(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    shape, axis = operands[0].shape, integer(operands[1])
    if not 0 <= axis < len(shape):
        raise LinalgError(f"'{op.name}' asks for dimension {axis} of rank {len(shape)}", op.location)
    return [shape[axis]]


def _shape_of(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [Array(np.array(operands[0].shape, np.int64))]


def _rank(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [len(operands[0].shape)]


def element_at(op: Operation, array: Array, indices: Sequence[Runtime]) -> tuple[Any, ...]:
    """Returns indices for NumPy, numbers or arrays of them; LinalgError if one is outside."""
    result = tuple(np.asarray(plain(i)) for i in indices)
    for axis, (i, extent) in enumerate(zip(result, array.shape)):
        if i.size and (i.min() < 0 or i.max() >= extent):
            found = int(i.min() if i.min() < 0 else i.max())
            raise LinalgError(f"'{op.name}' at {found} in dimension {axis}, which has {extent}", op.location)
    return result


def _extract(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    array: Array = operands[0]
    at = element_at(op, array, operands[1:])
    if array.undefined is not None and np.any(array.undefined[at]):
        return [Array(np.asarray(array.data[at]), np.asarray(array.undefined[at]))]
    return [array.data[at]]


def _insert(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    result = operands[1].copy()
    result.store(element_at(op, result, operands[2:]), operands[0])
    return [result]


def _extract_slice(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """A result of lower rank leaves out dimensions of size 1."""
    array: Array = operands[0]
    at = slice_of(op, operands[1:], array.shape)
    part = array.view(lambda x: x[at])
    return [reshaped(part, rank_reduced(op, part.shape)).copy()]


def rank_reduced(op: Operation, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a slice's shape without those dimensions of size 1 that the type of the result has not."""
    kind = op.result.type
    assert isinstance(kind, TensorType | MemRefType)
    for kept in combinations(range(len(shape)), kind.rank):
        dropped_are_ones = all(shape[i] == 1 for i in range(len(shape)) if i not in kept)
        if dropped_are_ones and all(n in (None, shape[i]) for i, n in zip(kept, kind.shape)):
            return tuple(shape[i] for i in kept)
    raise LinalgError(f"'{op.name}' takes a slice of shape {shape}, and its type is {kind}", op.location)


def _insert_slice(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    source, target = operands[0], operands[1].copy()
    at = slice_of(op, operands[2:], target.shape)
    shape = target.data[at].shape
    if prod(shape) != prod(source.shape):
        raise LinalgError(f"'{op.name}' inserts shape {source.shape} as {shape}", op.location)
    target.store(at, reshaped(source, shape))
    return [target]


def reshaped(array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else array.view(lambda x: x.reshape(shape))


def _collapse_shape(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    shape = operands[0].shape
    return [reshaped(operands[0], tuple(prod(shape[i] for i in group) for group in reassociation_of(op)))]


def expanded_shape(op: Operation, operands: list[Runtime]) -> tuple[int, ...]:
    """Returns the shape of an `expand_shape`: as given, or the dynamic size of each group by division."""
    if "static_output_shape" in op.attributes:
        return tuple(mixed_values(op, "static_output_shape", list(operands[1:])))
    kind = op.result.type
    assert isinstance(kind, TensorType | MemRefType)
    shape: list[int] = []
    for size, group in zip(operands[0].shape, reassociation_of(op)):
        known = prod(n for n in (kind.shape[i] for i in group) if n is not None)
        for n in (kind.shape[i] for i in group):
            shape.append(size // known if n is None else n)
    return tuple(shape)


def _expand_shape(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    shape = expanded_shape(op, operands)
    if prod(shape) != prod(operands[0].shape):
        raise LinalgError(f"'{op.name}' makes {shape} of {operands[0].shape}", op.location)
    return [reshaped(operands[0], shape)]


def shape_from(op: Operation, operands: list[Runtime]) -> tuple[int, ...]:
    """Returns the shape that the second operand's elements are; LinalgError unless the first one's elements fill it."""
    if operands[1].undefined is not None and operands[1].undefined.any():
        raise LinalgError(f"'{op.name}' to a shape that nothing has written", op.location)
    shape = tuple(int(n) for n in operands[1].data)
    if min(shape, default=1) < 0 or prod(shape) != prod(operands[0].shape):
        raise LinalgError(f"'{op.name}' makes {shape} of {operands[0].shape}", op.location)
    return shape


def _reshape(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [reshaped(operands[0], shape_from(op, operands))]


def _bitcast(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """The same bits as another type of the same width."""
    kind = op.result.type
    assert isinstance(kind, TensorType)
    source: Array = operands[0]
    return [
        Array(np.ascontiguousarray(source.data).view(dtype_of(kind.element)).reshape(source.shape), source.undefined)
    ]


def _cast(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    kind = op.result.type
    if isinstance(kind, TensorType | MemRefType):
        for axis, (size, found) in enumerate(zip(kind.shape, operands[0].shape)):
            if size not in (None, found):
                raise LinalgError(f"'{op.name}' to {kind}: dimension {axis} has {found} elements", op.location)
    return [operands[0]]


def _same(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [operands[0]]


def _materialize(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """A tensor put into another one is what it was; a buffer is written."""
    if op.results:
        return [operands[0]]
    operands[1].store(..., operands[0].copy())
    return []


def _copied(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [operands[0].copy()]


def _pad(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """The region is asked for each padding element once, with arrays of indices."""
    source: Array = operands[0]
    rest = operands[1:]
    low, high = mixed_values(op, "static_low", rest), mixed_values(op, "static_high", rest)
    if min([0, *low, *high]) < 0:
        raise LinalgError(f"'{op.name}' with negative padding: low {low}, high {high}", op.location)
    shape = tuple(a + n + b for a, n, b in zip(low, source.shape, high))
    interpreter.count_step(op)
    indices = [np.asarray(i) for i in np.indices(shape, sparse=True)]
    fill = interpreter.run_block(op.body, indices)[0]
    result = Array(np.empty(shape, source.data.dtype))
    result.store(..., fill)
    result.store(tuple(slice(a, a + n) for a, n in zip(low, source.shape)), source)
    return [result]


def _generate(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    shape = shape_with(op, operands)
    result = new_array(op, operands)
    fill = interpreter.run_block(op.body, [np.asarray(i) for i in np.indices(shape, sparse=True)])[0]
    result.store(..., fill)
    return [result]


def _splat(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    result = new_array(op, operands[1:])
    result.store(..., operands[0])
    return [result]


def _from_elements(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    kind = op.result.type
    assert isinstance(kind, TensorType)
    numbers = np.array([plain(v) for v in operands], dtype_of(kind.element))
    return [Array(numbers.reshape(shape_with(op, ())))]


def _concat(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    axis = op.attributes["dim"]
    assert isinstance(axis, IntegerAttr)
    masks = [np.zeros(x.shape, np.bool_) if x.undefined is None else x.undefined for x in operands]
    data = np.concatenate([x.data for x in operands], axis.value)
    mask = np.concatenate(masks, axis.value)
    return [Array(data, mask if mask.any() else None)]


def _coordinates(op: Operation, dims: Sequence[int], rows: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """Returns indices of leading dimensions `dims`, one row of coordinates each; LinalgError if one is outside."""
    if rows.shape[-1:] != (len(dims),) or len(set(dims)) != len(dims) or not all(d < len(shape) for d in dims):
        raise LinalgError(f"'{op.name}' of dimensions {list(dims)} with coordinates {rows.shape}", op.location)
    for axis, dimension in enumerate(dims):
        extent, at = shape[dimension], rows[..., axis]
        if at.size and not 0 <= at.min() <= at.max() < extent:
            raise LinalgError(f"'{op.name}' outside of dimension {dimension}, which has {extent}", op.location)
    return tuple(rows[..., axis] for axis in range(len(dims)))


def _gather(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """One slice of the source per row of coordinates; gathered dimensions are left out, or have size 1."""
    source, indices = operands
    dims = integers_of(op.attributes["gather_dims"]) or ()
    rows = np.asarray(plain(indices))
    coordinates = _coordinates(op, dims, rows, source.shape)
    found = source.view(lambda x: np.moveaxis(x, dims, range(len(dims)))[coordinates])
    kind = op.result.type
    assert isinstance(kind, TensorType)
    sizes = [1 if d in dims else n for d, n in enumerate(source.shape) if d not in dims or kind.rank > found.data.ndim]
    return [reshaped(found, (*rows.shape[:-1], *sizes)).copy()]


def _scatter(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """Slices of the source take the place of those of the destination, one per row of coordinates, in order."""
    source, dest, indices = operands
    dims = integers_of(op.attributes["scatter_dims"]) or ()
    rows = np.asarray(plain(indices))
    coordinates = _coordinates(op, dims, rows, dest.shape)
    others = [n for d, n in enumerate(dest.shape) if d not in dims]
    result = dest.copy()
    slices = reshaped(source, (*rows.shape[:-1], *others))
    front = result.view(lambda x: np.moveaxis(x, dims, range(len(dims))))
    for row in np.ndindex(rows.shape[:-1]):
        front.store(tuple(c[row] for c in coordinates), slices.view(lambda x, row=row: np.asarray(x[row])))
        if front.undefined is not None and result.undefined is None:
            result.undefined = np.moveaxis(front.undefined, range(len(dims)), dims)
    return [result]


TENSOR_OPS: dict[str, _Handler] = {
    "tensor.empty": _empty,
    "tensor.dim": _dim,
    "tensor.rank": _rank,
    "tensor.extract": _extract,
    "tensor.insert": _insert,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.collapse_shape": _collapse_shape,
    "tensor.expand_shape": _expand_shape,
    "tensor.cast": _cast,
    "tensor.pad": _pad,
    "tensor.generate": _generate,
    "tensor.splat": _splat,
    "tensor.from_elements": _from_elements,
    "tensor.concat": _concat,
    "tensor.gather": _gather,
    "tensor.scatter": _scatter,
    "tensor.reshape": _reshape,
    "tensor.bitcast": _bitcast,
    "shape.shape_of": _shape_of,
    "shape.to_extent_tensor": _same,
    "bufferization.alloc_tensor": _empty,
    "bufferization.clone": _copied,
    "bufferization.dealloc_tensor": lambda interpreter, op, operands: [],
    "bufferization.to_tensor": _copied,
    "bufferization.to_memref": _copied,
    "bufferization.to_buffer": _copied,
    "bufferization.materialize_in_destination": _materialize,
}
