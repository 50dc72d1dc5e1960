"""coalesce: a perfect nest of `scf.for` as one loop."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xjit.affine import constant, dim
from xjit.linalg_ext.ir import Block, Builder, LinalgError, Operation, Region, Value, constant_value
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder

__all__ = ["coalesce"]


def coalesce(loop: Operation) -> Operation:
    """Replaces a loop, and those that fill it alone, by one that counts all their iterations; returns that.

    The bounds and steps have to be known numbers. LinalgError, with the operation's place, if they are not, or if
    there is nothing but the one loop.
    """
    nest = _perfect_nest(loop)
    if len(nest) < 2:
        raise LinalgError(f"'{loop.name}' op is no perfect nest of scf.for with known bounds", loop.location)
    ranges = [bounds for each in nest if (bounds := _known_bounds(each)) is not None]
    total = prod(map(len, ranges))
    trips = [max(len(r), 1) for r in ranges]  # where one has none, nothing is counted
    outer = IndexBuilder(Builder.before(loop))
    bounds = [outer.value(n) for n in (0, total, 1)]
    body = Block([v.type for v in loop.body.arguments])
    new = outer.builder.insert(
        Operation(loop.name, [*bounds, *loop.operands[3:]], loop.result_types, loop.attributes, [Region([body])])
    )
    new.location = loop.location
    inside = IndexBuilder(Builder.at_end(body), outer)
    count = body.arguments[0]
    for number, (each, values) in enumerate(zip(nest, ranges)):
        inner = prod(trips[number + 1 :])
        step = (dim(0).floordiv(inner) % trips[number] if number else dim(0).floordiv(inner)) * values.step
        place = inside.apply(step + constant(values.start), (count,))
        each.body.arguments[0].replace_all_uses_with(inside.value(place))
        for argument, carried in zip(each.body.arguments[1:], body.arguments[1:]):
            argument.replace_all_uses_with(carried)
    for op in nest[-1].body.operations:
        op.remove()
        body.append(op)
    loop.replace_all_uses_with(new.results)
    loop.erase()
    return new


def _perfect_nest(loop: Operation) -> list[Operation]:
    """Returns the loops, outermost first, that have nothing but each other in them, and known bounds."""
    found: list[Operation] = []
    inner: Operation | None = loop
    while inner is not None and _known_bounds(inner) is not None:
        found.append(inner)
        first, *rest = inner.body.operations
        passes_on = len(rest) == 1 and _same(rest[0].operands, first.results)
        carries = first.name == "scf.for" and _same(first.operands[3:], inner.body.arguments[1:])
        inner = first if passes_on and carries else None
    return found


def _same(left: Sequence[Value], right: Sequence[Value]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right))


def _known_bounds(loop: Operation) -> range | None:
    """Returns the iterations of a loop, None if they are not known."""
    if loop.name != "scf.for":
        return None
    lower, upper, step = (constant_value(v) for v in loop.operands[:3])
    if lower is None or upper is None or step is None or step <= 0:
        return None
    return range(lower, upper, step)
