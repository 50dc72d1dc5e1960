"""Indices of dynamic slices and updates: those that clamping decides, and those of slices of slices."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.ops.reducers import integer_limits
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import is_zero, value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of, inverse
from xjit.passes.simplify.algebra.rule import AlgebraRule


def _first_index(instruction: HloInstruction) -> int:
    """The number of the operand that is the first index."""
    return 1 if instruction.opcode == "dynamic-slice" else 2


def _indices(instruction: HloInstruction) -> tuple[HloInstruction, ...]:
    return instruction.operands[_first_index(instruction) :]


def _window(instruction: HloInstruction) -> tuple[int, ...]:
    """The sizes of what a dynamic slice takes, or of what an update writes."""
    taken = instruction if instruction.opcode == "dynamic-slice" else instruction.operand(1)
    return taken.shape.dimensions


def has_scalar_indices(instruction: HloInstruction) -> bool:
    """Whether a slice or update has indices, one each per dimension: the old form has all in one vector."""
    indices = _indices(instruction)
    return bool(indices) and not indices[0].shape.rank


def _whole_dimensions(match: Match, into: Expansion) -> HloInstruction | None:
    """What takes a whole dimension begins at 0, whatever the index says."""
    root, indices = match.root, _indices(match.root)
    if not has_scalar_indices(root):
        return None
    whole = [w == n for w, n in zip(_window(root), root.operand(0).shape.dimensions, strict=True)]
    if not any(w and not _is_zero(i) for w, i in zip(whole, indices, strict=True)):
        return None
    zeros = [into.full(i.shape, 0) if w else i for w, i in zip(whole, indices, strict=True)]
    return into.like_source(root.opcode, [*root.operands[: _first_index(root)], *zeros], root.attributes)


def _is_zero(index: HloInstruction) -> bool:
    value = value_of(index)
    return value is not None and is_zero(value, index.shape.element_type)


def _of_transpose(match: Match, into: Expansion) -> HloInstruction | None:
    """dynamic-slice(transpose(x)) = transpose(dynamic-slice(x))."""
    root, transpose = match.root, match.root.operand(0)
    if transpose.user_count != 1 or not has_scalar_indices(root):
        return None
    places = inverse(dimensions_of(transpose))
    sizes = at.DynamicSliceAttributes(tuple(root.shape.dimensions[p] for p in places))
    part = into.make("dynamic-slice", transpose.operand(0), *[_indices(root)[p] for p in places], attributes=sizes)
    return into.make("transpose", part, attributes=transpose.attributes)


def _summed(
    into: Expansion, outer: HloInstruction, outer_last: int, inner: HloInstruction, inner_last: int
) -> HloInstruction | None:
    """Returns where a window within another lies, in the type of `outer`; None if a type is too small for that.

    Each index is clamped to its last place, as the two slices would clamp it.
    """
    kind = outer.shape.element_type
    if not inner_last:
        return outer
    if not outer_last and inner.shape.element_type is kind:
        return inner
    terms: list[HloInstruction] = []
    for index, last in ((outer, outer_last), (inner, inner_last)):
        if min(integer_limits(k)[1] for k in (kind, index.shape.element_type)) < outer_last + inner_last:
            return None
        if last:
            inside = into.make("clamp", into.full(index.shape, 0), index, into.full(index.shape, last))
            same = index.shape.element_type is kind
            terms.append(inside if same else into.make("convert", inside, shape=outer.shape))
    return terms[0] if len(terms) == 1 else into.make("add", *terms)


def _sums(
    into: Expansion, sizes: Sequence[int], outer: HloInstruction, inner: HloInstruction
) -> list[HloInstruction] | None:
    """Returns the indices into an array of windows in windows."""
    sums: list[HloInstruction] = []
    places = zip(sizes, _window(outer), _window(inner), _indices(outer), _indices(inner), strict=True)
    for size, wide, narrow, i, j in places:
        index = _summed(into, i, size - wide, j, wide - narrow)
        if index is None:
            return None
        sums.append(index)
    return sums


def _of_slice(match: Match, into: Expansion) -> HloInstruction | None:
    """dynamic-slice(dynamic-slice(x, i), j) = dynamic-slice(x, i + j), both clamped before."""
    outer, inner, x = match.root.operand(0), match.root, match.root.operand(0).operand(0)
    if outer.user_count != 1 or not (has_scalar_indices(outer) and has_scalar_indices(inner)):
        return None
    sums = _sums(into, x.shape.dimensions, outer, inner)
    return None if sums is None else into.make("dynamic-slice", x, *sums, attributes=inner.attributes)


def _updates_a_slice(root: HloInstruction) -> bool:
    """Whether an update writes what it reads at the same place, with an update within it."""
    inner = root.operand(1)
    if inner.opcode != "dynamic-update-slice" or inner.user_count != 1:
        return False
    part = inner.operand(0)
    same = part.opcode == "dynamic-slice" and part.operand(0) is root.operand(0)
    return same and _indices(part) == _indices(root) and has_scalar_indices(root) and has_scalar_indices(inner)


def _updated_directly(match: Match, into: Expansion) -> HloInstruction | None:
    root, inner = match.root, match.root.operand(1)
    sums = _sums(into, root.shape.dimensions, root, inner)
    return None if sums is None else into.make("dynamic-update-slice", root.operand(0), inner.operand(1), *sums)


DYNAMIC_INDICES = (
    AlgebraRule("N45", "dynamic-slice(x, i), dynamic-update-slice(x, u, i) = the same at 0 of what is taken whole",
                m.op("dynamic-slice|dynamic-update-slice"), _whole_dimensions),
    AlgebraRule("N46", "dynamic-slice(transpose(x)) = transpose(dynamic-slice(x))",
                m.op("dynamic-slice").where(lambda i: i.operand(0).opcode == "transpose"), _of_transpose,
                option="!is_layout_sensitive"),
    AlgebraRule("N47", "dynamic-slice(dynamic-slice(x, i), j) = dynamic-slice(x, i + j)",
                m.op("dynamic-slice").where(lambda i: i.operand(0).opcode == "dynamic-slice"), _of_slice),
    AlgebraRule("N48", "dynamic-update-slice(x, dynamic-update-slice(dynamic-slice(x, i), u, j), i) = "
                "dynamic-update-slice(x, u, i + j)", m.op("dynamic-update-slice").where(_updates_a_slice),
                _updated_directly),
)  # fmt: skip
