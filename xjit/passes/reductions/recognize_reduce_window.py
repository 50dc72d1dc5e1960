"""Sums of shifted slices as reduce-windows, and weighted sums as dots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Literal
from xjit.hlo.attributes import DotAttributes, Window, WindowAttributes, WindowDimension
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops import build
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.shifted_reads import joined
from xjit.passes.reductions.weighted_terms import Term, terms_of


@dataclass
class RecognizeReduceWindow(HloModulePass):
    """Sums of slices of one array, or of pads of one, at equal distances become one reduce-window.

    A sum over a window that is there already counts as its parts, a dynamic slice at a constant place as a slice. Sums
    are taken in another order; terms add up: x + x is 2 * x. With `optimization_level` 2 a weighted sum of other arrays
    becomes a dot with the weights, with 3 a sum of products a dot of arrays; 0 does nothing. Floats cancel, as x - x,
    only with `xla_compatible_fp`: it is wrong for infinities and NaN.
    """

    optimization_level: int = 1
    xla_compatible_fp: bool = False
    name = "recognize-reduce-window"

    def __post_init__(self) -> None:
        """InvalidArgument for an unknown level."""
        if self.optimization_level not in range(4):
            raise InvalidArgument(f"optimization_level of {self.name} is 0 to 3, found {self.optimization_level}")

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites whole sums before their parts; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads) if self.optimization_level else ():
            for instruction in reversed(computation.make_instruction_post_order()):
                if instruction.parent is computation and _is_sum(instruction):
                    changed |= self._rewrite(instruction, computation)
        return changed

    def _rewrite(self, instruction: HloInstruction, computation: HloComputation) -> bool:
        exact = not instruction.shape.element_type.is_float
        terms = terms_of(instruction, self.optimization_level >= 3, exact or self.xla_compatible_fp)
        arrays = [a for t in terms or () for a in (t.array, *t.factors)]
        if terms is None or any(a.shape != instruction.shape for a in arrays):
            return False
        into = Expansion(instruction)
        forms: list[Callable[[Expansion, list[Term]], HloInstruction | None]] = [_at_most_one, _window]
        if self.optimization_level < 2 or joined([t.array for t in terms]) is None:
            forms.append(_pair)
        if self.optimization_level >= 2:
            forms.append(_dot)
        new = next((found for form in forms if (found := form(into, terms)) is not None), None)
        if new is None or new is instruction:
            return False
        into.replace_source(new)
        return True


def _is_sum(i: HloInstruction) -> bool:
    kind = i.shape.element_type if i.shape.is_static_array else None
    if i.opcode not in ("add", "subtract") or kind is None or not i.shape.rank or not i.shape.is_row_major:
        return False
    return kind.is_float or (kind.is_integer and kind.bit_width >= 8)


def _at_most_one(into: Expansion, terms: list[Term]) -> HloInstruction | None:
    """Zero, or one product."""
    if not terms:
        return into.full(into.source.shape, 0)
    if len(terms) > 1:
        return None
    (term,), product = terms, terms[0].array
    for factor in term.factors:
        product = into.make("multiply", product, factor)
    return product if term.weight == 1 else into.make("multiply", product, into.full(product.shape, term.weight))


def _pair(into: Expansion, terms: list[Term]) -> HloInstruction | None:
    """A sum or difference of two arrays; the source itself if it is just that."""
    if len(terms) != 2 or any(t.factors for t in terms):
        return None
    (a, b), weights = [t.array for t in terms], [float(t.weight) for t in terms]
    if weights == [-1, 1]:
        a, b, weights = b, a, [1, -1]
    if weights not in ([1, 1], [1, -1]):
        return None
    opcode = "add" if weights[1] > 0 else "subtract"
    source = into.source
    orders = [[a, b], [b, a]] if opcode == "add" else [[a, b]]
    return source if source.opcode == opcode and list(source.operands) in orders else into.make(opcode, a, b)


def _window(into: Expansion, terms: list[Term]) -> HloInstruction | None:
    """The sum of parts of one array that start at equal distances along one dimension."""
    reads = joined([t.array for t in terms])
    if reads is None or any(t.factors or t.weight != 1 for t in terms):
        return None
    ranges = reads.ranges
    shifted = [d for d in range(into.source.shape.rank) if len({r[d] for r in ranges}) > 1]
    if len(shifted) != 1:
        return None
    along = shifted[0]
    starts = [r[along][0] for r in ranges]
    distance = starts[1] - starts[0]
    if distance <= 0 or starts != list(range(starts[0], starts[-1] + 1, distance)):
        return None
    whole = tuple((starts[0], ranges[-1][d][1]) if d == along else r for d, r in enumerate(ranges[0]))
    base = reads.read(into, whole)
    one = WindowDimension()
    dimension = WindowDimension(size=len(ranges), window_dilation=distance)
    window = Window(tuple(dimension if d == along else one for d in range(len(whole))))
    kind = into.source.shape.element_type
    reducer = into.embed(build.make_binary_computation("add", kind))
    zero = into.add(build.make_constant(0, kind))
    return into.make("reduce-window", base, zero, attributes=WindowAttributes(window), called=[reducer])


def _dot(into: Expansion, terms: list[Term]) -> HloInstruction | None:
    """The dot of the arrays, one above the other, with their weights: numbers, or arrays if there are factors."""
    if sum(not _is_made_up(t.array) for t in terms) < 2:
        return None
    shape = into.source.shape
    row = shape.with_dimensions((1, *shape.dimensions))

    def stacked(arrays: Sequence[HloInstruction]) -> HloInstruction:
        rows = [into.make("reshape", a, shape=row) for a in arrays]
        return into.add(build.concatenate(rows, 0))

    above = stacked([t.array for t in terms])
    if any(t.factors for t in terms):
        batch = tuple(range(1, 1 + shape.rank))
        weights = stacked([_weights(into, t) for t in terms])
        attributes = DotAttributes(batch, (0,), batch, (0,))
    else:
        weights = into.constant(Literal.from_array(np.array([t.weight for t in terms], shape.dtype)))
        attributes = DotAttributes((), (0,), (), (0,))
    return into.add(build.make_dot(above, weights, attributes))


def _weights(into: Expansion, term: Term) -> HloInstruction:
    """Returns the weight of each element of a term's array."""
    if not term.factors:
        return into.full(into.source.shape, term.weight)
    product = term.factors[0]
    for factor in term.factors[1:]:
        product = into.make("multiply", product, factor)
    return product if term.weight == 1 else into.make("multiply", product, into.full(product.shape, term.weight))


def _is_made_up(array: HloInstruction) -> bool:
    """Whether an array costs no memory: an iota, or the broadcast of a scalar."""
    return array.opcode == "iota" or (array.opcode == "broadcast" and not array.operand(0).shape.rank)
