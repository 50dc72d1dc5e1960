"""Where the run-time sizes of dynamic dimensions come from, as expressions over scalar instructions.

A size enters by `set-dimension-size`, by an entry parameter that a binding names, or as an operand of
`dynamic-reshape`, and follows its dimension through a computation: wherever the indexing map of an operand says that
dimension i of the result is dimension j of the operand, and by rules where sizes are computed. What comes from outside
of the computation, or leaves the path of these rules, is dynamic with an unknown size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from xjit.affine import AffineExpr, AffineExprKind, constant, dim
from xjit.affine.reshape import common_factors
from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait, opcodes_with
from xjit.hlo.types.shape import ShapeIndex
from xjit.indexing.operand_reads import OperandReads
from xjit.ops import build
from xjit.passes.framework.expansion import Expansion

Sizes = dict[tuple[ShapeIndex, int], AffineExpr]
"""Known sizes of the dynamic dimensions of one instruction: (shape index, dimension) to expression."""


@dataclass(frozen=True, slots=True)
class DynamicSize:
    """A size: dimension d of `expression` is the value of the s32 scalar `sources[d]`."""

    expression: AffineExpr
    sources: Sequence[HloInstruction]

    @property
    def instruction(self) -> HloInstruction | None:
        """The scalar that is the size, if it is one as it stands."""
        is_source = self.expression.kind is AffineExprKind.DIM
        return self.sources[self.expression.position] if is_source else None

    def make(self, into: Expansion) -> HloInstruction:
        """Returns an s32 scalar with the size; what it takes to compute it is added."""
        return _made(self.expression, self.sources, into)


class DynamicDimensionInference:
    """The sizes of a module's dynamic dimensions. Each computation stands for itself."""

    def __init__(self, module: HloModule) -> None:
        self._sizes: dict[HloInstruction, Sizes] = {}
        self._sources: dict[HloInstruction, int] = {}
        self._reads = OperandReads()
        self._module = module
        for computation in module.make_nonfusion_computations():
            self._infer(computation)

    @classmethod
    def of(cls, module: HloModule) -> DynamicDimensionInference:
        """Returns the sizes of a module as it is now."""
        return cls(module)

    @staticmethod
    def has_dynamic_dimension(instruction: HloInstruction, index: ShapeIndex = ()) -> bool:
        """Whether an array at or below an index has a dynamic dimension."""
        return not instruction.shape.subshape(index).is_static

    def get_dynamic_size(
        self, instruction: HloInstruction, index: ShapeIndex = (), dimension: int = 0
    ) -> DynamicSize | None:
        """Returns the size of a dynamic dimension; None if the dimension is static, or its size unknown."""
        found = self._sizes.get(instruction, {}).get((index, dimension))
        return None if found is None else DynamicSize(found, tuple(self._sources))

    # -- inference

    def _infer(self, computation: HloComputation) -> None:
        if all(i.shape.is_static for i in computation.instructions):
            return
        if computation.is_entry_computation():
            self._bind_parameters(computation)
        for instruction in computation.make_instruction_post_order():
            if instruction.opcode != "parameter" and not instruction.shape.is_static:
                sizes = dict(_RULES.get(instruction.opcode, _by_maps)(self, instruction))
                self._sizes[instruction] = {d: s for d, s in sizes.items() if _is_dynamic(instruction.shape, d)}

    def _bind_parameters(self, entry: HloComputation) -> None:
        for dynamic, size in self._module.dynamic_parameter_binding.bindings.items():
            source = entry.parameter_instruction(size.parameter_number)
            if size.parameter_index == ():
                target = self._sizes.setdefault(entry.parameter_instruction(dynamic.parameter_number), {})
                target[dynamic.parameter_index, dynamic.dimension] = self.source(source)

    def source(self, scalar: HloInstruction) -> AffineExpr:
        """Returns the expression for the value of a scalar (for the rules)."""
        if scalar.opcode == "get-dimension-size":
            size = self.size(scalar.operand(0), scalar.attributes_as(at.DimensionAttributes).dimension)
            if size is not None:
                return size
        if scalar.opcode == "constant":
            return constant(int(scalar.attributes_as(at.ConstantAttributes).literal.array))
        return dim(self._sources.setdefault(scalar, len(self._sources)))

    def size(self, instruction: HloInstruction, dimension: int, index: ShapeIndex = ()) -> AffineExpr | None:
        """Returns the size of any dimension of an array; None if it is unknown (for the rules)."""
        shape = instruction.shape.subshape(index)
        if not shape.is_dynamic_dimension(dimension):
            return constant(shape.dimensions[dimension])
        return self._sizes.get(instruction, {}).get((index, dimension))

    def all_sizes(self, instruction: HloInstruction) -> Sizes:
        """Returns all known sizes of an instruction (for the rules)."""
        return self._sizes.get(instruction, {})

    def kept_dimensions(self, instruction: HloInstruction) -> Iterator[tuple[int, int, int]]:
        """Yields (dimension of the result, operand, dimension of the operand) that are one and the same."""
        for number, read in enumerate(self._reads.of(instruction)):
            m = read.always
            for operand_dimension, expression in enumerate(m.map.results if m is not None else ()):
                if expression.kind is AffineExprKind.DIM:
                    dimension = expression.position
                    if read.sizes[dimension] == read.operand.dimensions[operand_dimension]:
                        yield dimension, number, operand_dimension


def _is_dynamic(shape: Shape, place: tuple[ShapeIndex, int]) -> bool:
    return shape.subshape(place[0]).is_dynamic_dimension(place[1])


def _made(expression: AffineExpr, sources: Sequence[HloInstruction], into: Expansion) -> HloInstruction:
    if expression.kind is AffineExprKind.DIM:
        return sources[expression.position]
    if expression.is_constant:
        return into.add(build.make_constant(expression.value, PrimitiveType.S32))
    opcode = _OPCODES[expression.kind]
    made = [_made(operand, sources, into) for operand in expression.operands]
    result = made[0]
    for operand in made[1:]:
        result = into.make(opcode, result, operand)
    return result


_OPCODES: Mapping[AffineExprKind, str] = MappingProxyType(
    {AffineExprKind.ADD: "add", AffineExprKind.MUL: "multiply", AffineExprKind.FLOORDIV: "divide"}
)
Rule = Callable[[DynamicDimensionInference, HloInstruction], Sizes]


def _by_maps(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    """Every array of the result has the dimensions that maps say are an operand's."""
    found: Sizes = {}
    leaves = [index for index, leaf in instruction.shape.leaves() if leaf.is_array]
    for dimension, number, operand_dimension in inference.kept_dimensions(instruction):
        size = inference.size(instruction.operand(number), operand_dimension)
        if size is not None and instruction.operand(number).shape.is_dynamic_dimension(operand_dimension):
            found.update({(index, dimension): size for index in leaves})
    return found


def _set_size(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    dimension = instruction.attributes_as(at.DimensionAttributes).dimension
    return {**inference.all_sizes(instruction.operand(0)), ((), dimension): inference.source(instruction.operand(1))}


def _dynamic_reshape(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    return {((), d): inference.source(size) for d, size in enumerate(instruction.operands[1:])}


def _forward(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    return dict(inference.all_sizes(instruction.operand(0)))


def _tuple(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    return {
        ((n, *index), dimension): size
        for n, operand in enumerate(instruction.operands)
        for (index, dimension), size in inference.all_sizes(operand).items()
    }


def _element(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    n = instruction.attributes_as(at.GetTupleElementAttributes).index
    sizes = inference.all_sizes(instruction.operand(0)).items()
    return {(index[1:], dimension): size for (index, dimension), size in sizes if index[0] == n}


def _concatenate(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    """Sizes add up along the dimension; of the others, all operands have the same."""
    found = {place: size for o in instruction.operands for place, size in inference.all_sizes(o).items()}
    dimension = instruction.attributes_as(at.ConcatenateAttributes).dimension
    parts = [inference.size(o, dimension) for o in instruction.operands]
    found.pop(((), dimension), None)
    known = [part for part in parts if part is not None]
    if len(known) == len(parts):
        found[(), dimension] = sum(known[1:], known[0])
    return found


def _pad(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    """An empty dimension has no interior: only without one is the padded size an expression."""
    found: Sizes = {}
    for dimension, padding in enumerate(instruction.attributes_as(at.PadAttributes).padding):
        size = inference.size(instruction.operand(0), dimension)
        added = padding.edge_padding_low + padding.edge_padding_high
        if size is not None and not padding.interior_padding and added >= 0:
            found[(), dimension] = size + added
    return found


def _reshape(inference: DynamicDimensionInference, instruction: HloInstruction) -> Sizes:
    """Of dimensions that are merged or split into others, the dynamic one is multiplied or divided by the others."""
    operand = instruction.operand(0)
    found: Sizes = {}
    for sources, targets in reshape_groups(operand.shape.dimensions, instruction.shape.dimensions):
        dynamic = [d for d in sources if operand.shape.is_dynamic_dimension(d)]
        wanted = [d for d in targets if instruction.shape.is_dynamic_dimension(d)]
        size = inference.size(operand, dynamic[0]) if len(dynamic) == len(wanted) == 1 else None
        if size is not None:
            elements = size * math.prod(operand.shape.dimensions[d] for d in sources if d != dynamic[0])
            rest = math.prod(instruction.shape.dimensions[d] for d in targets if d != wanted[0])
            found[(), wanted[0]] = elements.floordiv(rest)
    return found


def reshape_groups(source: Sequence[int], target: Sequence[int]) -> list[tuple[range, range]]:
    """Returns the shortest runs of dimensions that hold as many elements on both sides; [] if there are no elements."""
    cuts = common_factors(source, target) if all((*source, *target)) else []
    return [(range(a, c), range(b, d)) for (a, b), (c, d) in pairwise(cuts)]


def _unknown(_: DynamicDimensionInference, __: HloInstruction) -> Sizes:
    return {}


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "set-dimension-size": _set_size,
        "dynamic-reshape": _dynamic_reshape,
        "tuple": _tuple,
        "get-tuple-element": _element,
        "concatenate": _concatenate,
        "pad": _pad,
        "reshape": _reshape,
        **dict.fromkeys(opcodes_with(Trait.FORWARDS), _forward),
        **dict.fromkeys(
            ("while", "conditional", "call", "fusion", "custom-call", "infeed", "recv", "recv-done", "async-start"),
            _unknown,
        ),
    }
)
