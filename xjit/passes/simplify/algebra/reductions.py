"""Reductions: over nothing, of reductions, and of what only moves or repeats elements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from xjit.hlo import HloComputation, HloInstruction, Shape
from xjit.hlo import attributes as at
from xjit.ops.reducers import reduction_identity
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of, reshape_groups
from xjit.passes.simplify.algebra.kinds import is_complex, is_discrete, is_float, is_pred
from xjit.passes.simplify.algebra.padding import along, padding_of
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness

_IDEMPOTENT = frozenset({"maximum", "minimum", "and", "or"})


def operation(reduction: HloInstruction) -> str:
    """The opcode of a reducer that is one associative operation; "" for others."""
    found = reduction_identity(reduction.to_apply)
    return found[0] if found else ""


def reduce_with(
    into: Expansion, x: HloInstruction, init: HloInstruction, dimensions: Iterable[int], reducer: HloComputation
) -> HloInstruction:
    """A reduction of one array."""
    attributes = at.DimensionsAttributes(tuple(dimensions))
    return into.make("reduce", x, init, attributes=attributes, called=[reducer])


def is_neutral(value: HloInstruction, reduction: HloInstruction, start: HloInstruction) -> bool:
    """Whether combining a value into a reduction that starts at `start` changes nothing.

    To a sum of floats that starts at +0.0, +0.0 is neutral: it never becomes -0.0.
    """
    found, number, first = reduction_identity(reduction.to_apply), value_of(value), value_of(start)
    if found is None or number is None or is_complex(value):
        return False
    if _bits(np.asarray(found[1]).astype(number.dtype)) == _bits(number):
        return True
    starts_positive = first is not None and _bits(first) == _bits(np.zeros((), number.dtype))
    return found[0] == "add" and value.shape.element_type.is_float and _bits(number) == _bits(first) and starts_positive


def _bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


def _is_single(reduction: HloInstruction) -> bool:
    return reduction.operand_count == 2


def _combined(match: Match, into: Expansion, x: HloInstruction) -> HloInstruction | None:
    """reducer(init, x), element by element; x alone if init is the reducer's identity."""
    init, opcode = match["init"], operation(match.root)
    found, number = reduction_identity(match.root.to_apply), value_of(init)
    if not opcode or is_complex(x):
        return None
    if found is not None and number is not None and _bits(np.asarray(found[1]).astype(number.dtype)) == _bits(number):
        return x
    full = into.make("broadcast", init, shape=x.shape, attributes=at.DimensionsAttributes(()))
    return into.make(opcode, x, full)


@m.of_shapes
def _is_over_ones(reduction: HloInstruction) -> bool:
    sizes = reduction.operand(0).shape.dimensions
    return all(sizes[d] == 1 for d in dimensions_of(reduction))


def _over_ones(match: Match, into: Expansion) -> HloInstruction | None:
    root, x = match.root, match["x"]
    same = x.shape.dimensions == root.shape.dimensions
    return _combined(match, into, x if same else into.like_source("reshape", [x]))


@m.of_shapes
def _is_over_nothing(reduction: HloInstruction) -> bool:
    return not reduction.operand(0).shape.num_elements


def _init_everywhere(match: Match, into: Expansion) -> HloInstruction:
    return into.like_source("broadcast", [match["init"]], at.DimensionsAttributes(()))


def _of_reduce(match: Match, into: Expansion) -> HloInstruction | None:
    outer, inner = match.root, match["inner"]
    if not operation(outer) or operation(outer) != operation(inner) or not _is_single(inner):
        return None
    if not is_neutral(inner.operand(1), outer, match["init"]):
        return None
    x = inner.operand(0)
    kept = [d for d in range(x.shape.rank) if d not in dimensions_of(inner)]
    dimensions = sorted({*dimensions_of(inner), *[kept[d] for d in dimensions_of(outer)]})
    return reduce_with(into, x, match["init"], dimensions, outer.to_apply)


def _may_go(match: Match, always: bool) -> bool:
    """Whether what moves elements in front of a reduction is needed no more, or may be left to its other readers."""
    return always or all(user.opcode == "reduce" for user in match["moved"].users)


def _of_transpose(match: Match, into: Expansion, always: bool = False) -> HloInstruction | None:
    """Dimensions that stay in order are reduced where they were; the others' order is that of the result."""
    permutation, reduced = dimensions_of(match["moved"]), dimensions_of(match.root)
    kept = [p for d, p in enumerate(permutation) if d not in reduced]
    in_order = kept == sorted(kept)
    if not operation(match.root) or not (in_order or _may_go(match, always)):
        return None
    gone = sorted(permutation[d] for d in reduced)
    result = reduce_with(into, match["x"], match["init"], gone, match.root.to_apply)
    order = tuple(sorted(kept).index(p) for p in kept)
    return result if in_order else into.make("transpose", result, attributes=at.DimensionsAttributes(order))


def _of_reshape(match: Match, into: Expansion, always: bool = False) -> HloInstruction | None:
    """A reshape of reduced dimensions only, which may add and drop ones; or one that leaves the reduced ones whole."""
    x, root = match["x"], match.root
    before, after, reduced = x.shape.dimensions, match["moved"].shape.dimensions, set(dimensions_of(root))
    if not x.shape.num_elements or not operation(root):
        return None
    groups = reshape_groups(before, after)
    gone = [d for old, new in groups if all(n in reduced for n in new) for d in old]
    if any(len(old) + len(new) > 2 for old, new in groups if not reduced.issuperset(new)):
        wide = {d for d in reduced if after[d] != 1}
        if not wide or not wide <= {new[0] for old, new in groups if len(old) == len(new) == 1}:
            return None
        if not _may_go(match, always):
            return None
        return into.like_source("reshape", [reduce_with(into, x, match["init"], gone, root.to_apply)])
    ones = [d for d, n in enumerate(before) if n == 1]
    for d in ones:  # those that the result has not
        if [n for i, n in enumerate(before) if i not in gone] == list(root.shape.dimensions):
            break
        gone.append(d)
    if [n for i, n in enumerate(before) if i not in gone] != list(root.shape.dimensions) or not gone:
        return None
    return reduce_with(into, x, match["init"], sorted(gone), root.to_apply)


def _repeats(match: Match) -> tuple[int, list[int]] | None:
    """How often reduced new dimensions of a broadcast repeat an element, and the reduced dimensions of x."""
    broadcast, reduced = match["moved"], dimensions_of(match.root)
    mapped = dimensions_of(broadcast)
    new = [d for d in reduced if d not in mapped]
    if not new or list(mapped) != sorted(mapped) or not broadcast.shape.num_elements:
        return None
    return math.prod(broadcast.shape.dimensions[d] for d in new), [mapped.index(d) for d in reduced if d in mapped]


def _placed(match: Match, into: Expansion, small: HloInstruction | None) -> HloInstruction | None:
    """What is left of x, repeated along the new dimensions that are not reduced."""
    if small is None or small.shape.rank == match.root.shape.rank:
        return small
    left = [d for d in range(match["moved"].shape.rank) if d not in dimensions_of(match.root)]
    dimensions = [left.index(d) for d in dimensions_of(match["moved"]) if d in left]
    return into.like_source("broadcast", [small], at.DimensionsAttributes(tuple(dimensions)))


def _of_copies(match: Match, into: Expansion, own: list[int]) -> HloInstruction | None:
    """The reduction of x itself, over its reduced dimensions `own`: without its copies."""
    if own:
        return reduce_with(into, match["x"], match["init"], own, match.root.to_apply)
    return _combined(match, into, match["x"])


def _of_broadcast(match: Match, into: Expansion) -> HloInstruction | None:
    found = _repeats(match)
    if found is None or operation(match.root) not in _IDEMPOTENT:
        return None
    return _placed(match, into, _of_copies(match, into, found[1]))


def _sum_of_broadcast(match: Match, into: Expansion) -> HloInstruction | None:
    """Copies are left out before, not after: as in the sum, -0.0 becomes +0.0 where it starts with that."""
    found, init, x = _repeats(match), value_of(match["init"]), match["x"]
    if found is None or operation(match.root) != "add" or init is None or init != 0 or is_pred(x):
        return None
    if is_float(x) and found[0] > float(ml_dtypes.finfo(x.shape.dtype).max):
        return None
    small = _of_copies(match, into, found[1])
    return small and _placed(match, into, into.make("multiply", small, into.full(small.shape, found[0])))


def _then_broadcast(match: Match, into: Expansion) -> HloInstruction | None:
    """Dimensions that x has are reduced before they are repeated."""
    x, mapped, reduced = match["x"], dimensions_of(match["moved"]), dimensions_of(match.root)
    if any(d not in mapped for d in reduced) or not reduced or len(mapped) == match["moved"].shape.rank:
        return None
    own = sorted(mapped.index(d) for d in reduced)
    return _placed(match, into, reduce_with(into, x, match["init"], own, match.root.to_apply))


def _of_concatenate(match: Match, into: Expansion, always: bool = True) -> HloInstruction | None:
    """The reductions of what is concatenated, combined; unless `always`, of equal shapes or down to a scalar."""
    root, whole = match.root, match["moved"]
    if not always and root.shape.rank and len({o.shape.dimensions for o in whole.operands}) > 1:
        return None
    if along(whole) not in dimensions_of(root) or not operation(root):
        return None
    if not is_neutral(match["init"], root, match["init"]):
        return None
    parts = [reduce_with(into, o, match["init"], dimensions_of(root), root.to_apply) for o in whole.operands]
    result = parts[0]
    for part in parts[1:]:
        result = into.make(operation(root), result, part)
    return result


def _of_pad(match: Match, into: Expansion) -> HloInstruction | None:
    root, pad = match.root, match["moved"]
    padding, reduced = padding_of(pad), dimensions_of(root)
    plain = [min(p.edge_padding_low, p.edge_padding_high) >= 0 for p in padding]
    touched = [d for d, p in enumerate(padding) if p != at.PaddingDimension()]
    if not all(plain) or any(d not in reduced for d in touched):
        return None
    if not is_neutral(pad.operand(1), root, match["init"]):
        return None
    return reduce_with(into, pad.operand(0), match["init"], reduced, root.to_apply)


def _scalar(shape: Shape) -> bool:
    return shape.is_scalar


_INIT = m.any("init").where(lambda i: _scalar(i.shape))


def _reduce(inner: m.Pattern) -> m.Pattern:
    return m.op("reduce", inner, _INIT)


def _moved(opcode: str) -> m.Pattern:
    return _reduce(m.op(opcode, m.any("x"), name="moved"))


_ORDER = Exactness.ORDER
_ALWAYS = ("always", "unconditionally_simplify_reduce_of_transpose_or_reshape")

REDUCTIONS = (
    AlgebraRule("R144", "reduce(nothing, init) = broadcast(init)",
                _reduce(m.any("x")).where(_is_over_nothing), _init_everywhere),
    AlgebraRule("R143,R145", "reduce(x) over dimensions of size 1 = reducer(init, x)",
                _reduce(m.any("x")).where(_is_over_ones), _over_ones),
    AlgebraRule("R148", "maximum over copies of x = x", _moved("broadcast"), _of_broadcast),
    AlgebraRule("R148b", "sum over n copies of x = multiply(x, n)",
                _moved("broadcast").where(is_discrete), _sum_of_broadcast),
    AlgebraRule("R148x", "sum over n copies of x = multiply(x, n) of floats",
                _moved("broadcast").where(is_float), _sum_of_broadcast, _ORDER),
    AlgebraRule("N2", "reduce(broadcast(x)) over dimensions of x = broadcast(reduce(x))",
                _moved("broadcast"), _then_broadcast, _ORDER),
    AlgebraRule("R146", "reduce(reduce(x)) = reduce(x)", _reduce(m.op("reduce", name="inner").one_use()), _of_reduce,
                _ORDER, "merge_reduce_of_reduce"),
    AlgebraRule("R147", "reduce(transpose(x)) = reduce(x)", _moved("transpose"), _of_transpose, _ORDER,
                value=_ALWAYS),
    AlgebraRule("R147b", "reduce(reshape(x)) = reduce(x)", _moved("reshape"), _of_reshape, _ORDER,
                "enable_reduce_of_reshape", _ALWAYS),
    AlgebraRule("R149", "reduce(concatenate(a, b)) = reducer(reduce(a), reduce(b))",
                _reduce(m.op("concatenate", name="moved").one_use()), _of_concatenate, _ORDER,
                value=("always", "enable_unconditional_reduce_of_concat_replacement")),
    AlgebraRule("R150", "reduce(pad(x, identity)) = reduce(x)",
                _reduce(m.op("pad", name="moved")), _of_pad, _ORDER),
)  # fmt: skip
