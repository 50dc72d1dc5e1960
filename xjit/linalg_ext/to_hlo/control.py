"""Loops, branches and calls.

A loop whose tiles have one shape is a while loop; a smaller last tile stands behind it. If other tiles differ, too, the
loop is unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine.interval import Interval
from xjit.hlo import HloInstruction
from xjit.linalg_ext.ir.attributes import SymbolRefAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.to_hlo.loops import MAX_UNROLLED, bind_captured, while_loop
from xjit.linalg_ext.to_hlo.scope import Handler, Lowered, Scope, UnknownSizeError, captured_values
from xjit.linalg_ext.to_hlo.writer import primitive_type

__all__ = ["CONTROL_HANDLERS", "call_function"]

_MAX_CALLS = 64


def _for(scope: Scope, op: Operation) -> Sequence[Lowered]:
    first, stop, step = (scope.values[v] for v in op.operands[:3])
    carried: list[Lowered] = [scope.values[v] for v in op.operands[3:]]
    if not (isinstance(first, int) and isinstance(stop, int) and isinstance(step, int)):
        scope.ranges.pop(op.body.arguments[0], None)
        return _while(scope, op, (first, stop, step), carried)
    if step < 1:
        raise LinalgError(f"'{op.name}' with step {step}", op.location)
    whole = max(0, stop - first) // step
    rest = range(first + whole * step, stop, step)
    if whole > 1:
        end = first + whole * step
        scope.ranges[op.body.arguments[0]] = Interval(first, end - step)
        try:
            carried = _while(scope, op, (first, end, step), carried)
        except UnknownSizeError as error:
            if whole > MAX_UNROLLED:
                message = f"cannot compile '{op.name}': tiles differ, and there are {whole} of them"
                raise LinalgError(message, op.location) from error
            rest = range(first, stop, step)
    else:
        rest = range(first, stop, step)
    for i in rest:
        carried = scope.run(op.body, [i, *carried])
    return carried


def _while(
    scope: Scope, op: Operation, bounds: tuple[Lowered, Lowered, Lowered], carried: list[Lowered]
) -> list[Lowered]:
    state = [scope.materialized(value, result) for value, result in zip(carried, op.results)]

    def step(body: Scope, counter: HloInstruction, given: list[HloInstruction]) -> list[HloInstruction]:
        results = body.run(op.body, [counter, *given])
        return [body.materialized(value, result) for value, result in zip(results, op.results)]

    kind = primitive_type(op.body.arguments[0].type)
    return list(while_loop(scope, op, bounds, state, step, kind))


def _if(scope: Scope, op: Operation) -> Sequence[Lowered]:
    """The two regions get what they use as a tuple."""
    condition = scope.values[op.operands[0]]
    if isinstance(condition, int):
        region = op.regions[0 if condition else 1]
        return scope.run(region.block, ()) if region.blocks else []
    if not op.results:
        return []
    if condition.shape.rank:
        raise LinalgError(f"cannot compile '{op.name}' in the body of a structured op", op.location)
    captured = captured_values(op, scope)
    given = scope.writer.tuple_of(*(scope.array(v) for v in captured))
    branches, shapes = [], []
    for region in op.regions:
        inner = scope.inner("branch")
        bind_captured(inner, captured, inner.writer.parameter(0, given.shape), 0)
        results = inner.run(region.block, ())
        root = inner.writer.tuple_of(*(inner.materialized(x, v) for x, v in zip(results, op.results)))
        shapes.append(root.shape)
        branches.append(inner.writer.finish(root))
    if shapes[0] != shapes[1]:
        raise UnknownSizeError(f"cannot compile '{op.name}': branches give tensors of different shapes", op.location)
    chosen = scope.writer.make("conditional", condition, given, given, called=branches)
    return [scope.writer.element(chosen, i) for i in range(len(op.results))]


def _execute_region(scope: Scope, op: Operation) -> Sequence[Lowered]:
    return scope.run(op.body, ())


def call_function(scope: Scope, name: str, arguments: Sequence[Lowered], caller: Operation | None) -> list[Lowered]:
    """Writes a function in the place of its call. LinalgError if it is none that can be written."""
    function = scope.program.functions.get(name)
    place = None if caller is None else caller.location
    if function is None:
        raise LinalgError(f"the module has no function @{name}", place)
    if not function.regions or len(function.regions[0].blocks) != 1:
        raise LinalgError(f"cannot compile @{name}: its body is no single block", function.location)
    if scope.program.calls >= _MAX_CALLS:
        raise LinalgError(f"calls are nested more than {_MAX_CALLS} deep", place)
    scope.program.calls += 1
    outer, scope.values = scope.values, {}
    try:
        return scope.run(function.body, arguments)
    finally:
        scope.values = outer
        scope.program.calls -= 1


def _call(scope: Scope, op: Operation) -> Sequence[Lowered]:
    callee = op.attributes["callee"]
    assert isinstance(callee, SymbolRefAttr)
    return call_function(scope, callee.name, [scope.values[v] for v in op.operands], op)


CONTROL_HANDLERS: dict[str, Handler] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.execute_region": _execute_region,
    "func.call": _call,
}
