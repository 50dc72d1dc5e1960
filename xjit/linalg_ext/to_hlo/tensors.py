"""Operations of `tensor`: slices, reshapes, padding."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.linalg_ext.evaluation.slicing import reassociation_of
from xjit.linalg_ext.evaluation.tensor_ops import rank_reduced
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import TensorType
from xjit.linalg_ext.to_hlo.accesses import elements_at
from xjit.linalg_ext.to_hlo.scope import Handler, Lowered, Scope
from xjit.linalg_ext.to_hlo.undefined import neutral_of_readers
from xjit.linalg_ext.to_hlo.writer import FunctionWriter, primitive_type
from xjit.ops import build

__all__ = ["TENSOR_HANDLERS", "index_scalars", "inserted_slice"]


def _tensor_type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _static_shape(scope: Scope, op: Operation, sizes: Sequence[Value]) -> tuple[int, ...]:
    rest = list(sizes)
    return tuple(scope.known(rest.pop(0), op) if n is None else n for n in _tensor_type(op.result).shape)


def _empty(scope: Scope, op: Operation) -> list[Lowered]:
    shape = _static_shape(scope, op, op.operands)
    number = neutral_of_readers(op, scope.program.functions)
    return [scope.writer.full(Shape.array(primitive_type(op.result.type), shape), number)]


def _splat(scope: Scope, op: Operation) -> list[Lowered]:
    return [scope.writer.broadcast(scope.array(op.operands[0]), _static_shape(scope, op, op.operands[1:]))]


def _dim(scope: Scope, op: Operation) -> list[Lowered]:
    sizes, axis = scope.array(op.operands[0]).shape.dimensions, scope.known(op.operands[1], op)
    if not 0 <= axis < len(sizes):
        raise LinalgError(f"'{op.name}' asks for dimension {axis} of rank {len(sizes)}", op.location)
    return [sizes[axis]]


def _rank(scope: Scope, op: Operation) -> list[Lowered]:
    return [scope.array(op.operands[0]).shape.rank]


def _same(scope: Scope, op: Operation) -> list[Lowered]:
    """`tensor.cast` says less or more of a shape that is known here."""
    array, shape = scope.array(op.operands[0]), _tensor_type(op.result).shape
    for axis, (size, found) in enumerate(zip(shape, array.shape.dimensions)):
        if size not in (None, found):
            message = f"'{op.name}' to {op.result.type}: dimension {axis} has {found} elements"
            raise LinalgError(message, op.location)
    return [array]


def index_scalars(writer: FunctionWriter, indices: Sequence[Lowered]) -> list[HloInstruction]:
    """Returns indices as s64 scalars."""
    return [writer.constant(i, PrimitiveType.S64) if isinstance(i, int) else i for i in indices]


def _slice_lists(scope: Scope, op: Operation, operands: Sequence[Value]) -> tuple[list[Lowered], list[int], list[int]]:
    """Returns offsets, sizes and strides; the latter two must be known."""
    rest = list(operands)
    offsets, sizes, strides = (scope.mixed(op, f"static_{name}", rest) for name in ("offsets", "sizes", "strides"))
    return offsets, [scope.number(n, op) for n in sizes], [scope.number(n, op) for n in strides]


def _check_slice(
    op: Operation, offsets: list[Lowered], sizes: list[int], strides: list[int], extents: Sequence[int]
) -> None:
    """LinalgError for a slice that leaves the array; one without elements may begin behind the end."""
    for axis, (offset, size, stride, extent) in enumerate(zip(offsets, sizes, strides, extents)):
        first = offset if isinstance(offset, int) else 0
        last = first + (size - 1) * stride
        if size < 0 or stride < 1 or first < 0 or (size > 0 and last >= extent):
            message = (
                f"'{op.name}' takes {size} elements from {first} in steps of {stride} "
                f"in dimension {axis}, which has {extent}"
            )
            raise LinalgError(message, op.location)


def _extract_slice(scope: Scope, op: Operation) -> list[Lowered]:
    writer, array = scope.writer, scope.array(op.operands[0])
    offsets, sizes, strides = _slice_lists(scope, op, op.operands[1:])
    _check_slice(op, offsets, sizes, strides, array.shape.dimensions)
    kept = rank_reduced(op, tuple(sizes))
    if 0 in sizes:
        return [writer.full(Shape.array(array.shape.element_type, kept), 0)]
    spans = [(n - 1) * s + 1 for n, s in zip(sizes, strides)]
    known = [o if isinstance(o, int) else 0 for o in offsets]
    if not all(isinstance(o, int) for o in offsets):
        array, known = writer.dynamic_slice(array, index_scalars(writer, offsets), spans), [0] * len(spans)
    limits = [o + n for o, n in zip(known, spans)]
    if array.shape.dimensions != tuple(sizes):
        array = writer.add(build.slice_(array, known, limits, strides))
    return [writer.reshape(array, kept)]


def _insert_slice(scope: Scope, op: Operation) -> list[Lowered]:
    return [inserted_slice(scope, op, scope.array(op.operands[0]), scope.array(op.operands[1]))]


def inserted_slice(scope: Scope, op: Operation, source: HloInstruction, target: HloInstruction) -> HloInstruction:
    """Returns `target` with `source` where the offsets, sizes and strides of `op` say, which follow two operands."""
    writer = scope.writer
    offsets, sizes, strides = _slice_lists(scope, op, op.operands[2:])
    extents = target.shape.dimensions
    _check_slice(op, offsets, sizes, strides, extents)
    if prod(sizes) != source.shape.num_elements:
        raise LinalgError(f"'{op.name}' inserts shape {source.shape.dimensions} as {sizes}", op.location)
    if 0 in sizes:
        return target
    source = writer.reshape(source, sizes)
    if tuple(sizes) == extents:
        return source
    if max(strides) == 1:
        return writer.make("dynamic-update-slice", target, source, *index_scalars(writer, offsets))
    known = [scope.number(o, op) for o in offsets]
    spans = [(n - 1) * s + 1 for n, s in zip(sizes, strides)]
    edges = [(o, e - o - n, s - 1) for o, e, n, s in zip(known, extents, spans, strides)]
    spread = writer.add(build.pad(source, writer.constant(0, source.shape.element_type), edges))
    inside = writer.full(Shape.array(PrimitiveType.PRED, tuple(sizes)), 1)
    mask = writer.add(build.pad(inside, writer.constant(0, PrimitiveType.PRED), edges))
    return writer.make("select", mask, spread, target)


def _extract(scope: Scope, op: Operation) -> list[Lowered]:
    writer, array = scope.writer, scope.array(op.operands[0])
    indices = index_scalars(writer, [scope.values[v] for v in op.operands[1:]])
    if any(i.shape.rank for i in indices):  # in the body of a structured op, at each iteration
        indices = writer.shaped_alike(*indices)
        sizes = indices[0].shape.dimensions
        return [elements_at(writer, array, [writer.reshape(i, [*sizes, 1]) for i in indices], sizes)]
    return [writer.reshape(writer.dynamic_slice(array, indices, [1] * array.shape.rank) if indices else array, [])]


def _insert(scope: Scope, op: Operation) -> list[Lowered]:
    writer, target = scope.writer, scope.array(op.operands[1])
    element = writer.reshape(scope.array(op.operands[0]), [1] * target.shape.rank)
    indices = index_scalars(writer, [scope.values[v] for v in op.operands[2:]])
    return [writer.make("dynamic-update-slice", target, element, *indices) if indices else element]


def _collapse_shape(scope: Scope, op: Operation) -> list[Lowered]:
    array = scope.array(op.operands[0])
    sizes = [prod(array.shape.dimensions[i] for i in group) for group in reassociation_of(op)]
    return [scope.writer.reshape(array, sizes)]


def _expand_shape(scope: Scope, op: Operation) -> list[Lowered]:
    array = scope.array(op.operands[0])
    if "static_output_shape" in op.attributes:
        given = scope.mixed(op, "static_output_shape", list(op.operands[1:]))
        sizes = [scope.number(n, op) for n in given]
    else:
        shape, sizes = _tensor_type(op.result).shape, []
        for size, group in zip(array.shape.dimensions, reassociation_of(op)):
            rest = size // max(1, prod(n for n in (shape[i] for i in group) if n is not None))
            sizes += [rest if n is None else n for n in (shape[i] for i in group)]
    if prod(sizes) != array.shape.num_elements:
        raise LinalgError(f"'{op.name}' makes {sizes} of {array.shape.dimensions}", op.location)
    return [scope.writer.reshape(array, sizes)]


def _pad(scope: Scope, op: Operation) -> list[Lowered]:
    array, rest, body = scope.array(op.operands[0]), list(op.operands[1:]), op.body
    low, high = ([scope.number(n, op) for n in scope.mixed(op, name, rest)] for name in ("static_low", "static_high"))
    if min([0, *low, *high]) < 0:
        raise LinalgError(f"'{op.name}' with negative padding: low {low}, high {high}", op.location)
    if any(argument.has_uses for argument in body.arguments):
        raise LinalgError(f"cannot compile '{op.name}' with an element for each index", op.location)
    scope.run(body, ())
    fill = scope.array(body.terminator.operands[0])
    return [scope.writer.add(build.pad(array, fill, [(a, b, 0) for a, b in zip(low, high)]))]


def _from_elements(scope: Scope, op: Operation) -> list[Lowered]:
    parts = [scope.writer.reshape(scope.array(v), [1]) for v in op.operands]
    return [scope.writer.reshape(scope.writer.concatenate(parts, 0), _static_shape(scope, op, ()))]


def _concat(scope: Scope, op: Operation) -> list[Lowered]:
    axis = op.attributes["dim"]
    assert isinstance(axis, IntegerAttr)
    return [scope.writer.concatenate([scope.array(v) for v in op.operands], axis.value)]


TENSOR_HANDLERS: dict[str, Handler] = {
    "tensor.empty": _empty,
    "bufferization.alloc_tensor": _empty,
    "tensor.dim": _dim,
    "tensor.rank": _rank,
    "tensor.cast": _same,
    "bufferization.materialize_in_destination": _same,
    "tensor.extract": _extract,
    "tensor.insert": _insert,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.collapse_shape": _collapse_shape,
    "tensor.expand_shape": _expand_shape,
    "tensor.pad": _pad,
    "tensor.splat": _splat,
    "tensor.from_elements": _from_elements,
    "tensor.concat": _concat,
}
