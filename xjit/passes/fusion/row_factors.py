"""What rows of weights are multiplied or divided by is done to their product: one number for a row of the result.

(exp(x - max(x)) * mask / total) v = ((exp(x - max(x)) * mask) v) / total: so the product can be summed before the
total is known, block by block, whatever else is done to it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from xjit.affine import dim
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.digits import digits_of
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.products import is_of_products
from xjit.passes.analysis.attention.softmax import Softmax, find_softmax
from xjit.passes.analysis.attention.weights import Factor, Weights, find_weights, is_implied, softmax_of
from xjit.passes.fusion.aligned_rows import aligned
from xjit.passes.fusion.softmax_forms import guard_exponentials
from xjit.passes.fusion.weighed_operand import WeighedOperand

_PASSED = MOVES | {"convert"}


def take_out_row_factors(computation: HloComputation, dot: HloInstruction) -> bool:
    """Multiplies a product with what rows of its weights are multiplied with; True if there was something.

    Weights that are a softmax by its own sum stay: that is divided by at the end anyway.
    """
    numbers = dot.attributes_as(at.DotAttributes)
    if dot.control_predecessors or dot.control_successors:
        return False
    if dot.shape.minor_to_major != tuple(reversed(range(dot.shape.rank))):
        return False
    for side, contracting in enumerate((numbers.lhs_contracting_dims, numbers.rhs_contracting_dims)):
        if len(contracting) == 1 and _Product(computation, dot, side, contracting[0]).run():
            return True
    return False


def columns_of(exponential: HloInstruction, dots: Sequence[HloInstruction]) -> set[int]:
    """Returns along which dimensions of exponentials they are the weights of some dots."""
    found: set[int] = set()
    for dot in dots:
        numbers = dot.attributes_as(at.DotAttributes)
        for operand, contracting in zip(dot.operands, (numbers.lhs_contracting_dims, numbers.rhs_contracting_dims)):
            if len(contracting) != 1:
                continue
            space = Space(operand.shape.dimensions)
            weights = find_weights(space, space.identity(operand), lambda e: e.instruction is exponential)
            if weights is not None and dim(contracting[0]) in weights.exponential.index:
                found.add(weights.exponential.index.index(dim(contracting[0])))
    return found


class _Product(WeighedOperand):
    """A dot whose operand `side` may be weights, with columns along its dimension `column`."""

    def run(self) -> bool:
        """Rewrites the dot; True if that was to be done."""
        place, column = self.space.identity(self.operand), dim(self.column)
        if find_softmax(self.space, place, None, (column,)) is not None:
            return False
        found = find_weights(self.space, place, lambda e: softmax_of(self.space, e, column) is not None)
        softmax = None if found is None else softmax_of(self.space, found.exponential, column)
        if found is None or softmax is None:
            return False
        dropped = [f for f in found.over(column) if is_implied(self.space, f, softmax.logits)]
        rows = [f for f in found.factors if f not in found.over(column)]
        if not dropped and not rows and not found.negative:
            return False
        if any(is_of_products(f.place.instruction) for f in found.over(column)):
            return False
        divided = [self.space.behind(f.place, _PASSED) for f in rows if f.role == "divide"]
        if not dropped and softmax.total not in divided:
            column_of_exponentials = found.exponential.index.index(column)  # else rows of -inf would be 0, not NaN
            if guard_exponentials(self.computation, found.exponential.instruction, column_of_exponentials):
                return take_out_row_factors(self.computation, self.dot)
        read = [*(f.place for f in rows), *([softmax.maximum] if dropped else [])]
        if any(digits_of(place, self.space.sizes) is None for place in read):
            return False
        weights = self._without({*dropped, *rows}, found)
        self._replace(weights, found, rows, softmax if dropped else None)
        return True

    def _without(self, factors: set[Factor], found: Weights) -> HloInstruction:
        """Returns the operand in f32 without some factors, and without signs."""
        value = found.exponential.instruction
        for step in reversed(found.path):
            instruction = step.instruction
            if instruction.opcode in ("convert", "negate") or step.factor in factors:
                continue
            operands = list(instruction.operands)
            operands[step.number] = value
            for n, operand in enumerate(operands):
                if operand.shape.element_type.is_float:
                    operands[n] = self._in_f32(operand)
            shape = instruction.shape.with_element_type(PrimitiveType.F32)
            value = self.add(instruction.clone_with_new_operands(shape, operands))
        return value

    def _in_f32(self, value: HloInstruction) -> HloInstruction:
        is_f32 = value.shape.element_type is PrimitiveType.F32
        return value if is_f32 else self.add(build.convert(value, PrimitiveType.F32))

    def _replace(
        self, weights: HloInstruction, found: Weights, rows: Collection[Factor], guard: Softmax | None
    ) -> None:
        """Puts the product of `weights`, times factors of its rows, in place of the dot: in the order of the weights.

        With a guard it is 0 where all that is taken of is -inf, as what is left out there says: exponentials there may
        be NaN.
        """
        dot, numbers = self.dot, self.dot.attributes_as(at.DotAttributes)
        operands = [weights if n == self.side else self._in_f32(o) for n, o in enumerate(dot.operands)]
        value = self.add(build.make_dot(operands[0], operands[1], numbers, PrimitiveType.F32))
        varying = found.over(dim(self.column))
        for factor in reversed(found.factors):
            if factor in varying:
                is_dropped = guard is not None and is_implied(self.space, factor, guard.logits)
                value = self._zero_where_empty(value, guard) if guard is not None and is_dropped else value
            elif factor not in rows:
                continue
            elif factor.role.startswith("select"):
                value = self._zero_where_masked(value, factor)
            else:
                value = self.add(build.binary(factor.role, value, self._spread(factor.place, value)))
        if found.negative:
            value = self.add(build.unary("negate", value))
        if dot.shape.element_type is not PrimitiveType.F32:
            value = self.add(build.convert(value, dot.shape.element_type))
        replace(dot, value)

    def _zeros(self, value: HloInstruction) -> HloInstruction:
        zero = self.add(build.make_constant(0.0, PrimitiveType.F32))
        return self.add(build.broadcast(zero, value.shape, ()))

    def _zero_where_masked(self, value: HloInstruction, factor: Factor) -> HloInstruction:
        """Returns a product with rows of zeros where a mask of rows has some."""
        zeros = self._zeros(value)
        direction = "EQ" if factor.role == "select" else "NE"
        is_zero = self.add(build.compare(direction, self._spread(factor.place, value), zeros))
        return self.add(build.select(is_zero, zeros, value))

    def _zero_where_empty(self, value: HloInstruction, guard: Softmax) -> HloInstruction:
        """Returns a product with rows of zeros where all logits are -inf."""
        least = self.add(build.make_constant(-math.inf, PrimitiveType.F32))
        leasts = self.add(build.broadcast(least, value.shape, ()))
        is_empty = self.add(build.compare("EQ", self._spread(guard.maximum, value), leasts))
        return self.add(build.select(is_empty, self._zeros(value), value))

    def _spread(self, place: Place, product: HloInstruction) -> HloInstruction:
        """Returns what rows have over the dimensions of the product, in f32."""
        sizes = self.space.sizes
        factor = aligned(self.computation, place, sizes, {d: n for d, n in enumerate(sizes) if d != self.column})
        numbers = self.dot.attributes_as(at.DotAttributes)
        batch = (numbers.lhs_batch_dims, numbers.rhs_batch_dims)[self.side]
        free = [d for d in range(self.operand.shape.rank) if d not in batch and d != self.column]
        first = len(batch) if self.side == 0 else product.shape.rank - len(free)
        position = {**{d: n for n, d in enumerate(batch)}, **{d: first + n for n, d in enumerate(free)}}
        rows = [d for d in range(self.operand.shape.rank) if d != self.column]
        order = sorted(range(len(rows)), key=lambda n: position[rows[n]])
        if order != list(range(len(rows))):
            factor = self.add(build.transpose(factor, order))
        return self.add(build.broadcast(factor, product.shape, [position[rows[n]] for n in order]))
