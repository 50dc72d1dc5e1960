"""What arrays are in terms of gathers: slices of a source along one of its dimensions, chosen by an array of indices.

Each instruction's value is described by one of `Unknown`, `Constant`, `Reshaped`, `ScalarIndexed`. Gathers of gathers
are gathers of indices; what is computed element by element from a gather of a constant, is a gather of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TypeAlias

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Literal, Shape, Trait, Unsupported
from xjit.hlo import attributes as at
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.evaluation.table import EVALUATORS
from xjit.passes.simplify.algebra.dimensions import kept_dimensions

MAX_ELEMENTS = 1 << 20
"""Elements of a constant that is computed for the analysis."""


@dataclass(frozen=True)
class Unknown:
    """The value of an instruction of which nothing else is known."""

    instruction: HloInstruction

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.instruction.shape

    def __str__(self) -> str:
        return f"%{self.instruction.name}"


@dataclass(frozen=True)
class Constant:
    """A constant, in the module or computed from constants."""

    literal: Literal

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.literal.shape

    def __str__(self) -> str:
        return f"(constant {self.shape.to_string(layout=False)})"


@dataclass(frozen=True)
class Reshaped:
    """Another array with other dimensions."""

    operand: IndexedArray
    shape: Shape

    def __str__(self) -> str:
        return f"(reshape {self.operand} to {self.shape.to_string(layout=False)})"


@dataclass(frozen=True)
class ScalarIndexed:
    """`indices` choose positions along dimension `source_dim` of a source.

    Dimension k of the indices is dimension `output_dims[k]` of the value; its other dimensions are those of the source
    that are left, in order.
    """

    source: IndexedArray
    indices: IndexedArray
    source_dim: int
    output_dims: tuple[int, ...]
    shape: Shape

    def __str__(self) -> str:
        kind = "scalar-indexed-const" if isinstance(self.source, Constant) else "scalar-indexed"
        output = ",".join(map(str, self.output_dims))
        return f"({kind} {self.source} {self.indices} {self.source_dim}->[{output}])"

    def source_dims(self) -> list[int]:
        """Returns which dimension of the source each other dimension of the value is, in order."""
        return [d for d in range(self.source.shape.rank) if d != self.source_dim]

    def value_dims(self) -> list[int]:
        """Returns the dimensions of the value that are dimensions of the source, in order."""
        return [d for d in range(self.shape.rank) if d not in self.output_dims]


IndexedArray: TypeAlias = "Unknown | Constant | Reshaped | ScalarIndexed"


class IndexedArrays:
    """The descriptions of a module's arrays."""

    def __init__(self, arrays: Mapping[HloInstruction, IndexedArray]) -> None:
        self._arrays = arrays

    @classmethod
    def of(cls, module: HloModule) -> IndexedArrays:
        """Describes every array of every computation that is no fusion's."""
        arrays: dict[HloInstruction, IndexedArray] = {}
        for computation in module.make_nonfusion_computations():
            _describe_all(computation, arrays)
        return cls(arrays)

    def array(self, instruction: HloInstruction) -> IndexedArray:
        """Returns what is known of an instruction's value."""
        return self._arrays.get(instruction) or Unknown(instruction)


def _describe_all(computation: HloComputation, arrays: dict[HloInstruction, IndexedArray]) -> None:
    for instruction in computation.make_instruction_post_order():
        if instruction.shape.is_static_array:
            operands = [arrays.get(o) or Unknown(o) for o in instruction.operands]
            arrays[instruction] = _describe(instruction, operands) or Unknown(instruction)


def _describe(instruction: HloInstruction, operands: list[IndexedArray]) -> IndexedArray | None:
    opcode = instruction.opcode
    if opcode == "constant":
        return Constant(instruction.attributes_as(at.ConstantAttributes).literal)
    if opcode == "gather":
        return _gather(instruction, operands[0], operands[1])
    if opcode == "reshape":
        return _reshape(operands[0], instruction.shape)
    if opcode == "dot":
        return _dot(instruction, operands)
    if instruction.op.has(Trait.ELEMENTWISE) and instruction.operand_count in (1, 2):
        return _elementwise(instruction, operands)
    return None


# -- gathers


def _gather(instruction: HloInstruction, source: IndexedArray, indices: IndexedArray) -> IndexedArray | None:
    """Describes a gather of whole slices along one dimension of its operand."""
    numbers = instruction.attributes_as(at.GatherAttributes)
    if numbers.index_vector_dim != indices.shape.rank or len(numbers.start_index_map) != 1:
        return None
    dimension = numbers.start_index_map[0]
    if numbers.collapsed_slice_dims != (dimension,) or numbers.operand_batching_dims:
        return None
    sizes = source.shape.dimensions
    if any(size != sizes[d] for d, size in enumerate(numbers.slice_sizes) if d != dimension):
        return None
    output = tuple(d for d in range(instruction.shape.rank) if d not in numbers.offset_dims)
    return _indexed(source, indices, dimension, output, instruction.shape)


def _indexed(
    source: IndexedArray, indices: IndexedArray, dimension: int, output: tuple[int, ...], shape: Shape
) -> IndexedArray:
    """Returns slices of a source; if it consists of slices along that dimension itself, slices of its own source."""
    if not isinstance(source, ScalarIndexed) or dimension not in source.output_dims:
        return ScalarIndexed(source, indices, dimension, output, shape)
    kept = [d for d in range(source.shape.rank) if d != dimension]
    places = dict(zip((d for d in range(shape.rank) if d not in output), kept, strict=True))
    combined = tuple(d for d in range(shape.rank) if d in output or places[d] in source.output_dims)
    inner = Shape.array(source.indices.shape.element_type, [shape.dimensions[d] for d in combined])
    along = source.output_dims.index(dimension)
    chosen = _indexed(source.indices, indices, along, tuple(combined.index(d) for d in output), inner)
    return _indexed(source.source, chosen, source.source_dim, combined, shape)


# -- reshapes


def _reshape(operand: IndexedArray, shape: Shape) -> IndexedArray | None:
    if operand.shape.dimensions == shape.dimensions:
        return operand
    if isinstance(operand, Constant):
        return Constant(Literal(shape, np.reshape(operand.literal.array, shape.dimensions)))
    if isinstance(operand, ScalarIndexed) and isinstance(operand.source, Constant):
        folded = _reshape_of_slices(operand, operand.source, shape)
        if folded is not None:
            return folded
    return None if isinstance(operand, Unknown) else Reshaped(operand, shape)


def _reshape_of_slices(operand: ScalarIndexed, source: Constant, shape: Shape) -> IndexedArray | None:
    """Returns slices of a reshaped constant, if the dimensions of the indices stay as they are."""
    if not shape.num_elements:
        return None
    stays = kept_dimensions(operand.shape.dimensions, shape.dimensions)
    if any(d not in stays for d in operand.output_dims):
        return None
    output = tuple(stays[d] for d in operand.output_dims)
    kept = [size for d, size in enumerate(shape.dimensions) if d not in output]
    sizes = source.shape.dimensions
    before = prod(sizes[: operand.source_dim])
    place = next((p for p in range(len(kept) + 1) if prod(kept[:p]) == before), None)
    if place is None:
        return None
    reshaped = np.reshape(source.literal.array, [*kept[:place], sizes[operand.source_dim], *kept[place:]])
    return ScalarIndexed(Constant(Literal.from_array(reshaped)), operand.indices, place, output, shape)


# -- arithmetic


def _elementwise(instruction: HloInstruction, operands: list[IndexedArray]) -> IndexedArray | None:
    """Folds an operation on slices of a constant, perhaps with a broadcast constant, into the constant."""
    sliced = next((a for a in operands if isinstance(a, ScalarIndexed) and isinstance(a.source, Constant)), None)
    if sliced is None or not sliced.shape.same_dimensions(instruction.shape):
        return None
    assert isinstance(sliced.source, Constant)
    values: list[Literal] = []
    for operand, described in zip(instruction.operands, operands, strict=True):
        found = sliced.source.literal if described is sliced else _along_source(operand, sliced)
        if found is None:
            return None
        values.append(found)
    shape = sliced.source.shape.with_element_type(instruction.shape.element_type)
    folded = _evaluate(instruction, values, shape, instruction.attributes)
    if folded is None:
        return None
    return ScalarIndexed(Constant(folded), sliced.indices, sliced.source_dim, sliced.output_dims, instruction.shape)


def _along_source(operand: HloInstruction, sliced: ScalarIndexed) -> Literal | None:
    """Returns a broadcast constant in the dimensions of the source, if it does not depend on the indices."""
    if operand.opcode != "broadcast" or operand.operand(0).opcode != "constant":
        return None
    literal = operand.operand(0).attributes_as(at.ConstantAttributes).literal
    placed = operand.attributes_as(at.DimensionsAttributes).dimensions
    if any(d in sliced.output_dims for d in placed):
        return None
    to_source = dict(zip(sliced.value_dims(), sliced.source_dims(), strict=True))
    sizes = sliced.source.shape.dimensions
    aligned = [1] * len(sizes)
    for d in placed:
        aligned[to_source[d]] = sizes[to_source[d]]
    order = np.argsort([to_source[d] for d in placed]) if placed else ()
    array = np.transpose(literal.array, tuple(order)).reshape(aligned)
    return Literal.from_array(np.broadcast_to(array, sizes))


def _dot(instruction: HloInstruction, operands: list[IndexedArray]) -> IndexedArray | None:
    """Folds a product of slices of a constant matrix with a constant matrix into the constant."""
    numbers = instruction.attributes_as(at.DotAttributes)
    if numbers.lhs_batch_dims or numbers.sparsity or len(numbers.lhs_contracting_dims) != 1:
        return None
    contracting = (numbers.lhs_contracting_dims[0], numbers.rhs_contracting_dims[0])
    for side, sliced in enumerate(operands):
        other = operands[1 - side]
        if not isinstance(sliced, ScalarIndexed) or not isinstance(sliced.source, Constant):
            continue
        if not isinstance(other, Constant) or contracting[side] in sliced.output_dims:
            continue
        if any(a.shape.rank != 2 for a in (sliced, sliced.source, other)):
            continue
        sizes = [sliced.source.shape.dimensions[sliced.source_dim], other.shape.dimensions[1 - contracting[1 - side]]]
        dims = (1 - sliced.source_dim, contracting[1 - side])
        pairs = (sliced.source.literal, other.literal)
        new = at.DotAttributes((), (dims[side],), (), (dims[1 - side],), numbers.operand_precision, numbers.algorithm)
        values = [pairs[side], pairs[1 - side]]
        shape = Shape.array(instruction.shape.element_type, sizes if side == 0 else sizes[::-1])
        folded = _evaluate(instruction, values, shape, new)
        if folded is not None:
            return ScalarIndexed(Constant(folded), sliced.indices, side, (side,), instruction.shape)
    return None


def _evaluate(
    instruction: HloInstruction, values: Iterable[Literal], shape: Shape, attributes: at.Attributes
) -> Literal | None:
    """Returns what an instruction computes of constants; None if that is too much, or not known here."""
    literals = list(values)
    evaluator = EVALUATORS.get(instruction.opcode)
    if evaluator is None or max(shape.num_elements, *(v.shape.num_elements for v in literals)) > MAX_ELEMENTS:
        return None
    constants = [HloInstruction.create_constant(v) for v in literals]
    free = HloInstruction.create(instruction.opcode, shape, constants, attributes)
    try:
        with np.errstate(all="ignore"):
            result = evaluator(Interpreter(), free, [v.array for v in literals])
    except Unsupported:
        return None
    finally:
        free.detach_from_operands()
    return Literal(shape.with_default_layouts(), np.array(result, order="C"))
