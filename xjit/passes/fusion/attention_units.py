"""What a product with scores takes into its fusion."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from xjit.hlo import HloInstruction
from xjit.hlo.ir.post_order import post_order
from xjit.passes.analysis.attention.places import MOVES
from xjit.passes.analysis.attention.products import ScoreProduct, is_elementwise
from xjit.passes.framework.base import has_control_dependencies


def fused_instructions(product: ScoreProduct, sums: Collection[HloInstruction] = ()) -> list[HloInstruction]:
    """Returns the instructions that a product's fusion takes in, operands first; some `sums` of scores among them."""
    leaves = {product.right.leaf, *(m.leaf for tile in product.tiles for m in (tile.left, tile.right))}
    demanding = {product.dot, *(tile.place.instruction for tile in product.tiles), *sums}
    softmax = product.softmax
    if softmax is not None:
        demanding |= {softmax.maximum.instruction, softmax.total.instruction}
    inside = _reached(product.root, leaves, demanding)
    order = operands_first([product.root], inside)
    varying = _computed_from({product.dot, *(tile.place.instruction for tile in product.tiles)}, order)
    read = {o for i in order for o in i.operands if o not in inside}
    short = {i for i in _computed_from(read, order) & inside - varying if _is_short(i, product)}
    inside = _reached(product.root, leaves | short, demanding)
    return [i for i in order if i in inside]


def operands_first(roots: Sequence[HloInstruction], inside: Collection[HloInstruction]) -> list[HloInstruction]:
    """Returns what of some instructions the roots are computed from, and the roots, operands before what reads them."""
    return post_order(roots, lambda i: [o for o in i.operands if o in inside])


def _reached(
    root: HloInstruction, leaves: Collection[HloInstruction], demanding: Collection[HloInstruction]
) -> set[HloInstruction]:
    """Returns what the root is computed from, as far as that is elementwise or among the `demanding`."""
    inside: set[HloInstruction] = set()
    stack = [root]
    while stack:
        instruction = stack.pop()
        if instruction in inside or instruction in leaves:
            continue
        if instruction in demanding or is_elementwise(instruction):
            inside.add(instruction)
            stack += instruction.operands
    return inside


def _computed_from(sources: set[HloInstruction], order: Sequence[HloInstruction]) -> set[HloInstruction]:
    """Returns the sources and what in an order, operands first, is computed from them."""
    found = set(sources)
    for instruction in order:
        if not found.isdisjoint(instruction.operands):
            found.add(instruction)
    return found


def _is_short(instruction: HloInstruction, product: ScoreProduct) -> bool:
    """Whether something takes no more than a number for each row or column: better computed before the product."""
    if instruction.opcode in MOVES or not instruction.operand_count:
        return False
    sizes = product.root.shape.dimensions
    batch = math.prod(sizes[d] for d in product.batch)
    return instruction.shape.num_elements <= batch * max(sizes[product.rows], product.num_columns)


def scores_are_needed(product: ScoreProduct, units: list[HloInstruction]) -> bool:
    """Whether something outside of a fusion of these instructions needs what is computed from the scores' products."""
    inside = set(units)
    from_scores = _computed_from({tile.place.instruction for tile in product.tiles}, units) - {product.root}
    return any(has_control_dependencies(i) or i.is_root() or not inside.issuperset(i.users) for i in from_scores)
