"""Reductions to an extremum and its index."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.ops.reducers import selected_extremum
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import constant, is_greatest, is_least, value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.reductions import operation
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness

_IS_LIMIT = {"maximum": is_least, "minimum": is_greatest}


def _selected(reduction: HloInstruction) -> str | None:
    """Which extremum of numbered elements a reduction finds, with its number: "maximum", "minimum" or None."""
    if reduction.opcode != "reduce" or reduction.operand_count != 4 or _numbered(reduction.operand(1)) is None:
        return None
    limit, start = value_of(reduction.operand(2)), value_of(reduction.operand(3))
    found = selected_extremum(reduction.to_apply)
    if found is None or limit is None or start is None or start != 0:
        return None
    return found if _IS_LIMIT[found](limit, reduction.operand(2).shape.element_type) else None


def _numbered(numbers: HloInstruction) -> int | None:
    """The dimension along which elements are numbered from 0."""
    source = numbers.operand(0) if numbers.opcode == "broadcast" else numbers
    if source.opcode != "iota":
        return None
    along = source.attributes_as(at.IotaAttributes).iota_dimension
    return along if source is numbers else dimensions_of(numbers)[along]


def _of_equals(match: Match, into: Expansion) -> HloInstruction | None:
    """Of equal elements the first one is found."""
    root, (value, number) = match.root, match.root.shape.tuple_shapes
    is_one_number = value_of(root.operand(0)) is not None and _selected(root) is not None
    if not is_one_number or _numbered(root.operand(1)) not in dimensions_of(root):
        return None
    everywhere = at.DimensionsAttributes(())
    repeated = into.make("broadcast", root.operand(0).operand(0), shape=value, attributes=everywhere)
    return into.tuple_of(repeated, into.full(number, 0))


def _found_beside(match: Match, into: Expansion) -> HloInstruction | None:
    """Another reduction of the same elements finds the extremum, too."""
    root, opcode = match.root, operation(match.root)
    for other in match["x"].users:
        same = other.operand_count == 4 and other.operand(0) is match["x"] and other.attributes == root.attributes
        limit = match["limit"]
        if same and _selected(other) == opcode and _IS_LIMIT[opcode](value_of(limit), limit.shape.element_type):
            return into.element(other, 0)
    return None


_SEVERAL = m.op("reduce").where(lambda i: i.operand_count == 4 and i.operand(0).opcode == "broadcast")

INDEXED_EXTREMA = (
    AlgebraRule("N92", "index of the largest of equal elements = 0", _SEVERAL, _of_equals),
    AlgebraRule("N93", "maximum(x) = element 0 of the maximum and its index",
                m.op("reduce", m.any("x"), constant("limit")), _found_beside, Exactness.XLA),
)  # fmt: skip
