"""While loops whose bodies see the values around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.to_hlo.scope import Lowered, Scope, UnknownSizeError, captured_values

__all__ = ["MAX_UNROLLED", "Step", "bind_captured", "while_loop"]

MAX_UNROLLED = 128
"""So many iterations of a loop are written one after the other, if their tiles differ in shape."""

Step: TypeAlias = Callable[[Scope, HloInstruction, list[HloInstruction]], Sequence[HloInstruction]]
"""Writes an iteration: (scope of the body, counter, state) -> the state behind it."""


def bind_captured(inner: Scope, captured: Sequence[Value], state: HloInstruction, first: int) -> list[HloInstruction]:
    """Makes elements `first`, ... of a tuple the captured values of an inner scope; returns them."""
    elements = [inner.writer.element(state, first + i) for i in range(len(captured))]
    inner.values.update(zip(captured, elements))
    return elements


def while_loop(
    scope: Scope,
    op: Operation,
    bounds: tuple[Lowered, Lowered, Lowered],
    state: Sequence[HloInstruction],
    step: Step,
    kind: PrimitiveType = PrimitiveType.S64,
) -> list[HloInstruction]:
    """Counts from `bounds[0]` below `bounds[1]` in steps of `bounds[2]` and returns the last state.

    The regions of `op` may use all values of `scope`. UnknownSizeError if an iteration changes the shape of the state.
    """
    writer = scope.writer
    numbers = [b if isinstance(b, int) else None for b in bounds]
    first, *others = (writer.constant(b, kind) if isinstance(b, int) else b for b in bounds)
    carried = [x for x, number in zip(others, numbers[1:]) if number is None]
    captured = captured_values(op, scope)
    outside = [v for v in (scope.values[value] for value in captured) if isinstance(v, HloInstruction)]
    initial = writer.tuple_of(first, *state, *outside, *carried)
    name = op.name.split(".")[-1]
    body, test = scope.inner(f"{name}_body"), writer.inner(f"{name}_condition")
    parameter, tested = body.writer.parameter(0, initial.shape), test.parameter(0, initial.shape)
    counter = body.writer.element(parameter, 0)
    given = [body.writer.element(parameter, 1 + i) for i in range(len(state))]
    elements = bind_captured(body, captured, parameter, 1 + len(state))
    rest = [1 + len(state) + len(outside) + i for i in range(len(carried))]
    kept = [body.writer.element(parameter, i) for i in rest]
    following = list(step(body, counter, given))
    if [x.shape.dimensions for x in following] != [x.shape.dimensions for x in state]:
        raise UnknownSizeError(f"cannot compile '{op.name}': tensors change their shape", op.location)
    stop, stride = numbers[1:]
    by = kept[-1] if stride is None else body.writer.constant(stride, kind)
    end = test.element(tested, rest[0]) if stop is None else test.constant(stop, kind)
    root = body.writer.tuple_of(body.writer.make("add", counter, by), *following, *elements, *kept)
    condition = test.finish(test.compare("LT", test.element(tested, 0), end))
    called = [condition, body.writer.finish(root)]
    loop = writer.add(HloInstruction.create("while", initial.shape, [initial], called_computations=called))
    return [writer.element(loop, 1 + i) for i in range(len(state))]
