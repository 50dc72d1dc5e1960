"""Attention and its gradients on GPUs: scores are never in memory, but in the accumulators of a block's threads.

A block has some rows. For some columns at a time it makes the scores, has the program's part done to them, takes them
into the softmax so far, and multiplies them with the values: they go through shared memory as that product's operand.
The accumulators of the second product, and the maxima and sums of rows, are carried on from columns to columns.
"""

from __future__ import annotations

import math
from dataclasses import replace

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.planners.cpu.planning import LoopPlanning, LoopWork
from xjit.emitters.planners.gpu.score_operands import DotOfScores, ScoreOperands
from xjit.emitters.planners.gpu.score_tilings import ThreadPlaces
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.planners.score_product import score_product
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
    Part,
    Role,
    SoftmaxStep,
    StageSum,
    Statement,
    Store,
    Tile,
)
from xjit.passes.analysis.attention.products import ScoreProduct


def plan_gpu_scores(context: PlanContext, view: KernelView) -> list[Schedule]:
    """Plans a product with scores. Errors: Unsupported if its rows are too long for shared memory."""
    return [_ScorePlanner(context, view, score_product(view)).schedule()]


class _ScorePlanner:
    """One schedule in the making."""

    def __init__(self, context: PlanContext, view: KernelView, product: ScoreProduct) -> None:
        work = LoopWork((product.root,), product.root.shape, (0,))
        self._planning = LoopPlanning(context, view, VariableTable(), work)
        self._product = product
        operands = self._operands = ScoreOperands(self._planning, product)
        table, tiling, unit = self._planning.table, operands.tiling, operands.unit
        self._table = table
        self._down = -(-table.size(operands.row) // tiling.rows)
        self._block = table.new_variable(self._down * table.size(operands.batch))
        self._thread = table.new_variable(tiling.threads)
        down, across = tiling.step
        self._register_row = table.new_variable(tiling.rows // down)
        self._score_column = table.new_variable(tiling.columns // across)
        self._sum_column = table.new_variable(operands.padded(operands.width) // across)
        self._unit_sum = table.new_variable(unit.num_sums) if unit is not None else None
        self._places = ThreadPlaces(tiling, unit, self._thread, self._register_row, self._unit_sum)
        self._number = table.new_variable(table.size(self._register_row) * self._places.rows_of_thread)
        self._first_row = self._simple(dim(self._block).mod(self._down) * tiling.rows)

    def schedule(self) -> Schedule:
        """Returns the schedule."""
        table, operands = self._table, self._operands
        scores = table.size(operands.batch) * table.size(operands.row) * table.size(operands.column)
        depths = [table.size(v) for v in (operands.width, *(p.step for p in operands.tiles))]
        cost = Cost(2 * scores * sum(depths), 0, self._planning.view.byte_size)
        schedule = self._planning.schedule("attention", [self._part()])
        return replace(schedule, threads=operands.tiling.threads, cost=cost)

    def _part(self) -> Part:
        """Returns the part. Blocks are numbered along rows, product after product."""
        operands, state = self._operands, self._state_names()
        outer = operands.outer.dot.name
        chunk = self._table.new_variable(-(-self._table.size(operands.column) // operands.tiling.columns))
        once = [self._stage(p, p.operands[0], self._first_row, constant(0)) for p in operands.tiles]
        products = self._products(operands.outer, operands.tiling.columns)
        body = (*self._scores(dim(chunk) * operands.tiling.columns), Barrier(), products, Barrier())
        loop = Loop(chunk, Role.SERIAL, body, 0, (outer, *state))
        sums = (*(Clear(name) for name in (outer, *state)), *once, loop, *self._results())
        batch = self._simple(dim(self._block).floordiv(self._down))
        inner = Loop(self._thread, Role.THREAD, (Bind(operands.batch, batch, sums),))
        more = () if self._unit_sum is None else (self._unit_sum,)
        tiles = [
            *(
                Tile(p.dot.name, (self._register_row, self._score_column, *more), Memory.REGISTER)
                for p in operands.tiles
            ),
            Tile(outer, (self._register_row, self._sum_column, *more), Memory.REGISTER),
            *(Tile(name, (self._number,), Memory.REGISTER) for name in state),
        ]
        return Part((Loop(self._block, Role.BLOCK, (inner,)),), tuple(tiles), operands.operand_tiles)

    def _state_names(self) -> tuple[str, ...]:
        """The reductions of the softmax, if there is one: the maximum and the sum of the exponentials."""
        softmax = self._product.softmax
        return () if softmax is None else (softmax.maximum.instruction.name, softmax.total.instruction.name)

    def _simple(self, expr: AffineExpr) -> AffineExpr:
        return self._table.simplify(expr)

    def _stage(self, product: DotOfScores, operand: int, row: AffineExpr, step: AffineExpr) -> Loop:
        return self._operands.stage(product, operand, self._thread, (row, step))

    def _scores(self, first: AffineExpr) -> list[Statement]:
        """Returns what makes scores, from the column `first` on, and puts them where the second product finds them."""
        operands, softmax = self._operands, self._product.softmax
        outer = operands.outer
        found: list[Statement] = [self._stage(p, p.operands[1], first, constant(0)) for p in operands.tiles]
        found += [self._stage(outer, outer.operands[1], constant(0), first), Barrier()]
        for product in operands.tiles:
            found += [Clear(product.dot.name), self._products(product, operands.padded(product.step))]
        own = operands.tiles[0].dot.name
        outside = 0.0 if softmax is None else -math.inf
        complete = Complete(own, self._product.scores.instruction.name, operands.wanted, outside)
        given = (*(Give(p.dot.name, p.index) for p in operands.tiles), complete)
        row, column = self._places.accumulator(self._score_column)
        bound = Bind(operands.column, self._simple(first + column), given)
        found.append(self._over_accumulators(self._score_column, self._in_row(row, bound)))
        if softmax is not None:
            number = self._simple(self._places.number)
            maximum, total = self._state_names()
            rows, lanes = (number, number), operands.tiling.lanes
            found.append(SoftmaxStep(own, maximum, total, outer.dot.name, self._number, rows, lanes))
        at = (self._simple(row), self._simple(column))
        stage = StageSum(outer.dot.name, outer.operands[0], own, at)
        return [*found, self._over_accumulators(self._score_column, stage)]

    def _in_row(self, row: AffineExpr, body: Statement) -> Bind:
        """Binds the row to one of the block's."""
        return Bind(self._operands.row, self._simple(self._first_row + row), (body,))

    def _over_accumulators(self, column: int, body: Statement) -> Loop:
        """Returns the loops over a thread's accumulators."""
        if self._unit_sum is not None:
            body = Loop(self._unit_sum, Role.UNROLL, (body,))
        return Loop(self._register_row, Role.UNROLL, (Loop(column, Role.UNROLL, (body,)),))

    def _products(self, product: DotOfScores, steps: int) -> Loop:
        """Returns the loop over staged steps in which each thread, or warp, adds to its accumulators."""
        depth, unit = (product.unit.k, product.unit.name) if product.unit is not None else (1, "")
        step = self._table.new_variable(steps // depth)
        column = self._sum_column if product is self._operands.outer else self._score_column
        row_begin, column_begin = (self._simple(e) for e in self._places.begin(column))
        rows = ((product.operands[0], row_begin), (product.operands[1], column_begin))
        contract = Contract(product.dot.name, rows, self._simple(dim(step) * depth), unit)
        body = Loop(self._register_row, Role.UNROLL, (Loop(column, Role.UNROLL, (contract,)),))
        return Loop(step, Role.SERIAL, (body,), 0, (product.dot.name,))

    def _results(self) -> list[Statement]:
        """Returns what becomes of the sums, and of the maxima and totals if they are results, too."""
        operands, root, softmax = self._operands, self._product.root, self._product.softmax
        outer, index = operands.outer.dot.name, operands.root_index
        found: list[Statement] = []
        if softmax is not None:
            found.append(Normalize(outer, self._state_names()[1], self._simple(self._places.number)))
        row, column = self._places.accumulator(self._sum_column)
        stores = (Give(root.name, index, outer), Store(0, index, root.name, index))
        bound = Bind(operands.width, self._simple(column), stores)
        found.append(self._over_accumulators(self._sum_column, self._in_row(row, bound)))
        roots = self._planning.view.roots
        if softmax is None or len(roots) == 1:
            return found
        row, thread = self._places.row_with_number(self._number)
        stored: list[Statement] = []
        for place in (p for p in (softmax.maximum, softmax.total) if p.instruction in roots):
            result = roots.index(place.instruction)
            name, index = place.instruction.name, operands.place(place)
            stored += [Give(name, index), Store(result, index, name, index)]
        first_only = Bind(self._table.new_variable(1), self._simple(thread), tuple(stored))
        return [*found, Loop(self._number, Role.UNROLL, (self._in_row(row, first_only),))]
