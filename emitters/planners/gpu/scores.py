"""Attention and its gradients on GPUs: scores are never in memory, but in the accumulators of a block's threads.

A block has some rows. For some columns at a time it makes the scores, has the program's part done to them, takes them
into the softmax so far, and multiplies them with the values: they go through shared memory as that product's operand.
The accumulators of the second product, and the maxima and sums of rows, are carried on from columns to columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xjit.affine import AffineExpr, constant, dim, substitute
from xjit.emitters.access_analysis import Index, apply_map
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.planning import LoopPlanning, LoopWork
from xjit.emitters.planners.gpu.contraction_units import staged_kinds, unit_of
from xjit.emitters.planners.gpu.operand_staging import StagedOperand
from xjit.emitters.planners.gpu.score_tilings import (
    THREAD_TILINGS,
    UNIT_TILINGS,
    ScoreTiling,
    ThreadPlaces,
    choose_score_tiling,
)
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.planners.score_product import batch_index, score_product
from xjit.emitters.schedule.schedule import Cost, Schedule
from xjit.emitters.schedule.statements import (
    Barrier,
    Bind,
    Clear,
    Complete,
    Contract,
    Give,
    Loop,
    Memory,
    Normalize,
    OperandTile,
    Part,
    Role,
    SoftmaxStep,
    StageSum,
    Statement,
    Store,
    Symbols,
    Tile,
)
from xjit.emitters.variables import VariableTable
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.matrix_units import MatrixUnit
from xjit.passes.analysis.attention.places import Place
from xjit.passes.analysis.attention.products import ScoreProduct


def plan_gpu_scores(context: PlanContext, view: KernelView) -> list[Schedule]:
    """Plans a product with scores. Errors: Unsupported if its rows are too long for shared memory."""
    return [_ScorePlanner(context, view, score_product(view)).schedule()]


@dataclass(frozen=True, slots=True)
class _Product:
    """One of the products: its element `index`, over the variables of rows, columns, batches; what it sums: `step`.

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


class _ScorePlanner:
    """One schedule in the making."""

    def __init__(self, context: PlanContext, view: KernelView, product: ScoreProduct) -> None:
        work = LoopWork((product.root,), product.root.shape, (0,))
        self._planning = LoopPlanning(context, view, VariableTable(), work)
        self._product = product
        table = self._table = self._planning.table
        sizes = product.root.shape.dimensions
        self._batch = table.new_variable(math.prod(sizes[d] for d in product.batch))
        self._row, self._width = table.new_variable(sizes[product.rows]), table.new_variable(sizes[product.width])
        self._column = table.new_variable(product.num_columns)
        self._at = batch_index(product, dim(self._batch))
        self._at |= {product.rows: dim(self._row), product.width: dim(self._width)}
        self._at[product.column.position] = dim(self._column)
        root = self._place(product.space.identity(product.root))
        self._root_index = root
        self._wanted = self._place(product.scores)
        self._outer = self._dot(product.dot, (product.root, root), self._width, self._column)
        self._tiles = [
            self._dot(
                tile.place.instruction,
                (product.scores.instruction, self._wanted),
                self._column,
                table.new_variable(tile.depth),
            )
            for tile in product.tiles
        ]
        products = [*self._tiles, self._outer]
        if any(p.unit is None for p in products):
            products = [replace(p, unit=None, kinds=staged_kinds(p.dot, p.operands, None)) for p in products]
            *self._tiles, self._outer = products
        self._unit = self._outer.unit
        self._tiling = self._fitting_tiling(UNIT_TILINGS if self._unit is not None else THREAD_TILINGS)

    def _place(self, place: Place) -> Index:
        """An element's index over the variables of the schedule."""
        return tuple(self._table.simplify(substitute(e, self._at)) for e in place.index)

    def _dot(self, dot: HloInstruction, user: tuple[HloInstruction, Index], column: int, step: int) -> _Product:
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
        return _Product(dot, found[0], symbols, column, step, operands, unit, staged_kinds(dot, operands, unit))

    # -- sizes

    def _fitting_tiling(self, tilings: Sequence[ScoreTiling]) -> ScoreTiling:
        """Returns the tiling to use, of those whose operands fit into shared memory."""
        gpu = self._planning.context.target.gpu
        assert gpu is not None
        found = [t for t in tilings if self._shared_bytes(t) <= gpu.static_shared_bytes]
        if not found:
            name = self._planning.view.instruction.name
            raise Unsupported(f"'{name}': rows of {self._padded(self._width)} elements take too much shared memory")
        return choose_score_tiling(found, self._table.size(self._row), self._table.size(self._batch))

    def _shared_bytes(self, tiling: ScoreTiling) -> int:
        taken = 0
        for tile in self._operand_tiles(tiling):
            last = substitute(tile.place, {n: constant(size - 1) for n, size in enumerate(tile.sizes)})
            taken += (last.value + 1) * PrimitiveType.from_text(tile.kind).byte_width
        return taken

    def _padded(self, variable: int) -> int:
        """The steps or columns of a product, padded to whole units, and to whole turns of threads."""
        return -(-self._table.size(variable) // 16) * 16

    # -- operands

    def _staged(self, product: _Product, operand: int, tiling: ScoreTiling) -> StagedOperand:
        """What is staged of an operand at a time."""
        has_rows = operand == product.operands[0]
        other = product.column if has_rows else self._row
        index = tuple(substitute(e, {other: constant(0)}) for e in product.index)
        if product is self._outer:
            sizes = (self._padded(self._width), tiling.columns)
        else:
            sizes = (tiling.rows if has_rows else tiling.columns, self._padded(product.step))
        return StagedOperand(
            product.dot,
            operand,
            product.kinds[operand],
            index,
            product.symbols,
            (self._row if has_rows else product.column, product.step),
            sizes,
            tiling.threads,
            product.unit is not None,
        )

    def _operand_tiles(self, tiling: ScoreTiling) -> list[OperandTile]:
        """Both operands of the products that make scores; the scores, and the values."""
        found = [self._staged(p, operand, tiling).tile(self._planning) for p in self._tiles for operand in p.operands]
        values = self._staged(self._outer, self._outer.operands[1], tiling).tile(self._planning)
        return [*found, self._weights(tiling), values]

    def _weights(self, tiling: ScoreTiling) -> OperandTile:
        """The scores as an operand. A matrix instruction reads steps next to each other, threads read rows so."""
        outer, operand = self._outer, self._outer.operands[0]
        pad = max(1, 16 // outer.kinds[operand].byte_width)
        if outer.unit is not None:
            place = dim(0) * (tiling.columns + pad) + dim(1)
        else:
            place = dim(1) * (tiling.rows + pad) + dim(0)
        sizes = (tiling.rows, tiling.columns)
        return OperandTile(outer.dot.name, operand, outer.kinds[operand].text, sizes, place)

    # -- statements

    def schedule(self) -> Schedule:
        """Returns the schedule."""
        table, tiling = self._table, self._tiling
        self._down = -(-table.size(self._row) // tiling.rows)
        self._block = table.new_variable(self._down * table.size(self._batch))
        self._thread = table.new_variable(tiling.threads)
        down, across = tiling.step
        self._register_row = table.new_variable(tiling.rows // down)
        self._score_column = table.new_variable(tiling.columns // across)
        self._sum_column = table.new_variable(self._padded(self._width) // across)
        self._total = table.new_variable(self._unit.num_sums) if self._unit is not None else None
        self._places = ThreadPlaces(tiling, self._unit, self._thread, self._register_row, self._total)
        self._number = table.new_variable(table.size(self._register_row) * self._places.rows_of_thread)
        schedule = self._planning.schedule("attention", [self._part()])
        work = table.size(self._batch) * table.size(self._row) * table.size(self._column)
        depths = [table.size(v) for v in (self._width, *(p.step for p in self._tiles))]
        return replace(
            schedule, threads=tiling.threads, cost=Cost(2 * work * sum(depths), 0, self._planning.view.byte_size)
        )

    def _part(self) -> Part:
        """Returns the part. Blocks are numbered along rows, product after product."""
        chunk = self._table.new_variable(-(-self._table.size(self._column) // self._tiling.columns))
        names = [p.dot.name for p in self._tiles]
        outer = self._outer.dot.name
        state = self._state_names()
        once = [self._stage(p, p.operands[0], self._first_row, constant(0)) for p in self._tiles]
        body = (
            *self._scores(chunk),
            Barrier(),
            self._products(self._outer, self._tiling.columns),
            Barrier(),
        )
        loop = Loop(chunk, Role.SERIAL, body, 0, (outer, *state))
        sums = (*(Clear(name) for name in (outer, *state)), *once, loop, *self._results())
        batch = self._simple(dim(self._block).floordiv(self._down))
        inner = Loop(self._thread, Role.THREAD, (Bind(self._batch, batch, sums),))
        more = () if self._total is None else (self._total,)
        tiles = [
            *(Tile(n, (self._register_row, self._score_column, *more), Memory.REGISTER) for n in names),
            Tile(outer, (self._register_row, self._sum_column, *more), Memory.REGISTER),
            *(Tile(name, (self._number,), Memory.REGISTER) for name in state),
        ]
        operands = tuple(self._operand_tiles(self._tiling))
        return Part((Loop(self._block, Role.BLOCK, (inner,)),), tuple(tiles), operands)

    def _state_names(self) -> tuple[str, ...]:
        """The reductions of the softmax, if there is one: the maximum and the sum of the exponentials."""
        softmax = self._product.softmax
        return () if softmax is None else (softmax.maximum.instruction.name, softmax.total.instruction.name)

    def _simple(self, expr: AffineExpr) -> AffineExpr:
        return self._table.simplify(expr)

    @property
    def _first_row(self) -> AffineExpr:
        return self._simple(dim(self._block).mod(self._down) * self._tiling.rows)

    def _stage(self, product: _Product, operand: int, row: AffineExpr, step: AffineExpr) -> Loop:
        return self._staged(product, operand, self._tiling).stage(self._planning, self._thread, (row, step))

    def _scores(self, chunk: int) -> list[Statement]:
        """Returns what makes some columns of scores, and puts them where the second product finds them."""
        first = dim(chunk) * self._tiling.columns
        found: list[Statement] = [self._stage(p, p.operands[1], first, constant(0)) for p in self._tiles]
        found.append(self._stage(self._outer, self._outer.operands[1], constant(0), first))
        found.append(Barrier())
        for product in self._tiles:
            found += [Clear(product.dot.name), self._products(product, self._padded(product.step))]
        own, softmax = self._tiles[0].dot.name, self._product.softmax
        row, column = self._places.accumulator(self._score_column)
        complete = Complete(
            own, self._product.scores.instruction.name, self._wanted, -math.inf if softmax is not None else 0.0
        )
        given = (*(Give(p.dot.name, p.index) for p in self._tiles), complete)
        bound = Bind(self._column, self._simple(first + column), given)
        found.append(
            self._over_accumulators(self._score_column, Bind(self._row, self._simple(self._first_row + row), (bound,)))
        )
        if softmax is not None:
            maximum, total = self._state_names()
            number = self._simple(self._places.number)
            found.append(
                SoftmaxStep(
                    own, maximum, total, self._outer.dot.name, self._number, (number, number), self._tiling.lanes
                )
            )
        at = (self._simple(row), self._simple(column))
        stage = StageSum(self._outer.dot.name, self._outer.operands[0], own, at)
        return [*found, self._over_accumulators(self._score_column, stage)]

    def _over_accumulators(self, column: int, body: Statement) -> Loop:
        """Returns the loops over a thread's accumulators."""
        if self._total is not None:
            body = Loop(self._total, Role.UNROLL, (body,))
        return Loop(self._register_row, Role.UNROLL, (Loop(column, Role.UNROLL, (body,)),))

    def _products(self, product: _Product, steps: int) -> Loop:
        """Returns the loop over staged steps in which each thread, or warp, adds to its accumulators."""
        depth = product.unit.k if product.unit is not None else 1
        step = self._table.new_variable(steps // depth)
        column = self._sum_column if product is self._outer else self._score_column
        row_begin, column_begin = (self._simple(e) for e in self._places.begin(column))
        rows = ((product.operands[0], row_begin), (product.operands[1], column_begin))
        unit = product.unit.name if product.unit is not None else ""
        contract = Contract(product.dot.name, rows, self._simple(dim(step) * depth), unit)
        body = Loop(self._register_row, Role.UNROLL, (Loop(column, Role.UNROLL, (contract,)),))
        return Loop(step, Role.SERIAL, (body,), 0, (product.dot.name,))

    def _results(self) -> list[Statement]:
        """Returns what becomes of the sums, and of the maxima and totals if they are results, too."""
        outer, root, softmax = self._outer.dot.name, self._product.root, self._product.softmax
        found: list[Statement] = []
        if softmax is not None:
            found.append(Normalize(outer, self._state_names()[1], self._simple(self._places.number)))
        row, column = self._places.accumulator(self._sum_column)
        stores = (Give(root.name, self._root_index, outer), Store(0, self._root_index, root.name, self._root_index))
        bound = Bind(self._width, self._simple(column), stores)
        found.append(
            self._over_accumulators(self._sum_column, Bind(self._row, self._simple(self._first_row + row), (bound,)))
        )
        if softmax is None or len(self._planning.view.roots) == 1:
            return found
        row, thread = self._places.row_with_number(self._number)
        stored: list[Statement] = []
        for result, place in enumerate((softmax.maximum, softmax.total), 1):
            name, index = place.instruction.name, self._place(place)
            stored += [Give(name, index), Store(result, index, name, index)]
        first_only = self._table.new_variable(1)
        once = Bind(first_only, self._simple(thread), tuple(stored))
        body = Bind(self._row, self._simple(self._first_row + row), (once,))
        return [*found, Loop(self._number, Role.UNROLL, (body,))]
