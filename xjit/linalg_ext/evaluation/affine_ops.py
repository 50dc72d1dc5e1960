"""The affine dialect: maps of indices, and loops, branches and accesses by maps. Loops run in row-major order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from xjit.affine import AffineMap
from xjit.linalg_ext.dialects.affine_parallel import parallel_bounds, parallel_steps, reduction_kinds
from xjit.linalg_ext.evaluation.atomic import accumulate, neutral
from xjit.linalg_ext.evaluation.control_ops import branch, loop_range, points, segments_of
from xjit.linalg_ext.evaluation.memref_ops import MEMREF_OPS
from xjit.linalg_ext.evaluation.slicing import integer, mixed_values
from xjit.linalg_ext.evaluation.values import Runtime, plain
from xjit.linalg_ext.ir.attributes import AffineMapAttr, AffineSetAttr, IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation

if TYPE_CHECKING:
    from xjit.linalg_ext.evaluation.interpreter import Interpreter

__all__ = ["AFFINE_OPS"]

_Handler: TypeAlias = "Callable[[Interpreter, Operation, list[Runtime]], Sequence[Runtime]]"


def _map_results(op: Operation, attribute: str, operands: Sequence[Runtime]) -> list[int]:
    """Applies an affine map; operands are its dims and then its symbols."""
    found = op.attributes[attribute]
    assert isinstance(found, AffineMapAttr)
    return _evaluated(found.map, operands)


def _evaluated(affine_map: AffineMap, operands: Sequence[Runtime]) -> list[int]:
    values = [plain(v) for v in operands]
    count = affine_map.num_dims
    return list(affine_map.evaluate(values[:count], values[count:]))


def _apply(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return _map_results(op, "map", operands)


def _min(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [min(_map_results(op, "map", operands))]


def _max(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [max(_map_results(op, "map", operands))]


def _for(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    lows, highs, carried = segments_of(op, operands)
    low, high = max(_map_results(op, "lowerBoundMap", lows)), min(_map_results(op, "upperBoundMap", highs))
    step = op.attributes["step"]
    assert isinstance(step, IntegerAttr)
    for i in loop_range(op, int(low), int(high), step.value):
        interpreter.count_step(op)
        carried = interpreter.run_block(op.body, [i, *carried])
    return carried


def _if(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    condition = op.attributes["condition"]
    assert isinstance(condition, AffineSetAttr)
    values = _evaluated(condition.map, operands)
    holds = all(v == 0 if equal else v >= 0 for v, equal in zip(values, condition.equalities))
    return branch(interpreter, op, holds)


def _load(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> Sequence[Runtime]:
    return MEMREF_OPS["memref.load"](interpreter, op, [operands[0], *_map_results(op, "map", operands[1:])])


def _store(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> Sequence[Runtime]:
    value, target, *indices = operands
    return MEMREF_OPS["memref.store"](interpreter, op, [value, target, *_map_results(op, "map", indices)])


def _parallel(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """What iterations yield is reduced, from the neutral element of each kind on."""
    lows_and_highs: list[list[int]] = []
    start = 0
    for (maps, values), choose in zip(parallel_bounds(op), (max, min)):
        given = operands[start : start + len(values)]
        lows_and_highs.append([int(choose(_evaluated(each, given))) for each in maps])
        start += len(values)
    lows, highs = lows_and_highs
    kinds = reduction_kinds(op)
    totals: list[Runtime] = [neutral(kind, t, op) for kind, t in zip(kinds, op.result_types)]
    for point in points(op, lows, highs, parallel_steps(op)):
        interpreter.count_step(op)
        yielded = interpreter.run_block(op.body, point)
        totals = [accumulate(kind, old, new) for kind, old, new in zip(kinds, totals, yielded)]
    return totals


def _basis(op: Operation, operands: list[Runtime], count: int) -> list[int]:
    """Returns what each of `count` coordinates but the first counts up to; the operands of the basis are taken."""
    basis = mixed_values(op, "static_basis", operands)
    if any(n < 1 for n in basis):
        raise LinalgError(f"'{op.name}' with basis {basis}", op.location)
    return basis[len(basis) - count + 1 :]


def _delinearize(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """Coordinates of an element in row-major order; the first one takes what is left, below zero too."""
    index, *rest = operands
    basis = _basis(op, rest, len(op.results))
    found: list[Runtime] = []
    left = integer(index)
    for size in reversed(basis):
        left, coordinate = divmod(left, size)
        found.append(coordinate)
    return [left, *reversed(found)]


def _linearize(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    indices, rest = segments_of(op, operands)
    basis = _basis(op, rest, len(indices))
    strides = [prod(basis[i:]) for i in range(len(basis) + 1)]
    return [sum(integer(i) * stride for i, stride in zip(indices, strides))]


AFFINE_OPS: dict[str, _Handler] = {
    "affine.apply": _apply,
    "affine.min": _min,
    "affine.max": _max,
    "affine.for": _for,
    "affine.parallel": _parallel,
    "affine.if": _if,
    "affine.load": _load,
    "affine.store": _store,
    "affine.delinearize_index": _delinearize,
    "affine.linearize_index": _linearize,
}
