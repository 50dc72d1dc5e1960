"""One unit of a product with scores, as IR: a block of rows, by blocks of columns.

For each block of columns the right operands are packed; then each strip of rows makes its scores from the products that
they depend on, has them completed by the program (an epilogue, see `xjit.emitters.gemm.epilogue`), and multiplies them
while they are in the first-level cache. Scratch memory is on the stack, of a fixed size.

Strips of a block that are masked as a whole come last, and only if they count: exponentials of scores that are far
below the maximum of the others are 0.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from xjit.emitters.attention.pieces import BlockPieces, Extent
from xjit.emitters.attention.shapes import (
    COMPUTE,
    COMPUTE_BYTES,
    LEFT_BYTES,
    MAX_COLUMNS,
    MAX_ROWS,
    PRODUCTS,
    RIGHT_BYTES,
    ScoreParameters,
    ScoreTypes,
    left_row_bytes,
)
from xjit.emitters.attention.softmax_rows import emit_softmax_rows
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.epilogue import call_epilogue, has_epilogue
from xjit.hlo import PrimitiveType
from xjit.llvm import Function, LLVMType, Module, Target, Value
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I1, I8, I64, PTR, vector
from xjit.llvm.values import const_int, constant
from xjit.passes.analysis.attention.ranges import UNDERFLOW

UNIT_PARAMS = (
    (PTR, "parameters"), (PTR, "closure"), (PTR, "weigh"), (PTR, "left_0"), (PTR, "right_0"), (PTR, "left_1"),
    (PTR, "right_1"), (PTR, "right"), (PTR, "out"), (PTR, "maxima"), (PTR, "totals"), (I64, "batch"),
    (I64, "first_row"), (I64, "rows"),
)  # fmt: skip
"""Closures, null if there is nothing to do: `closure` completes scores, `weigh` what a softmax has made of them.
Pointers to left operands, results and statistics are to the first row. `maxima` and `totals` are null, or where the
rows' maxima and sums are wanted; what there is no second tile for is not read.
"""
STRIP_ROWS = 8
"""The most rows of a register tile."""
STRIP_BYTES = STRIP_ROWS * MAX_COLUMNS * COMPUTE_BYTES
"""From the scores of one product to those of the next: the program's part counts on it."""
_LAYOUT = StructLayout("ScoreParameters", tuple((name, I64) for name in ScoreParameters.__slots__))


@dataclass(frozen=True, slots=True)
class _Tile:
    """A product that scores are made from: its operands, their packed blocks."""

    number: int
    left: Value
    right: Value
    packed_left: Value
    packed_right: Value
    scores: Value


def scratch_sizes(types: ScoreTypes, target: Target) -> dict[str, int]:
    """Returns the pieces of memory that a unit takes on the stack, by name, in bytes."""
    left = LEFT_BYTES + 2 * left_row_bytes(1) * STRIP_ROWS
    right = RIGHT_BYTES + register_tile(target, PRODUCTS).columns * COMPUTE_BYTES * MAX_COLUMNS
    rows = MAX_ROWS * COMPUTE_BYTES
    scores = len(types.tiles) * STRIP_BYTES + 64 * STRIP_ROWS
    tiles = {f"{side}_{n}": size for n in range(len(types.tiles)) for side, size in (("left", left), ("right", right))}
    return {"scores": scores, "sums": left, "max": rows, "total": rows, "packed": right, **tiles}


def emit_unit(module: Module, name: str, types: ScoreTypes) -> Function:
    """Defines `void name(UNIT_PARAMS)`."""
    return _UnitEmitter(module, name, types).emit()


class _UnitEmitter:
    def __init__(self, module: Module, name: str, types: ScoreTypes) -> None:
        self.types = types
        self.softmax_rows = None
        if types.softmax:
            self.softmax_rows = emit_softmax_rows(module, f"{name}_softmax", types.scaled)
        self.builder = define(module, name, UNIT_PARAMS, linkage="")
        args = dict(zip((n for _, n in UNIT_PARAMS), self.builder.function.args, strict=True))
        self.args = args
        self.pieces = pieces = BlockPieces(self.builder, _LAYOUT, args["parameters"])
        scratch = {name: pieces.scratch(size, name) for name, size in scratch_sizes(types, module.target).items()}
        self.scores, self.sums, self.packed = scratch["scores"], scratch["sums"], scratch["packed"]
        self.maxima, self.totals = scratch["max"], scratch["total"]
        self.tiles = [self._tile(number, scratch) for number in range(len(types.tiles))]

    def _tile(self, number: int, scratch: Mapping[str, Value]) -> _Tile:
        builder = self.builder
        return _Tile(
            number,
            self.args[f"left_{number}"],
            self.args[f"right_{number}"],
            scratch[f"left_{number}"],
            scratch[f"right_{number}"],
            builder.offset(self.scores, builder.i64(number * STRIP_BYTES)),
        )

    def _strides(self, *names: str) -> tuple[Value, Value]:
        row, column = (self.pieces.field(name) for name in names)
        return row, column

    def emit(self) -> Function:
        builder, rows = self.builder, self.args["rows"]
        for tile, (left, _) in zip(self.tiles, self.types.tiles, strict=True):
            self._pack_left(tile, left, rows)
        self._clear(rows)
        if self.types.softmax:
            with builder.loop(builder.i64(0), builder.i64(2), name="turn") as turn:
                of_masked = builder.icmp_signed("!=", turn, builder.i64(0))
                counts = builder.or_(self._has_slope(), self._needs_masked(rows, self.pieces.number("bound")))
                with builder.when(builder.or_(builder.not_(of_masked), counts)):
                    self._all_columns(of_masked)
        else:
            self._all_columns(const_int(I1, 0))
        self._finish(rows)
        builder.ret_void()
        return builder.function

    def _clear(self, rows: Value) -> None:
        builder = self.builder
        size = builder.mul(rows, self.pieces.row_bytes(self.pieces.field("width")))
        builder.memset(self.sums, const_int(I8, 0), size, 64)
        builder.memset(self.totals, const_int(I8, 0), builder.mul(rows, builder.i64(COMPUTE_BYTES)), 64)
        with builder.loop(builder.i64(0), rows, name="row") as i:
            place = builder.offset(self.maxima, builder.mul(i, builder.i64(COMPUTE_BYTES)))
            builder.store(constant(COMPUTE, float("-inf")), place, COMPUTE_BYTES)

    def _has_slope(self) -> Value:
        """Whether the bound of masked scores depends on what they are made from."""
        return self.builder.fcmp_ordered(">", self.pieces.number("slope"), constant(COMPUTE, 0.0))

    def _needs_masked(self, rows: Value, bound: Value) -> Value:
        """Whether scores with a bound count in some row, as no other is far above them: all may be masked."""
        builder, none = self.builder, const_int(I1, 0)
        with builder.loop_with(builder.i64(0), rows, (none,), name="row") as (i, (found,), following):
            place = builder.offset(self.maxima, builder.mul(i, builder.i64(COMPUTE_BYTES)))
            above = builder.fsub(builder.load(COMPUTE, place, COMPUTE_BYTES), bound)
            if self.types.scaled:
                above = builder.fmul(above, self.pieces.number("factor"))
            counts = builder.fcmp_ordered("<=", above, constant(COMPUTE, UNDERFLOW[PrimitiveType.F32]))
            following.append(builder.or_(found, counts))
        return found

    def _all_columns(self, of_masked: Value) -> None:
        """Adds what the strips and blocks of columns amount to that are masked as a whole, or are not."""
        builder, pieces = self.builder, self.pieces
        columns, step = self._strides("columns", "block_columns")
        unit = Extent(self.args["first_row"], self.args["rows"])
        with builder.loop(builder.i64(0), columns, step, "columns") as first:
            block = Extent(first, builder.min(step, builder.sub(columns, first)))
            with builder.when(builder.or_(of_masked, builder.not_(pieces.is_masked(unit, block)))):
                self._pack_tiles(block)
                of_scores = builder.and_(of_masked, self._has_slope())
                counts = builder.if_else(
                    of_scores, lambda: [self._masked_count(unit, block)], lambda: [const_int(I1, 1)]
                )[0]
                with builder.when(counts):
                    self._pack_right(block)
                    self._strips(unit, block, of_masked)

    def _masked_count(self, unit: Extent, block: Extent) -> Value:
        """Whether masked scores of a block may count, by what its products do not exceed."""
        builder, pieces = self.builder, self.pieces
        bounds = []
        for tile in self.tiles:
            depth = pieces.field(f"depth_{tile.number}")
            left, panels = (tile.packed_left, pieces.row_bytes(depth)), (tile.packed_right, block.count)
            bounds.append(pieces.score_bound(left, unit.count, panels, depth))
        largest = functools.reduce(lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b), bounds)
        bound = builder.fadd(pieces.number("bound"), builder.fmul(pieces.number("slope"), largest))
        is_unknown = builder.fcmp_ordered("==", largest, constant(COMPUTE, float("inf")))
        counts = builder.or_(is_unknown, self._needs_masked(unit.count, bound))
        return builder.and_(pieces.has_masked(unit, block), counts)

    def _strips(self, unit: Extent, block: Extent, of_masked: Value) -> None:
        """Adds the strips of a block that are masked as a whole, or are not."""
        builder, pieces = self.builder, self.pieces
        with builder.loop(builder.i64(0), unit.count, pieces.tile.rows, "strip") as strip:
            height = builder.min(builder.sub(unit.count, strip), builder.i64(pieces.tile.rows))
            rows = Extent(builder.add(unit.first, strip), height)
            with builder.when(builder.icmp_signed("==", pieces.is_masked(rows, block), of_masked)):
                self._strip(block, strip, rows)

    def _pack_left(self, tile: _Tile, storage: LLVMType, rows: Value) -> None:
        n = tile.number
        strides, depth = self._strides(f"left_row_{n}", f"left_k_{n}"), self.pieces.field(f"depth_{n}")
        self.pieces.pack_rows(tile.packed_left, storage, tile.left, strides, rows, depth)

    def _pack_tiles(self, block: Extent) -> None:
        """Packs this block's columns of what scores are made from; what is summed over runs along the panels."""
        builder, pieces = self.builder, self.pieces
        for tile, (_, storage) in zip(self.tiles, self.types.tiles, strict=True):
            n = tile.number
            strides, depth = self._strides(f"right_k_{n}", f"right_column_{n}"), pieces.field(f"depth_{n}")
            source = builder.offset(tile.right, builder.mul(block.first, strides[1]))
            pieces.pack_panels(tile.packed_right, storage, source, strides, depth, block.count)

    def _pack_right(self, block: Extent) -> None:
        """Packs this block's columns of what scores are multiplied with."""
        builder, pieces = self.builder, self.pieces
        strides = self._strides("right_row", "right_column")
        source = builder.offset(self.args["right"], builder.mul(block.first, strides[0]))
        width = pieces.field("width")
        pieces.pack_panels(self.packed, self.types.right, source, strides, block.count, width)

    def _strip(self, block: Extent, strip: Value, rows: Extent) -> None:
        """A few rows: scores of a block, and what they add to the sums."""
        builder, pieces = self.builder, self.pieces
        width = pieces.field("width")
        scores_row = builder.mul(pieces.field("block_columns"), builder.i64(COMPUTE_BYTES))
        for tile in self.tiles:
            depth = pieces.field(f"depth_{tile.number}")
            row = pieces.row_bytes(depth)
            left = builder.offset(tile.packed_left, builder.mul(strip, row)), row
            panels = tile.packed_right, block.count
            pieces.multiply_strip(left, rows.count, depth, panels, (tile.scores, scores_row), builder.i64(0))
        scores = self.scores, scores_row
        where = self.args["batch"], rows.first, rows.count, block.first, block.count
        with builder.when(has_epilogue(builder, self.args["closure"])):
            call_epilogue(builder, self.args["closure"], (*scores, *where))
        sums_row = pieces.row_bytes(width)
        sums = builder.offset(self.sums, builder.mul(strip, sums_row))
        if self.softmax_rows is not None:
            place = builder.mul(strip, builder.i64(COMPUTE_BYTES))
            state = (builder.offset(base, place) for base in (self.maxima, self.totals))
            args = [self.scores, scores_row, *state, sums, sums_row, rows.count, block.count, width]
            args += [pieces.number("factor")] if self.types.scaled else []
            builder.call(self.softmax_rows, args)
            with builder.when(has_epilogue(builder, self.args["weigh"])):
                call_epilogue(builder, self.args["weigh"], (*scores, *where))
        panels, result = (self.packed, width), (sums, sums_row)
        pieces.multiply_strip(scores, rows.count, block.count, panels, result, builder.i64(1))

    def _finish(self, rows: Value) -> None:
        """Divides by the sums of the softmax if they are to be, rounds and stores."""
        builder = self.builder
        width = self.pieces.field("width")
        sums_row = self.pieces.row_bytes(width)
        if self.types.softmax:
            if self.types.divides:
                self._divide(rows, width, sums_row)
            for name, source in (("maxima", self.maxima), ("totals", self.totals)):
                with builder.when(builder.not_(builder.is_null(self.args[name]))):
                    self._store_statistics(name, source, rows)
        strides = self._strides("out_row", "out_column")
        self.pieces.unpack(self.types.out, self.args["out"], strides, self.sums, rows, width)

    def _divide(self, rows: Value, width: Value, sums_row: Value) -> None:
        builder, lanes = self.builder, self.pieces.tile.width
        kind = vector(COMPUTE, lanes)
        with builder.loop(builder.i64(0), rows, name="row") as i:
            place = builder.offset(self.totals, builder.mul(i, builder.i64(COMPUTE_BYTES)))
            totals = builder.splat(builder.load(COMPUTE, place, COMPUTE_BYTES), lanes)
            row = builder.offset(self.sums, builder.mul(i, sums_row))
            with builder.loop(builder.i64(0), width, lanes, "d") as j:
                address = builder.offset(row, builder.mul(j, builder.i64(COMPUTE_BYTES)))
                quotient = builder.fdiv(builder.load(kind, address, COMPUTE_BYTES), totals)
                builder.store(quotient, address, COMPUTE_BYTES)

    def _store_statistics(self, name: str, source: Value, rows: Value) -> None:
        builder = self.builder
        stride = self.pieces.field("maximum_row" if name == "maxima" else "total_row")
        with builder.loop(builder.i64(0), rows, name="row") as i:
            value = builder.load(COMPUTE, builder.offset(source, builder.mul(i, builder.i64(COMPUTE_BYTES))), 4)
            builder.store(value, builder.offset(self.args[name], builder.mul(i, stride)), COMPUTE_BYTES)
