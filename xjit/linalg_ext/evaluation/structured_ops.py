"""Pointwise structured ops: the body at each iteration, all parallel loops at once, reductions in their order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.walks import evaluate
from xjit.dataclass import dataclass
from xjit.linalg_ext.evaluation.values import Array, Runtime, Shape, plain
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import MemRefType
from xjit.linalg_ext.structured import Access, StructuredOp, structured

if TYPE_CHECKING:
    from xjit.linalg_ext.evaluation.interpreter import Interpreter

__all__ = ["evaluate_pointwise", "loop_sizes"]


def loop_sizes(op: StructuredOp, operands: Sequence[Runtime]) -> Shape:
    """Returns how often each loop runs with these operands."""
    return tuple(np.shape(plain(operands[number]))[axis] for number, axis in op.loop_sources)


def evaluate_pointwise(interpreter: Interpreter, operation: Operation, operands: Sequence[Runtime]) -> list[Runtime]:
    """Runs an op whose row is pointwise; its memrefs are written in place, its tensors returned."""
    op = structured(operation)
    count = len(op.inputs)
    outputs = [value if _is_memref(of) else value.copy() for of, value in zip(op.inits, operands[count:])]
    space = _Space(op, loop_sizes(op, operands))
    arrays = [*operands[:count], *outputs]
    if all(space.sizes):
        for point in product(*(range(space.sizes[loop]) for loop in space.serial)):
            _run_point(interpreter, op, space, dict(zip(space.serial, point)), arrays)
    return [value for of, value in zip(op.inits, outputs) if not _is_memref(of)]


def _is_memref(value: Value) -> bool:
    return isinstance(value.type, MemRefType)


class _Space:
    """Which loops run as one (`vector`: the axes of vectors, in this order), which one by one (`serial`)."""

    def __init__(self, op: StructuredOp, sizes: Shape) -> None:
        self.sizes = sizes
        self.vector: tuple[int, ...] = ()
        if not any(inner.regions for inner in op.body.operations):
            outputs = op.accesses[len(op.inputs) :]
            self.vector = tuple(loop for loop in op.parallel_loops if all(_owns(access, loop) for access in outputs))
        self.serial = tuple(loop for loop in range(len(sizes)) if loop not in self.vector)
        self.shape: Shape = tuple(sizes[loop] for loop in self.vector)

    def range_of(self, loop: int) -> npt.NDArray[np.int64]:
        """The values of a vector loop, along its axis."""
        axis = self.vector.index(loop)
        shape = [1] * len(self.vector)
        shape[axis] = self.sizes[loop]
        return np.arange(self.sizes[loop]).reshape(shape)


def _owns(access: Access, loop: int) -> bool:
    """Whether the loop is just one index of an access, so that no two of its iterations meet in an element."""
    using = [e for e in access if e is not None and e.uses_dim(loop)]
    return len(using) == 1 and using[0].kind is AffineExprKind.DIM


@dataclass(frozen=True, slots=True)
class _Point:
    """Where the serial loops are."""

    space: _Space
    serial: dict[int, int]

    def indices(self) -> list[Any]:
        """The value of every loop: a number, or an array along its axis."""
        return [self.serial[i] if i in self.serial else self.space.range_of(i) for i in range(len(self.space.sizes))]

    def index_of(self, access: Access) -> tuple[Any, ...]:
        """The index of an operand's elements, for NumPy."""
        loops = self.indices()
        return tuple(evaluate(_known(e), loops) for e in access)

    def axes_of(self, access: Access) -> tuple[tuple[Any, ...], list[int]] | None:
        """A basic index and the vector loops of the axes that it keeps, if each index is one loop or a number."""
        index: list[Any] = []
        kept: list[int] = []
        for e in access:
            known = _known(e)
            if known.kind is AffineExprKind.DIM and known.position not in self.serial:
                index.append(slice(self.space.sizes[known.position]))
                kept.append(known.position)
            elif known.dims <= self.serial.keys():
                index.append(evaluate(known, [self.serial.get(i, 0) for i in range(len(self.space.sizes))]))
            else:
                return None
        return (tuple(index), kept) if len(set(kept)) == len(kept) else None


def _known(e: AffineExpr | None) -> AffineExpr:
    assert e is not None, "a pointwise op has an index for every dimension"
    return e


def _read(point: _Point, value: Runtime, access: Access) -> Runtime:
    """Returns an operand's elements, shaped to broadcast over the vector loops."""
    if not isinstance(value, Array) or not access:
        return value.view(lambda x: x[()]) if isinstance(value, Array) and value.undefined is not None else plain(value)
    basic = point.axes_of(access)
    if basic is None:
        index = point.index_of(access)
        return _stripped(value.view(lambda x: x[index]))
    index, kept = basic
    vector = point.space.vector
    order = sorted(range(len(kept)), key=lambda i: vector.index(kept[i]))
    shape = tuple(point.space.sizes[loop] if loop in kept else 1 for loop in vector)
    return _stripped(value.view(lambda x: np.asarray(x[index]).transpose(order).reshape(shape)))


def _stripped(value: Array) -> Runtime:
    return value.data if value.undefined is None else value


def _write(point: _Point, target: Array, access: Access, value: Runtime) -> None:
    """Stores elements over the vector loops at an output's index."""
    basic = point.axes_of(access)
    assert basic is not None, "vector loops are plain indices of outputs"
    index, kept = basic
    order = [point.space.vector.index(loop) for loop in kept]
    shape = point.space.shape

    def placed(x: Any) -> Any:
        return np.broadcast_to(x, shape).transpose(order)

    if isinstance(value, Array):
        undefined = None if value.undefined is None else placed(value.undefined)
        target.store(index, Array(placed(value.data), undefined))
    else:
        target.store(index, placed(value))


def _run_point(
    interpreter: Interpreter, op: StructuredOp, space: _Space, serial: dict[int, int], arrays: Sequence[Runtime]
) -> None:
    point = _Point(space, serial)
    body = op.body
    arguments: list[Runtime] = [
        _read(point, value, access) if argument.has_uses else None
        for argument, value, access in zip(body.arguments, arrays, op.accesses)
    ]
    interpreter.count_step(operation=op.operation, steps=1 + prod(space.shape) // 4096)
    with interpreter.loop_indices(point.indices()):
        yielded = interpreter.run_block(body, arguments)
    count = len(op.inputs)
    for target, access, value in zip(arrays[count:], op.accesses[count:], yielded):
        _write(point, target, access, value)
