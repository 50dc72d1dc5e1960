"""What the call means by which JAX turns the pivots of an LU factorization into a permutation on GPUs."""

from __future__ import annotations

import math

from xjit.hlo.attributes import DynamicSliceAttributes, IotaAttributes
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops import build
from xjit.ops.library_calls.body import Body

PIVOTS = "cu_lu_pivots_to_permutation"
_S32 = PrimitiveType.S32


def plain_permutation(call: HloInstruction) -> HloComputation:
    """The computation: 0, 1, ..., whose element i changes places with element pivots[i] (from 0 on), for i in order."""
    body = Body(call)
    (pivots,) = body.parameters
    batch, count = math.prod(pivots.shape.dimensions[:-1]), pivots.shape.dimensions[-1]
    size = call.shape.dimensions[-1]
    start = [
        body.full(Shape.array(_S32), 0),
        body.add(HloInstruction.create("iota", Shape.array(_S32, (batch, size)), (), IotaAttributes(1))),
        body.add(build.reshape(pivots, (batch, count))),
    ]
    state = body.add(HloInstruction.create_tuple(start))
    loop = body.add(HloInstruction.create_while(state.shape, _goes_on(state.shape, count), _swap(state.shape), state))
    found = body.add(HloInstruction.create_get_tuple_element(loop, 1))
    return body.build(body.add(build.reshape(found, call.shape.dimensions)), call.shape)


class _Step:
    """A computation of the loop, whose parameter is (number, permutations, pivots)."""

    def __init__(self, name: str, state: Shape) -> None:
        self._builder = HloComputation.Builder(name)
        parameter = self.add(HloInstruction.create_parameter(0, state, "state"))
        self.number, self.permutation, self.pivots = (
            self.add(HloInstruction.create_get_tuple_element(parameter, n)) for n in range(3)
        )

    def add(self, instruction: HloInstruction) -> HloInstruction:
        """Adds an instruction."""
        return self._builder.add_instruction(instruction)

    def column(self, array: HloInstruction) -> HloInstruction:
        """Column `number` of an array [batch, n], as often as a permutation has elements."""
        zero = self.add(build.constant_like(self.number, 0))
        rows = array.shape.dimensions[0]
        cut = build.make("dynamic-slice", array, zero, self.number, attributes=DynamicSliceAttributes((rows, 1)))
        flat = self.add(build.reshape(self.add(cut), (rows,)))
        return self.add(build.broadcast(flat, self.permutation.shape, (0,)))

    def equal(self, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction:
        """Where two arrays are equal."""
        return self.add(build.compare("EQ", lhs, rhs))

    def build(self) -> HloComputation:
        """The computation of what was added last."""
        return self._builder.build()


def _goes_on(state: Shape, count: int) -> HloComputation:
    step = _Step("pivots_left", state)
    step.add(build.compare("LT", step.number, step.add(build.constant_like(step.number, count))))
    return step.build()


def _swap(state: Shape) -> HloComputation:
    step = _Step("swap_pivot", state)
    old, whole = step.permutation, step.permutation.shape
    places = step.add(HloInstruction.create("iota", whole, (), IotaAttributes(1)))
    here = step.equal(places, step.add(build.broadcast(step.number, whole, ())))
    there = step.equal(places, step.column(step.pivots))
    zero = step.add(build.constant_like(step.number, 0))
    chosen = step.add(build.select(there, old, step.add(build.broadcast(zero, whole, ()))))
    addition = build.make_binary_computation("add", _S32)
    other = step.add(build.make_reduce(chosen, zero, (1,), addition))
    moved = step.add(build.select(there, step.column(old), old))
    new = step.add(build.select(here, step.add(build.broadcast(other, whole, (0,))), moved))
    following = step.add(build.binary("add", step.number, step.add(build.constant_like(step.number, 1))))
    step.add(HloInstruction.create_tuple([following, new, step.pivots]))
    return step.build()
