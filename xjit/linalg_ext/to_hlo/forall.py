"""`scf.forall`: parallel loops as one loop over their points."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xjit.affine import delinearize
from xjit.affine.interval import Interval
from xjit.affine.pool import dim
from xjit.hlo import HloInstruction
from xjit.linalg_ext.dialects.scf_parallel import forall_bounds
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.to_hlo.affine_ops import affine_value
from xjit.linalg_ext.to_hlo.loops import MAX_UNROLLED, while_loop
from xjit.linalg_ext.to_hlo.scope import Handler, Lowered, Scope, UnknownSizeError
from xjit.linalg_ext.to_hlo.tensors import inserted_slice

__all__ = ["FORALL_HANDLERS"]


class _Forall:
    """One `scf.forall`: its points are `range(lower, upper, step)` per dimension, in row-major order."""

    def __init__(self, scope: Scope, op: Operation) -> None:
        self.op = op
        self.lower, upper, self.steps = (
            [scope.number(b if isinstance(b, int) else scope.values[b], op) for b in bounds]
            for bounds in forall_bounds(op)
        )
        if min(self.steps, default=1) < 1:
            raise LinalgError(f"'{op.name}' with steps {self.steps}", op.location)
        self.counts = [len(range(*bounds)) for bounds in zip(self.lower, upper, self.steps)]
        self.shared = op.body.arguments[len(self.counts) :]

    def ranges(self) -> list[Interval]:
        """What each variable goes through; there is a point."""
        return [Interval(a, a + (n - 1) * s) for a, n, s in zip(self.lower, self.counts, self.steps)]

    def point(self, scope: Scope, number: Lowered) -> list[Lowered]:
        """The variables at point `number`."""
        digits = delinearize(dim(0), self.counts)
        return [affine_value(scope.writer, e * s + a, [number]) for e, a, s in zip(digits, self.lower, self.steps)]

    def step(self, scope: Scope, number: Lowered, state: Sequence[HloInstruction]) -> list[HloInstruction]:
        """Writes a point. The state is the results so far, and the tensors as all points see them."""
        count = len(self.shared)
        scope.run(self.op.body, [*self.point(scope, number), *state[count:]])
        results = dict(zip(self.shared, state))
        end = self.op.body.terminator
        for insertion in end.body.operations if end.regions else ():
            [target] = [argument for argument in self.shared if argument is insertion.operands[1]]
            source = scope.array(insertion.operands[0])
            results[target] = inserted_slice(scope, insertion, source, results[target])
        return [*results.values(), *state[count:]]


def _forall(scope: Scope, op: Operation) -> list[Lowered]:
    """A while loop if all tiles have one shape, else unrolled."""
    loop = _Forall(scope, op)
    count = prod(loop.counts)
    initial = [scope.array(v) for v in op.operands[len(op.operands) - len(op.results) :]]
    state = [*initial, *initial]
    if count > 1:
        scope.ranges.update(zip(op.body.arguments, loop.ranges()))
        try:
            return list(while_loop(scope, op, (0, count, 1), state, loop.step)[: len(initial)])
        except UnknownSizeError as error:
            if count > MAX_UNROLLED:
                message = f"cannot compile '{op.name}': tiles differ, and there are {count} of them"
                raise LinalgError(message, op.location) from error
    for number in range(count):
        state = loop.step(scope, number, state)
    return list(state[: len(initial)])


FORALL_HANDLERS: dict[str, Handler] = {"scf.forall": _forall}
