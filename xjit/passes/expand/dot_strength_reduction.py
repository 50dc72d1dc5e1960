"""Dots whose operands' elements are used a few times only, as sums of products; others get the order in memory that
multiplications read fast.

A product of vectors is a reduction, in every batch, whatever dimension of an operand is the batch. So is that of a
matrix and a vector, which multiplications have code for where they are floats and rows are long. Where a batch
dimension is the minor one, neighbours in memory are elements of different matrices: products of small ones are formed
for many batches at a time, in lanes, and operands of larger ones are transposed once instead of being packed element
by element. Loops do the dots of complex numbers that are left here: they have the columns of the right operand as
lanes. A dot of one term is that term: where it is -0.0, a sum that starts at zero would not be. XLA's algebraic
simplifier has the first part (its dot strength reduction).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import DotAttributes
from xjit.ops import build
from xjit.passes.expand.dot_factors import spread, sum_type
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

SHORT_ROW, MIN_ROWS = 128, 64
"""Terms of a matrix by a vector that are sums of groups of rows, and how many rows there must be."""
Label = tuple[str, int]
"""A dimension of a dot: "batch" or "contracted" and its number, or "lhs" or "rhs" and the free dimension of that."""


@dataclass
class DotStrengthReduction(OpExpander):
    """Writes products of vectors, of integers, complex numbers or short rows by vectors, and of small matrices whose
    batch dimension is minor, as sums of products, and dots of one term without a sum; puts the batch of larger ones
    in front of their matrices, and the columns of complex ones behind.

    Products are small where an element takes part in fewer than `min_reuse` multiplications and additions in the mean.
    More terms than `max_terms` that are f32 or f64 are left to multiplications, which read a row once for several.
    """

    name = "dot-strength-reduction"
    opcodes = frozenset({"dot"})
    min_reuse: float = 6.0
    max_terms: int = 1000

    def instruction_matches_pattern(self, instruction: HloInstruction) -> bool:
        """Whether a dot has vectors, one term, a minor batch dimension, or complex numbers: most have none of these."""
        a = instruction.attributes_as(DotAttributes)
        if a.sparsity or a.algorithm or instruction.operand_count != 2 or not instruction.shape.is_static_array:
            return False
        lhs, rhs = (o.shape.dimensions for o in instruction.operands)
        is_minor = len(lhs) - 1 in a.lhs_batch_dims or len(rhs) - 1 in a.rhs_batch_dims
        vector = math.prod(lhs[d] for d in (*a.lhs_batch_dims, *a.lhs_contracting_dims))
        has_one_term = all(lhs[d] == 1 for d in a.lhs_contracting_dims)
        is_rare = is_minor or has_one_term or instruction.shape.element_type.is_complex
        if not (is_rare or vector in (math.prod(lhs), math.prod(rhs))):
            return False
        return 0 not in (*lhs, *rhs) and super().instruction_matches_pattern(instruction)

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the same product; None for one that is multiplied as it is."""
        kind, product = sum_type(instruction), _Product(instruction)
        if kind is None:
            return None
        if product.has_one_term() and not kind.is_integer and not self._is_multiplied(product):
            return product.as_term(into, kind)
        few = product.is_batch_minor() and product.reuse() < self.min_reuse
        by_loops = kind.is_integer or kind.is_complex or product.has_short_rows()
        if few or product.is_of_vectors() or (by_loops and product.has_vector()):
            return product.as_sum(into, kind)
        if kind.is_complex and product.has_minor_terms():
            return product.with_columns_behind(into)
        if product.reuse() < 1 or not any(map(product.has_minor_batch, range(2))):
            return None  # a matrix by a vector is read once: it may lie as it does
        return product.with_leading_batch(into)

    def _is_multiplied(self, product: _Product) -> bool:
        """Whether a dot of one term has more rows and columns than loops take."""
        kinds = {i.shape.element_type for i in (*product.dot.operands, product.dot)}
        many = product.dot.shape.num_elements > self.max_terms and not product.has_vector()
        return many and kinds <= {PrimitiveType.F32, PrimitiveType.F64}


class _Product:
    """A dot, with the labels of its operands' dimensions."""

    def __init__(self, dot: HloInstruction) -> None:
        self.dot, self.attributes = dot, dot.attributes_as(DotAttributes)
        a = self.attributes
        self.batch = a.lhs_batch_dims, a.rhs_batch_dims
        self.contracted = a.lhs_contracting_dims, a.rhs_contracting_dims
        self.labels: list[list[Label]] = []
        for side, name in enumerate(("lhs", "rhs")):
            labels = {d: ("batch", i) for i, d in enumerate(self.batch[side])}
            labels |= {d: ("contracted", i) for i, d in enumerate(self.contracted[side])}
            self.labels.append([labels.get(d, (name, d)) for d in range(dot.operand(side).shape.rank)])
        self.sizes = {
            label: size
            for labels, o in zip(self.labels, dot.operands, strict=True)
            for label, size in zip(labels, o.shape.dimensions, strict=True)
        }

    def _size(self, name: str) -> int:
        return math.prod(size for label, size in self.sizes.items() if label[0] == name)

    def is_of_vectors(self) -> bool:
        """Whether each batch has one number as its result."""
        return self._size("lhs") == self._size("rhs") == 1

    def has_vector(self) -> bool:
        """Whether one operand has a vector in each batch."""
        return 1 in (self._size("lhs"), self._size("rhs"))

    def has_short_rows(self) -> bool:
        """Whether terms lie side by side in memory, but few: groups of rows are added up faster than one by one."""
        labels = [label for label in self.labels[self._larger()] if self.sizes[label] > 1]
        is_row = bool(labels) and labels[-1][0] == "contracted" and self._size("contracted") <= SHORT_ROW
        return is_row and max(self._size("lhs"), self._size("rhs")) >= MIN_ROWS

    def has_one_term(self) -> bool:
        """Whether nothing is added up."""
        return self._size("contracted") == 1

    def reuse(self) -> float:
        """Multiplications and additions of a batch for each element that is read or written."""
        m, n, k = map(self._size, ("lhs", "rhs", "contracted"))
        return m * n * k / (m * k + k * n + m * n)

    def has_minor_batch(self, side: int) -> bool:
        """Whether the minor dimension of an operand is one of the batch, and goes on behind one element."""
        labels = [label for label in self.labels[side] if self.sizes[label] > 1]
        return bool(labels) and labels[-1][0] == "batch" and any(label[0] != "batch" for label in labels)

    def _larger(self) -> int:
        return int(self.dot.operand(1).shape.num_elements > self.dot.operand(0).shape.num_elements)

    def is_batch_minor(self) -> bool:
        """Whether that is so of both operands, or of a matrix whose vector is small beside it."""
        larger = self._larger()
        return self.has_minor_batch(larger) and (self.has_minor_batch(1 - larger) or self.reuse() < 1)

    def as_sum(self, into: Expansion, kind: PrimitiveType) -> HloInstruction:
        """The sum of products, which lie as the larger operand does."""
        larger = self._larger()
        others = [label for label in self.labels[1 - larger] if label[0] in ("lhs", "rhs")]
        order = [*others, *self.labels[larger]]
        summed = [i for i, label in enumerate(order) if label[0] == "contracted"]
        zero = into.add(build.make_constant(0, kind))
        add = into.embed(build.make_binary_computation("add", kind, "add"))
        total = into.add(build.make_reduce(self._products(into, kind, order), zero, summed, add))
        left = [label for label in order if label[0] != "contracted"]
        wanted = self._result_order()
        if left != wanted:
            total = into.add(build.transpose(total, [left.index(label) for label in wanted]))
        return self._as_result(into, total)

    def as_term(self, into: Expansion, kind: PrimitiveType) -> HloInstruction:
        """The products, each of which is a result."""
        contracted = [label for label in self.sizes if label[0] == "contracted"]
        terms = self._products(into, kind, [*self._result_order(), *contracted])
        if contracted:
            terms = into.add(build.reshape(terms, self.dot.shape.dimensions))
        return self._as_result(into, terms)

    def _result_order(self) -> list[Label]:
        return [label for name in ("batch", "lhs", "rhs") for label in sorted(self.sizes) if label[0] == name]

    def _products(self, into: Expansion, kind: PrimitiveType, order: list[Label]) -> HloInstruction:
        sizes = [self.sizes[label] for label in order]
        factors = [
            spread(into, o, kind, sizes, {d: order.index(label) for d, label in enumerate(labels)})
            for o, labels in zip(self.dot.operands, self.labels, strict=True)
        ]
        return into.make("multiply", *factors)

    def _as_result(self, into: Expansion, total: HloInstruction) -> HloInstruction:
        result = self.dot.shape.element_type
        return total if total.shape.element_type is result else into.add(build.convert(total, result))

    def has_minor_terms(self) -> bool:
        """Whether the minor dimension of the right operand, of several columns, is contracted."""
        labels = [label for label in self.labels[1] if self.sizes[label] > 1]
        return bool(labels) and labels[-1][0] == "contracted" and self._size("rhs") > 1

    def with_columns_behind(self, into: Expansion) -> HloInstruction:
        """The same dot of a right operand that has its columns last."""
        free = [d for d, label in enumerate(self.labels[1]) if label[0] == "rhs"]
        order = [*self.batch[1], *self.contracted[1], *free]
        return self._with_orders(into, (list(range(self.dot.operand(0).shape.rank)), order))

    def with_leading_batch(self, into: Expansion) -> HloInstruction:
        """The same dot of operands that have the dimensions of the batch first."""
        orders: list[list[int]] = []
        for side, operand in enumerate(self.dot.operands):
            order = list(range(operand.shape.rank))
            if self.has_minor_batch(side):
                order = [*self.batch[side], *(d for d in order if d not in self.batch[side])]
            orders.append(order)
        return self._with_orders(into, orders)

    def _with_orders(self, into: Expansion, orders: Sequence[list[int]]) -> HloInstruction:
        """The same dot of operands whose dimensions have other orders."""
        operands: list[HloInstruction] = []
        dims: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for side, (operand, order) in enumerate(zip(self.dot.operands, orders, strict=True)):
            moved = order != sorted(order)
            operands.append(into.add(build.transpose(operand, order)) if moved else operand)
            batch, contracted = (tuple(map(order.index, group[side])) for group in (self.batch, self.contracted))
            dims.append((batch, contracted))
        attributes = replace(
            self.attributes,
            lhs_batch_dims=dims[0][0], lhs_contracting_dims=dims[0][1],
            rhs_batch_dims=dims[1][0], rhs_contracting_dims=dims[1][1],
        )  # fmt: skip
        return into.like_source("dot", operands, attributes)
