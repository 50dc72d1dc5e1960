"""Products of the same weights with several values are one product with all of them side by side.

So each block of weights is made once, and no product needs them in memory for the sake of another one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import accumulate

from xjit.affine import dim
from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.places import Space
from xjit.passes.analysis.attention.weights import find_weights, softmax_of
from xjit.passes.framework.base import has_control_dependencies


def join_products(computation: HloComputation, weights: HloInstruction) -> bool:
    """Makes one dot of all that read an array, if nothing else does, and they sum over the columns of weights.

    True if there were several.
    """
    dots = weights.users
    if len(dots) < 2 or weights.is_root() or any(not _is_product(dot, weights) for dot in dots):
        return False
    batch, contracting = _taken(dots[0], dots[0].operands.index(weights))
    if len({(_taken(dot, dot.operands.index(weights)), *_kind(dot)) for dot in dots}) > 1 or len(contracting) != 1:
        return False
    if not _are_weights(weights, contracting[0]) or _is_needed(dots):
        return False
    _join(computation, weights, dots, batch, contracting[0])
    return True


def _is_product(dot: HloInstruction, weights: HloInstruction) -> bool:
    if dot.opcode != "dot" or dot.operands.count(weights) != 1 or has_control_dependencies(dot):
        return False
    return all(i.shape.is_row_major for i in (dot, *dot.operands))


def _kind(dot: HloInstruction) -> tuple[object, ...]:
    """Returns what makes products other ones, but for dimensions."""
    numbers = dot.attributes_as(at.DotAttributes)
    types = frozenset(operand.shape.element_type for operand in dot.operands)
    return dot.shape.element_type, types, numbers.operand_precision, numbers.algorithm, numbers.sparsity


def _taken(dot: HloInstruction, side: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the batch and the summed dimensions of operand `side`."""
    numbers = dot.attributes_as(at.DotAttributes)
    if side == 0:
        return tuple(numbers.lhs_batch_dims), tuple(numbers.lhs_contracting_dims)
    return tuple(numbers.rhs_batch_dims), tuple(numbers.rhs_contracting_dims)


def _are_weights(array: HloInstruction, column: int) -> bool:
    space = Space(array.shape.dimensions)
    found = find_weights(space, space.identity(array), lambda e: softmax_of(space, e, dim(column)) is not None)
    return found is not None


def _is_needed(dots: Sequence[HloInstruction]) -> bool:
    """Whether values of one product are computed from another one."""
    others = set(dots)
    stack = [operand for dot in dots for operand in dot.operands]
    seen = set(stack)
    while stack:
        instruction = stack.pop()
        if instruction in others:
            return True
        following = [o for o in instruction.operands if o not in seen]
        seen.update(following)
        stack += following
    return False


def _join(
    computation: HloComputation,
    weights: HloInstruction,
    dots: Sequence[HloInstruction],
    batch: Sequence[int],
    column: int,
) -> None:
    """Puts parts of one dot, of the weights and all values, in the place of several."""

    def add(instruction: HloInstruction) -> HloInstruction:
        return computation.add_instruction(instruction)

    values = [_as_matrices(computation, dot, weights) for dot in dots]
    widths = [value.shape.dimensions[-1] for value in values]
    wide = add(build.concatenate(values, len(batch) + 1))
    attributes = dataclasses.replace(
        dots[0].attributes_as(at.DotAttributes),
        lhs_batch_dims=tuple(batch),
        rhs_batch_dims=tuple(range(len(batch))),
        lhs_contracting_dims=(column,),
        rhs_contracting_dims=(len(batch),),
    )
    product = add(build.make_dot(weights, wide, attributes, dots[0].shape.element_type))
    sizes = product.shape.dimensions
    last = len(sizes) - 1
    for dot, width, limit in zip(dots, widths, accumulate(widths)):
        starts = [limit - width if d == last else 0 for d in range(len(sizes))]
        part = add(build.slice_(product, starts, [*sizes[:-1], limit]))
        if dot.operand(0) is not weights:
            part = add(build.transpose(part, [*range(len(batch)), last, *range(len(batch), last)]))
        replace(dot, add(build.reshape(part, dot.shape.dimensions)))


def _as_matrices(computation: HloComputation, dot: HloInstruction, weights: HloInstruction) -> HloInstruction:
    """Returns the other operand of a dot with its batch, its summed dimension, and all others as one."""
    side = 1 - dot.operands.index(weights)
    value = dot.operand(side)
    batch, contracting = _taken(dot, side)
    taken = (*batch, *contracting)
    order = [*taken, *(d for d in range(value.shape.rank) if d not in taken)]
    if order != list(range(len(order))):
        value = computation.add_instruction(build.transpose(value, order))
    sizes = value.shape.dimensions
    merged = (*sizes[: len(taken)], math.prod(sizes[len(taken) :]))
    return computation.add_instruction(build.reshape(value, merged))
