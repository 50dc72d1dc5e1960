"""What a product with scores takes into its fusion."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.ir.post_order import post_order
from xjit.passes.analysis.attention.places import MOVES, Place
from xjit.passes.analysis.attention.products import ScoreProduct, is_elementwise
from xjit.passes.framework.base import has_control_dependencies

LONG = 32
"""Instructions that are computed for an element, so many that they had better be computed once."""


def fused_instructions(product: ScoreProduct, sums: Collection[HloInstruction] = ()) -> list[HloInstruction]:
    """Returns the instructions that a product's fusion takes in, operands first; some `sums` of scores among them."""
    leaves = {product.right.leaf, *(m.leaf for tile in product.tiles for m in (tile.left, tile.right))}
    demanding = {product.dot, *(tile.place.instruction for tile in product.tiles), *sums}
    softmax = product.softmax
    if softmax is not None:
        demanding |= {softmax.maximum.instruction, softmax.total.instruction}
    roots = [product.root]
    if product.weights is not None and softmax is not None:
        roots += [softmax.maximum.instruction, softmax.total.instruction]
    inside = _reached(roots, leaves, demanding)
    order = operands_first(roots, inside)
    varying = _computed_from({product.dot, *(tile.place.instruction for tile in product.tiles)}, order)
    read = {o for i in order for o in i.operands if o not in inside}
    short = {i for i in _computed_from(read, order) & inside - varying if _is_short(i, product)}
    short |= _shared([i for i in order if i not in varying], product) | _turned(product) & inside - varying
    inside = _reached(roots, leaves | short, demanding)
    return [i for i in order if i in inside]


def operands_first(roots: Sequence[HloInstruction], inside: Collection[HloInstruction]) -> list[HloInstruction]:
    """Returns what of some instructions the roots are computed from, and the roots, operands before what reads them."""
    return post_order(roots, lambda i: [o for o in i.operands if o in inside])


def _reached(
    roots: Sequence[HloInstruction], leaves: Collection[HloInstruction], demanding: Collection[HloInstruction]
) -> set[HloInstruction]:
    """Returns what the roots are computed from, as far as that is elementwise or among the `demanding`."""
    inside: set[HloInstruction] = set()
    stack = list(roots)
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


def _shared(order: Sequence[HloInstruction], product: ScoreProduct) -> set[HloInstruction]:
    """Returns what several products of the batch have in common, and is long to compute: random numbers, for one."""
    sizes = product.root.shape.dimensions
    scores = math.prod(sizes[d] for d in product.batch) * sizes[product.rows] * product.num_columns
    steps: dict[HloInstruction, frozenset[HloInstruction]] = {}
    for instruction in order:
        below = frozenset[HloInstruction]().union(*(steps.get(o, frozenset()) for o in instruction.operands))
        is_step = instruction.opcode not in MOVES and instruction.operand_count > 0
        steps[instruction] = below | {instruction} if is_step and len(below) < LONG else below
    return {i for i, below in steps.items() if len(below) >= LONG and 2 * i.shape.num_elements <= scores}


def _turned(product: ScoreProduct) -> set[HloInstruction]:
    """Returns transposes that scores are computed from, of arrays whose neighbours are of several of the batch.

    For one product, each element of a row would be in a cache line of its own: they had better be transposed once.
    """
    found = set[HloInstruction]()
    stack: list[tuple[Place, HloInstruction | None]] = [(product.scores, None)]
    stack += [] if product.weights is None else [(product.weights, None)]
    seen = set(stack)
    while stack:
        place, transpose = stack.pop()
        if place.instruction not in product.between:
            if transpose is not None and _lies_across(place, product):
                found.add(transpose)
            continue
        if transpose is None and place.opcode == "transpose":
            transpose = place.instruction
        operands = (product.space.operand(place, n) for n in range(place.instruction.operand_count))
        new = {(operand, transpose) for operand in operands if operand is not None} - seen
        seen |= new
        stack += new
    return found


def _lies_across(place: Place, product: ScoreProduct) -> bool:
    """Whether an array has an element for each score, or for each of some products, with those of a product apart."""
    if not place.index or place.instruction.opcode in ("constant", "iota"):
        return False
    used = {d for e in place.index for d in e.dims}
    own = {product.rows, product.column.position}
    last = set(place.index[-1].dims)
    return own <= used and bool(last) and last.isdisjoint(own)


def outputs_of(product: ScoreProduct, units: Sequence[HloInstruction]) -> list[HloInstruction] | None:
    """Returns the results of a product's fusion of these instructions: with its own, the softmax's maxima and totals if
    these are needed.

    None if something outside needs what else is computed from the scores' products, or what rows have is needed inside.
    """
    inside = set(units)
    softmax = product.softmax
    statistics = [] if softmax is None else [softmax.maximum.instruction, softmax.total.instruction]
    tiles = {tile.place.instruction for tile in product.tiles}
    from_scores = _computed_from(tiles, [i for i in units if i not in statistics]) - {product.root}
    needed = [i for i in from_scores if i.is_root() or not inside.issuperset(i.users)]
    if needed or any(has_control_dependencies(i) for i in _computed_from(tiles, units) - {product.root}):
        return None
    # what is computed from these for rows is computed again outside, where something needs it
    outputs = [s for s in statistics if s.is_root() or not inside.issuperset(_users_of(s, inside))]
    if any(s.is_root() for s in statistics) or (product.weights is not None and statistics[1] not in outputs):
        return None
    if any(s.shape.element_type is not PrimitiveType.F32 for s in outputs):
        return None
    outputs = [product.root, *outputs]
    return None if _need_themselves(inside, outputs) else outputs


def _users_of(statistic: HloInstruction, inside: Collection[HloInstruction]) -> set[HloInstruction]:
    """Returns what uses a number of each row, and what uses, in the fusion, what is computed from such alone."""
    found = set(statistic.users)
    stack = [user for user in found if user in inside]
    while stack:
        instruction = stack.pop()
        if instruction.shape.num_elements > statistic.shape.num_elements:
            continue
        following = set(instruction.users) - found
        found |= following
        stack += [user for user in following if user in inside]
    return found


def _need_themselves(inside: Collection[HloInstruction], outputs: Sequence[HloInstruction]) -> bool:
    """Whether a fusion reads what is computed from its own results."""
    operands = {o for i in inside for o in i.operands if o not in inside}
    return is_needed([u for output in outputs for u in output.users if u not in inside], operands)


def is_needed(sources: Iterable[HloInstruction], by: Collection[HloInstruction]) -> bool:
    """Whether some instructions are sources, are computed from one, or wait for what is."""
    stack = list(sources)
    seen = set(stack)
    while stack:
        instruction = stack.pop()
        if instruction in by:
            return True
        behind = {*instruction.users, *instruction.control_successors} - seen
        seen |= behind
        stack += behind
    return False
