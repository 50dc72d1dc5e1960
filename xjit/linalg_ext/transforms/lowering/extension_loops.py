"""Loops of the extension ops on memrefs, by their definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xjit.linalg_ext.ir.attributes import BoolAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, element_type
from xjit.linalg_ext.structured import StructuredOp, shape_of
from xjit.linalg_ext.structured.extension import axis_of
from xjit.linalg_ext.structured.view import attribute_integers
from xjit.linalg_ext.transforms.lowering.scalar_loops import ScalarLoops

__all__ = ["EXTENSION_LOOPS"]

Lowering: TypeAlias = Callable[[ScalarLoops, StructuredOp], None]


def _scatter(loops: ScalarLoops, op: StructuredOp) -> None:
    """One loop per dimension of the updates; the place in the source is loaded for each element."""
    indices, updates, source = op.operands
    batch = len(shape_of(indices)) - 1
    depth = shape_of(indices)[-1]
    assert depth is not None
    rank = len(shape_of(updates))
    variables = loops.open_all([loops.size(updates, axis) for axis in range(rank)])
    place: list[Value] = []
    for i in range(depth):
        index = loops.load(indices, [*variables[:batch], loops.index(i)])
        if not isinstance(index.type, IndexType):
            index = loops.builder.create("arith.index_cast", (index,), (IndexType(),)).result
        place.append(index)
    place += variables[batch:]
    old, update = loops.load(source, place), loops.load(updates, variables)
    loops.store(loops.inline(op.body, [old, update])[0], source, place)
    loops.close_all(rank)


class _Lines:
    """Loops over all dimensions of the input but `axes`; elements are reached with an index along those."""

    def __init__(self, loops: ScalarLoops, op: StructuredOp, axes: Sequence[int]) -> None:
        self.loops, self.axes = loops, tuple(axes)
        self.input = op.inputs[0]
        self.rank = len(shape_of(self.input))
        self.others = [axis for axis in range(self.rank) if axis not in axes]
        self.line = list(loops.open_all([loops.size(self.input, axis) for axis in self.others]))
        self.lengths = [loops.size(self.input, axis) for axis in self.axes]

    def at(self, along: Sequence[Value]) -> list[Value]:
        """Returns the index of an element of the input."""
        known = dict(zip(self.others, self.line)) | dict(zip(self.axes, along))
        return [known[axis] for axis in range(self.rank)]

    def fold(self, start: Sequence[Value], step: Callable[[list[Value], list[Value]], list[Value]]) -> list[Value]:
        """Runs along the line with carried values; `step` gets the index along it and the values."""
        carried = list(start)
        inits: list[list[Value]] = []
        for length in self.lengths:
            inits.append(carried)
            carried = self.loops.open(length, carried)
        count = len(self.axes)
        along = self.loops.variables[len(self.loops.variables) - count :]
        carried = step(list(along), carried)
        for _ in range(count):
            carried = list(self.loops.close(carried))
        return carried

    def close(self) -> None:
        self.loops.close_all(len(self.others))


def _softmax(loops: ScalarLoops, op: StructuredOp) -> None:
    data, output, maximum, accumulator, scale = op.operands
    lines = _Lines(loops, op, (axis_of(op),))
    old_max, old_sum = loops.load(maximum, lines.line), loops.load(accumulator, lines.line)

    def carried_on(new_max: Value) -> Value:
        kept = loops.apply("math.exp", loops.apply("arith.subf", old_max, new_max))
        return loops.apply("arith.mulf", old_sum, kept)

    new_max, scaled, new_sum = _normalize(loops, lines, data, output, old_max, carried_on)
    loops.store(new_max, maximum, lines.line)
    loops.store(new_sum, accumulator, lines.line)
    loops.store(loops.apply("arith.divf", scaled, new_sum), scale, lines.line)
    lines.close()


def _plain_softmax(loops: ScalarLoops, op: StructuredOp) -> None:
    data, output = op.operands
    lines = _Lines(loops, op, (axis_of(op),))
    kind = element_type(data.type)
    _normalize(loops, lines, data, output, loops.number(float("-inf"), kind), lambda _: loops.number(0, kind))
    lines.close()


def _normalize(
    loops: ScalarLoops, lines: _Lines, data: Value, output: Value, least: Value, start: Callable[[Value], Value]
) -> tuple[Value, Value, Value]:
    """Three passes over each line: its maximum, from `least` on, the sum of exponentials, the quotients.

    The sum begins with what `start` makes of the maximum. Returns the maximum, that start, and the sum.
    """

    def larger(along: list[Value], carried: list[Value]) -> list[Value]:
        return [loops.apply("arith.maximumf", carried[0], loops.load(data, lines.at(along)))]

    new_max = lines.fold([least], larger)[0]

    def weight(along: list[Value]) -> Value:
        difference = loops.apply("arith.subf", loops.load(data, lines.at(along)), new_max)
        return loops.apply("math.exp", difference)

    def added(along: list[Value], carried: list[Value]) -> list[Value]:
        return [loops.apply("arith.addf", carried[0], weight(along))]

    begin = start(new_max)
    new_sum = lines.fold([begin], added)[0]

    def divided(along: list[Value], carried: list[Value]) -> list[Value]:
        loops.store(loops.apply("arith.divf", weight(along), new_sum), output, lines.at(along))
        return []

    lines.fold([], divided)
    return new_max, begin, new_sum


def _scan(loops: ScalarLoops, op: StructuredOp) -> None:
    data, output, accumulator = op.operands
    inclusive = op.operation.attributes.get("inclusive")
    is_inclusive = inclusive.value if isinstance(inclusive, BoolAttr) else True
    lines = _Lines(loops, op, (axis_of(op),))

    def step(along: list[Value], carried: list[Value]) -> list[Value]:
        place = lines.at(along)
        total = loops.inline(op.body, [carried[0], loops.load(data, place)])[0]
        loops.store(total if is_inclusive else carried[0], output, place)
        return [total]

    total = lines.fold([loops.load(accumulator, lines.line)], step)[0]
    loops.store(total, accumulator, lines.line)
    lines.close()


def _diag(loops: ScalarLoops, op: StructuredOp) -> None:
    source, matrix = op.operands
    rank = len(shape_of(matrix))
    zero = loops.number(0, element_type(matrix.type))
    variables = loops.open_all([loops.size(matrix, axis) for axis in range(rank)])
    equal = {"predicate": IntegerAttr(0, IntegerType(64))}
    on = loops.builder.create("arith.cmpi", variables[-2:], (IntegerType(1),), equal).result
    element = loops.load(source, variables[:-1])
    loops.store(loops.select(on, element, zero), matrix, variables)
    loops.close_all(rank)


def _layer_norm(loops: ScalarLoops, op: StructuredOp) -> None:
    """Two sums over each line, of elements and of squared distances from the mean, then the quotients."""
    data, (output, *moments) = op.inputs[0], op.inits
    kind = element_type(data.type)
    epsilon = op.operation.attributes["epsilon"]
    if not isinstance(kind, FloatType) or not isinstance(epsilon, FloatAttr):
        raise op.error(f"expected floats, found elements of type {kind}")
    lines = _Lines(loops, op, attribute_integers(op.operation, "axis"))
    length = lines.lengths[0]
    for other in lines.lengths[1:]:
        length = loops.apply("arith.muli", length, other)
    integer = loops.builder.create("arith.index_cast", (length,), (IntegerType(64),)).result
    count = loops.builder.create("arith.sitofp", (integer,), (kind,)).result
    zero = loops.number(0, kind)
    total = lines.fold([zero], lambda along, c: [loops.apply("arith.addf", c[0], loops.load(data, lines.at(along)))])[0]
    mean = loops.apply("arith.divf", total, count)

    def distance(along: list[Value]) -> Value:
        return loops.apply("arith.subf", loops.load(data, lines.at(along)), mean)

    def squared(along: list[Value], carried: list[Value]) -> list[Value]:
        x = distance(along)
        return [loops.apply("arith.addf", carried[0], loops.apply("arith.mulf", x, x))]

    variance = loops.apply("arith.divf", lines.fold([zero], squared)[0], count)
    reciprocal = loops.apply("math.rsqrt", loops.apply("arith.addf", variance, loops.number(epsilon.value, kind)))

    def normalized(along: list[Value], carried: list[Value]) -> list[Value]:
        value = loops.apply("arith.mulf", distance(along), reciprocal)
        for name, parameter in zip(("arith.mulf", "arith.addf"), op.inputs[1:]):
            value = loops.apply(name, value, loops.load(parameter, along))
        loops.store(value, output, lines.at(along))
        return []

    lines.fold([], normalized)
    for value, memref in zip((mean, reciprocal), moments):
        loops.store(value, memref, lines.line)
    lines.close()


def _topk(loops: ScalarLoops, op: StructuredOp) -> None:
    """Inserts the elements of each line, one by one, into what has been chosen; first those of the inits themselves."""
    data, (values, numbers) = op.inputs[0], op.inits
    axis = axis_of(op)
    lines = _Lines(loops, op, (axis,))
    count = loops.size(values, axis)
    kind = element_type(numbers.type)

    def insert(element: Value, number: Value, length: Value) -> list[Value]:
        """Inserts before the first of `length` elements that the new one is before; returns what falls out."""
        new, new_number, shifts = loops.open(length, [element, number, loops.number(0, IntegerType(1))])
        place = lines.at(loops.variables[-1:])
        old, old_number = loops.load(values, place), loops.load(numbers, place)
        before = loops.inline(op.body, [new, old])[0]
        moves = loops.apply("arith.ori", shifts, before)
        for memref, pair in ((values, (new, old)), (numbers, (new_number, old_number))):
            loops.store(loops.select(moves, *pair), memref, place)
        return list(loops.close([loops.select(moves, old, new), loops.select(moves, old_number, new_number), moves]))

    loops.open(count)
    place = lines.at(loops.variables[-1:])
    rest = insert(loops.load(values, place), loops.load(numbers, place), loops.variables[-1])
    loops.store(rest[0], values, place)
    loops.store(rest[1], numbers, place)
    loops.close()

    def next_element(along: list[Value], carried: list[Value]) -> list[Value]:
        place = lines.at(along)
        if len(op.inputs) > 1:
            number = loops.load(op.inputs[1], place)
        elif isinstance(kind, IndexType):
            number = along[0]
        else:
            number = loops.builder.create("arith.index_cast", along, (kind,)).result
        insert(loops.load(data, place), number, count)
        return []

    lines.fold([], next_element)
    lines.close()


EXTENSION_LOOPS: dict[str, Lowering] = {
    "linalg_ext.scatter": _scatter,
    "linalg.softmax": _plain_softmax,
    "linalg_ext.softmax": _softmax,
    "linalg_ext.scan": _scan,
    "linalg_ext.diag": _diag,
    "linalg_ext.layer_norm": _layer_norm,
    "linalg_ext.topk": _topk,
}
"""By name of the op; `custom` has no loops."""
