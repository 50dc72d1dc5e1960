"""Several iterations of a loop as one: what unrolling of any kind of loop with a step has in common."""

from __future__ import annotations

from xjit.affine import AffineMap, dim
from xjit.linalg_ext.ir import Builder, LinalgError, Operation, Value

__all__ = ["check_factor", "repeat_body"]

MOST_COPIES = 1 << 16
"""How many copies of its body a loop may be made of: more would only fill the memory."""


def check_factor(loop: Operation, factor: int) -> None:
    """LinalgError, with the loop's place, for a factor that is not in reason."""
    if not 1 <= factor <= MOST_COPIES:
        raise LinalgError(f"expected a factor of 1 to {MOST_COPIES}, found {factor}", loop.location)


def repeat_body(loop: Operation, factor: int, step: int) -> None:
    """Puts copies of the body behind it, each a step further; the loop's own step stays."""
    body = loop.body
    variable, *carried = body.arguments
    end = body.terminator
    original, yielded = body.operations[:-1], list(end.operands)
    values: list[Value] = list(yielded)
    inside = Builder(body, end, loop.location)
    for number in range(1, factor):
        moved = inside.affine_apply(AffineMap(1, 0, (dim(0) + number * step,)), (variable,))
        mapping: dict[Value, Value] = {variable: moved, **dict(zip(carried, values))}
        for op in original:
            inside.clone(op, mapping)
        values = [mapping.get(v, v) for v in yielded]
    end.set_operands(values)
