"""Gathers and scatters whose indices, operand or size say what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import SliceDimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.dimensions import kept_dimensions
from xjit.passes.simplify.algebra.padding import padding_of
from xjit.passes.simplify.algebra.rule import AlgebraRule
from xjit.passes.simplify.algebra.slices import cut


def _literal(constant: HloInstruction) -> Any:
    return constant.attributes_as(at.ConstantAttributes).literal.array


def _is_one_value(gather: HloInstruction) -> bool:
    operand = gather.operand(0)
    return operand.shape.num_elements == 1 or (operand.opcode == "broadcast" and operand.operand(0).shape.is_scalar)


def _value_everywhere(match: Match, into: Expansion) -> HloInstruction:
    x = match["x"]
    if x.opcode == "broadcast" and x.operand(0).shape.is_scalar:
        scalar = x.operand(0)
    else:
        scalar = into.make("reshape", x, shape=x.shape.with_dimensions(())) if x.shape.rank else x
    return into.like_source("broadcast", [scalar], at.DimensionsAttributes(()))


def _line_of(gather: HloInstruction) -> int | None:
    """Returns n if a gather takes single elements of a line of n elements, one per index of its result."""
    g = gather.attributes_as(at.GatherAttributes)
    x, indices = gather.operand(0).shape, gather.operand(1).shape
    single = x.rank == 1 and not g.operand_batching_dims and g.collapsed_slice_dims == (0,) and not g.offset_dims
    if not single or g.index_vector_dim < indices.rank - 1:
        return None
    return x.dimensions[0] if g.index_vector_dim == indices.rank or indices.dimensions[-1] == 1 else None


def _chosen(match: Match, into: Expansion, count_limit: int = 4) -> HloInstruction | None:
    """A gather from a few elements: select(i < 1, x[0], select(i < 2, x[1], ..)), which clamps as the gather does."""
    root, x, indices = match.root, match["x"], match["indices"]
    count = _line_of(root)
    if count is None or not 0 < count <= count_limit or not root.shape.num_elements:
        return None
    if indices.shape.dimensions != root.shape.dimensions:
        indices = into.make("reshape", indices, shape=indices.shape.with_dimensions(root.shape.dimensions))
    result = _element(into, x, count - 1, root)
    for k in range(count - 2, -1, -1):
        bound = into.full(indices.shape, k + 1)
        before = into.make("compare", indices, bound, attributes=at.CompareAttributes("LT"))
        result = into.make("select", before, _element(into, x, k, root), result)
    return result


def _element(into: Expansion, x: HloInstruction, k: int, root: HloInstruction) -> HloInstruction:
    one = into.make("reshape", cut(into, x, [SliceDimension(k, k + 1)]), shape=x.shape.with_dimensions(()))
    return (
        into.make("broadcast", one, shape=root.shape, attributes=at.DimensionsAttributes(()))
        if root.shape.rank
        else one
    )


def _constant_window(match: Match, into: Expansion) -> HloInstruction | None:
    """A gather of one window at constant indices is a slice, clamped."""
    root, x = match.root, match["x"]
    g = root.attributes_as(at.GatherAttributes)
    if match["indices"].opcode != "constant" or match["indices"].shape.num_elements != len(g.start_index_map):
        return None
    if g.operand_batching_dims or not match["indices"].shape.num_elements:
        return None
    starts = dict(zip(g.start_index_map, _literal(match["indices"]).ravel().tolist(), strict=True))
    ranges: list[SliceDimension] = []
    for d, (size, n) in enumerate(zip(g.slice_sizes, x.shape.dimensions, strict=True)):
        start = min(max(int(starts.get(d, 0)), 0), n - size)
        ranges.append(SliceDimension(start, start + size))
    return _as_result(into, cut(into, x, ranges))


def _as_result(into: Expansion, part: HloInstruction) -> HloInstruction:
    same = part.shape.dimensions == into.source.shape.dimensions
    return part if same else into.like_source("reshape", [part])


def _nothing(instruction: HloInstruction) -> bool:
    return instruction.shape.is_array and not instruction.shape.num_elements


def _empty(match: Match, into: Expansion) -> HloInstruction:
    return into.full(match.root.shape, 0)


def _scatters_nothing(scatter: HloInstruction) -> bool:
    updates = scatter.operands[(scatter.operand_count + 1) // 2 :]
    return not any(u.shape.num_elements for u in updates)


def _as_before(match: Match, into: Expansion) -> HloInstruction:
    arrays = match.root.operands[: match.root.operand_count // 2]
    return into.tuple_of(*arrays) if match.root.shape.is_tuple else arrays[0]


def _replaces(scatter: HloInstruction) -> bool:
    """Whether the update computation takes the update as it is."""
    root = scatter.to_apply.root_instruction
    return root.opcode == "parameter" and root.attributes_as(at.ParameterAttributes).parameter_number == 1


def _as_update(match: Match, into: Expansion) -> HloInstruction | None:
    """A scatter of one window to a constant place in bounds is a dynamic-update-slice."""
    root = match.root
    if root.operand_count != 3 or not _replaces(root):
        return None
    x, indices, updates = root.operands
    s = root.attributes_as(at.ScatterAttributes)
    if indices.opcode != "constant" or indices.shape.num_elements != len(s.scatter_dims_to_operand_dims):
        return None
    windows = [d for d in range(updates.shape.rank) if d not in s.update_window_dims]
    if s.input_batching_dims or any(updates.shape.dimensions[d] != 1 for d in windows):
        return None
    sizes = [1] * x.shape.rank
    free = [d for d in range(x.shape.rank) if d not in s.inserted_window_dims]
    for d, window in zip(free, s.update_window_dims, strict=True):
        sizes[d] = updates.shape.dimensions[window]
    starts = [0] * x.shape.rank
    for d, start in zip(s.scatter_dims_to_operand_dims, _literal(indices).ravel().tolist(), strict=True):
        starts[d] = int(start)
    if any(not 0 <= b <= n - t for b, n, t in zip(starts, x.shape.dimensions, sizes, strict=True)):
        return None
    part = into.make("reshape", updates, shape=updates.shape.with_dimensions(sizes))
    scalar = indices.shape.with_dimensions(())
    return into.make("dynamic-update-slice", x, part, *[into.full(scalar, b) for b in starts])


def _of_padded_batch(match: Match, into: Expansion) -> HloInstruction | None:
    """gather(pad(x, v), pad(i, c)), both padded alike along batch dimensions they share: pad(gather(x, i), v)."""
    root, pad, indices = match.root, match["pad"], match["padded"]
    g = root.attributes_as(at.GatherAttributes)
    mine, theirs = padding_of(pad), padding_of(indices)
    pairs = dict(zip(g.operand_batching_dims, g.start_indices_batching_dims, strict=True))
    nothing = at.PaddingDimension()
    touched = [d for d, p in enumerate(mine) if p != nothing]
    if [d for d, p in enumerate(theirs) if p != nothing] != sorted(pairs[d] for d in touched if d in pairs):
        return None
    if any(d not in pairs or mine[d] != theirs[pairs[d]] for d in touched):
        return None
    batch = [d for d in range(root.shape.rank) if d not in g.offset_dims]
    along = [d for d in range(indices.shape.rank) if d != g.index_vector_dim]
    outside = [nothing] * root.shape.rank
    for d in touched:
        outside[batch[along.index(pairs[d])]] = mine[d]
    part = into.make("gather", pad.operand(0), indices.operand(0), attributes=g)
    return into.like_source("pad", [part, pad.operand(1)], at.PadAttributes(tuple(outside)))


def _of_pad(match: Match, into: Expansion) -> HloInstruction | None:
    """gather(pad(x, v)), perhaps through a reshape, whose padded dimensions are taken as a whole: pad(gather(x), v)."""
    root, pad, operand = match.root, match["pad"], match.root.operand(0)
    before, after = pad.shape.dimensions, operand.shape.dimensions
    padding, g = padding_of(pad), root.attributes_as(at.GatherAttributes)
    if not operand.shape.num_elements or not pad.operand(0).shape.num_elements or not root.shape.num_elements:
        return None
    kept = kept_dimensions(before, after) if operand is not pad else {d: d for d in range(len(before))}
    padded = {d for d, p in enumerate(padding) if p != at.PaddingDimension()}
    fixed = {*g.collapsed_slice_dims, *g.start_index_map, *g.operand_batching_dims}
    if not padded <= kept.keys() or any(kept[d] in fixed or g.slice_sizes[kept[d]] != before[d] for d in padded):
        return None
    x, sizes, slices = pad.operand(0), list(after), list(g.slice_sizes)
    outside = [at.PaddingDimension()] * root.shape.rank
    windows = [d for d in range(len(after)) if d not in (*g.collapsed_slice_dims, *g.operand_batching_dims)]
    for d in padded:
        sizes[kept[d]] = slices[kept[d]] = x.shape.dimensions[d]
        outside[g.offset_dims[windows.index(kept[d])]] = padding[d]
    if operand is not pad:
        x = into.make("reshape", x, shape=x.shape.with_dimensions(sizes))
    attributes = replace(g, slice_sizes=tuple(slices))
    part = into.make("gather", x, root.operand(1), attributes=attributes)
    return into.like_source("pad", [part, pad.operand(1)], at.PadAttributes(tuple(outside)))


_X, _INDICES = m.any("x"), m.any("indices")
_GATHER = m.op("gather", _X, _INDICES)
_PAD = m.op("pad", name="pad").one_use()

GATHERS = (
    AlgebraRule("R141", "gather(broadcast(scalar) or one element) = broadcast(scalar)",
                _GATHER.where(_is_one_value), _value_everywhere),
    AlgebraRule("R141b", "gather(x) of nothing = nothing", _GATHER.where(_nothing), _empty),
    AlgebraRule("R141c", "gather(x, constant) of one window = slice(x)", _GATHER, _constant_window),
    AlgebraRule("R141d", "gather(a few elements) = select chain", _GATHER, _chosen, option="simplify_small_gathers",
                value=("count_limit", "very_small_gather_size")),
    AlgebraRule("N14", "gather(pad(x, v)) = pad(gather(x), v) of dimensions taken as a whole",
                m.op("gather", _PAD, _INDICES), _of_pad),
    AlgebraRule("N14b", "gather(reshape(pad(x, v))) = pad(gather(reshape(x)), v) of dimensions taken as a whole",
                m.op("gather", m.op("reshape", _PAD).one_use(), _INDICES), _of_pad),
    AlgebraRule("N14c", "gather(pad(x, v), pad(i, c)) = pad(gather(x, i), v) along shared batch dimensions",
                m.op("gather", _PAD, m.op("pad", name="padded")), _of_padded_batch),
    AlgebraRule("R142", "scatter(x, nothing) = x", m.op("scatter").where(_scatters_nothing), _as_before),
    AlgebraRule("R142b", "scatter(x, constant, u) of one window = dynamic-update-slice(x, u)",
                m.op("scatter"), _as_update),
)  # fmt: skip
