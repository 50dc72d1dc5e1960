"""Tuples, tokens, sorts and conditionals."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.rule import AlgebraRule


def _element(match: Match, _into: Expansion) -> HloInstruction:
    return match["tuple"].operand(match.root.attributes_as(at.GetTupleElementAttributes).index)


def _is_sorted(sort: HloInstruction) -> bool:
    """Whether there is nothing to sort: at most one element along the dimension."""
    dimension = sort.attributes_as(at.SortAttributes).sort_dimension
    return sort.operand(0).shape.dimensions[dimension] <= 1


def _operands(match: Match, into: Expansion) -> HloInstruction:
    operands = match.root.operands
    return into.tuple_of(*operands) if match.root.shape.is_tuple else operands[0]


def _orders_all(sort: HloInstruction) -> bool:
    """Whether a sort compares its two elements by less or greater, in a total order."""
    compare = sort.to_apply.root_instruction
    if compare.opcode != "compare" or {o.opcode for o in compare.operands} != {"parameter"}:
        return False
    attributes = compare.attributes_as(at.CompareAttributes)
    total = attributes.type == "TOTALORDER" or not compare.operand(0).shape.element_type.is_float
    return total and attributes.direction in ("LT", "GT")


def _is_sorted_again(sort: HloInstruction) -> bool:
    inner = sort.operand(0)
    if inner.opcode != "sort" or inner.operand_count != 1 or inner.attributes != sort.attributes:
        return False
    return _orders_all(sort) and sort.to_apply.equal(inner.to_apply)


def _is_unordered(match: Match, into: Expansion) -> HloInstruction | None:
    return match["x"] if not match["token"].operand_count else None


def _same_branches(conditional: HloInstruction) -> bool:
    first, *rest = conditional.branch_computations
    operands = conditional.operands[1:]
    return all(c is first or c.equal(first) for c in rest) and all(o is operands[0] for o in operands)


def _call(match: Match, into: Expansion) -> HloInstruction:
    root = match.root
    return into.make("call", root.operand(1), called=[root.branch_computations[0]])


def _unread(match: Match, into: Expansion) -> HloInstruction | None:
    """A barrier of those elements only that something reads."""
    barrier, elements = match.root, match["elements"]
    if barrier.is_root() or any(user.opcode != "get-tuple-element" for user in barrier.users):
        return None
    read = sorted({user.attributes_as(at.GetTupleElementAttributes).index for user in barrier.users})
    if not read or len(read) == elements.operand_count:
        return None
    small = into.make("opt-barrier", into.tuple_of(*[elements.operand(i) for i in read]))
    kept = {index: into.element(small, place) for place, index in enumerate(read)}
    return into.tuple_of(*[kept.get(i, operand) for i, operand in enumerate(elements.operands)])


def _is_cut_again(cut: HloInstruction) -> bool:
    """Whether a SliceToDynamic takes the array and all sizes of one PadToStatic of the same shape."""
    if not (cut.operands and _calls(cut, "SliceToDynamic") and cut.operand(0).opcode == "get-tuple-element"):
        return False
    source = cut.operand(0).operand(0)
    if not (source.operands and _calls(source, "PadToStatic")):
        return False
    elements = [o.attributes for o in cut.operands if o.opcode == "get-tuple-element" and o.operand(0) is source]
    expected = [at.GetTupleElementAttributes(i) for i in range(len(source.shape.tuple_shapes))]
    return elements == expected and source.operand(0).shape == cut.shape


def _calls(instruction: HloInstruction, target: str) -> bool:
    if instruction.opcode != "custom-call":
        return False
    return instruction.attributes_as(at.CustomCallAttributes).custom_call_target == target


_X = m.any("x")

CONTROL = (
    AlgebraRule("R165", "sort(x) of one element = x", m.op("sort").where(_is_sorted), _operands),
    AlgebraRule("R165b", "sort(sort(x)) = sort(x)", m.op("sort", m.any("x")).where(_is_sorted_again),
                lambda match, _: match["x"]),
    AlgebraRule("R166", "get-tuple-element(tuple(a, b), i) = a",
                m.op("get-tuple-element", m.op("tuple", name="tuple")), _element),
    AlgebraRule("R167", "add-dependency(x, after-all()) = x",
                m.op("add-dependency", _X, m.op("after-all", name="token")), _is_unordered),
    AlgebraRule("N24", "opt-barrier(tuple(x, y)) = tuple(opt-barrier(x), y) where nothing reads y",
                m.op("opt-barrier", m.op("tuple", name="elements")), _unread),
    AlgebraRule("N43", "custom-call SliceToDynamic(PadToStatic(x)) = x",
                m.op("custom-call").where(_is_cut_again), lambda match, _: match.root.operand(0).operand(0).operand(0)),
    AlgebraRule("R168", "conditional(p, f, f) = call(f)", m.op("conditional").where(_same_branches), _call,
                option="enable_conditional_simplification"),
)  # fmt: skip
