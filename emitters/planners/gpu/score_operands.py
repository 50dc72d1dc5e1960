"""The dots of a product with scores on a GPU: their elements over one set of variables, and what is staged of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xjit.affine import AffineExpr, constant, dim, substitute
from xjit.dataclass import dataclass
from xjit.emitters.access.access_analysis import Index, apply_map
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.contraction_space import VECTOR_BYTES
from xjit.emitters.planners.gpu.contraction_units import staged_kinds, unit_of
from xjit.emitters.planners.gpu.operand_staging import StagedOperand
from xjit.emitters.planners.gpu.score_tilings import (
    THREAD_TILINGS,
    UNIT_TILINGS,
    ScoreTiling,
    choose_score_tiling,
)
from xjit.emitters.planners.score_product import batch_index
from xjit.emitters.schedule.statements import Loop, OperandTile, Symbols
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.matrix_units import MatrixUnit
from xjit.passes.analysis.attention.places import Place
from xjit.passes.analysis.attention.products import ScoreProduct

_WHOLE = 16
"""Steps and columns are padded to multiples of this: whole units, and whole turns of threads."""


@dataclass(frozen=True, slots=True)
class DotOfScores:
    """A dot: its element `index`, whose columns are numbered by `column`, and the `symbols` of what `step` numbers.

    `operands` are the numbers of the one with the rows, and of the other one. `kinds` is what they are staged as.
    """

    dot: HloInstruction
    index: Index
    symbols: Symbols
    column: int
    step: int
    operands: tuple[int, int]
    unit: MatrixUnit | None
    kinds: dict[int, PrimitiveType]


class ScoreOperands:
    """The dots, and how much of them a block takes at a time: `tiling`.

    `batch`, `row`, `width` and `column` are the variables. `tiles` make scores, `outer` multiplies them. `unit` is a
    matrix instruction for all of them, or None.
    """

    def __init__(self, planning: LoopPlanning, product: ScoreProduct) -> None:
        self._planning = planning
        self._product = product
        table = self._table = planning.table
        sizes = product.root.shape.dimensions
        self.batch = table.new_variable(math.prod(sizes[d] for d in product.batch))
        self.row, self.width = table.new_variable(sizes[product.rows]), table.new_variable(sizes[product.width])
        self.column = table.new_variable(product.num_columns)
        self._at = batch_index(product, dim(self.batch))
        self._at |= {product.rows: dim(self.row), product.width: dim(self.width)}
        self._at[product.column.position] = dim(self.column)
        self.root_index = self.place(product.space.identity(product.root))
        self.wanted = self.place(product.scores)
        self.outer = self._dot(product.dot, (product.root, self.root_index), self.width, self.column)
        self.tiles = [
            self._dot(
                tile.place.instruction,
                (product.scores.instruction, self.wanted),
                self.column,
                table.new_variable(tile.depth),
            )
            for tile in product.tiles
        ]
        products = [*self.tiles, self.outer]
        if any(p.unit is None for p in products):
            products = [replace(p, unit=None, kinds=staged_kinds(p.dot, p.operands, None)) for p in products]
            *self.tiles, self.outer = products
        self.unit = self.outer.unit
        self.tiling = self._fitting_tiling(UNIT_TILINGS if self.unit is not None else THREAD_TILINGS)

    def place(self, place: Place) -> Index:
        """Returns an element's index over the variables of the schedule."""
        return tuple(self._table.simplify(substitute(e, self._at)) for e in place.index)

    def _dot(self, dot: HloInstruction, user: tuple[HloInstruction, Index], column: int, step: int) -> DotOfScores:
        """Returns the product that an element of a user is computed from."""
        planning, context = self._planning, self._planning.context
        found = [index for i, index in planning.analysis.collect(*user).reductions if i is dot]
        assert len(set(found)) == 1, f"{dot.name} is read at several places"
        ranges = self._product.space.ranges(Place(dot, found[0]))
        assert ranges is not None
        symbols = tuple(dim(step) if size > 1 else constant(0) for size in ranges)
        places = [apply_map(self._table, maps[0], found[0], symbols) for maps in context.maps.of(dot)]
        right = next(n for n, place in enumerate(places) if any(e.uses_dim(column) for e in place))
        operands = (1 - right, right)
        assert context.target.gpu is not None
        unit = unit_of(context.target.gpu, dot, operands)
        return DotOfScores(dot, found[0], symbols, column, step, operands, unit, staged_kinds(dot, operands, unit))

    # -- sizes

    def _fitting_tiling(self, tilings: Sequence[ScoreTiling]) -> ScoreTiling:
        """Returns the tiling to use, of those whose operands fit into shared memory."""
        gpu = self._planning.context.target.gpu
        assert gpu is not None
        found = [t for t in tilings if self._shared_bytes(t) <= gpu.static_shared_bytes]
        if not found:
            name = self._planning.view.instruction.name
            raise Unsupported(f"'{name}': rows of {self.padded(self.width)} elements take too much shared memory")
        return choose_score_tiling(found, self._table.size(self.row), self._table.size(self.batch))

    def _shared_bytes(self, tiling: ScoreTiling) -> int:
        taken = 0
        for tile in self._tiles_of(tiling):
            last = substitute(tile.place, {n: constant(size - 1) for n, size in enumerate(tile.sizes)})
            taken += (last.value + 1) * PrimitiveType.from_text(tile.kind).byte_width
        return taken

    def padded(self, variable: int) -> int:
        """Returns how many steps or columns there are, with what pads them."""
        return -(-self._table.size(variable) // _WHOLE) * _WHOLE

    # -- operands

    def _staged(self, product: DotOfScores, operand: int, tiling: ScoreTiling) -> StagedOperand:
        """What is staged of an operand at a time."""
        has_rows = operand == product.operands[0]
        other = product.column if has_rows else self.row
        index = tuple(substitute(e, {other: constant(0)}) for e in product.index)
        if product is self.outer:
            sizes = (self.padded(self.width), tiling.columns)
        else:
            sizes = (tiling.rows if has_rows else tiling.columns, self.padded(product.step))
        return StagedOperand(
            product.dot,
            operand,
            product.kinds[operand],
            index,
            product.symbols,
            (self.row if has_rows else product.column, product.step),
            sizes,
            tiling.threads,
            product.unit is not None,
        )

    def stage(self, product: DotOfScores, operand: int, thread: int, first: tuple[AffineExpr, AffineExpr]) -> Loop:
        """Returns the loop that stages an operand from a row and a step on."""
        return self._staged(product, operand, self.tiling).stage(self._planning, thread, first)

    @property
    def operand_tiles(self) -> tuple[OperandTile, ...]:
        """Where all that is staged lies."""
        return tuple(self._tiles_of(self.tiling))

    def _tiles_of(self, tiling: ScoreTiling) -> list[OperandTile]:
        """Both operands of the products that make scores; the scores, and the values."""
        found = [self._staged(p, operand, tiling).tile(self._planning) for p in self.tiles for operand in p.operands]
        values = self._staged(self.outer, self.outer.operands[1], tiling).tile(self._planning)
        return [*found, self._weights(tiling), values]

    def _weights(self, tiling: ScoreTiling) -> OperandTile:
        """The scores as an operand. A matrix instruction reads steps next to each other, threads read rows so."""
        outer, operand = self.outer, self.outer.operands[0]
        pad = max(1, VECTOR_BYTES // outer.kinds[operand].byte_width)
        if outer.unit is not None:
            place = dim(0) * (tiling.columns + pad) + dim(1)
        else:
            place = dim(1) * (tiling.rows + pad) + dim(0)
        sizes = (tiling.rows, tiling.columns)
        return OperandTile(outer.dot.name, operand, outer.kinds[operand].text, sizes, place)
