"""Dots and convolutions on GPUs: tiles of both operands go through shared memory, sums stay in registers.

A block makes a rectangle of sums. Its threads stage some steps of the rows and columns that it needs, each element once
and along memory, meet, and multiply. What is computed from the sums is computed where they are, and stored. Edges are
padded: variables are bound within their bounds, what is beyond is zero and not stored.
"""

from __future__ import annotations

import math
from dataclasses import replace

from xjit.affine import AffineExpr, constant, dim, substitute
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import remove_divisions, sort_loops
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.planners.cpu.loops import plan_loops, same_dimensions
from xjit.emitters.planners.cpu.nests import drop_single_trips
from xjit.emitters.planners.cpu.planning import LoopPlanning, LoopWork
from xjit.emitters.planners.cpu.regions import regions
from xjit.emitters.planners.gpu.contraction_space import (
    VECTOR_BYTES,
    ContractionSpace,
    contraction_space,
)
from xjit.emitters.planners.gpu.contraction_units import staged_kinds, unit_of
from xjit.emitters.planners.gpu.operand_staging import StagedOperand
from xjit.emitters.planners.gpu.tilings import THREAD_TILINGS, Tiling, choose_tiling, warp_tilings
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import (
    Barrier,
    Bind,
    Clear,
    Contract,
    Give,
    Loop,
    Memory,
    Part,
    Role,
    Statement,
    Tile,
)
from xjit.llvm.gpu_models import FIRST_WITH_COPIES, WARP_SIZE
from xjit.llvm.matrix_units import MatrixUnit

MIN_SIDE = 2  # a single row or column is no product of matrices: nothing is used twice
MIN_WORK = 8 * 8 * 8  # products of one matrix


def plan_contraction(context: PlanContext, view: KernelView) -> list[Schedule]:
    """Plans a dot or convolution, with what is computed from it: tiles, or loops where there is too little work."""
    planning = LoopPlanning(context, view, VariableTable(), LoopWork.of(view))
    spaces = _spaces(planning) if _has_products(view) else None
    if spaces is None or all(_is_little(planning, space) for space in spaces):
        return plan_loops(context, view)
    gpu = context.target.gpu
    assert gpu is not None
    unit = unit_of(gpu, view.hero, spaces[0].operands)
    tilings = THREAD_TILINGS if unit is None else warp_tilings(unit.k)
    tiling = choose_tiling(tilings, *max((_sizes(planning, space) for space in spaces), key=math.prod))
    parts = [_ContractionPart(planning, space, tiling, unit).part() for space in spaces]
    schedule = planning.schedule("contraction", parts)
    return [replace(schedule, threads=tiling.threads)]


def _has_products(view: KernelView) -> bool:
    """Whether a view's hero is one that tiles can do, and all its results are made of its elements."""
    hero = view.hero
    if hero.opcode not in ("dot", "convolution") or hero.operand_count != 2 or not same_dimensions(view.result_shapes):
        return False
    kinds = [i.shape.element_type for i in (*hero.operands, hero)]
    if kinds[2].is_integer and any(kind.is_float for kind in kinds):
        return False
    return all(operand.shape.num_elements for operand in (*hero.operands, hero))


def _spaces(planning: LoopPlanning) -> list[ContractionSpace] | None:
    """Returns the products that together are all results; None if some part is no single product."""
    found: list[ContractionSpace] = []
    for region in regions(planning):
        for space in remove_divisions(region, planning.expressions, lambda _, __, ___: True):
            space = drop_single_trips(sort_loops(space, planning.offset(space)))
            product = contraction_space(planning, space)
            if product is None or (found and product.operands != found[0].operands):
                return None
            planning.count.add(space, planning.accesses(space))
            found.append(product)
    return found or None


def _sizes(planning: LoopPlanning, space: ContractionSpace) -> tuple[int, int, int]:
    """Returns how many rows, columns and batches there are."""
    rows, columns, batches = (planning.table.size(v) for v in (space.rows, space.columns, space.batch))
    return rows, columns, batches


def _is_little(planning: LoopPlanning, space: ContractionSpace) -> bool:
    rows, columns, _ = _sizes(planning, space)
    return min(rows, columns) < MIN_SIDE or rows * columns * planning.table.size(space.steps) < MIN_WORK


class _ContractionPart:
    """One part in the making."""

    def __init__(
        self, planning: LoopPlanning, space: ContractionSpace, tiling: Tiling, unit: MatrixUnit | None
    ) -> None:
        table = planning.table
        self._planning = planning
        self._table = table
        self._space = space
        self._tiling = tiling
        self._unit = unit
        self._name = space.instruction.name
        self._across = -(-table.size(space.columns) // tiling.columns)
        self._down = -(-table.size(space.rows) // tiling.rows)
        self._block = table.new_variable(self._across * self._down * table.size(space.batch))
        self._thread = table.new_variable(tiling.threads)
        whole = -(-table.size(space.steps) // unit.k) * unit.k if unit is not None else tiling.steps
        self._steps = min(tiling.steps, whole)
        chunks = -(-table.size(space.steps) // self._steps)
        self._chunk = table.new_variable(chunks)
        self._operands = [self._staged(operand) for operand in space.operands]
        self._buffers = 2 if chunks > 1 and self._can_copy_ahead() else 1
        height, width = (size // count for size, count in zip((tiling.rows, tiling.columns), tiling.workers))
        worker = dim(self._thread).floordiv(tiling.worker_threads)
        self._worker_row = worker.floordiv(tiling.workers[1]) * height
        self._worker_column = worker.mod(tiling.workers[1]) * width
        block = (unit.m, unit.n) if unit is not None else (1, 1)
        self._row, self._column = table.new_variable(height // block[0]), table.new_variable(width // block[1])
        self._row_of_sum, self._column_of_sum = dim(self._row) * block[0], dim(self._column) * block[1]
        self._sum = table.new_variable(unit.num_sums) if unit is not None else None

    def _staged(self, operand: int) -> StagedOperand:
        """What the block stages of an operand at a time."""
        space, tiling = self._space, self._tiling
        kind = staged_kinds(space.instruction, space.operands, self._unit)[operand]
        rows = tiling.rows if operand == space.operands[0] else tiling.columns
        return StagedOperand(
            space.instruction,
            operand,
            kind,
            space.operand_index(operand),
            space.symbols,
            (space.row_of(operand), space.steps),
            (rows, self._steps),
            tiling.threads,
            self._unit is not None,
        )

    def part(self) -> Part:
        """Returns the part. Blocks are numbered along rows of blocks, matrix after matrix."""
        space = self._space
        operands = tuple(operand.tile(self._planning, self._buffers) for operand in self._operands)
        sums = (Clear(self._name), *self._chunks(), self._stores())
        batch = self._simple(dim(self._block).floordiv(self._across * self._down))
        body = (Loop(self._thread, Role.THREAD, (Bind(space.batch, batch, sums),)),)
        registers = (self._row, self._column, *([] if self._sum is None else [self._sum]))
        return Part((Loop(self._block, Role.BLOCK, body),), (Tile(self._name, registers, Memory.REGISTER),), operands)

    def _chunks(self) -> tuple[Statement, ...]:
        """Returns the loop over chunks of steps: stage and multiply; or multiply while the next one is copied."""
        chunk = dim(self._chunk)

        def staged(number: AffineExpr) -> list[Statement]:
            return [
                operand.stage(
                    self._planning,
                    self._thread,
                    (self._first(operand.operand), self._simple(number * self._steps)),
                    self._buffer(number),
                )
                for operand in self._operands
            ]

        if self._buffers == 1:
            body = (*staged(chunk), Barrier(), self._products(), Barrier())
            return (Loop(self._chunk, Role.SERIAL, body, 0, (self._name,)),)
        body = (*staged(chunk + 1), self._products(), Barrier())
        return (*staged(constant(0)), Barrier(), Loop(self._chunk, Role.SERIAL, body, 0, (self._name,)))

    def _can_copy_ahead(self) -> bool:
        """Whether both operands are copied as they are in memory, asynchronously, and there is room for two chunks."""
        gpu = self._planning.context.target.gpu
        if gpu is None or gpu.compute_capability < FIRST_WITH_COPIES:
            return False
        taken = 0
        for operand in self._operands:
            along, lanes = operand.lanes(self._planning)
            width = operand.kind.byte_width
            in_order = self._unit is not None or along == 0
            source = operand.source
            if source not in self._planning.view.leaves or source.shape.element_type is not operand.kind:
                return False
            if lanes * width != VECTOR_BYTES or not in_order:
                return False
            sizes = (operand.sizes[0], 2 * self._steps)
            taken += sizes[1 - along] * (sizes[along] * width + VECTOR_BYTES)
        return taken <= gpu.static_shared_bytes

    def _first(self, operand: int) -> AffineExpr:
        """The number of the block's first row of an operand."""
        if operand == self._space.operands[1]:
            return dim(self._block).mod(self._across) * self._tiling.columns
        return dim(self._block).floordiv(self._across).mod(self._down) * self._tiling.rows

    def _simple(self, expr: AffineExpr) -> AffineExpr:
        return self._table.simplify(expr)

    def _buffer(self, chunk: AffineExpr) -> AffineExpr:
        """The first step, in the tiles, of the buffer that a chunk goes to."""
        return chunk.mod(self._buffers) * self._steps

    # -- products and results

    def _products(self) -> Loop:
        """Returns the loop over the staged steps in which each thread, or warp, adds to its sums."""
        unit, space = self._unit, self._space
        depth = unit.k if unit is not None else 1
        step = self._table.new_variable(self._steps // depth)
        rows = (
            self._simple(self._worker_row + self._row_of_sum),
            self._simple(self._worker_column + self._column_of_sum),
        )
        named = ((space.operands[0], rows[0]), (space.operands[1], rows[1]))
        at = self._simple(dim(step) * depth + self._buffer(dim(self._chunk)))
        product = Contract(self._name, named, at, unit.name if unit is not None else "")
        return Loop(step, Role.UNROLL, (Loop(self._row, Role.UNROLL, (Loop(self._column, Role.UNROLL, (product,)),)),))

    def _stores(self) -> Loop:
        """Returns the loops over a thread's sums around what is computed from them and stored."""
        space = self._space
        row, column = self._worker_row + self._row_of_sum, self._worker_column + self._column_of_sum
        if self._unit is not None and self._sum is not None:
            lane = {0: dim(self._thread).mod(WARP_SIZE), 1: dim(self._sum)}
            more = [substitute(e, lane) for e in self._unit.sum_place]
            row, column = row + more[0], column + more[1]
        row = self._simple(self._first(space.operands[0]) + row)
        column = self._simple(self._first(space.operands[1]) + column)
        stores = (Give(self._name, space.index), *self._planning.work.stores(space.stored))
        body: Statement = Bind(space.rows, row, (Bind(space.columns, column, stores),))
        if self._sum is not None:
            body = Loop(self._sum, Role.UNROLL, (body,))
        return Loop(self._row, Role.UNROLL, (Loop(self._column, Role.UNROLL, (body,)),))
