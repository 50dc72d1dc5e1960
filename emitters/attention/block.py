"""One unit of a product with scores, as IR: a block of rows, by blocks of columns.

For each block of columns the right operands are packed; then each strip of rows makes its scores from the products that
they depend on, has them completed by the program (an epilogue, see `xjit.emitters.gemm.epilogue`), and multiplies them
while they are in the first-level cache. Scratch memory is on the stack, of a fixed size.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.epilogue import call_epilogue, has_epilogue
from xjit.emitters.gemm.microkernels.microkernel import Slot
from xjit.emitters.gemm.panels import multiply_panels_function, pack_panels_function
from xjit.emitters.gemm.support import GemmSupport, copy_function, support_for
from xjit.llvm import Function, LLVMType, Module, Value
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I8, I64, PTR, vector

UNIT_PARAMS = (
    (PTR, "parameters"), (PTR, "closure"), (PTR, "left_0"), (PTR, "right_0"), (PTR, "left_1"), (PTR, "right_1"),
    (PTR, "right"), (PTR, "out"), (PTR, "maxima"), (PTR, "totals"), (I64, "batch"), (I64, "first_row"), (I64, "rows"),
)  # fmt: skip
"""Behind `parameters` is the table of kernels. Pointers to left operands, results and statistics are to the first row.
`maxima` and `totals` are null, or where the rows' maxima and sums are wanted; what there is no second tile for is not
read.
"""
STRIP_ROWS = 8
"""The most rows of a register tile."""
STRIP_BYTES = STRIP_ROWS * MAX_COLUMNS * COMPUTE_BYTES
"""From the scores of one product to those of the next: the program's part counts on it."""
_LAYOUT = StructLayout("ScoreParameters", tuple((name, I64) for name in ScoreParameters.__slots__))


@dataclass(frozen=True, slots=True)
class _Tile:
    """A product that scores are made from: its operands, their packed blocks, its support."""

    number: int
    left: Value
    right: Value
    packed_left: Value
    packed_right: Value
    scores: Value
    support: GemmSupport


@dataclass(frozen=True, slots=True)
class _Block:
    """Columns first .. first + count of all rows."""

    first: Value
    count: Value
    is_first: Value


def emit_unit(module: Module, name: str, types: ScoreTypes) -> Function:
    """Defines `void name(UNIT_PARAMS)`."""
    return _UnitEmitter(module, name, types).emit()


class _UnitEmitter:
    def __init__(self, module: Module, name: str, types: ScoreTypes) -> None:
        self.module = module
        self.types = types
        self.tile = register_tile(module.target, PRODUCTS)
        self.multiply = multiply_panels_function(module, self._support(COMPUTE))
        self.softmax_rows = emit_softmax_rows(module, f"{name}_softmax") if types.softmax else None
        self.right_support = self._support(types.right)
        self.right_supports = [self._support(right) for _, right in types.tiles]
        self.builder = define(module, name, UNIT_PARAMS, linkage="")
        args = dict(zip((n for _, n in UNIT_PARAMS), self.builder.function.args, strict=True))
        self.args = args
        slack = self.tile.columns * COMPUTE_BYTES * MAX_COLUMNS
        self.record = self._scratch(8 * Slot.COUNT, "kernel_record")
        kernels = self.builder.offset(args["parameters"], self.builder.i64(_LAYOUT.size))
        self.builder.store_slot(kernels, self.record, Slot.KERNELS)
        self.scores = self._scratch(len(types.tiles) * STRIP_BYTES + 64 * STRIP_ROWS, "scores")
        self.sums = self._scratch(LEFT_BYTES + 2 * left_row_bytes(1) * STRIP_ROWS, "sums")
        self.maxima, self.totals = (self._scratch(MAX_ROWS * COMPUTE_BYTES, n) for n in ("max", "total"))
        self.packed = self._scratch(RIGHT_BYTES + slack, "packed")
        self.tiles = [self._tile(number, slack) for number in range(len(types.tiles))]

    def _support(self, right: LLVMType) -> GemmSupport:
        """What packs a right operand of a type and multiplies it."""
        return support_for(self.module, GemmTypes(COMPUTE, right, COMPUTE), transposes=True, linked=True)

    def _scratch(self, size: int, name: str) -> Value:
        return self.builder.alloca(I8, size, align=64, name=name)

    def _tile(self, number: int, slack: int) -> _Tile:
        builder = self.builder
        return _Tile(
            number,
            self.args[f"left_{number}"],
            self.args[f"right_{number}"],
            self._scratch(LEFT_BYTES + 2 * left_row_bytes(1) * STRIP_ROWS, "left"),
            self._scratch(RIGHT_BYTES + slack, "right"),
            builder.offset(self.scores, builder.i64(number * STRIP_BYTES)),
            self.right_supports[number],
        )

    def _field(self, name: str) -> Value:
        return _LAYOUT.load(self.builder, self.args["parameters"], name)

    def emit(self) -> Function:
        builder, rows = self.builder, self.args["rows"]
        for tile, (left, _) in zip(self.tiles, self.types.tiles, strict=True):
            self._pack_left(tile, left, rows)
        columns, step = self._field("columns"), self._field("block_columns")
        with builder.loop(builder.i64(0), columns, step, "columns") as first:
            count = builder.min(step, builder.sub(columns, first))
            block = _Block(first, count, builder.icmp_signed("==", first, builder.i64(0)))
            self._pack_right(block)
            with builder.loop(builder.i64(0), rows, self.tile.rows, "strip") as strip:
                height = builder.min(builder.sub(rows, strip), builder.i64(self.tile.rows))
                self._strip(block, strip, height)
        self._finish(rows)
        builder.ret_void()
        return builder.function

    def _row_bytes(self, depth: Value) -> Value:
        """Bytes between the packed rows of a left operand, or of sums: see `left_row_bytes`."""
        builder = self.builder
        size = builder.mul(depth, builder.i64(COMPUTE_BYTES))
        lines = builder.udiv(builder.add(size, builder.i64(63)), builder.i64(64))
        return builder.mul(builder.or_(lines, builder.i64(1)), builder.i64(64))

    def _pack_left(self, tile: _Tile, storage: LLVMType, rows: Value) -> None:
        builder, n = self.builder, tile.number
        depth = self._field(f"depth_{n}")
        args = (
            tile.packed_left, self._row_bytes(depth), builder.i64(COMPUTE_BYTES), tile.left,
            self._field(f"left_row_{n}"), self._field(f"left_k_{n}"), rows, depth,
        )  # fmt: skip
        builder.call(copy_function(self.module, storage, COMPUTE, COMPUTE, transposes=True), args)

    def _pack_right(self, block: _Block) -> None:
        """Packs this block's columns of all right operands; what is summed over runs along the panels."""
        builder, zero = self.builder, self.builder.i64(0)
        for tile in self.tiles:
            depth, stride = (self._field(f"{name}_{tile.number}") for name in ("depth", "right_column"))
            source = builder.offset(tile.right, builder.mul(block.first, stride))
            k_stride = self._field(f"right_k_{tile.number}")
            args = (
                tile.packed_right, source, zero, k_stride, stride, builder.i64(1), depth, block.count, depth, zero,
                depth,
            )  # fmt: skip
            builder.call(pack_panels_function(self.module, tile.support), args)
        row, column = self._field("right_row"), self._field("right_column")
        source = builder.offset(self.args["right"], builder.mul(block.first, row))
        args = (
            self.packed, source, zero, row, column, builder.i64(1), block.count, self._field("width"), block.count,
            zero, block.count,
        )  # fmt: skip
        builder.call(pack_panels_function(self.module, self.right_support), args)

    def _strip(self, block: _Block, strip: Value, height: Value) -> None:
        """A few rows: scores of a block, and what they add to the sums."""
        builder = self.builder
        width = self._field("width")
        scores_row = builder.mul(self._field("block_columns"), builder.i64(COMPUTE_BYTES))
        for tile in self.tiles:
            depth = self._field(f"depth_{tile.number}")
            row = self._row_bytes(depth)
            left = builder.offset(tile.packed_left, builder.mul(strip, row))
            self._describe(left, row, height, depth, scores_row, builder.i64(0))
            self._multiply(tile.scores, tile.packed_right, depth, block.count, height)
        first_row = builder.add(self.args["first_row"], strip)
        with builder.when(has_epilogue(builder, self.args["closure"])):
            where = self.args["batch"], first_row, height, block.first, block.count
            call_epilogue(builder, self.args["closure"], (self.scores, scores_row, *where))
        sums_row = self._row_bytes(width)
        sums = builder.offset(self.sums, builder.mul(strip, sums_row))
        if self.softmax_rows is not None:
            place = builder.mul(strip, builder.i64(COMPUTE_BYTES))
            state = (builder.offset(base, place) for base in (self.maxima, self.totals))
            is_first = builder.zext(block.is_first, I64)
            args = self.scores, scores_row, *state, sums, sums_row, height, block.count, width, is_first
            builder.call(self.softmax_rows, args)
        adds = builder.select(block.is_first, builder.i64(0), builder.i64(1))
        self._describe(self.scores, scores_row, height, block.count, sums_row, adds)
        self._multiply(sums, self.packed, block.count, width, height)

    def _describe(self, left: Value, row: Value, height: Value, depth: Value, result_row: Value, adds: Value) -> None:
        """Tells the kernels where their left rows lie; rows that are not there repeat the last one."""
        builder = self.builder
        last = builder.sub(height, builder.i64(1))
        for i in range(self.tile.rows):
            index = builder.min(builder.i64(i), last)
            builder.store_slot(builder.offset(left, builder.mul(index, row)), self.record, i)
        for slot, value in (
            (Slot.K_OUTER, builder.i64(1)),
            (Slot.A_OUTER, builder.i64(0)),
            (Slot.K_INNER, depth),
            (Slot.C_STRIDE, result_row),
            (Slot.NUM_ROWS, height),
            (Slot.ACCUMULATE, adds),
        ):
            builder.store_slot(value, self.record, slot)

    def _multiply(self, result: Value, packed: Value, depth: Value, columns: Value, height: Value) -> None:
        builder = self.builder
        vector_bytes = builder.i64(self.tile.width * COMPUTE_BYTES)
        panel_step = builder.mul(depth, vector_bytes)
        args = self.record, result, packed, panel_step, builder.i64(0), columns, height
        builder.call(self.multiply, args)

    def _finish(self, rows: Value) -> None:
        """Divides by the sums of the softmax, rounds and stores."""
        builder = self.builder
        width = self._field("width")
        sums_row = self._row_bytes(width)
        if self.types.softmax:
            self._divide(rows, width, sums_row)
            for name, source in (("maxima", self.maxima), ("totals", self.totals)):
                with builder.when(builder.not_(builder.is_null(self.args[name]))):
                    self._store_statistics(name, source, rows)
        unit = builder.i64(COMPUTE_BYTES)
        place = self.args["out"], self._field("out_row"), self._field("out_column")
        unpack = copy_function(self.module, COMPUTE, self.types.out, COMPUTE, transposes=True)
        builder.call(unpack, (*place, self.sums, sums_row, unit, rows, width))

    def _divide(self, rows: Value, width: Value, sums_row: Value) -> None:
        builder, lanes = self.builder, self.tile.width
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
        stride = self._field("maximum_row" if name == "maxima" else "total_row")
        with builder.loop(builder.i64(0), rows, name="row") as i:
            value = builder.load(COMPUTE, builder.offset(source, builder.mul(i, builder.i64(COMPUTE_BYTES))), 4)
            builder.store(value, builder.offset(self.args[name], builder.mul(i, stride)), COMPUTE_BYTES)
