"""The gradient of attention: all that reads the scores of one softmax, and what is needed to do without them.

Besides products, the gradient of a softmax needs sums along the columns, of products of the exponentials, of a product
g v^T of a result's gradient with the values, and of factors that rows have. Such a sum is that of g times the forward
product, which is short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xjit.affine import AffineExpr, constant, dim, substitute, substitute_all
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.passes.analysis.attention.digits import digits_of, in_terms_of, is_plain
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.products import ScoreProduct, find_products, is_elementwise, is_of_products
from xjit.passes.analysis.attention.softmax import Softmax, find_softmax, is_constant, is_reduction
from xjit.passes.analysis.attention.weights import Factor, is_implied

_PASSED = MOVES | {"convert"}
MAX_READERS = 400
"""Instructions that may be computed from the scores of one attention."""


@dataclass(frozen=True, slots=True)
class RowSum:
    """A sum along columns of exponentials times (gradient * values^T) times factors of rows.

    Indices are over the dimensions of the exponentials, and one more: the inner one of the product with the values.
    `product` is that product, at an index over the dimensions of the exponentials.
    `factors` divide where they say so, those that are true or false count as 1 and 0; `negative` factors -1 are an odd
    number. `masks` are the factors that differ from column to column.
    """

    reduce: HloInstruction
    product: Place
    gradient: Place
    values: Place
    factors: tuple[tuple[Place, bool], ...]
    negative: bool
    depth: int
    masks: frozenset[Factor]


@dataclass(frozen=True, slots=True)
class Gradient:
    """What reads the scores of a softmax. `weights` are its exponentials, `column` the dimension it is along.

    `forward` is the forward product, whose result `result` is at an index over the dimensions of the weights, if the
    program has it; `products` are the others. `masks` are what the forward product's weights are multiplied with, and
    the gradient of these.
    """

    weights: HloInstruction
    column: int
    softmax: Softmax
    forward: ScoreProduct | None
    result: Place | None
    sums: tuple[RowSum, ...]
    products: tuple[ScoreProduct, ...]
    masks: frozenset[Factor]

    @property
    def weighs(self) -> bool:
        """Whether the forward product, or the one to be made in its place, is of exponentials that nothing divides."""
        return bool(self.masks) or (self.forward is not None and self.forward.weights is not None)

    def all_products(self) -> tuple[ScoreProduct, ...]:
        """The forward product, if there is one, and the others."""
        return self.products if self.forward is None else (self.forward, *self.products)


def find_gradient(weights: HloInstruction) -> Gradient | None:
    """Returns what reads the scores whose exponentials are `weights`; None if that is not a gradient and no more."""
    space = Space(weights.shape.dimensions)
    found = _softmax_of(space, weights)
    if found is None:
        return None
    softmax, column = found
    statistics = softmax.maximum.instruction, softmax.total.instruction, weights
    readers = _readers(softmax, weights)
    if readers is None or any(i.shape.element_type is not PrimitiveType.F32 for i in statistics):
        return None
    dots, reduces = readers
    forward: ScoreProduct | None = None
    products: list[ScoreProduct] = []
    for dot in dots:
        product = _forward(dot, weights)
        if product is not None and forward is None:
            forward = product
            continue
        product = _product_of(dot, weights)
        if product is None:
            return None
        products.append(product)
    sums = [_row_sum(reduce, weights, column, softmax) for reduce in reduces]
    kept = tuple(s for s in sums if s is not None)
    if not products or len(kept) < len(sums):
        return None
    result = None if forward is None else _result_of(forward, weights)
    if forward is not None and (result is None or not all(_same_values(forward, s, weights) for s in kept)):
        return None
    masks = {row_sum.masks for row_sum in kept}
    if forward is not None:
        found_masks = _masks_of(forward, weights)
        if found_masks is None:
            return None
        of_forward, taken_in = found_masks
        masks.add(of_forward)
        without = [_without(row_sum, taken_in) for row_sum in kept]
        kept = tuple(row_sum for row_sum in without if row_sum is not None)
    if len(masks) > 1 or len(kept) < len(sums):
        return None
    return Gradient(weights, column, softmax, forward, result, kept, tuple(products), next(iter(masks), frozenset()))


def _product_of(dot: HloInstruction, weights: HloInstruction) -> ScoreProduct | None:
    """Returns the product with scores that a dot is, with the moves of its result that it may be stored with.

    Those after which heads are numbered through are left out, if there are any: products could not be joined.
    """
    found = [product_without_softmax(root, weights) for root in reversed(results_of(dot))]
    kept = [product for product in found if product is not None]
    plain = [product for product in kept if all(is_plain(tile.place) for tile in product.tiles)]
    return next(iter(plain + kept), None)


def product_without_softmax(root: HloInstruction, weights: HloInstruction) -> ScoreProduct | None:
    """Returns the product of scores that are computed from these weights that an array is; None if it is none."""
    for product in find_products(root, lambda _: True):
        if product.softmax is None and weights in product.between:
            return product
    return None


def results_of(dot: HloInstruction, passed: frozenset[str] = _PASSED) -> list[HloInstruction]:
    """Returns a dot and what is made of it alone by certain opcodes, one after the other."""
    found = [dot]
    while len(found[-1].users) == 1 and not found[-1].is_root():
        user = found[-1].users[0]
        if user.opcode not in passed or user.operand(0) is not found[-1]:
            break
        if user.control_predecessors or user.control_successors:
            break
        found.append(user)
    return found


def _softmax_of(space: Space, weights: HloInstruction) -> tuple[Softmax, int] | None:
    """Returns the softmax with these exponentials, and the dimension along which it is."""
    for user in (*weights.users, *(u for c in weights.users if c.opcode == "convert" for u in c.users)):
        if user.opcode != "reduce" or not user.shape.is_array:
            continue
        dimensions = user.attributes_as(at.DimensionsAttributes).dimensions
        if len(dimensions) != 1 or space.sizes[dimensions[0]] < 2:
            continue
        index = tuple(space.simplify(dim(d)) for d in range(weights.shape.rank) if d not in dimensions)
        softmax = find_softmax(space, space.identity(weights), Place(user, index), (dim(dimensions[0]),))
        if softmax is not None:
            return softmax, dimensions[0]
    return None


def _readers(softmax: Softmax, weights: HloInstruction) -> tuple[list[HloInstruction], list[HloInstruction]] | None:
    """Returns the dots and the further reduces that read what is computed from the weights; None if more does."""
    found = _walk(weights)
    if found is None:
        return None
    dots, reduces = found
    own = softmax.maximum.instruction, softmax.total.instruction
    return dots, [reduce for reduce in reduces if reduce not in own]


def dots_of_scores(weights: HloInstruction) -> list[HloInstruction]:
    """Returns the dots that read what is computed from weights; none if anything else than dots and sums does."""
    found = _walk(weights)
    return [] if found is None else found[0]


def _walk(weights: HloInstruction) -> tuple[list[HloInstruction], list[HloInstruction]] | None:
    """Returns the dots and reduces that read what is computed, element by element, from the weights."""
    dots: dict[HloInstruction, None] = {}
    reduces: dict[HloInstruction, None] = {}
    stack, seen = [weights], {weights}
    while stack:
        instruction = stack.pop()
        if instruction.is_root() or len(seen) > MAX_READERS:
            return None
        for user in instruction.users:
            if user.opcode == "dot":
                if user.users or user.is_root():
                    dots[user] = None
            elif user.opcode == "reduce" and user.operand_count == 2:
                reduces[user] = None
            elif not is_elementwise(user):
                return None
            elif user not in seen:
                seen.add(user)
                stack.append(user)
    return list(dots), list(reduces)


def _forward(dot: HloInstruction, weights: HloInstruction) -> ScoreProduct | None:
    """Returns the product of the softmax of these weights that a dot is."""
    for product in find_products(dot, lambda _: True):
        if product.softmax is not None and product.softmax.exponential.instruction is weights:
            return product
    return None


def _result_of(forward: ScoreProduct, weights: HloInstruction) -> Place | None:
    """Returns the forward product's result over the dimensions of the weights and an inner one."""
    assert forward.softmax is not None
    known = in_terms_of(forward.softmax.exponential, forward.space.sizes)
    if known is None:
        return None
    sizes = *weights.shape.dimensions, forward.root.shape.dimensions[forward.width]
    known[forward.width] = dim(weights.shape.rank)
    result = Place(forward.root, tuple(known[d] for d in range(forward.root.shape.rank)))
    return None if digits_of(result, sizes) is None else result


def _same_values(forward: ScoreProduct, row_sum: RowSum, weights: HloInstruction) -> bool:
    """Whether the forward product is with the values of a row sum."""
    assert forward.softmax is not None
    known = in_terms_of(forward.softmax.exponential, forward.space.sizes)
    if known is None:
        return False
    rank = weights.shape.rank
    known[forward.width] = dim(rank)
    column = known[forward.column.position]
    space = Space((*weights.shape.dimensions, row_sum.depth))
    rows = known[forward.rows]
    other = space.matrix(row_sum.values, column, dim(rank), rows)
    own = forward.right
    if other is None or other.leaf is not own.leaf:
        return False
    base = space.simplify(substitute(own.base, known))
    return (other.base, other.row_stride, other.column_stride) == (base, own.row_stride, own.column_stride)


def _masks_of(forward: ScoreProduct, weights: HloInstruction) -> tuple[frozenset[Factor], list[Factor]] | None:
    """Returns what a forward product's weights are multiplied with, over the dimensions of the exponentials.

    First what differs from column to column, then what does not. None if their sign changes, too.
    """
    softmax = forward.softmax
    if softmax is None or forward.weights is None:
        return frozenset(), []
    found = _factors(forward.space, forward.weights, forward.column)
    known = in_terms_of(softmax.exponential, forward.space.sizes)
    if found is None or known is None or found[1]:
        return None
    column, space = forward.column.position, Space(weights.shape.dimensions)
    factors = [factor for factor in found[0] if factor.place.instruction is not weights]
    masks = frozenset(_moved_factor(space, factor, known) for factor in factors if _uses(factor.place, column))
    return masks, [_moved_factor(space, factor, known) for factor in factors if not _uses(factor.place, column)]


def _without(row_sum: RowSum, taken_in: Sequence[Factor]) -> RowSum | None:
    """Returns a row sum without factors that the forward result has; None if it has them not."""
    rest = list(row_sum.factors)
    for factor in taken_in:
        own = factor.place, factor.role == "divide"
        if own not in rest or factor.role.startswith("select"):
            return None
        rest.remove(own)
    return replace(row_sum, factors=tuple(rest))


def _moved_factor(space: Space, factor: Factor, known: Mapping[int, AffineExpr]) -> Factor:
    index = tuple(space.simplify(e) for e in substitute_all(factor.place.index, known))
    return Factor(Place(factor.place.instruction, index), factor.role)


def _row_sum(reduce: HloInstruction, weights: HloInstruction, column: int, softmax: Softmax) -> RowSum | None:
    """Returns what a reduce of something computed from the weights sums, if it is a row sum."""
    dimensions = reduce.attributes_as(at.DimensionsAttributes).dimensions
    summed = reduce.operand(0)
    if not is_reduction(reduce, "add") or len(dimensions) != 1:
        return None
    space = Space(summed.shape.dimensions)
    decomposed = _factors(space, space.identity(summed), dim(dimensions[0]))
    if decomposed is None:
        return None
    factors, negative = decomposed
    plain = [factor.place for factor in factors if factor.role == "multiply"]
    own = [f for f in plain if f.instruction is weights]
    dots = [f for f in plain if f.opcode == "dot" and f.index and _uses(f, dimensions[0])]
    if len(own) != 1 or len(dots) != 1:
        return None
    known = in_terms_of(own[0], space.sizes)
    if known is None or not is_plain(own[0]) or known[dimensions[0]] is not dim(column):
        return None
    if not _keeps_order(known, dimensions[0], space.sizes):
        return None
    rest = [factor for factor in factors if factor.place not in (own[0], dots[0])]
    over = [factor for factor in rest if _uses(factor.place, dimensions[0])]
    rest = [factor for factor in rest if factor not in over]
    if any(is_of_products(factor.place.instruction) for factor in over) or any(f.role == "select-not" for f in rest):
        return None
    own_space = Space(weights.shape.dimensions)
    moved_masks = [_moved_factor(own_space, factor, known) for factor in over]
    masks = frozenset(factor for factor in moved_masks if not is_implied(own_space, factor, softmax.logits))
    ranges = space.ranges(dots[0])
    if ranges is None or sum(size > 1 for size in ranges) != 1:
        return None
    inner = space.add(max(ranges))
    symbols = tuple(inner if size > 1 else constant(0) for size in ranges)
    sides = [space.operand(dots[0], number, symbols) for number in (0, 1)]
    known[inner.position] = dim(weights.shape.rank)
    moved = [_moved(side, known) for side in sides]
    if moved[0] is None or moved[1] is None:
        return None
    gradient, values = moved if not _uses(moved[0], column) else moved[::-1]
    if gradient is None or values is None or _uses(gradient, column) or not _uses(values, column):
        return None
    others = [(_moved(factor.place, known), factor.role == "divide") for factor in rest]
    factors_of_rows = tuple((f, inverted) for f, inverted in others if f is not None)
    sizes = *weights.shape.dimensions, max(ranges)
    if any(digits_of(p, sizes) is None for p in (gradient, values, *(f for f, _ in factors_of_rows))):
        return None
    product = Place(dots[0].instruction, substitute_all(dots[0].index, known))
    return RowSum(reduce, product, gradient, values, factors_of_rows, negative, max(ranges), masks)


def _moved(place: Place | None, known: Mapping[int, AffineExpr]) -> Place | None:
    return None if place is None else Place(place.instruction, substitute_all(place.index, known))


def _uses(place: Place, variable: int) -> bool:
    return any(e.uses_dim(variable) for e in place.index)


def _keeps_order(known: Mapping[int, AffineExpr], column: int, sizes: Sequence[int]) -> bool:
    """Whether dimensions besides the column come in the same order in both arrays."""
    order = [known[d].position for d, size in enumerate(sizes) if size > 1 and d != column and not known[d].is_constant]
    missing = any(size > 1 and known[d].is_constant for d, size in enumerate(sizes))
    return order == sorted(order) and not missing


def _factors(space: Space, place: Place, column: AffineExpr) -> tuple[list[Factor], bool] | None:
    """Returns what a product is the product of; whether its sign changes."""
    found: list[Factor] = []
    negative = False
    stack = [(place, False)]
    while stack:
        place, inverted = stack.pop()
        place = space.behind(place, _PASSED)
        operands = [space.operand(place, number) for number in range(place.instruction.operand_count)]
        varies = any(e.uses_dim(column.position) for e in place.index)
        mask = None if inverted or not varies or place.opcode != "select" else _mask(space, operands)
        if mask is not None:
            factor, value = mask
            found.append(factor)
            stack.append((value, False))
            continue
        if not varies or place.opcode not in ("multiply", "divide", "negate"):
            found.append(Factor(place, "divide" if inverted else "multiply"))
            continue
        if place.opcode == "negate":
            negative = not negative
        for number, operand in enumerate(operands):
            if operand is None:
                return None
            stack.append((operand, inverted != (place.opcode == "divide" and number == 1)))
    return found, negative


def _mask(space: Space, operands: Sequence[Place | None]) -> tuple[Factor, Place] | None:
    """Returns the mask and the value of a selection between that and zero."""
    test, value, other = operands
    if test is None or value is None or other is None:
        return None
    test = space.behind(test, MOVES)
    if is_constant(space, other, 0.0):
        return Factor(test, "select"), value
    return (Factor(test, "select-not"), other) if is_constant(space, value, 0.0) else None
