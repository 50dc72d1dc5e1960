"""Loops, branches and calls: `scf`, `cf` and `func`. Parallel loops run in row-major order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from xjit.linalg_ext.evaluation.slicing import integer, mixed_values, slice_of
from xjit.linalg_ext.evaluation.tensor_ops import reshaped
from xjit.linalg_ext.evaluation.values import Array, Runtime
from xjit.linalg_ext.ir.attributes import (
    DenseAttr,
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


def loop_range(op: Operation, low: int, high: int, step: int) -> range:
    if step < 1:
        raise LinalgError(f"'{op.name}' with step {step}", op.location)
    return range(low, high, step)


def segments_of(op: Operation, operands: list[Runtime]) -> list[list[Runtime]]:
    """Splits operands by `operandSegmentSizes`."""
    rest = list(operands)
    return [[rest.pop(0) for _ in range(size)] for size in attribute_integers(op, "operandSegmentSizes")]


def _for(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    low, high, step = map(integer, operands[:3])
    carried = operands[3:]
    for i in loop_range(op, low, high, step):
        interpreter.count_step(op)
        carried = interpreter.run_block(op.body, [i, *carried])
    return carried


def _if(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return branch(interpreter, op, bool(integer(operands[0])))


def branch(interpreter: Interpreter, op: Operation, condition: bool) -> list[Runtime]:
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


def points(op: Operation, lows: list[int], highs: list[int], steps: list[int]) -> product[tuple[int, ...]]:
    return product(*(loop_range(op, *bounds) for bounds in zip(lows, highs, steps)))


def _parallel(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    lows, highs, steps, carried = segments_of(op, operands)
    for point in points(op, *([integer(v) for v in values] for values in (lows, highs, steps))):
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
    for point in points(op, lows, highs, steps):
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


def taken_target(op: Operation, operands: Sequence[Runtime]) -> int:
    """Returns the number of the target that a branch of `cf` takes."""
    if op.name == "cf.br":
        return 0
    flag = integer(operands[0])
    if op.name == "cf.cond_br":
        return 0 if flag else 1
    cases = op.attributes.get("case_values")
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


def _function(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    name = op.attributes["value"]
    assert isinstance(name, SymbolRefAttr)
    return [interpreter.function(name.name)]


def _call_indirect(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return interpreter.call(operands[0], operands[1:])


CONTROL_OPS: dict[str, _Handler] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "scf.parallel": _parallel,
    "scf.reduce": _reduce,
    "scf.forall": _forall,
    "scf.execute_region": _execute_region,
    "memref.alloca_scope": _execute_region,
    "scf.index_switch": _index_switch,
    "cf.assert": _assert,
    "func.call": _call,
    "func.constant": _function,
    "func.call_indirect": _call_indirect,
}
