"""Rules of `scf.parallel` and `affine.for`: indices with one value, and loops that run never or do nothing."""

from __future__ import annotations

from xjit.linalg_ext.dialects.definition import SEGMENTS
from xjit.linalg_ext.ir.attributes import AffineMapAttr, DenseArrayAttr
from xjit.linalg_ext.ir.builder import Builder, constant_value
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.rewrite.rule import Rule, replace

__all__ = ["PARALLEL_RULES"]


def _trips(low: Value, high: Value, step: Value) -> int | None:
    numbers = [constant_value(v) for v in (low, high, step)]
    if low is high:
        return 0
    if numbers[0] is None or numbers[1] is None or numbers[2] is None or numbers[2] <= 0:
        return None
    return max(0, -((numbers[0] - numbers[1]) // numbers[2]))


def known_indices(op: Operation) -> bool:
    """Indices with one value go; a loop without points gives what its reductions began with."""
    rank = len(op.body.arguments)
    bounds = [op.operands[i * rank : (i + 1) * rank] for i in range(3)]
    trips = [_trips(*each) for each in zip(*bounds)]
    inits = op.operands[3 * rank :]
    if 0 in trips:
        return replace(op, inits)
    kept = [i for i, n in enumerate(trips) if n != 1]
    if len(kept) == rank or "mapping" in op.attributes:
        return False
    if not kept:
        return _inline(op, bounds[0], inits)
    block = Block()
    for i, argument in enumerate(op.body.arguments):
        argument.replace_all_uses_with(block.add_argument(argument.type) if i in kept else bounds[0][i])
    for inner in op.body.operations:
        inner.remove()
        block.append(inner)
    operands = [*(each[i] for each in bounds for i in kept), *inits]
    segments = DenseArrayAttr.i32((len(kept),) * 3 + (len(inits),))
    attributes = {**op.attributes, SEGMENTS: segments}
    new = Builder.before(op).create(op.name, operands, op.result_types, attributes, [Region([block])], op.location)
    return replace(op, new.results)


def _inline(op: Operation, indices: tuple[Value, ...], inits: tuple[Value, ...]) -> bool:
    """The one point takes the place of the loop: what it reduces is joined with what the reductions began with."""
    for argument, value in zip(op.body.arguments, indices):
        argument.replace_all_uses_with(value)
    *inner, end = op.body.operations
    for each in inner:
        each.move_before(op)
    results: list[Value] = []
    for region, old, new in zip(end.regions, inits, end.operands):
        block = region.block
        for argument, value in zip(block.arguments, (old, new)):
            argument.replace_all_uses_with(value)
        *steps, result = block.operations
        for each in steps:
            each.move_before(op)
        results.append(result.operands[0])
    return replace(op, results)


def idle_affine_loop(op: Operation) -> bool:
    """A loop that never runs gives what it began with; one that has nothing inside goes."""
    maps = [op.attributes.get(name) for name in ("lowerBoundMap", "upperBoundMap")]
    bounds = [m.map.results for m in maps if isinstance(m, AffineMapAttr)]
    known = [results[0].value for results in bounds if len(results) == 1 and results[0].is_constant]
    if len(known) == 2 and known[0] >= known[1]:
        return replace(op, op.operands[len(op.operands) - len(op.results) :])
    return not op.results and len(op.body.operations) == 1 and replace(op, [])


PARALLEL_RULES: tuple[Rule, ...] = (
    Rule(("scf.parallel",), known_indices),
    Rule(("affine.for",), idle_affine_loop),
)
