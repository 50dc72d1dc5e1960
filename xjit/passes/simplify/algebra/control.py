"""Tuples, tokens, sorts and conditionals."""

from __future__ import annotations

from xjit.hlo import HloInstruction, Literal
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.passes.expand.map_inliner import is_elementwise, write_on_arrays
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import value_of
from xjit.passes.simplify.algebra.kinds import is_pred
from xjit.passes.simplify.algebra.rule import AlgebraRule


def _element(match: Match, _into: Expansion) -> HloInstruction:
    return match["tuple"].operand(match.root.attributes_as(at.GetTupleElementAttributes).index)


def _is_sorted(sort: HloInstruction) -> bool:
    """Whether there is nothing to sort: at most one element along the dimension, or none at all."""
    dimension, array = sort.attributes_as(at.SortAttributes).sort_dimension, sort.operand(0).shape
    return array.dimensions[dimension] <= 1 or not array.num_elements


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


def _sorts_one_value(sort: HloInstruction) -> bool:
    return (
        sort.operand_count == 1 and sort.operand(0).opcode == "broadcast" and sort.operand(0).operand(0).shape.is_scalar
    )


def _bounds_a_device(match: Match, _into: Expansion) -> HloInstruction | None:
    """clamp(0, partition-id or replica-id, c) of at most c + 1 devices; a module for one does not say how many."""
    low, device, high = match.root.operands
    bounds = [value_of(i) for i in (low, high)]
    module = match.root.parent.parent if match.root.parent is not None else None
    if module is None or any(b is None for b in bounds):
        return None
    config = module.config
    count = config.num_partitions if device.opcode == "partition-id" else config.replica_count
    return device if bounds[0] == 0 and 1 < count <= int(bounds[1]) + 1 else None


def _tuple_of_constants(match: Match, into: Expansion) -> HloInstruction:
    def elements(literal: Literal) -> HloInstruction:
        if literal.shape.is_tuple:
            return into.tuple_of(*map(elements, literal.elements))
        return into.constant(literal)

    return elements(match.root.attributes_as(at.ConstantAttributes).literal)


def _by_predicate(match: Match, into: Expansion) -> HloInstruction | None:
    """A conditional of two branches by the number of a predicate: its branches are for false and true."""
    root = match.root
    branches = root.called_computations
    if len(branches) != 2 or root.operand(0).shape.element_type is PrimitiveType.PRED:
        return None
    operands = [match["p"], root.operand(2), root.operand(1)]
    return into.add(
        HloInstruction.create(root.opcode, root.shape, operands, root.attributes, branches[::-1], root.name)
    )


def _is_one_operation(map_: HloInstruction) -> bool:
    """Whether a map applies one elementwise instruction to its parameters, or takes one of them, or a constant."""
    root = map_.to_apply.root_instruction
    return is_elementwise(map_.to_apply) and all(o.opcode == "parameter" for o in root.operands)


def _applied(match: Match, into: Expansion) -> HloInstruction:
    root = match.root
    return write_on_arrays(into.add, root.to_apply, root.operands, root.shape)[root.to_apply.root_instruction]


def _unread(match: Match, into: Expansion) -> HloInstruction | None:
    """A barrier of those elements only that something reads; others stay if they are needed without it, too."""
    barrier, whole = match.root, match["elements"]
    if barrier.is_root() or any(user.opcode != "get-tuple-element" for user in barrier.users):
        return None
    read = {user.attributes_as(at.GetTupleElementAttributes).index for user in barrier.users}
    kept = [i for i in range(len(barrier.shape.tuple_shapes)) if i in read or _stays_alive(whole, i)]
    if not read or len(kept) == len(barrier.shape.tuple_shapes):
        return None
    is_tuple = whole.opcode == "tuple"
    elements = [whole.operand(i) if is_tuple else into.element(whole, i) for i in range(len(whole.shape.tuple_shapes))]
    small = into.make("opt-barrier", into.tuple_of(*[elements[i] for i in kept]))
    for place, i in enumerate(kept):
        elements[i] = into.element(small, place)
    return into.tuple_of(*elements)


def _stays_alive(whole: HloInstruction, index: int) -> bool:
    """Whether an element of a barrier's operand is computed even if the barrier does not ask for it; tokens order."""
    if whole.shape.tuple_shapes[index].element_type is PrimitiveType.TOKEN:
        return True
    if whole.opcode != "tuple":
        return False
    element = whole.operand(index)
    return element.user_count > 1 or element.is_root() or element.has_side_effect()


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
    AlgebraRule("R165", "sort(x) of one element, or of nothing = x", m.op("sort").where(_is_sorted), _operands),
    AlgebraRule("R165b", "sort(sort(x)) = sort(x)", m.op("sort", m.any("x")).where(_is_sorted_again),
                lambda match, _: match["x"]),
    AlgebraRule("N56", "sort(broadcast(scalar)) = broadcast(scalar)", m.op("sort").where(_sorts_one_value),
                lambda match, _: match.root.operand(0)),
    AlgebraRule("N58", "clamp(0, partition-id or replica-id, c) = the same unclamped where there are as few devices",
                m.op("clamp", m.any(), m.op("partition-id|replica-id"), m.any()), _bounds_a_device),
    AlgebraRule("N70", "constant tuple = tuple(constants)", m.op("constant").where(lambda c: c.shape.is_tuple),
                _tuple_of_constants),
    AlgebraRule("R169", "map(x, y) = op(x, y)", m.op("map").where(_is_one_operation), _applied),
    AlgebraRule("R166", "get-tuple-element(tuple(a, b), i) = a",
                m.op("get-tuple-element", m.op("tuple", name="tuple")), _element),
    AlgebraRule("R167", "add-dependency(x, after-all()) = x",
                m.op("add-dependency", _X, m.op("after-all", name="token")), _is_unordered),
    AlgebraRule("N24", "opt-barrier(tuple(x, y)) = tuple(opt-barrier(x), y) where nothing reads y",
                m.op("opt-barrier", m.any("elements").where(lambda i: i.shape.is_tuple)), _unread),
    AlgebraRule("N43", "custom-call SliceToDynamic(PadToStatic(x)) = x",
                m.op("custom-call").where(_is_cut_again), lambda match, _: match.root.operand(0).operand(0).operand(0)),
    AlgebraRule("R168", "conditional(p, f, f) = call(f)", m.op("conditional").where(_same_branches), _call,
                option="enable_conditional_simplification"),
    AlgebraRule("N74", "conditional(convert(p), f, g) = conditional(p, g, f)",
                m.op("conditional", m.op("convert", m.any("p").where(is_pred)), m.any(), m.any()), _by_predicate,
                option="enable_conditional_simplification"),
)  # fmt: skip
