"""Products whose scores are computed from the same tiles: those of attention's gradient, over one set of variables.

The scores of the queries' gradient lie as those of the keys' and values' do, but are summed over the other way: the
columns of one product are the rows of another. Here rows and columns are those of the tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, dim, substitute, substitute_all
from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.passes.analysis.attention.digits import in_terms_of
from xjit.passes.analysis.attention.places import Matrix, Place, Space
from xjit.passes.analysis.attention.products import MAX_TILES, ScoreProduct, Tile

MAX_OVER_COLUMNS = 2
MAX_OVER_ROWS = 1
"""Products of each direction."""


@dataclass(frozen=True, slots=True)
class Member:
    """One of the products: sums over columns, or over rows, of scores number `scores` times `right`.

    `right` is a matrix over what is summed and the width, `result` over what is left of rows or columns and the width.
    """

    scores: int
    over_rows: bool
    right: Matrix
    result: Matrix
    width: int


@dataclass(frozen=True, slots=True)
class JointProducts:
    """The products, in the order of their roots. The variables are the dimensions of the first tile's dot, of `sizes`.

    `row` and `column` are two of them; the others say which of many sets of products it is. `scores` are what is to be
    computed of the tiles, each once for all products that sum it.
    """

    sizes: tuple[int, ...]
    row: int
    column: int
    tiles: tuple[Tile, ...]
    scores: tuple[Place, ...]
    members: tuple[Member, ...]

    @property
    def batch(self) -> tuple[int, ...]:
        """The variables that say which set of products it is."""
        return tuple(d for d in range(len(self.sizes)) if d not in (self.row, self.column))


def join_products(products: Sequence[ScoreProduct]) -> JointProducts | None:
    """Returns products without a softmax as one; None if they do not share their tiles, rows and columns."""
    shared = set.intersection(*({t.place.instruction for t in p.tiles} for p in products))
    if not shared or any(p.softmax is not None for p in products):
        return None
    anchor = next(t.place.instruction for t in products[0].tiles if t.place.instruction in shared)
    views = [_View.of(product, anchor) for product in products]
    found = [view for view in views if view is not None]
    if len(found) < len(views) or len({frozenset((v.rows, v.columns)) for v in found}) > 1:
        return None
    over_columns = [v for v in found if (v.rows, v.columns) == (found[0].rows, found[0].columns)]
    row, column = found[0].rows, found[0].columns
    if 2 * len(over_columns) < len(found):
        row, column = column, row
    return _join(anchor, found, row, column)


@dataclass(frozen=True, slots=True)
class _View:
    """A product whose variables are `known` in terms of the dimensions of a tile's dot, those of the rows by number."""

    product: ScoreProduct
    space: Space
    known: dict[int, AffineExpr]
    rows: int
    columns: int

    @staticmethod
    def of(product: ScoreProduct, anchor: HloInstruction) -> _View | None:
        """Returns the view; None if not all of what tells its products apart is a dimension of the dot."""
        place = next(t.place for t in product.tiles if t.place.instruction is anchor)
        known = in_terms_of(place, product.space.sizes)
        if known is None:
            return None
        told = (*product.batch, product.rows, product.column.position)
        if any(known[d].is_constant and product.space.sizes[d] > 1 for d in told):
            return None
        if any(e.is_constant or e is not dim(min(e.dims)) for e in (known[product.rows], known[told[-1]])):
            return None
        rows, columns = known[product.rows].position, known[product.column.position].position
        return _View(product, Space(anchor.shape.dimensions), known, rows, columns)

    def place(self, place: Place) -> Place:
        """An element, over the dimensions of the dot."""
        return Place(place.instruction, tuple(self.space.simplify(e) for e in substitute_all(place.index, self.known)))

    def matrix(self, matrix: Matrix) -> Matrix:
        """A matrix, over the dimensions of the dot."""
        base = self.space.simplify(substitute(matrix.base, self.known))
        return Matrix(matrix.leaf, base, matrix.row_stride, matrix.column_stride)


def _join(anchor: HloInstruction, views: Sequence[_View], row: int, column: int) -> JointProducts | None:
    tiles: dict[HloInstruction, Tile] = {}
    scores: list[Place] = []
    members: list[Member] = []
    for view in views:
        product, over_rows = view.product, view.rows != row
        for tile in product.tiles:
            sides = view.matrix(tile.left), view.matrix(tile.right)
            left, right = sides[::-1] if over_rows else sides
            oriented = Tile(view.place(tile.place), left, right, tile.depth)
            if tiles.setdefault(tile.place.instruction, oriented).place != oriented.place:
                return None
        wanted = view.place(product.scores)
        if wanted not in scores:
            scores.append(wanted)
        width = product.root.shape.dimensions[product.width]
        right, result = view.matrix(product.right), view.matrix(product.result)
        members.append(Member(scores.index(wanted), over_rows, right, result, width))
    directions = [m.over_rows for m in members]
    if directions.count(False) > MAX_OVER_COLUMNS or directions.count(True) > MAX_OVER_ROWS or len(tiles) > MAX_TILES:
        return None
    if len(scores) > MAX_TILES:
        return None
    first = tiles.pop(anchor)
    every = (first, *tiles.values())
    return JointProducts(anchor.shape.dimensions, row, column, every, tuple(scores), tuple(members))
