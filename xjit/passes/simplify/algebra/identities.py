"""Instructions that change nothing are their operand."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.rule import AlgebraRule


def _operand(match: Match, _into: Expansion) -> HloInstruction:
    return match.root.operand(0)


@m.of_shapes
def _keeps_dimensions(instruction: HloInstruction) -> bool:
    return instruction.operand(0).shape.same_dimensions(instruction.shape)


@m.of_shapes
def _keeps_shape(instruction: HloInstruction) -> bool:
    same_type = instruction.operand(0).shape.element_type is instruction.shape.element_type
    return same_type and _keeps_dimensions(instruction)


@m.of_shapes
def _is_identity_permutation(instruction: HloInstruction) -> bool:
    return instruction.attributes_as(at.DimensionsAttributes).dimensions == tuple(
        range(instruction.shape.rank)
    ) and _keeps_dimensions(instruction)


@m.of_shapes
def _takes_everything(instruction: HloInstruction) -> bool:
    return _keeps_dimensions(instruction) and all(
        d.stride == 1 for d in instruction.attributes_as(at.SliceAttributes).slice
    )


@m.of_shapes
def _adds_nothing(instruction: HloInstruction) -> bool:
    amounts = (
        (d.edge_padding_low, d.edge_padding_high, d.interior_padding)
        for d in instruction.attributes_as(at.PadAttributes).padding
    )
    return _keeps_dimensions(instruction) and all(amount == (0, 0, 0) for amount in amounts)


@m.of_shapes
def _reverses_nothing(instruction: HloInstruction) -> bool:
    return all(
        instruction.shape.dimensions[d] == 1 for d in instruction.attributes_as(at.DimensionsAttributes).dimensions
    )


IDENTITIES = (
    AlgebraRule("R78", "convert(x) = x, copy(x) = x, reshape(x) = x when the shape stays",
         m.op("convert|copy|reshape").where(_keeps_shape), _operand),
    AlgebraRule("R102", "transpose(x) = x, broadcast(x) = x when every dimension stays where it is",
         m.op("transpose|broadcast").where(_is_identity_permutation), _operand),
    AlgebraRule("R118", "slice(x) of everything = x", m.op("slice").where(_takes_everything), _operand),
    AlgebraRule("R133", "pad(x, v) without padding = x", m.op("pad").where(_adds_nothing), _operand),
    AlgebraRule("R137", "concatenate(x) = x", m.op("concatenate", m.any()), _operand),
    AlgebraRule("R115", "reverse(x) of dimensions of size 1 = x", m.op("reverse").where(_reverses_nothing), _operand),
)  # fmt: skip
