"""Writing expansions: the same constructors in the place of an instruction and in new computations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjit.hlo import HloComputation, HloInstruction, Literal, PrimitiveType, Shape
from xjit.hlo.attributes import CompareAttributes, DynamicSliceAttributes, IotaAttributes
from xjit.ops import build
from xjit.passes.framework.expansion import Expansion

COUNTER = PrimitiveType.S32
"""Type of the counter of a loop."""


class Writer:
    """Adds instructions to the place of `into`, or to a computation that `into` embeds later.

    What is added has the metadata and the place of the instruction that is expanded.
    """

    def __init__(self, into: Expansion, builder: HloComputation.Builder | None = None) -> None:
        self.into = into
        self._builder = builder

    def add(self, instruction: HloInstruction) -> HloInstruction:
        """Adds a free instruction and returns it."""
        if self._builder is None:
            return self.into.add(instruction)
        instruction.metadata, instruction.place = self.into.source.metadata, self.into.source.place
        return self._builder.add_instruction(instruction)

    def make(self, opcode: str, *operands: HloInstruction, **options: Any) -> HloInstruction:
        """Makes and adds an instruction whose shape is inferred."""
        return self.add(build.make(opcode, *operands, **options))

    def constant(self, values: Any, kind: PrimitiveType) -> HloInstruction:
        """A constant of a number or nested sequence."""
        return self.add(HloInstruction.create_constant(Literal.from_array(np.asarray(values).astype(kind.dtype))))

    def full(self, shape: Shape, value: float) -> HloInstruction:
        """An array with every element equal to `value`."""
        scalar = self.constant(value, shape.element_type)
        return self.broadcast(scalar, shape.dimensions) if shape.rank else scalar

    def like(self, operand: HloInstruction, value: float) -> HloInstruction:
        """An array of the shape of another with every element equal to `value`."""
        return self.full(row_major(operand), value)

    def broadcast(
        self, operand: HloInstruction, dimensions: Sequence[int], placed: Sequence[int] = ()
    ) -> HloInstruction:
        """The operand, whose dimension i is result dimension `placed[i]`, repeated along the others."""
        shape = Shape.array(operand.shape.element_type, tuple(dimensions))
        return self.add(build.broadcast(operand, shape, placed))

    def iota(self, kind: PrimitiveType, dimensions: Sequence[int], along: int) -> HloInstruction:
        """0, 1, 2, ... along one dimension."""
        shape = Shape.array(kind, tuple(dimensions))
        return self.make("iota", attributes=IotaAttributes(along), shape=shape)

    def reshape(self, operand: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        """The operand with other dimensions; itself if they are its own."""
        if operand.shape.dimensions == tuple(dimensions):
            return operand
        return self.make("reshape", operand, shape=Shape.array(operand.shape.element_type, tuple(dimensions)))

    def transpose(self, operand: HloInstruction, order: Sequence[int]) -> HloInstruction:
        """The operand with permuted dimensions; itself if the order is the same."""
        return operand if list(order) == list(range(len(order))) else self.add(build.transpose(operand, order))

    def permute(self, operand: HloInstruction, order: Sequence[int]) -> HloInstruction:
        """As `transpose`, by a reshape where only dimensions of one element change places."""
        sizes = operand.shape.dimensions
        moved = [d for d in order if sizes[d] != 1]
        if moved == sorted(moved):
            return self.reshape(operand, [sizes[d] for d in order])
        return self.transpose(operand, order)

    def convert(self, operand: HloInstruction, kind: PrimitiveType) -> HloInstruction:
        """The operand in another type; itself if it is of that type."""
        if operand.shape.element_type is kind:
            return operand
        return self.make("convert", operand, shape=row_major(operand).with_element_type(kind))

    def slice(self, operand: HloInstruction, starts: Sequence[int], limits: Sequence[int]) -> HloInstruction:
        """The part of the operand from `starts` to `limits`."""
        return self.add(build.slice_(operand, starts, limits))

    def concatenate(self, operands: Sequence[HloInstruction], dimension: int) -> HloInstruction:
        """The operands one after the other; itself if it is one."""
        return operands[0] if len(operands) == 1 else self.add(build.concatenate(operands, dimension))

    def compare(self, direction: str, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction:
        """Elementwise EQ, NE, GE, GT, LE or LT."""
        return self.make("compare", lhs, rhs, attributes=CompareAttributes(direction))

    def dynamic_slice(
        self, operand: HloInstruction, starts: Sequence[HloInstruction], sizes: Sequence[int]
    ) -> HloInstruction:
        """The part of the operand of some sizes whose starts, one scalar per dimension, are clamped."""
        return self.make("dynamic-slice", operand, *starts, attributes=DynamicSliceAttributes(tuple(sizes)))

    def element(self, operand: HloInstruction, index: int) -> HloInstruction:
        """An element of a tuple."""
        return self.add(HloInstruction.create_get_tuple_element(operand, index))

    def tuple_of(self, *operands: HloInstruction) -> HloInstruction:
        """A tuple."""
        return self.add(HloInstruction.create_tuple(operands))


def in_layout(into: Expansion, result: HloInstruction) -> HloInstruction:
    """Returns the result in the layout of what is replaced."""
    return result if result.shape == into.source.shape else into.like_source("copy", [result])


def row_major(operand: HloInstruction) -> Shape:
    """Returns the shape of an array, without its layout."""
    return Shape.array(operand.shape.element_type, operand.shape.dimensions)


Step = Callable[[Writer, HloInstruction, list[HloInstruction]], Sequence[HloInstruction]]
"""Writes one step of a loop: (writer of the body, counter, state) -> the state behind it."""


def counted_loop(writer: Writer, name: str, count: int, state: Sequence[HloInstruction], step: Step) -> HloInstruction:
    """Returns a while loop of `count` steps: the tuple of the counter, which goes up from 0, and the state."""
    into = writer.into
    initial = writer.tuple_of(writer.constant(0, COUNTER), *state)
    condition = HloComputation.Builder(f"{name}_condition")
    test = Writer(into, condition)
    counter = test.element(test.add(HloInstruction.create_parameter(0, initial.shape, "state")), 0)
    test.compare("LT", counter, test.constant(count, COUNTER))
    builder = HloComputation.Builder(f"{name}_body")
    body = Writer(into, builder)
    parameter = body.add(HloInstruction.create_parameter(0, initial.shape, "state"))
    counter = body.element(parameter, 0)
    following = body.make("add", counter, body.constant(1, COUNTER))
    values = [body.element(parameter, i + 1) for i in range(len(state))]
    root = body.tuple_of(following, *step(body, counter, values))
    called = [into.embed(condition.build()), into.embed(builder.build(root))]
    return writer.add(HloInstruction.create("while", initial.shape, [initial], called_computations=called))
