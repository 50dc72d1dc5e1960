"""Rules of `scf.forall`: bounds that are constants, loops that run never or once."""

from __future__ import annotations

from xjit.linalg_ext.dialects.definition import DYNAMIC
from xjit.linalg_ext.dialects.scf_parallel import forall_bounds
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.builder import Builder, constant_value
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.rewrite.rule import Rule, replace

__all__ = ["FORALL_RULES"]

_NAMES = ("LowerBound", "UpperBound", "Step")


def known_points(op: Operation) -> bool:
    """Constants are numbers of the loop; indices with one value go, if no mapping is given for them; a loop without
    points gives what its outputs began with.
    """
    bounds = list(zip(*(map(_number, each) for each in forall_bounds(op))))
    trips = [_trips(*each) for each in bounds]
    outs = op.operands[len(op.operands) - len(op.results) :]
    if 0 in trips:
        return replace(op, outs)
    kept = list(range(len(trips))) if "mapping" in op.attributes else [i for i, n in enumerate(trips) if n != 1]
    if not kept:
        return _inline(op, [_value(op, low) for low, _, _ in bounds], outs)
    constants = sum(isinstance(n, int) for each in bounds for n in each)
    static = sum(isinstance(n, int) for each in forall_bounds(op) for n in each)
    if len(kept) == len(trips) and constants == static:
        return False
    _keep(op, kept, bounds, outs)
    return True


def _number(bound: Value | int) -> Value | int:
    known = constant_value(bound) if isinstance(bound, Value) else bound
    return bound if known is None else known


def _value(op: Operation, index: Value | int) -> Value:
    return Builder.before(op).constant_index(index) if isinstance(index, int) else index


def _trips(low: Value | int, high: Value | int, step: Value | int) -> int | None:
    if isinstance(low, int) and isinstance(high, int) and isinstance(step, int) and step > 0:
        return max(0, -((low - high) // step))
    return None


def _keep(op: Operation, kept: list[int], bounds: list[tuple[Value | int, ...]], outs: tuple[Value, ...]) -> None:
    """Replaces a loop by one over some of its indices."""
    block = Block()
    for i, argument in enumerate(op.body.arguments):
        stays = i >= len(bounds) or i in kept
        argument.replace_all_uses_with(block.add_argument(argument.type) if stays else _value(op, bounds[i][0]))
    for inner in op.body.operations:
        inner.remove()
        block.append(inner)
    attributes = dict(op.attributes)
    values: list[Value] = []
    counts: list[int] = []
    for number, name in enumerate(_NAMES):
        listed = [bounds[i][number] for i in kept]
        attributes[f"static{name}"] = DenseArrayAttr.i64(n if isinstance(n, int) else DYNAMIC for n in listed)
        dynamic = [n for n in listed if isinstance(n, Value)]
        values += dynamic
        counts.append(len(dynamic))
    attributes["operandSegmentSizes"] = DenseArrayAttr.i32((*counts, len(outs)))
    new = Builder.before(op).create(
        op.name, (*values, *outs), op.result_types, attributes, [Region([block])], op.location
    )
    replace(op, new.results)


def _inline(op: Operation, indices: list[Value], outs: tuple[Value, ...]) -> bool:
    """The one point takes the place of the loop: what it inserts in parallel is inserted."""
    block, end = op.body, op.body.terminator
    for argument, value in zip(block.arguments[: len(indices)], indices):
        argument.replace_all_uses_with(value)
    shared = dict(zip(block.arguments[len(indices) :], outs))
    results: dict[Value, Value] = {**shared}
    insertions = [inner for region in end.regions for each in region.blocks for inner in each.operations]
    builder = Builder.before(op)
    for inner in block.operations[:-1]:
        inner.move_before(op)
    for inner in insertions:
        source, out, *rest = inner.operands
        made = builder.create("tensor.insert_slice", (source, results[out], *rest), (out.type,), inner.attributes)
        results[out] = made.result
    found = [results[out] for out in shared]
    for argument, value in shared.items():
        argument.replace_uses_if(value, lambda use: use.owner.name != "tensor.parallel_insert_slice")
    return replace(op, found)


FORALL_RULES: tuple[Rule, ...] = (Rule(("scf.forall",), known_points),)
