"""Rules for modules whose layouts are decided: what moves nothing in memory is a bitcast."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.memory_order import MOVES, source_in_memory
from xjit.passes.simplify.algebra.rule import AlgebraRule


def _as_bitcast(match: Match, into: Expansion) -> HloInstruction | None:
    root, source = match.root, source_in_memory(match.root)
    if source is None or (root.opcode == "bitcast" and source is root.operand(0)):
        return None
    return source if source.shape == root.shape else into.like_source("bitcast", [source])


def _of_broadcast(match: Match, into: Expansion) -> HloInstruction | None:
    """A bitcast that only renames the dimensions of a broadcast."""
    root, broadcast = match.root, match["broadcast"]
    old, new = ([*reversed(i.shape.minor_to_major)] for i in (broadcast, root))
    if [broadcast.shape.dimensions[d] for d in old] != [root.shape.dimensions[d] for d in new]:
        return None
    renamed = dict(zip(old, new, strict=True))
    dimensions = tuple(renamed[d] for d in dimensions_of(broadcast))
    if list(dimensions) != sorted(dimensions) or broadcast.shape.element_type is not root.shape.element_type:
        return None
    return into.like_source("broadcast", [match["x"]], at.DimensionsAttributes(dimensions))


def _is_layout_constraint(call: HloInstruction) -> bool:
    target = call.attributes_as(at.CustomCallAttributes).custom_call_target
    return target == "LayoutConstraint" and call.shape.is_array


def _in_one_place(convert: HloInstruction) -> bool:
    """Whether the bytes of the operand are those of the result: element by element, or the parts of wider elements
    side by side.
    """
    narrow, wide = sorted((convert.shape, convert.operand(0).shape), key=lambda s: s.rank, reverse=True)
    if any(s.layout is not None and (s.layout.tiles or s.element_type.bit_width % 8) for s in (narrow, wide)):
        return False
    order = list(narrow.minor_to_major)
    if narrow.rank > wide.rank:
        return order[0] == wide.rank and tuple(order[1:]) == wide.minor_to_major
    return narrow.same_dimensions(wide) and narrow.minor_to_major == wide.minor_to_major


_SENSITIVE = "is_layout_sensitive"

LAYOUTS = (
    AlgebraRule("R116c", "reshapes, transposes, copies and bitcasts of x that move nothing in memory = bitcast(x)",
                m.op("|".join(sorted(MOVES))), _as_bitcast, option=_SENSITIVE),
    AlgebraRule("R116d", "bitcast(broadcast(x)) that renames dimensions = broadcast(x)",
                m.op("bitcast", m.op("broadcast", m.any("x"), name="broadcast")), _of_broadcast, option=_SENSITIVE),
    AlgebraRule("N79", "bitcast-convert(x) = bitcast(x) where the bytes stay",
                m.op("bitcast-convert", m.any()).where(_in_one_place),
                lambda match, into: into.like_source("bitcast", match.root.operands),
                option=f"{_SENSITIVE} rewrite_no_op_bitcast_convert_to_bitcast"),
    AlgebraRule("N7", "custom-call LayoutConstraint(x) = copy(x)",
                m.op("custom-call", m.any()).where(_is_layout_constraint),
                lambda match, into: into.like_source("copy", match.root.operands), option=_SENSITIVE),
)  # fmt: skip
