"""Loops, branches and calls: `scf`, `affine` and `func`. Parallel loops run in row-major order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from xjit.affine import AffineMap
from xjit.linalg_ext.evaluation.memref_ops import MEMREF_OPS
from xjit.linalg_ext.evaluation.slicing import integer, mixed_values, slice_of
from xjit.linalg_ext.evaluation.tensor_ops import reshaped
from xjit.linalg_ext.evaluation.values import Array, Runtime, plain
from xjit.linalg_ext.ir.attributes import (
    AffineMapAttr,
    AffineSetAttr,
    DenseAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
)
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.structured.view import attribute_integers

if TYPE_CHECKING:
    from xjit.linalg_ext.evaluation.interpreter import Interpreter

__all__ = ["CONTROL_OPS", "taken_target"]

_Handler: TypeAlias = "Callable[[Interpreter, Operation, list[Runtime]], Sequence[Runtime]]"


def _loop_range(op: Operation, low: int, high: int, step: int) -> range:
    if step < 1:
        raise LinalgError(f"'{op.name}' with step {step}", op.location)
    return range(low, high, step)


def _segments(op: Operation, operands: list[Runtime]) -> list[list[Runtime]]:
    """Splits operands by `operandSegmentSizes`."""
    rest = list(operands)
    return [[rest.pop(0) for _ in range(size)] for size in attribute_integers(op, "operandSegmentSizes")]


def _for(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    low, high, step = map(integer, operands[:3])
    carried = operands[3:]
    for i in _loop_range(op, low, high, step):
        interpreter.count_step(op)
        carried = interpreter.run_block(op.body, [i, *carried])
    return carried


def _if(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return _branch(interpreter, op, bool(integer(operands[0])))


def _branch(interpreter: Interpreter, op: Operation, condition: bool) -> list[Runtime]:
    region = op.regions[0 if condition else 1]
    return interpreter.run_block(region.block, []) if region.blocks else []


def _while(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """The first region ends in `scf.condition`: whether to go on, and what the second region gets."""
    before, after = (region.block for region in op.regions)
    carried = operands
    while True:
        interpreter.count_step(op)
        condition, *given = interpreter.run_block(before, carried)
        if not integer(condition):
            return given
        carried = interpreter.run_block(after, given)


def _points(op: Operation, lows: list[int], highs: list[int], steps: list[int]) -> product[tuple[int, ...]]:
    return product(*(_loop_range(op, *bounds) for bounds in zip(lows, highs, steps)))


def _parallel(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    lows, highs, steps, carried = _segments(op, operands)
    for point in _points(op, *([integer(v) for v in values] for values in (lows, highs, steps))):
        interpreter.count_step(op)
        given = interpreter.run_block(op.body, point)
        last = op.body.last
        if last is not None and last.name == "scf.reduce":
            given = [interpreter.value(v) for v in last.operands]
            pairs = zip(last.regions, carried, given)
            carried = [interpreter.run_block(region.block, [old, new])[0] for region, old, new in pairs]
    return carried


def _reduce(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """Done by the `scf.parallel` around it."""
    return []


def _forall(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """What `scf.forall.in_parallel` inserts is seen in the results, and by no other iteration."""
    rest = list(operands)
    lows, highs, steps = (mixed_values(op, f"static{name}", rest) for name in ("LowerBound", "UpperBound", "Step"))
    results: list[Array] = [value.copy() for value in rest]
    shared = {argument: i for i, argument in enumerate(op.body.arguments[len(lows) :])}
    for point in _points(op, lows, highs, steps):
        interpreter.count_step(op)
        interpreter.run_block(op.body, [*point, *rest])
        end = op.body.terminator
        for insertion in end.body.operations if end.regions else ():
            target = results[shared[insertion.operands[1]]]  # type: ignore[index]
            source, *offsets = (interpreter.value(v) for v in (insertion.operands[0], *insertion.operands[2:]))
            at = slice_of(insertion, offsets, target.shape)
            target.store(at, reshaped(source, target.data[at].shape))
    return list(results)


def _execute_region(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return interpreter.run_block(op.body, [])


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


def _affine_for(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    lows, highs, carried = _segments(op, operands)
    low, high = max(_map_results(op, "lowerBoundMap", lows)), min(_map_results(op, "upperBoundMap", highs))
    step = op.attributes["step"]
    assert isinstance(step, IntegerAttr)
    for i in _loop_range(op, int(low), int(high), step.value):
        interpreter.count_step(op)
        carried = interpreter.run_block(op.body, [i, *carried])
    return carried


def _affine_if(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    condition = op.attributes["condition"]
    assert isinstance(condition, AffineSetAttr)
    values = _evaluated(condition.map, operands)
    holds = all(v == 0 if equal else v >= 0 for v, equal in zip(values, condition.equalities))
    return _branch(interpreter, op, holds)


def _affine_load(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> Sequence[Runtime]:
    return MEMREF_OPS["memref.load"](interpreter, op, [operands[0], *_map_results(op, "map", operands[1:])])


def _affine_store(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> Sequence[Runtime]:
    value, target, *indices = operands
    return MEMREF_OPS["memref.store"](interpreter, op, [value, target, *_map_results(op, "map", indices)])


def taken_target(branch: Operation, operands: Sequence[Runtime]) -> int:
    """Returns the number of the target that a branch of `cf` takes."""
    if branch.name == "cf.br":
        return 0
    flag = integer(operands[0])
    if branch.name == "cf.cond_br":
        return 0 if flag else 1
    cases = branch.attributes.get("case_values")
    values = list(cases.values) if isinstance(cases, DenseAttr) else []
    return values.index(flag) + 1 if flag in values else 0


def _assert(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    if not integer(operands[0]):
        message = op.attributes.get("msg")
        raise LinalgError(f"assertion failed: {message.value if isinstance(message, StringAttr) else ''}", op.location)
    return []


def _index_switch(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    cases, value = attribute_integers(op, "cases"), integer(operands[0])
    return interpreter.run_block(op.regions[cases.index(value) + 1 if value in cases else 0].block, [])


def _call(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    callee = op.attributes["callee"]
    assert isinstance(callee, SymbolRefAttr)
    return interpreter.call(interpreter.function(callee.name), operands)


CONTROL_OPS: dict[str, _Handler] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "scf.parallel": _parallel,
    "scf.reduce": _reduce,
    "scf.forall": _forall,
    "scf.execute_region": _execute_region,
    "scf.index_switch": _index_switch,
    "cf.assert": _assert,
    "affine.apply": _apply,
    "affine.min": _min,
    "affine.max": _max,
    "affine.for": _affine_for,
    "affine.if": _affine_if,
    "affine.load": _affine_load,
    "affine.store": _affine_store,
    "func.call": _call,
}
