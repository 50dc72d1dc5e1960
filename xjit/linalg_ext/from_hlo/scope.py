"""What the instructions of a computation became, and where operations are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from xjit.affine import AffineMap, constant, substitute_all
from xjit.affine.expr import AffineExpr
from xjit.affine.pool import dim
from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.reshaping import reshaped
from xjit.linalg_ext.from_hlo.types import raised_element
from xjit.linalg_ext.ir.attributes import Attribute, DenseArrayAttr, DenseAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.float_text import round_to
from xjit.linalg_ext.ir.operation import Block, Operation, OpResult, Region, Value
from xjit.linalg_ext.ir.types import FloatType, IntegerType, TensorType, Type, element_type
from xjit.linalg_ext.structured import PARALLEL, REDUCTION
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.structured.scalars import cast
from xjit.linalg_ext.structured.view import shape_of

__all__ = ["Body", "Index", "Probabilities", "Raised", "Rule", "Scope", "number_attribute"]

Raised: TypeAlias = "Value | tuple[Raised, ...]"
"""A value, or those of a tuple."""

Rule: TypeAlias = "Callable[[Scope, HloInstruction], Raised | None]"
"""Writes an instruction; None, and nothing is written, if it has not the form that the rule is for."""

Index: TypeAlias = Sequence[AffineExpr]
"""The element of an operand that an iteration takes, in loop variables."""

Body: TypeAlias = Callable[[Builder, Sequence[Value]], Sequence[Value]]
"""Writes scalar code: from the elements of inputs and inits to the new elements of the inits."""


def number_attribute(value: Any, t: Type) -> FloatAttr | IntegerAttr:
    """Returns a number of a float or integer type as an attribute."""
    if isinstance(t, FloatType):
        return FloatAttr(round_to(float(value), t.name), t)
    return IntegerAttr(_signless(int(value), t), t)


def _signless(value: int, t: Type) -> int:
    """Returns the signed number of the same bits, as which integers are written; i1 is 0 or 1."""
    half = 1 << (t.width - 1) if isinstance(t, IntegerType) and t.width > 1 else 0
    return (value + half) % (2 * half) - half if half else value


@dataclass(frozen=True, slots=True)
class Probabilities:
    """The exponentials, an instruction, by their sums along `axes`."""

    value: Value
    axes: tuple[int, ...]
    exponential: HloInstruction


@dataclass(slots=True)
class Scope:
    """`rules` writes any instruction; `values` are what instructions became; `softmaxes` are found by their sums."""

    module: Operation
    builder: Builder
    rules: Callable[[Scope, HloInstruction], Raised]
    values: dict[HloInstruction, Raised] = field(default_factory=dict[HloInstruction, Raised])
    softmaxes: dict[HloInstruction, Probabilities] = field(default_factory=dict[HloInstruction, Probabilities])

    def value(self, instruction: HloInstruction) -> Value:
        """Returns what an instruction that is no tuple became."""
        found = self.values[instruction]
        assert isinstance(found, Value)
        return found

    def operands(self, instruction: HloInstruction) -> list[Value]:
        """Returns what the operands became, none of which is a tuple."""
        return [self.value(o) for o in instruction.operands]

    def constant(self, instruction: HloInstruction) -> Value:
        """Returns an HLO constant as a tensor."""
        literal = instruction.attributes_as(at.ConstantAttributes).literal
        t = TensorType(literal.shape.dimensions, raised_element(literal.shape.element_type))
        splat = literal.splat_value()
        array = literal.array.reshape(-1) if splat is None else np.asarray([splat], literal.array.dtype)
        if isinstance(t.element, FloatType):
            numbers = array.astype(np.float64).tolist()
        else:
            numbers = [_signless(n, t.element) for n in array.tolist()]
        return self.builder.constant(DenseAttr(tuple(numbers), t), t)

    def scalar(self, instruction: HloInstruction) -> Value:
        """Returns the only element of an array of rank 0: a constant where it is one."""
        t = raised_element(instruction.shape.element_type)
        if instruction.opcode == "constant":
            value = instruction.attributes_as(at.ConstantAttributes).literal.array[()]
            return self.builder.constant(number_attribute(value, t), t)
        return self.builder.create("tensor.extract", (self.value(instruction),), (t,)).result

    def number(self, value: float, t: Type) -> Value:
        """Returns a scalar constant."""
        return self.builder.constant(number_attribute(value, t), t)

    def empty(self, sizes: Sequence[int], t: Type) -> Value:
        """Returns a `tensor.empty` with elements of a type."""
        return self.builder.create("tensor.empty", (), (TensorType(tuple(sizes), t),)).result

    def full(self, scalar: Value, sizes: Sequence[int]) -> Value:
        """Returns a tensor whose elements are all the same."""
        init = self.empty(sizes, scalar.type)
        return self.named("linalg.fill", (scalar,), (init,))[0]

    def zeros(self, sizes: Sequence[int], t: Type) -> Value:
        """Returns a tensor of zeros."""
        return self.full(self.number(0, t), sizes)

    def named(
        self,
        name: str,
        inputs: Sequence[Value],
        inits: Sequence[Value],
        attributes: dict[str, Attribute] | None = None,
        region: Region | None = None,
    ) -> tuple[OpResult, ...]:
        """Writes a structured op on tensors; returns its results. Ops that need no segments are written without."""
        given = dict(attributes or {})
        if name not in ("linalg.reduce", "linalg_ext.batch_matmul"):
            given["operandSegmentSizes"] = DenseArrayAttr.i32((len(inputs), len(inits)))
        regions = [] if region is None else [region]
        return self.builder.create(name, (*inputs, *inits), [v.type for v in inits], given, regions).results

    def region(self, types: Sequence[Type], body: Body, terminator: str = "linalg.yield") -> Region:
        """Returns scalar code as the region of an op."""
        block = Block(types)
        inner = Builder(block)
        inner.create(terminator, body(inner, block.arguments))
        return Region([block])

    def generic(
        self, inputs: Sequence[tuple[Value, Index]], inits: Sequence[tuple[Value, Index]], loops: int, body: Body
    ) -> tuple[OpResult, ...]:
        """Writes a generic: loops that no output names are reductions."""
        operands = [*inputs, *inits]
        named = {d for _, index in inits for e in index for d in e.dims}
        kinds = [PARALLEL if loop in named else REDUCTION for loop in range(loops)]
        maps = [AffineMap(loops, 0, tuple(index)) for _, index in operands]
        region = self.region([element_type(v.type) for v, _ in operands], body)
        return create_generic(self.builder, [v for v, _ in inputs], [v for v, _ in inits], maps, kinds, region).results

    def elements(self, inputs: Sequence[tuple[Value, Index]], sizes: Sequence[int], t: Type, body: Body) -> Value:
        """Writes a generic that computes each element of a new tensor by itself.

        Loops are over dimensions that have several elements, so that the others do not come between two ops.
        """
        kept = [d for d, n in enumerate(sizes) if n != 1]
        loops = {d: dim(i) for i, d in enumerate(kept)}
        values = [loops.get(d, constant(0)) for d in range(len(sizes))]
        operands = [self._without_ones(value, substitute_all(index, values)) for value, index in inputs]
        init = self.empty([sizes[d] for d in kept], t)
        result = self.generic(operands, [(init, list(loops.values()))], len(kept), body)[0]
        return reshaped(self.builder, result, sizes)

    def _without_ones(self, value: Value, index: Index) -> tuple[Value, Index]:
        """Returns a tensor and an index without dimensions of one element."""
        sizes = [n or 0 for n in shape_of(value)]
        kept = [d for d, n in enumerate(sizes) if n != 1]
        return reshaped(self.builder, value, [sizes[d] for d in kept]), [index[d] for d in kept]

    def moved(self, value: Value, index: Index, sizes: Sequence[int]) -> Value:
        """Returns a tensor of elements of another one, or that one if nothing moves."""
        if shape_of(value) == tuple(sizes) and all(e == dim(d) or sizes[d] == 1 for d, e in enumerate(index)):
            return value
        return self.elements([(value, index)], sizes, element_type(value.type), lambda _, given: given[:1])

    def converted(self, value: Value, target: Type) -> Value:
        """Returns a tensor with its elements in another type; integers are signed."""
        if element_type(value.type) == target:
            return value
        sizes = [n or 0 for n in shape_of(value)]
        identity = [dim(i) for i in range(len(sizes))]
        return self.elements([(value, identity)], sizes, target, lambda b, given: [cast(b, given[0], target)])

    def transposed(self, value: Value, order: Sequence[int]) -> Value:
        """Returns a tensor whose dimension i is dimension `order[i]` of another one."""
        shape = shape_of(value)
        places = [dim(order.index(d)) for d in range(len(order))]
        return self.moved(value, places, [shape[d] or 0 for d in order])

    def slice(
        self,
        value: Value,
        offsets: Sequence[int | Value],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        into: Value | None = None,
    ) -> Value:
        """Returns a part of a tensor, or, with `into`, that tensor with a part replaced by `value`."""
        dynamic = [o for o in offsets if isinstance(o, Value)]
        tensors = [value] if into is None else [value, into]
        static = [-(2**63) if isinstance(o, Value) else o for o in offsets]
        attributes: dict[str, Attribute] = {
            "operandSegmentSizes": DenseArrayAttr.i32([*([1] * len(tensors)), len(dynamic), 0, 0]),
            "static_offsets": DenseArrayAttr.i64(static),
            "static_sizes": DenseArrayAttr.i64(sizes),
            "static_strides": DenseArrayAttr.i64(strides or [1] * len(sizes)),
        }
        name = "tensor.extract_slice" if into is None else "tensor.insert_slice"
        kind = TensorType(tuple(sizes), element_type(value.type)) if into is None else into.type
        return self.builder.create(name, [*tensors, *dynamic], (kind,), attributes).result

    def run(self, computation: HloComputation, arguments: Sequence[Raised]) -> Raised:
        """Writes a computation in line; returns its root."""
        self.values.update(zip(computation.parameter_instructions, arguments, strict=True))
        for instruction in computation.make_instruction_post_order():
            if instruction.opcode != "parameter":
                self.values[instruction] = self.rules(self, instruction)
        return self.values[computation.root_instruction]

    def inner(self, block: Block) -> Scope:
        """Returns the scope of a block of a region, which sees the values around it."""
        return Scope(self.module, Builder(block), self.rules, dict(self.values), dict(self.softmaxes))
