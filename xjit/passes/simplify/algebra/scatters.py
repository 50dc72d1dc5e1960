"""Sums of scatters into nothing, and scatters into what is transposed afterwards."""

from __future__ import annotations

from dataclasses import replace

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.expand.map_inliner import is_elementwise, write_on_arrays
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import is_zero, value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of, inverse
from xjit.passes.simplify.algebra.kinds import is_float, is_integer
from xjit.passes.simplify.algebra.reductions import operation
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness


def _has_one_array(scatter: HloInstruction) -> bool:
    return scatter.operand_count == 3


def _adds_to_zeros(scatter: HloInstruction) -> bool:
    """Whether an instruction is a scatter of one array that adds its updates to zeros."""
    if scatter.opcode != "scatter" or scatter.operand_count != 3 or operation(scatter) != "add":
        return False
    start = value_of(scatter.operand(0))
    return start is not None and is_zero(start, scatter.shape.element_type)


def _without_promises(scatter: HloInstruction) -> at.ScatterAttributes:
    return replace(scatter.attributes_as(at.ScatterAttributes), indices_are_sorted=False, unique_indices=False)


def _joined(match: Match, into: Expansion) -> HloInstruction | None:
    """Two scatters along one dimension of indices: one, of indices and updates side by side."""
    first, second = match["first"], match["second"]
    a, b = (_without_promises(s) for s in (first, second))
    indices, updates = [s.operand(1) for s in (first, second)], [s.operand(2) for s in (first, second)]
    rank = indices[0].shape.rank
    along = [d for d in range(rank) if d not in (a.index_vector_dim, *a.scatter_indices_batching_dims)]
    outer = [d for d in range(updates[0].shape.rank) if d not in a.update_window_dims]
    if a != b or indices[1].shape.rank != rank or not along:
        return None
    places = [d for d in range(rank) if d != a.index_vector_dim]
    where = (along[0], outer[places.index(along[0])])
    for pair, d in zip((indices, updates), where, strict=True):
        sizes = [[n for i, n in enumerate(x.shape.dimensions) if i != d] for x in pair]
        if sizes[0] != sizes[1] or pair[0].shape.element_type is not pair[1].shape.element_type:
            return None
    i, u = (into.add(build.concatenate(pair, d)) for pair, d in zip((indices, updates), where, strict=True))
    joined = into.make("scatter", first.operand(0), i, u, attributes=a, called=[first.to_apply])
    return into.make("add", match["x"], joined) if "x" in match.bindings else joined


def _transposed(match: Match, into: Expansion) -> HloInstruction:
    """transpose(scatter(x, i, u)): operand dimension j becomes number `new[j]`, and windows go along."""
    scatter = match["scatter"]
    a, order = scatter.attributes_as(at.ScatterAttributes), dimensions_of(match.root)
    new = inverse(order)
    batching = sorted(zip((new[d] for d in a.input_batching_dims), a.scatter_indices_batching_dims, strict=True))
    whole = {*a.inserted_window_dims, *a.input_batching_dims}
    windows = [d for d in range(len(order)) if d not in whole]
    moved = [windows.index(d) for d in order if d not in whole]  # the windows' new order
    places = list(range(scatter.operand(2).shape.rank))
    for place, window in zip(a.update_window_dims, moved, strict=True):
        places[place] = a.update_window_dims[window]
    attributes = replace(
        a,
        inserted_window_dims=tuple(sorted(new[d] for d in a.inserted_window_dims)),
        scatter_dims_to_operand_dims=tuple(new[d] for d in a.scatter_dims_to_operand_dims),
        input_batching_dims=tuple(d for d, _ in batching),
        scatter_indices_batching_dims=tuple(d for _, d in batching),
    )
    operand = into.add(build.transpose(scatter.operand(0), order))
    updates = into.add(build.transpose(scatter.operand(2), places))
    return into.make("scatter", operand, scatter.operand(1), updates, attributes=attributes, called=[scatter.to_apply])


def _adds_in_any_order(scatter: HloInstruction) -> bool:
    return scatter.operand_count == 3 and operation(scatter) == "add"


def _onto_sum(match: Match, into: Expansion) -> HloInstruction | None:
    """add(y, scatter(x, i, u)): what is added may be there before, if no other scatter waits to be joined."""
    scatter = match["scatter"]
    if any(user.opcode == "add" and any(_adds_to_zeros(o) for o in user.operands) for user in match.root.users):
        return None
    start = into.make("add", match["y"], scatter.operand(0))
    return into.make("scatter", start, *scatter.operands[1:], attributes=scatter.attributes, called=[scatter.to_apply])


def _one_window(scatter: HloInstruction) -> bool:
    """Whether the update is one window that has no index and is as large as the operand."""
    if scatter.operand_count != 3:
        return False
    a, x, u = scatter.attributes_as(at.ScatterAttributes), scatter.operand(0), scatter.operand(2)
    everywhere = a.update_window_dims == tuple(range(u.shape.rank)) and not a.scatter_dims_to_operand_dims
    return everywhere and u.shape.same_dimensions(x.shape) and u.shape.element_type is x.shape.element_type


def _combined(match: Match, into: Expansion) -> HloInstruction | None:
    scatter = match.root
    if not is_elementwise(scatter.to_apply):
        return None
    arrays = [scatter.operand(0), scatter.operand(2)]
    made = write_on_arrays(into.add, scatter.to_apply, arrays, scatter.shape)
    return made[scatter.to_apply.root_instruction]


def _scatter(name: str) -> m.Pattern:
    return m.op("scatter", name=name).where(_adds_to_zeros).one_use()


_ONTO = m.op("add", m.any("y"), m.op("scatter", name="scatter").where(_adds_in_any_order).one_use())
_TWO = m.op("add", _scatter("first"), _scatter("second"))
_THREE = m.op("add", m.op("add", m.any("x"), _scatter("first")).one_use(), _scatter("second"))

SCATTERS = (
    AlgebraRule("N32", "add(scatter(0, i, u), scatter(0, j, v)) = scatter(0, concatenate(i, j), concatenate(u, v))",
                _TWO.where(is_integer), _joined),
    AlgebraRule("N32x", "add(scatter(0, i, u), scatter(0, j, v)) = scatter(0, i j, u v) of floats",
                _TWO.where(is_float), _joined, Exactness.ORDER),
    AlgebraRule("N32b", "add(add(x, scatter(0, i, u)), scatter(0, j, v)) = add(x, scatter(0, i j, u v))",
                _THREE.where(is_integer), _joined),
    AlgebraRule("N32y", "add(add(x, scatter(0, i, u)), scatter(0, j, v)) = add(x, scatter(0, i j, u v)) of floats",
                _THREE.where(is_float), _joined, Exactness.ORDER),
    AlgebraRule("N62", "add(y, scatter(x, i, u)) = scatter(add(y, x), i, u)", _ONTO.where(is_integer), _onto_sum,
                option="!is_layout_sensitive"),
    AlgebraRule("N62x", "add(y, scatter(x, i, u)) = scatter(add(y, x), i, u) of floats", _ONTO.where(is_float),
                _onto_sum, Exactness.ORDER, "!is_layout_sensitive"),
    AlgebraRule("N63", "scatter(x, i, u) of one window as large as x = combiner(x, u)",
                m.op("scatter").where(_one_window), _combined),
    AlgebraRule("N44", "transpose(scatter(x, i, u)) = scatter(transpose(x), i, transpose(u))",
                m.op("transpose", m.op("scatter", name="scatter").where(_has_one_array).one_use()), _transposed,
                option="enable_fold_transpose_into_scatter"),
)  # fmt: skip
