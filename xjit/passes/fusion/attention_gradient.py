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
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.digits import is_plain
from xjit.passes.analysis.attention.gradient import Gradient, RowSum, product_without_softmax
from xjit.passes.analysis.attention.joint import join_products
from xjit.passes.analysis.attention.places import Place, Space
from xjit.passes.analysis.attention.products import ScoreProduct, find_products
from xjit.passes.analysis.attention.statistics import find_statistics
from xjit.passes.fusion.aligned_rows import aligned, numbered_through
from xjit.passes.fusion.attention_units import fused_instructions, is_needed, operands_first
from xjit.passes.fusion.kept_sums import state_sums
from xjit.passes.fusion.unit_merging import merge_units
from xjit.passes.fusion.wide_scores import keep_rows_wide

MAX_KEPT_ROWS = 1 << 13
"""Keys that a thread keeps the scores of, for a block of queries: with so many it pays, measured."""


def fuse_gradient(computation: HloComputation, gradient: Gradient, joint_batches: int) -> list[HloInstruction]:
    """Fuses the products of a gradient and returns the fusions: none, and nothing is changed, if it has no forward
    product and needs none.

    They are one fusion where there are `joint_batches` of them, else one for each direction of sums; with 0, all are
    fusions of their own.
    """
    if gradient.forward is None and not gradient.sums:
        return []
    if joint_batches and (fusion := _fuse_all(computation, gradient, joint_batches)) is not None:
        return [fusion]
    if gradient.forward is None and not _are_whole(gradient):
        return []
    units = (fused_instructions(product) for product in gradient.all_products())
    state_sums(computation, gradient.softmax, set[HloInstruction]().union(*units))
    result = gradient.result or _forward_product(computation, gradient, gradient.sums[0])
    result = _wide(computation, result) if gradient.sums and joint_batches else result
    for row_sum in gradient.sums:
        value = _RowSumBuilder(computation, gradient, row_sum).build(result)
        replace(row_sum.reduce, value)
        if joint_batches and value.opcode == "convert":
            keep_rows_wide(computation, value.operands)
    softmax, made = gradient.softmax, list[HloInstruction]()
    for product in find_products(result.instruction, lambda _: True):
        if product.softmax is not None:
            outputs = [product.root, softmax.maximum.instruction, softmax.total.instruction]
            units = fused_instructions(product)
            made.append(merge_units(computation, units, outputs, product.dot, "kCustom", "attention")[0])
            break
    _multiply_by_reciprocals(computation, gradient)
    joint = _fuse_joint(computation, gradient, joint_batches) if joint_batches else []
    if not joint:
        joint = [_fuse_products(computation, [_found_again(product, gradient)]) for product in gradient.products]
    return [*made, *joint]


def _fuse_all(computation: HloComputation, gradient: Gradient, joint_batches: int) -> HloInstruction | None:
    """Fuses the products and all that is summed of the scores: None, and nothing is changed, if that does not pay.

    It does where there is no forward product, which would make the scores for itself.
    """
    joint = join_products(gradient.products)
    if gradient.forward is not None or joint is None or len(joint.tiles) < 2:
        return None
    if math.prod(joint.sizes[d] for d in joint.batch) < joint_batches or joint.sizes[joint.row] > MAX_KEPT_ROWS:
        return None
    own = [gradient.softmax.maximum.instruction, gradient.softmax.total.instruction]
    if not find_statistics(joint, {*own, *(row_sum.reduce for row_sum in gradient.sums)}):
        return None
    if not all(is_plain(row_sum.product) for row_sum in gradient.sums) or not _are_whole(gradient):
        return None
    sums = list(own)
    for row_sum in gradient.sums:
        builder = _RowSumBuilder(computation, gradient, row_sum)
        sums.append(builder.sum_of_scores())
        replace(row_sum.reduce, builder.finish(sums[-1], ()))
    _multiply_by_reciprocals(computation, gradient)
    return _fuse_products(computation, [_found_again(product, gradient) for product in gradient.products], sums)


def _fuse_joint(computation: HloComputation, gradient: Gradient, joint_batches: int) -> list[HloInstruction]:
    """Fuses products that share their scores. None, and nothing is changed, if they are none that could."""
    products = [_found_again(product, gradient) for product in gradient.products]
    joint = join_products(products)
    if joint is None:
        return []
    groups = [products]
    if math.prod(joint.sizes[d] for d in joint.batch) < joint_batches:
        found = list(zip(products, joint.members, strict=True))
        directions = [[p for p, member in found if member.over_rows == over_rows] for over_rows in (False, True)]
        groups = [group for group in directions if group]
    if any(_needs_itself(group) for group in groups):
        return []
    made = [_fuse_products(computation, groups[0])]
    for group in groups[1:]:
        made.append(_fuse_products(computation, [_found_again(product, gradient) for product in group]))
    return made


def _found_again(product: ScoreProduct, gradient: Gradient) -> ScoreProduct:
    """Returns a product as it is after what it is computed from has changed."""
    found = product_without_softmax(product.root, gradient.weights)
    assert found is not None
    return found


def _needs_itself(products: Sequence[ScoreProduct]) -> bool:
    """Whether what one of some products is computed from needs the result of another, or its own."""
    units = [set(fused_instructions(product)) for product in products]
    operands = {o for inside in units for i in inside for o in i.operands if o not in inside}
    return is_needed([product.root for product in products], operands)


def _fuse_products(
    computation: HloComputation, products: Sequence[ScoreProduct], sums: Sequence[HloInstruction] = ()
) -> HloInstruction:
    """Makes one fusion of products of the same scores, and of some sums of them."""
    roots = [product.root for product in products]
    units = set[HloInstruction]().union(*(fused_instructions(product, sums) for product in products))
    units = operands_first(roots, units)
    return merge_units(computation, units, roots, products[0].dot, "kCustom", "attention_gradient")[0]


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
    values = numbered_through(computation, row_sum.values, (*weights.shape.dimensions, row_sum.depth))
    rows = [d for d in range(weights.shape.rank) if d != gradient.column]
    if gradient.masks:
        quotient = _masked(computation, gradient)
    else:
        totals = build.broadcast(gradient.softmax.total.instruction, weights.shape, rows)
        quotient = computation.add_instruction(build.binary("divide", weights, computation.add_instruction(totals)))
    batch = {n: e.position for n, e in enumerate(values.index) if not e.is_constant and e.position in rows}
    contracted = next(n for n, e in enumerate(values.index) if e is dim(gradient.column))
    numbers = at.DotAttributes(tuple(batch.values()), (gradient.column,), tuple(batch), (contracted,))
    dot = computation.add_instruction(build.make_dot(quotient, values.instruction, numbers, PrimitiveType.F32))
    free = [d for d in rows if d not in batch.values()]
    kept = [e for n, e in enumerate(values.index) if n not in batch and n != contracted]
    return Place(dot, (*(dim(d) for d in (*batch.values(), *free)), *kept))


def _wide(computation: HloComputation, result: Place) -> Place:
    """Returns a forward product in f32: the sums that are taken of it are short, and rounded elements would show."""
    dot = result.instruction
    if dot.opcode != "dot" or not _differs(dot, PrimitiveType.F32):
        return result
    wide = dot.clone_with_new_operands(dot.shape.with_element_type(PrimitiveType.F32), dot.operands)
    computation.add_instruction(wide)
    replace(dot, computation.add_instruction(build.convert(wide, dot.shape.element_type)))
    return Place(wide, result.index)


def _are_whole(gradient: Gradient) -> bool:
    """Whether the masks lie as the exponentials do."""
    shape = gradient.weights.shape
    identity = Space(shape.dimensions).identity(gradient.weights)
    return all(
        factor.place.index == identity.index and factor.place.instruction.shape.dimensions == shape.dimensions
        for factor in gradient.masks
    )


def _masked(computation: HloComputation, gradient: Gradient) -> HloInstruction:
    """Returns the exponentials times the masks."""
    value = gradient.weights
    for factor in sorted(gradient.masks, key=lambda f: f.place.instruction.name):
        mask = factor.place.instruction
        if factor.role.startswith("select"):
            zero = computation.add_instruction(build.make_constant(0.0, PrimitiveType.F32))
            zeros = computation.add_instruction(build.broadcast(zero, value.shape, ()))
            choices = (value, zeros) if factor.role == "select" else (zeros, value)
            value = computation.add_instruction(build.select(mask, *choices))
            continue
        if mask.shape.element_type is not PrimitiveType.F32:
            mask = computation.add_instruction(build.convert(mask, PrimitiveType.F32))
        value = computation.add_instruction(build.binary(factor.role, value, mask))
    return value


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
        forward = self.gradient.forward
        is_divided = not self.gradient.masks if forward is None else forward.weights is None
        return self.finish(value, ((self.gradient.softmax.total, False),) if is_divided else ())

    def sum_of_scores(self) -> HloInstruction:
        """Returns the sum of exponentials times the product with the values, without factors of rows."""
        weights = self.gradient.weights
        product = self._aligned(self.row_sum.product, dict(enumerate(weights.shape.dimensions)))
        masked = _masked(self.computation, self.gradient)
        return self._sum(self._binary("multiply", masked, product), self.gradient.column)

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
        return aligned(self.computation, place, sizes, wanted)


def _differs(value: HloInstruction, kind: PrimitiveType) -> bool:
    return value.shape.element_type is not kind
