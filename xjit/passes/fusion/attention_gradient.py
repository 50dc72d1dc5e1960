"""The gradient of attention without scores in memory: products that make the scores again, from what rows remember.

A program that differentiates attention keeps the probabilities and reads them in the products of its gradient. Here the
forward product becomes a fusion that also gives each row's maximum and sum. The sum along columns that the gradient of
a softmax needs is taken of the result instead: the sum over c of p[r, c] * (g v^T)[r, c] is that over d of g[r, d] *
o[r, d]. What is left of the scores is elementwise, and each product that reads it computes it for itself, by blocks.

Where nothing needs the forward product, the products and the maxima and sums are one fusion, which makes the scores
once: see `xjit.passes.analysis.attention.statistics`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xjit.affine import dim
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.digits import digits_of, is_plain
from xjit.passes.analysis.attention.gradient import Gradient, RowSum, product_without_softmax
from xjit.passes.analysis.attention.joint import join_products
from xjit.passes.analysis.attention.places import Place
from xjit.passes.analysis.attention.products import ScoreProduct, find_products
from xjit.passes.analysis.attention.statistics import find_statistics
from xjit.passes.fusion.attention_units import fused_instructions, operands_first
from xjit.passes.fusion.unit_merging import merge_units

MAX_KEPT_ROWS = 1 << 13
"""Keys that a thread keeps the scores of, for a block of queries: with so many it pays, measured."""


def fuse_gradient(computation: HloComputation, gradient: Gradient, joint_batches: int) -> bool:
    """Fuses the products of a gradient; False, and nothing is changed, if it has no forward product and needs none.

    They are one fusion where there are `joint_batches` of them, else one for each direction of sums; with 0, all are
    fusions of their own.
    """
    if gradient.forward is None and not gradient.sums:
        return False
    if joint_batches and _fuse_all(computation, gradient, joint_batches):
        return True
    result = gradient.result or _forward_product(computation, gradient, gradient.sums[0])
    for row_sum in gradient.sums:
        value = _RowSumBuilder(computation, gradient, row_sum).build(result)
        replace(row_sum.reduce, value)
    softmax = gradient.softmax
    for product in find_products(result.instruction, lambda _: True):
        if product.softmax is not None:
            outputs = [product.root, softmax.maximum.instruction, softmax.total.instruction]
            merge_units(computation, fused_instructions(product), outputs, product.dot, "kCustom", "attention")
            break
    _multiply_by_reciprocals(computation, gradient)
    if joint_batches == 0 or not _fuse_joint(computation, gradient, joint_batches):
        for product in gradient.products:
            _fuse_products(computation, [_found_again(product, gradient)])
    return True


def _fuse_all(computation: HloComputation, gradient: Gradient, joint_batches: int) -> bool:
    """Fuses the products and all that is summed of the scores: False, and nothing is changed, if that does not pay.

    It does where there is no forward product, which would make the scores for itself.
    """
    joint = join_products(gradient.products)
    if gradient.forward is not None or joint is None or len(joint.tiles) < 2:
        return False
    if math.prod(joint.sizes[d] for d in joint.batch) < joint_batches or joint.sizes[joint.row] > MAX_KEPT_ROWS:
        return False
    own = [gradient.softmax.maximum.instruction, gradient.softmax.total.instruction]
    if not find_statistics(joint, {*own, *(row_sum.reduce for row_sum in gradient.sums)}):
        return False
    if not all(is_plain(row_sum.product) for row_sum in gradient.sums):
        return False
    sums = list(own)
    for row_sum in gradient.sums:
        builder = _RowSumBuilder(computation, gradient, row_sum)
        sums.append(builder.sum_of_scores())
        replace(row_sum.reduce, builder.finish(sums[-1], ()))
    _multiply_by_reciprocals(computation, gradient)
    _fuse_products(computation, [_found_again(product, gradient) for product in gradient.products], sums)
    return True


def _fuse_joint(computation: HloComputation, gradient: Gradient, joint_batches: int) -> bool:
    """Fuses products that share their scores. False, and nothing is changed, if they are none that could."""
    products = [_found_again(product, gradient) for product in gradient.products]
    joint = join_products(products)
    if joint is None:
        return False
    groups = [products]
    if math.prod(joint.sizes[d] for d in joint.batch) < joint_batches:
        found = list(zip(products, joint.members, strict=True))
        directions = [[p for p, member in found if member.over_rows == over_rows] for over_rows in (False, True)]
        groups = [group for group in directions if group]
    if any(_needs_itself(group) for group in groups):
        return False
    _fuse_products(computation, groups[0])
    for group in groups[1:]:
        _fuse_products(computation, [_found_again(product, gradient) for product in group])
    return True


def _found_again(product: ScoreProduct, gradient: Gradient) -> ScoreProduct:
    """Returns a product as it is after what it is computed from has changed."""
    found = product_without_softmax(product.root, gradient.weights)
    assert found is not None
    return found


def _needs_itself(products: Sequence[ScoreProduct]) -> bool:
    """Whether what one of some products is computed from needs the result of another, or its own."""
    units = [set(fused_instructions(product)) for product in products]
    operands = {o for inside in units for i in inside for o in i.operands if o not in inside}
    stack = [product.root for product in products]
    seen = set(stack)
    while stack:
        instruction = stack.pop()
        if instruction in operands:
            return True
        behind = {*instruction.users, *instruction.control_successors} - seen
        seen |= behind
        stack += behind
    return False


def _fuse_products(
    computation: HloComputation, products: Sequence[ScoreProduct], sums: Sequence[HloInstruction] = ()
) -> None:
    """Makes one fusion of products of the same scores, and of some sums of them."""
    roots = [product.root for product in products]
    units = set[HloInstruction]().union(*(fused_instructions(product, sums) for product in products))
    merge_units(computation, operands_first(roots, units), roots, products[0].dot, "kCustom", "attention_gradient")


def _multiply_by_reciprocals(computation: HloComputation, gradient: Gradient) -> None:
    """Quotients of scores by what rows have become products: one division for a row, not one for each of its scores."""
    between = dict.fromkeys(i for p in gradient.products for i in operands_first([p.scores.instruction], p.between))
    for divide in [i for i in between if i.opcode == "divide" and i.operand(1).opcode == "broadcast"]:
        repeated = divide.operand(1)
        rows = repeated.operand(0)
        if divide.shape.element_type is not PrimitiveType.F32 or rows.shape.num_elements == repeated.shape.num_elements:
            continue
        one = computation.add_instruction(build.make_constant(1.0, PrimitiveType.F32))
        ones = computation.add_instruction(build.broadcast(one, rows.shape, ()))
        reciprocal = computation.add_instruction(build.binary("divide", ones, rows))
        dimensions = repeated.attributes_as(at.DimensionsAttributes).dimensions
        repeated = computation.add_instruction(build.broadcast(reciprocal, repeated.shape, dimensions))
        product = computation.add_instruction(build.binary("multiply", divide.operand(0), repeated))
        replace(divide, product)


def _forward_product(computation: HloComputation, gradient: Gradient, row_sum: RowSum) -> Place:
    """Adds the forward product where the program has none; returns its result over the dimensions of the weights."""
    weights = gradient.weights
    values = _numbered_through(computation, row_sum.values, (*weights.shape.dimensions, row_sum.depth))
    rows = [d for d in range(weights.shape.rank) if d != gradient.column]
    totals = build.broadcast(gradient.softmax.total.instruction, weights.shape, rows)
    quotient = build.binary("divide", weights, totals)
    batch = {n: e.position for n, e in enumerate(values.index) if not e.is_constant and e.position in rows}
    contracted = next(n for n, e in enumerate(values.index) if e is dim(gradient.column))
    numbers = at.DotAttributes(tuple(batch.values()), (gradient.column,), tuple(batch), (contracted,))
    dot = build.make_dot(quotient, values.instruction, numbers, PrimitiveType.F32)
    for made in (totals, quotient, dot):
        computation.add_instruction(made)
    free = [d for d in rows if d not in batch.values()]
    kept = [e for n, e in enumerate(values.index) if n not in batch and n != contracted]
    return Place(dot, (*(dim(d) for d in (*batch.values(), *free)), *kept))


def _numbered_through(computation: HloComputation, place: Place, sizes: Sequence[int]) -> Place:
    """Returns a place in an array whose dimensions are variables: digits are put together, missing ones repeated."""
    if is_plain(place):
        return place
    digits = digits_of(place, sizes)
    assert digits is not None
    shape = place.instruction.shape
    kept = sorted(digit.number for digit in digits)
    value = computation.add_instruction(build.reshape(place.instruction, [shape.dimensions[n] for n in kept]))
    value = computation.add_instruction(build.transpose(value, [kept.index(digit.number) for digit in digits]))
    variables = list(dict.fromkeys(digit.variable for digit in digits))
    wide: list[int] = []
    present: list[int] = []
    for variable in variables:
        above = sizes[variable]
        for digit in (d for d in digits if d.variable == variable):
            size = shape.dimensions[digit.number]
            wide += [above // (digit.divisor * size), size]
            present.append(len(wide) - 1)
            above = digit.divisor
        wide.append(above)
    repeated = build.broadcast(value, Shape.array(shape.element_type, wide), present)
    value = computation.add_instruction(repeated)
    value = computation.add_instruction(build.reshape(value, [sizes[variable] for variable in variables]))
    return Place(value, tuple(dim(variable) for variable in variables))


class _RowSumBuilder:
    """Builds what replaces a row sum: arrays over the rows of the weights, all but the dimension of their columns."""

    def __init__(self, computation: HloComputation, gradient: Gradient, row_sum: RowSum) -> None:
        self.computation = computation
        self.gradient = gradient
        self.row_sum = row_sum
        sizes = gradient.weights.shape.dimensions
        self.rows = {d: size for d, size in enumerate(sizes) if d != gradient.column}
        self.inner = len(sizes)

    def _add(self, instruction: HloInstruction) -> HloInstruction:
        if instruction.parent is None:
            self.computation.add_instruction(instruction)
        return instruction

    def build(self, result: Place) -> HloInstruction:
        """Returns the replacement: what the gradient and the forward result amount to, times the factors of rows."""
        row_sum = self.row_sum
        with_inner = {**self.rows, self.inner: row_sum.depth}
        product = self._binary("multiply", *(self._aligned(p, with_inner) for p in (row_sum.gradient, result)))
        value = self._sum(product, product.shape.rank - 1)
        return self.finish(value, ((self.gradient.softmax.total, False),))

    def sum_of_scores(self) -> HloInstruction:
        """Returns the sum of exponentials times the product with the values, without factors of rows."""
        weights, column = self.gradient.weights, self.gradient.column
        product = self._aligned(self.row_sum.product, dict(enumerate(weights.shape.dimensions)))
        return self._sum(self._binary("multiply", weights, product), column)

    def _sum(self, product: HloInstruction, dimension: int) -> HloInstruction:
        module = self.computation.parent
        assert module is not None
        zero = self._add(build.make_constant(0.0, PrimitiveType.F32))
        add = build.make_binary_computation("add", PrimitiveType.F32)
        reducer = module.add_embedded_computation(add, self.computation)
        return self._add(build.make_reduce(product, zero, (dimension,), reducer))

    def finish(self, value: HloInstruction, factors: Sequence[tuple[Place, bool]]) -> HloInstruction:
        """Returns the replacement: a sum times some factors and those of its rows."""
        row_sum = self.row_sum
        for place, divides in (*factors, *row_sum.factors):
            value = self._binary("divide" if divides else "multiply", value, self._aligned(place, self.rows))
        if row_sum.negative:
            value = self._add(build.unary("negate", value))
        shape = row_sum.reduce.shape
        value = self._add(build.reshape(value, shape.dimensions))
        return self._add(build.make("convert", value, shape=shape)) if _differs(value, shape.element_type) else value

    def _binary(self, opcode: str, a: HloInstruction, b: HloInstruction) -> HloInstruction:
        return self._add(build.binary(opcode, a, b))

    def _aligned(self, place: Place, wanted: Mapping[int, int]) -> HloInstruction:
        """Returns an array over variables of `wanted` sizes, in f32; repeated where it has less."""
        sizes = *self.gradient.weights.shape.dimensions, self.row_sum.depth
        place = _numbered_through(self.computation, place, sizes)
        value, shape = place.instruction, place.instruction.shape
        read = [(e.position, n) for n, e in enumerate(place.index) if not e.is_constant and shape.dimensions[n] > 1]
        value = self._add(build.reshape(value, [shape.dimensions[n] for _, n in read]))
        order = sorted(range(len(read)), key=lambda n: read[n][0])
        if order != list(range(len(read))):
            value = self._add(build.transpose(value, order))
        if _differs(value, PrimitiveType.F32):
            value = self._add(build.convert(value, PrimitiveType.F32))
        numbers = list(wanted)
        dimensions = [numbers.index(position) for position in sorted(position for position, _ in read)]
        whole = Shape.array(PrimitiveType.F32, tuple(wanted.values()))
        if value.shape.num_elements == whole.num_elements:
            return self._add(build.reshape(value, whole.dimensions))
        return self._add(build.broadcast(value, whole, dimensions))


def _differs(value: HloInstruction, kind: PrimitiveType) -> bool:
    return value.shape.element_type is not kind
