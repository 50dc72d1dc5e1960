"""What a product with scores takes into its fusion."""

from __future__ import annotations

from xjit.hlo import HloComputation, HloInstruction
from xjit.passes.analysis.attention.products import ScoreProduct, is_elementwise
from xjit.passes.framework.base import has_control_dependencies


def fused_instructions(computation: HloComputation, product: ScoreProduct) -> list[HloInstruction]:
    """Returns the instructions that a product's fusion takes in, operands first."""
    leaves = {product.right.leaf, *(m.leaf for tile in product.tiles for m in (tile.left, tile.right))}
    demanding = {product.dot, *(tile.place.instruction for tile in product.tiles)}
    softmax = product.softmax
    if softmax is not None:
        demanding |= {softmax.maximum.instruction, softmax.total.instruction}
    inside: set[HloInstruction] = set()
    stack = [product.root]
    while stack:
        instruction = stack.pop()
        if instruction in inside or instruction in leaves:
            continue
        if instruction in demanding or is_elementwise(instruction):
            inside.add(instruction)
            stack += instruction.operands
    return [i for i in computation.make_instruction_post_order() if i in inside]


def scores_are_needed(product: ScoreProduct, units: list[HloInstruction]) -> bool:
    """Whether something outside of a fusion of these instructions needs what is computed from the scores' products."""
    inside = set(units)
    from_scores = {tile.place.instruction for tile in product.tiles}
    for instruction in units:
        if not from_scores.isdisjoint(instruction.operands):
            from_scores.add(instruction)
    from_scores.discard(product.root)
    return any(has_control_dependencies(i) or i.is_root() or not inside.issuperset(i.users) for i in from_scores)
