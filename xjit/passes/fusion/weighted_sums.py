"""Sums of weights, by which programs divide them again, come from the product that takes the same weights.

softmax(x) * mask divided by its own sums: a column of ones beside the values gives the sums of exp(x - max(x)) * mask
as one more column of the product; what rows are multiplied or divided by besides is done to that. So the weights
have no other reader, and are in no memory. Sums of weights without a factor that differs from column to column are
those of the softmax, times what rows have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xjit.affine import dim
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.digits import digits_of
from xjit.passes.analysis.attention.places import MOVES, Place
from xjit.passes.analysis.attention.softmax import Softmax, is_reduction
from xjit.passes.analysis.attention.weights import Factor, Weights, find_weights, softmax_of
from xjit.passes.fusion.aligned_rows import aligned
from xjit.passes.fusion.weighed_operand import WeighedOperand

_BETWEEN = MOVES | {"convert", "divide", "multiply", "negate", "select"}
"""What is between exponentials and sums of their multiples."""


def take_sums_from_product(computation: HloComputation, dot: HloInstruction) -> bool:
    """Computes sums of a dot's weights, times what rows have, from one more column of the dot; True if there are any.

    The dot's weights are exponentials of a softmax, and factors that differ from column to column.
    """
    numbers = dot.attributes_as(at.DotAttributes)
    if dot.control_predecessors or dot.control_successors or dot.shape.element_type is not PrimitiveType.F32:
        return False
    for side, contracting in enumerate((numbers.lhs_contracting_dims, numbers.rhs_contracting_dims)):
        if len(contracting) == 1 and _Sums(computation, dot, side, contracting[0]).run():
            return True
    return False


class _Sums(WeighedOperand):
    """Those of the weights that are an operand of a dot, along its columns."""

    @property
    def _sizes(self) -> tuple[int, ...]:
        return self.operand.shape.dimensions

    @property
    def _rows(self) -> list[int]:
        return [d for d in range(self.operand.shape.rank) if d != self.column]

    def run(self) -> bool:
        found = self._weights(self.operand)
        softmax = None if found is None else softmax_of(self.space, found.exponential, dim(self.column))
        if found is None or softmax is None:
            return False
        over = found.over(dim(self.column))
        if len(over) < len(found.factors) or found.negative:
            return False
        sums = self._sums_of(found.exponential.instruction, softmax)
        plain = [(s, w) for s, w in sums if not w.over(dim(self.column))]
        weighted = [(s, w) for s, w in sums if over and self._over(w) == self._over(found)]
        value = self._column_of_sums() if weighted else None
        if value is None and not plain:
            return False
        for total, weights in weighted if value is not None else []:
            self._replace(total, weights, value)
        for total, weights in plain:
            self._replace(total, weights, None, softmax)
        return True

    def _over(self, weights: Weights) -> Counter[tuple[Place, str]]:
        """Returns what differs from column to column, however it is rounded."""
        factors = weights.over(dim(self.column))
        return Counter((self.space.behind(f.place, MOVES | {"convert"}), f.role) for f in factors)

    def _weights(self, array: HloInstruction) -> Weights | None:
        """Returns an array of the operand's dimensions as weights."""
        column = dim(self.column)
        wanted = self.space.identity(array)
        return find_weights(self.space, wanted, lambda e: softmax_of(self.space, e, column) is not None)

    def _sums_of(self, exponential: HloInstruction, softmax: Softmax) -> list[tuple[HloInstruction, Weights]]:
        """Returns the sums along the columns of multiples of exponentials, and these multiples."""
        found: list[tuple[HloInstruction, Weights]] = []
        stack, seen = [exponential], {exponential}
        while stack:
            for user in stack.pop().users:
                if user in seen:
                    continue
                seen.add(user)
                if user.opcode in _BETWEEN:
                    stack.append(user)
                elif is_reduction(user, "add") and user is not softmax.total.instruction and self._is_along(user):
                    weights = self._weights(user.operand(0))
                    if weights is not None and weights.exponential.instruction is exponential and self._can(weights):
                        found.append((user, weights))
        return found

    def _is_along(self, total: HloInstruction) -> bool:
        dimensions = total.attributes_as(at.DimensionsAttributes).dimensions
        return dimensions == (self.column,) and total.operand(0).shape.dimensions == self._sizes

    def _can(self, weights: Weights) -> bool:
        """Whether what rows have can be done to a number for each row."""
        rows = self._row_factors(weights)
        known = all(digits_of(self.space.behind(f.place, MOVES), self._sizes) is not None for f in rows)
        return known and not any(f.role.startswith("select") for f in rows) and bool(weights.factors)

    def _row_factors(self, weights: Weights) -> list[Factor]:
        over = weights.over(dim(self.column))
        return [f for f in weights.factors if f not in over]

    def _column_of_sums(self) -> HloInstruction | None:
        """Gives the dot one more column; returns it over the rows of the weights. None if values have no columns."""
        dot, numbers, other = self.dot, self.dot.attributes_as(at.DotAttributes), self.dot.operand(1 - self.side)
        taken = (
            (*numbers.rhs_batch_dims, *numbers.rhs_contracting_dims),
            (*numbers.lhs_batch_dims, *numbers.lhs_contracting_dims),
        )[self.side]
        free = [d for d in range(other.shape.rank) if d not in taken]
        if len(free) != 1:
            return None
        [width] = free
        ones = self._ones(other.shape, width)
        wide = self.add(build.concatenate((other, ones), width))
        operands = (self.operand, wide) if self.side == 0 else (wide, self.operand)
        product = self.add(build.make_dot(*operands, numbers, PrimitiveType.F32))
        batch = len(numbers.lhs_batch_dims)
        axis = product.shape.rank - 1 if self.side == 0 else batch
        last = product.shape.dimensions[axis] - 1
        columns = self._part(product, axis, 0, last)
        sums = self._part(product, axis, last, last + 1)
        sums = self.add(build.reshape(sums, [n for d, n in enumerate(sums.shape.dimensions) if d != axis]))
        replace(dot, columns)
        own_batch = (numbers.lhs_batch_dims, numbers.rhs_batch_dims)[self.side]
        order = [*own_batch, *(d for d in self._rows if d not in own_batch)]
        if order != self._rows:
            sums = self.add(build.transpose(sums, [order.index(d) for d in self._rows]))
        return sums

    def _ones(self, shape: Shape, width: int) -> HloInstruction:
        one = self.add(build.make_constant(1.0, shape.element_type))
        sizes = [1 if d == width else n for d, n in enumerate(shape.dimensions)]
        return self.add(build.broadcast(one, Shape.array(shape.element_type, sizes), ()))

    def _part(self, value: HloInstruction, axis: int, start: int, limit: int) -> HloInstruction:
        starts = [start if d == axis else 0 for d in range(value.shape.rank)]
        limits: Sequence[int] = [limit if d == axis else n for d, n in enumerate(value.shape.dimensions)]
        return self.add(build.slice_(value, starts, limits))

    def _replace(
        self, total: HloInstruction, weights: Weights, value: HloInstruction | None, softmax: Softmax | None = None
    ) -> None:
        """Puts sums, times what rows have, in the place of a sum of weights."""
        wanted = {d: self._sizes[d] for d in self._rows}
        if value is None:
            assert softmax is not None
            value = aligned(self.computation, self.space.behind(softmax.total, MOVES), self._sizes, wanted)
        for factor in self._row_factors(weights):
            of_rows = aligned(self.computation, self.space.behind(factor.place, MOVES), self._sizes, wanted)
            value = self.add(build.binary(factor.role, value, of_rows))
        if weights.negative:
            value = self.add(build.unary("negate", value))
        if total.shape.element_type is not PrimitiveType.F32:
            value = self.add(build.convert(value, total.shape.element_type))
        replace(total, value)
