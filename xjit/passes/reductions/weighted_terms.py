"""A tree of sums and differences as a list of arrays with weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import PadAttributes, ParameterAttributes, SliceAttributes
from xjit.passes.reductions.reduce_parts import value_everywhere

MAX_TERMS = 64
"""A sum of more terms is left alone: they are looked at again for each of its parts."""


@dataclass(frozen=True)
class Term:
    """`weight * array * factors[0] * ...`; the weight is a NumPy scalar of the arrays' type."""

    array: HloInstruction
    weight: Any
    factors: tuple[HloInstruction, ...] = ()


@np.errstate(all="ignore")
def terms_of(root: HloInstruction, with_factors: bool, may_cancel: bool) -> list[Term] | None:
    """Returns the terms whose sum an add or subtract is, equal ones added up, slices of an array in their order.

    `with_factors`: a product of two arrays is a term with factors; else it is an array. None for too many terms, and
    if equal terms have opposite signs unless they `may_cancel`. Weights of integers wrap around as the arrays do.
    """
    one = root.shape.element_type.dtype.type(1)
    waiting, terms = [Term(root, one)], list[Term]()
    while waiting:
        term = waiting.pop()
        parts = _parts(term, with_factors)
        if parts is None:
            terms.append(_with_last_factor_first(term))
        waiting += reversed(parts or [])
        if len(waiting) + len(terms) > MAX_TERMS:
            return None
    return _added_up(sorted(terms, key=lambda t: [sort_key(i) for i in (t.array, *t.factors)]), may_cancel)


def _parts(term: Term, with_factors: bool) -> list[Term] | None:
    """Returns the terms that a term is the sum of, or is; None for one that is nothing else."""
    array = term.array
    if array.opcode in ("add", "subtract"):
        sign = term.weight if array.opcode == "add" else -term.weight
        return [Term(array.operand(0), term.weight, term.factors), Term(array.operand(1), sign, term.factors)]
    if array.opcode != "multiply":
        return None
    left, right = array.operands
    for constant, other in ((left, right), (right, left)):
        value = value_everywhere(constant)
        if value is not None:
            return [Term(other, term.weight * value, term.factors)]
    if not with_factors:
        return None
    if right.opcode in ("add", "subtract", "multiply") and left.opcode not in ("add", "subtract", "multiply"):
        left, right = right, left
    return [Term(left, term.weight, (*term.factors, right))]


def _with_last_factor_first(term: Term) -> Term:
    """Returns the term with its arrays in their order, the last one as `array`: products commute."""
    if not term.factors:
        return term
    *factors, array = sorted((term.array, *term.factors), key=sort_key)
    return Term(array, term.weight, tuple(factors))


def sort_key(i: HloInstruction) -> tuple[Any, ...]:
    """Orders slices and pads of one array by where they start, parameters by number, others as they were made."""
    if i.opcode == "parameter":
        return (i.opcode, (i.attributes_as(ParameterAttributes).parameter_number,))
    base = sort_key(i.operand(0)) if i.opcode in ("slice", "pad") and i.operand(0).opcode == "parameter" else ()
    if not base and i.operand_count:
        base = (i.operand(0).opcode, (i.operand(0).unique_id,))
    if i.opcode == "slice":
        a = i.attributes_as(SliceAttributes)
        return (i.opcode, base, a.starts, a.limits, a.strides)
    if i.opcode == "pad":
        padding = i.attributes_as(PadAttributes).padding
        edges = tuple((-p.edge_padding_low, p.edge_padding_high, p.interior_padding) for p in padding)
        return (i.opcode, base, i.operand(1).unique_id, edges)
    return (i.opcode, (i.unique_id,))


def _added_up(terms: Sequence[Term], may_cancel: bool) -> list[Term] | None:
    """Returns neighbours of the same arrays as one term each, without those of weight 0."""
    result: list[Term] = []
    for term in terms:
        last = result[-1] if result else None
        if last is None or (last.array, last.factors) != (term.array, term.factors):
            result.append(term)
            continue
        if not may_cancel and np.signbit(float(last.weight)) != np.signbit(float(term.weight)):
            return None
        result[-1] = Term(term.array, last.weight + term.weight, term.factors)
    return [t for t in result if t.weight != 0]
