"""Attention becomes one fusion: products with a softmax of scores that are in no memory but the cache.

A product of scores with values, as `passes/analysis/attention` finds it, takes in everything between its operands and
its result. Nothing else may need the scores: then they would be in memory anyway.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo import attributes as at
from xjit.ops.shape_inference.dot import free_dimensions
from xjit.passes.analysis.attention.gradient import Gradient, results_of
from xjit.passes.analysis.attention.places import MOVES
from xjit.passes.analysis.attention.products import find_products, is_of_products
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import NO_THREADS, HloModulePass
from xjit.passes.fusion.attention_gradient import fuse_gradient
from xjit.passes.fusion.attention_limits import AttentionLimits
from xjit.passes.fusion.attention_units import fused_instructions, outputs_of
from xjit.passes.fusion.column_parts import JOINING, split_columns
from xjit.passes.fusion.constant_masks import replace_constant_masks
from xjit.passes.fusion.exponents import state_exponents
from xjit.passes.fusion.joined_products import join_products
from xjit.passes.fusion.kept_sums import state_sums
from xjit.passes.fusion.row_factors import columns_of, take_out_row_factors
from xjit.passes.fusion.shared_exponentials import share_exponentials
from xjit.passes.fusion.shared_keys import split_sums
from xjit.passes.fusion.softmax_forms import normalize_exponentials
from xjit.passes.fusion.unit_merging import merge_units
from xjit.passes.fusion.weighted_sums import take_sums_from_product
from xjit.passes.fusion.wide_scores import keep_rows_wide, widen_scores

_FOLLOWING = MOVES | {"convert", "divide"}
"""What a product's result may go through inside the fusion."""
_WEIGHTS = _FOLLOWING | {"multiply", "negate", "select"}


@dataclass
class AttentionFusion(AttentionLimits, HloModulePass):
    """Fuses attention where scores are many beside the rows of queries, keys and values that they are computed from.

    For the limits see `AttentionLimits`. A batch of at least `joint_batches` has one kernel for all products of its
    gradient, shared out by what is in the batch; a smaller one has a kernel for queries and one for keys and values,
    each shared out by its rows, too; with 0, each product has a kernel. Kernels may have no use for exponentials that
    are not yet divided, unless it `weighs` them: then these have the forms of `softmax_forms` and `row_factors`.
    """

    name = "attention-fusion"
    opcodes = frozenset({"exponential", "power"})
    joint_batches: int = 8
    weighs: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        """Fuses in every sequential computation; True if something was fused."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if not execution_threads or computation.execution_thread in execution_threads:
                changed |= self._run_on(computation)
        return changed

    def _run_on(self, computation: HloComputation) -> bool:
        changed = False
        no_masks: set[HloInstruction] = set()
        if self.weighs:
            for joined in [i for i in computation.instructions if i.opcode in JOINING]:
                is_there = joined.parent is computation and self._may_be_scores(joined)
                changed |= is_there and split_columns(computation, joined)
        powers = [i for i in computation.instructions if i.opcode in ("exponential", "power") and self._may_weigh(i)]
        changed |= state_exponents(computation, powers, keep_factors=self.weighs)
        exponentials = [i for i in computation.instructions if i.opcode == "exponential"]
        if self.weighs:
            changed |= share_exponentials([i for i in exponentials if self._may_be_scores(i)])
            normalized = [self._normalize(computation, i) for i in exponentials if i.parent is computation]
            changed |= any(normalized)
            exponentials = [i for i in computation.instructions if i.opcode == "exponential"]
        for weights in exponentials:
            changed |= self._fuse_gradient(computation, weights, no_masks)
        for dot in dict.fromkeys(dot for i in exponentials if i.parent is computation for dot in _products_of(i)):
            if dot.parent is computation:
                changed |= self._fuse(computation, dot, no_masks)
        return changed

    def gradient_of(self, weights: HloInstruction) -> Gradient | None:
        """Returns the gradient that reads these exponentials, if it pays to fuse it and kernels know its products."""
        gradient = super().gradient_of(weights)
        return None if gradient is None or (gradient.weighs and not self.weighs) else gradient

    def _may_be_scores(self, instruction: HloInstruction) -> bool:
        """Whether an array has as many elements as scores, and is computed from products as they are."""
        shape = instruction.shape
        is_large = shape.is_static_array and shape.rank >= 2 and shape.num_elements >= self.scores_per_element
        return is_large and is_of_products(instruction)

    def _may_weigh(self, powers: HloInstruction) -> bool:
        """Whether exponentials are of scores, and their products may pay."""
        return self._may_be_scores(powers) and any(self._may_pay(dot) for dot in _products_of(powers))

    def _normalize(self, computation: HloComputation, exponential: HloInstruction) -> bool:
        """Gives exponentials the form that kernels know, where their products may pay; True if anything changed."""
        dots = [dot for dot in _products_of(exponential) if self._may_pay(dot)]
        if not dots or not self._may_be_scores(exponential):
            return False
        weights = dict.fromkeys(operand for dot in dots for operand in dot.operands)
        joined = [operand for operand in weights if join_products(computation, operand)]
        made = normalize_exponentials(computation, exponential, columns_of(exponential, _products_of(exponential)))
        taken_out = [take_out_row_factors(computation, dot) for dot in _products_of(made or exponential)]
        summed = [take_sums_from_product(computation, dot) for dot in _products_of(made or exponential)]
        return bool(joined) or made is not None or any(taken_out) or any(summed)

    def _fuse(self, computation: HloComputation, dot: HloInstruction, no_masks: set[HloInstruction]) -> bool:
        """Fuses what follows a dot as far as it is part of one product: as much as can be.

        `no_masks` are constants that are known to be no masks.
        """
        if not self._may_pay(dot):
            return False
        for root in reversed(results_of(dot, _FOLLOWING)):
            for product in find_products(root, lambda _: True):
                if product.softmax is None or not self.pays(product):
                    continue
                if product.softmax.factor != 1.0 and not self.weighs:
                    continue
                units = fused_instructions(product)
                outputs = outputs_of(product, units) if product.weights is None or self.weighs else None
                if outputs is None:
                    continue
                if replace_constant_masks(computation, product.between, no_masks):
                    self._fuse(computation, dot, no_masks)
                    return True
                state_sums(computation, product.softmax, set(units))
                outputs = outputs_of(product, units)
                assert outputs is not None
                fusion = merge_units(computation, units, outputs, dot, "kCustom", "attention")[0]
                if self.weighs and len(outputs) == 1:  # else others make the same scores
                    widen_scores(fusion.called_computations[0])
                return True
        return False

    def _fuse_gradient(
        self, computation: HloComputation, weights: HloInstruction, no_masks: set[HloInstruction]
    ) -> bool:
        """Fuses all products that read what is computed from the exponentials of a softmax, if that is a gradient."""
        if not self.may_have_gradient(weights):
            return False
        gradient = self.gradient_of(weights)
        splits = [] if gradient is not None else split_sums(computation, weights)
        if splits:
            gradient = self.gradient_of(weights)
            for split in splits:
                split.undo() if gradient is None else split.keep()
        if gradient is None:
            return False
        between = set[HloInstruction]().union(*(product.between for product in gradient.all_products()))
        if replace_constant_masks(computation, between, no_masks):
            self._fuse_gradient(computation, weights, no_masks)
            return True
        if self.weighs and keep_rows_wide(computation, [p.instruction for p in gradient.softmax.reductions]):
            self._fuse_gradient(computation, weights, no_masks)
            return True
        made = fuse_gradient(computation, gradient, self.joint_batches)
        for fusion in made if self.weighs else ():
            widen_scores(fusion.called_computations[0])
        return bool(made or splits)

    def _may_pay(self, dot: HloInstruction) -> bool:
        """Whether a product of this dot could pay by its sizes: indexing maps of one that cannot are not computed."""
        numbers = dot.attributes_as(at.DotAttributes)
        lhs, rhs = (operand.shape for operand in dot.operands)
        batch = math.prod(lhs.dimensions[d] for d in numbers.lhs_batch_dims)
        rows = _least_free(lhs, numbers.lhs_batch_dims, numbers.lhs_contracting_dims)
        columns = _least_free(rhs, numbers.rhs_batch_dims, numbers.rhs_contracting_dims)
        sides = ((lhs, columns), (rhs, rows))
        return any(scores.num_elements >= self.scores_per_element * batch * width for scores, width in sides)


def _least_free(shape: Shape, *taken: Sequence[int]) -> int:
    """Returns the least size above 1 of the dimensions of a dot's operand that are neither batch nor contracting."""
    return min((shape.dimensions[d] for d in free_dimensions(shape.rank, *taken) if shape.dimensions[d] > 1), default=1)


def _products_of(exponential: HloInstruction) -> list[HloInstruction]:
    """Returns the dots that take exponentials, or their quotients, moved or converted."""
    found: list[HloInstruction] = []
    stack, seen = [exponential], {exponential}
    while stack:
        for user in stack.pop().users:
            if user.opcode == "dot":
                found.append(user)
            elif user not in seen and user.opcode in _WEIGHTS:
                seen.add(user)
                stack.append(user)
    return found
