"""Products with scores: result[b, r, d] = sum over c of scores[b, r, c] * right[b, c, d].

Scores are computed element by element from one or two other products over a small dimension, as those of attention are
from queries and keys: so a tile of them can be made in the cache wherever it is needed, and they need not be in memory.
All dimensions are found by the indexing maps, whatever their order, and whatever lies between the products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xjit.affine import AffineExpr, constant, dim
from xjit.hlo import HloInstruction, PrimitiveType, Trait
from xjit.passes.analysis.attention.places import MATRIX_TYPES, MOVES, Matrix, Place, Space
from xjit.passes.analysis.attention.softmax import Softmax, find_softmax
from xjit.passes.analysis.attention.weights import find_weights, softmax_of

MAX_NODES = 400
"""Instructions that may lie between products, and what else of shorter arrays is looked at."""
MAX_TILES = 2
"""Products that scores may be computed from."""
_PASSED = MOVES | {"convert"}


@dataclass(frozen=True, slots=True)
class Tile:
    """A product that scores are computed from: `dot`, at `place` for the score at (row, column).

    left[row, k] * right[column, k], summed over `depth` values of k.
    """

    place: Place
    left: Matrix
    right: Matrix
    depth: int


@dataclass(frozen=True, slots=True)
class ScoreProduct:
    """A product with scores. The variables of `space` are the dimensions of `root`, the column, and others.

    `rows` and `width` are dimensions of the root: those of the product's rows and columns. The other ones say which of
    many products it is. `scores` is what is to be computed of each score: with a `softmax`, what that is taken of.
    With `weights`, these are multiplied with `right`, multiples of the softmax's exponentials, which nothing divides.
    `between` are the instructions between the products.
    """

    space: Space
    root: HloInstruction
    dot: HloInstruction
    rows: int
    width: int
    column: AffineExpr
    scores: Place
    softmax: Softmax | None
    weights: Place | None
    right: Matrix
    result: Matrix
    tiles: tuple[Tile, ...]
    between: frozenset[HloInstruction]

    @property
    def num_columns(self) -> int:
        """How many scores a row has."""
        return self.space.sizes[self.column.position]

    @property
    def batch(self) -> tuple[int, ...]:
        """The dimensions of the root that say which product it is."""
        return tuple(d for d in range(self.root.shape.rank) if d not in (self.rows, self.width))


def find_products(root: HloInstruction, is_inside: Callable[[HloInstruction], bool]) -> list[ScoreProduct]:
    """Returns the products with scores that an array is: none, or one, or two if either operand may be the scores.

    `is_inside` says of what instructions the computation may be part of it: others are read from memory.
    """
    found = [_find_product(root, side, is_inside) for side in (0, 1)]
    return [product for product in found if product is not None]


def _find_product(root: HloInstruction, side: int, is_inside: Callable[[HloInstruction], bool]) -> ScoreProduct | None:
    """Returns the product whose scores are the operand `side` of the dot that an array is."""
    if not root.shape.is_static_array or root.shape.element_type not in MATRIX_TYPES or root.shape.rank < 2:
        return None
    space = Space(root.shape.dimensions)
    place = space.behind(space.identity(root), _PASSED)
    total = None
    if place.opcode == "divide":
        total = space.operand(place, 1)
        numerator = space.operand(place, 0)
        if total is None or numerator is None:
            return None
        place = space.behind(numerator, _PASSED)
    ranges = space.ranges(place) if place.opcode == "dot" else None
    if ranges is None or sum(size > 1 for size in ranges) != 1:
        return None
    column = space.add(max(ranges))
    symbols = tuple(column if size > 1 else constant(0) for size in ranges)
    scores, right = (space.operand(place, number, symbols) for number in (side, 1 - side))
    if scores is None or right is None:
        return None
    return _Finder(space, root, place.instruction, column, is_inside).find(scores, right, total)


class _Finder:
    """The search for the parts of one product."""

    def __init__(
        self,
        space: Space,
        root: HloInstruction,
        dot: HloInstruction,
        column: AffineExpr,
        is_inside: Callable[[HloInstruction], bool],
    ) -> None:
        self.space = space
        self.root = root
        self.dot = dot
        self.column = column
        self.is_inside = is_inside
        self.num_scores = 0

    def find(self, scores: Place, right: Place, total: Place | None) -> ScoreProduct | None:
        softmax = find_softmax(self.space, scores, total, (self.column,))
        if total is not None and softmax is None:
            return None
        sides = self._sides(scores, right)
        if sides is None:
            return None
        rows, width = sides
        self.num_scores = scores.instruction.shape.num_elements
        between: set[HloInstruction] = set()
        weights = None
        if softmax is None:
            softmax = self._softmax_of_weights(scores, between)
            weights = None if softmax is None else self.space.behind(scores, _PASSED)
        wanted = scores if softmax is None else softmax.logits
        if wanted.instruction.shape.element_type not in MATRIX_TYPES:
            return None
        dots = self._dots(wanted, between)
        if dots is None or not 1 <= len(dots) <= MAX_TILES:
            return None
        matrix = self.space.matrix(right, self.column, dim(width), dim(rows))
        result = self.space.array_matrix(self.space.identity(self.root), dim(rows), dim(width), self.column)
        tiles = [self._tile(place, rows) for place in dots]
        if matrix is None or result is None:
            return None
        found = tuple(tile for tile in tiles if tile is not None)
        if len(found) < len(tiles):
            return None
        return ScoreProduct(
            self.space,
            self.root,
            self.dot,
            rows,
            width,
            self.column,
            wanted,
            softmax,
            weights,
            matrix,
            result,
            found,
            frozenset(between),
        )

    def _softmax_of_weights(self, scores: Place, between: set[HloInstruction]) -> Softmax | None:
        """Returns the softmax whose exponentials are multiplied with what is neither of rows nor of other products.

        What factors are computed from is added to `between`.
        """
        found = find_weights(self.space, scores, lambda e: softmax_of(self.space, e, self.column) is not None)
        if found is None or len(found.over(self.column)) < len(found.factors):
            return None
        softmax = softmax_of(self.space, found.exponential, self.column)
        assert softmax is not None
        inside = set[HloInstruction]()
        if any(self._dots(factor.place, inside) != [] for factor in found.factors):
            return None
        between |= inside
        return softmax

    def _sides(self, scores: Place, right: Place) -> tuple[int, int] | None:
        """Returns the dimensions of the rows and of the width: those that only one side depends on."""
        sizes = self.root.shape.dimensions
        used = [{d for e in place.index for d in e.dims} for place in (scores, right)]
        rows = [d for d in range(len(sizes)) if d in used[0] - used[1] and sizes[d] > 1]
        width = [d for d in range(len(sizes)) if d in used[1] - used[0] and sizes[d] > 1]
        if not rows or len(width) != 1:
            return None
        return max(rows, key=lambda d: sizes[d]), width[0]

    def _dots(self, wanted: Place, between: set[HloInstruction]) -> list[Place] | None:
        """Returns the products that a score is computed from, through what is added to `between`.

        None if a score is not computed from one element of each.
        """
        found: dict[HloInstruction, Place] = {}
        seen: set[Place] = set()
        short: set[Place] = set()
        stack = [wanted]
        while stack:
            place = stack.pop()
            if place in seen or place in short:
                continue
            if place.instruction.shape.num_elements < self.num_scores // 2:  # it is computed from no scores
                if len(short) == MAX_NODES:
                    continue
                short.add(place)
            else:
                seen.add(place)
            if place.opcode == "dot" and self._is_score(place):
                if found.setdefault(place.instruction, place) != place:
                    return None
                continue
            if not is_elementwise(place.instruction) or not self.is_inside(place.instruction):
                continue
            between.add(place.instruction)
            for number in range(place.instruction.operand_count):
                operand = self.space.operand(place, number)
                if operand is None:
                    return None
                stack.append(operand)
            if len(seen) > MAX_NODES:
                return None
        return list(found.values())

    def _is_score(self, place: Place) -> bool:
        """Whether an element differs from column to column and from row to row."""
        position = self.column.position
        others = {d for e in place.index for d in e.dims} - {position}
        return bool(others) and any(e.uses_dim(position) for e in place.index)

    def _tile(self, place: Place, rows: int) -> Tile | None:
        ranges = self.space.ranges(place)
        if ranges is None or sum(size > 1 for size in ranges) != 1:
            return None
        if place.instruction.shape.element_type not in MATRIX_TYPES:
            return None
        inner = self.space.add(max(ranges))
        symbols = tuple(inner if size > 1 else constant(0) for size in ranges)
        for left in (0, 1):
            sides = [self.space.operand(place, number, symbols) for number in (left, 1 - left)]
            if sides[0] is None or sides[1] is None:
                return None
            a = self.space.matrix(sides[0], dim(rows), inner, self.column)
            b = self.space.matrix(sides[1], self.column, inner, dim(rows))
            if a is not None and b is not None:
                return Tile(place, a, b, max(ranges))
        return None


def is_elementwise(instruction: HloInstruction) -> bool:
    """Whether an element of a static array is computed, without side effects, from one element of each operand."""
    if instruction.control_predecessors or instruction.control_successors or not instruction.shape.is_static_array:
        return False
    if instruction.opcode == "constant":
        return instruction.shape.is_scalar
    if instruction.shape.element_type is PrimitiveType.F64 or instruction.shape.element_type.is_complex:
        return False
    return instruction.opcode in MOVES or instruction.opcode == "iota" or instruction.op.has(Trait.ELEMENTWISE)


def is_of_products(instruction: HloInstruction) -> bool:
    """Whether something is computed, element by element, from a dot."""
    return bool(dots_above(instruction))


def dots_above(instruction: HloInstruction) -> set[HloInstruction]:
    """Returns dots that something is computed from, element by element."""
    found = {instruction} if instruction.opcode == "dot" else set[HloInstruction]()
    stack, seen = [] if found else [instruction], {instruction}
    while stack and len(seen) < MAX_NODES:
        for operand in stack.pop().operands:
            if operand.opcode == "dot":
                found.add(operand)
            elif operand not in seen and is_elementwise(operand):
                seen.add(operand)
                stack.append(operand)
    return found
