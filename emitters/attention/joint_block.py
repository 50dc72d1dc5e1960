"""One unit of the products of one set of scores, as IR: blocks of columns, by blocks of rows.

For each block of columns the operands that lie along columns are packed; then each block of rows makes its scores, once
for all products: strips of rows make tiles, have them completed by the program (an epilogue, see
`xjit.emitters.gemm.epilogue`), and are multiplied with the operands of sums over columns; then the block's columns are
multiplied with those of sums over rows. A unit does its blocks in order, so its bits are always the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Sequence

from xjit.dataclass import dataclass
from xjit.emitters.attention.joint_shapes import (
    PLANE_BYTES,
    JointTypes,
    MemberTypes,
    panel_bytes,
    rows_bytes,
)
from xjit.emitters.attention.pieces import BlockPieces, Extent
from xjit.emitters.attention.shapes import COMPUTE, COMPUTE_BYTES, left_row_bytes
from xjit.emitters.gemm.epilogue import call_epilogue, has_epilogue
from xjit.llvm import Function, LLVMType, Module, Target, Value
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I8, I64, PTR
from xjit.llvm.values import const_int, constant

JOINT_PARAMS = (
    (PTR, "parameters"), (PTR, "closure"), (PTR, "condition"), (PTR, "pointers"), (PTR, "memory"), (I64, "batch"),
    (I64, "first_row"), (I64, "rows"), (PTR, "levels"), (PTR, "planes"), (PTR, "flags"),
)  # fmt: skip
"""`pointers`: to the left and the right operand of each tile, to the right operand of each product, to each result, of
the batch at hand, all to their first row. `memory` is for the sums over columns, one after the other. `condition` is a
closure of a function with `CONDITION_PARAMS`: whether masked scores of a block are 0; null if they always are. The
others are for `whole_columns`, and null if nothing is to be known of all scores first.
"""


CONDITION_PARAMS = (
    (PTR, "closure"), (I64, "batch"), (I64, "first_row"), (I64, "rows"), (I64, "first_column"), (I64, "columns"),
    (COMPUTE, "score_bound"),
)  # fmt: skip
"""Of a function that returns an i64: not 0 where masked scores of a block are 0. `score_bound` is what no product of
the block exceeds, if the record says that it is needed, else 0.
"""


@dataclass(frozen=True, slots=True)
class _Tile:
    """A product that scores are made from: its operands, their types, their packed blocks, its scores."""

    name: str
    left: Value
    right: Value
    types: tuple[LLVMType, LLVMType]
    packed_left: Value
    packed_right: Value
    scores: Value


@dataclass(frozen=True, slots=True)
class _Member:
    """A product that scores are multiplied in: its operand and its packed block, its result and its sums."""

    name: str
    types: MemberTypes
    right: Value
    out: Value
    packed: Value
    sums: Value
    scores: Value


def scratch_sizes(types: JointTypes, target: Target) -> dict[str, int]:
    """Returns the pieces of memory that a unit takes on the stack, by name, in bytes."""
    sizes = {} if types.levels else {"scores": types.planes * PLANE_BYTES}
    for number in range(len(types.tiles)):
        sizes |= {f"left_{number}": rows_bytes(target), f"right_{number}": panel_bytes(target)}
    for number, member in enumerate(types.members):
        sizes |= {f"packed_{number}": panel_bytes(target)}
        sizes |= {f"sums_{number}": rows_bytes(target)} if member.over_rows else {}
    return sizes


def emit_joint_unit(module: Module, name: str, types: JointTypes) -> Function:
    """Defines `void name(JOINT_PARAMS)`."""
    return JointEmitter(module, name, types).emit()


class JointEmitter:
    """State while one function is emitted."""

    def __init__(self, module: Module, name: str, types: JointTypes) -> None:
        self.builder = define(module, name, JOINT_PARAMS, linkage="")
        args = dict(zip((n for _, n in JOINT_PARAMS), self.builder.function.args, strict=True))
        self.args = args
        record = StructLayout("JointParameters", tuple((name, I64) for name in types.fields))
        self.pieces = BlockPieces(self.builder, record, args["parameters"])
        sizes = scratch_sizes(types, module.target)
        self.scratch = {name: self.pieces.scratch(size, name) for name, size in sizes.items()}
        self.scores = args["planes"] if types.levels else self.scratch["scores"]
        self.plane_bytes = self.pieces.field("plane_bytes")
        self.scores_row = self.pieces.row_bytes(self.pieces.field("block_columns"))
        self.tiles = [self._tile(number, kinds) for number, kinds in enumerate(types.tiles)]
        self.memory = args["memory"]
        pointers = 2 * len(types.tiles)
        self.members = [self._member(n, pointers, kinds, len(types.members)) for n, kinds in enumerate(types.members)]

    def _pointer(self, number: int) -> Value:
        return self.builder.load_ptr(self.args["pointers"], number)

    def _plane(self, number: int) -> Value:
        return self.builder.offset(self.scores, self.builder.mul(self.plane_bytes, self.builder.i64(number)))

    def _tile(self, number: int, kinds: tuple[LLVMType, LLVMType]) -> _Tile:
        return _Tile(
            f"tile_{number}",
            self._pointer(2 * number),
            self._pointer(2 * number + 1),
            kinds,
            self.scratch[f"left_{number}"],
            self.scratch[f"right_{number}"],
            self._plane(number),
        )

    def _member(self, number: int, pointers: int, kinds: MemberTypes, members: int) -> _Member:
        pieces, builder = self.pieces, self.builder
        sums = self.scratch[f"sums_{number}"] if kinds.over_rows else self.memory
        if not kinds.over_rows:
            row = pieces.row_bytes(pieces.field(f"member_{number}_width"))
            self.memory = builder.offset(self.memory, builder.mul(self.args["rows"], row))
        return _Member(
            f"member_{number}",
            kinds,
            self._pointer(pointers + number),
            self._pointer(pointers + members + number),
            self.scratch[f"packed_{number}"],
            sums,
            self._plane(kinds.scores),
        )

    def _fields(self, owner: _Tile | _Member, *names: str) -> tuple[Value, Value]:
        a, b = (self.pieces.field(f"{owner.name}_{name}") for name in names)
        return a, b

    def _members(self, over_rows: bool) -> list[_Member]:
        return [member for member in self.members if member.types.over_rows == over_rows]

    def emit(self) -> Function:
        """Emits the function."""
        builder = self.builder
        rows = Extent(self.args["first_row"], self.args["rows"])
        columns, step = self.pieces.field("columns"), self.pieces.field("block_columns")
        for member in self._members(over_rows=False):
            self._clear(member, rows.count)
        with builder.loop(builder.i64(0), columns, step, "columns") as first:
            some = Extent(first, builder.min(step, builder.sub(columns, first)))
            self._begin_columns(some)
            self._block_columns(some, rows)
            for member in self._members(over_rows=True):
                self._store(member, some)
        for member in self._members(over_rows=False):
            self._store(member, rows)
        builder.ret_void()
        return builder.function

    def _begin_columns(self, columns: Extent) -> None:
        """Packs the operands that lie along a block of columns."""
        builder, pieces = self.builder, self.pieces
        for tile in self.tiles:
            strides, depth = self._fields(tile, "right_k", "right_column"), pieces.field(f"{tile.name}_depth")
            source = builder.offset(tile.right, builder.mul(columns.first, strides[1]))
            pieces.pack_panels(tile.packed_right, tile.types[1], source, strides, depth, columns.count)
        for member in self._members(over_rows=False):
            self._pack(member, columns)
        for member in self._members(over_rows=True):
            self._clear(member, columns.count)

    @contextlib.contextmanager
    def _blocks(self, rows: Extent) -> Generator[Extent]:
        """A loop over blocks of the unit's rows."""
        builder, step = self.builder, self.pieces.field("block_rows")
        end = builder.add(rows.first, rows.count)
        with builder.loop(rows.first, end, step, "rows") as first:
            yield Extent(first, builder.min(step, builder.sub(end, first)))

    @contextlib.contextmanager
    def _strips(self, rows: Extent) -> Generator[tuple[Value, Extent]]:
        """A loop over a block's strips: how many rows behind the block's they begin, and their rows."""
        builder, step = self.builder, self.pieces.tile.rows
        with builder.loop(builder.i64(0), rows.count, step, "strip") as strip:
            height = builder.min(builder.sub(rows.count, strip), builder.i64(step))
            yield strip, Extent(builder.add(rows.first, strip), height)

    def _block_columns(self, columns: Extent, rows: Extent) -> None:
        """Adds what a block of columns amounts to, over the unit's rows."""
        with self._blocks(rows) as block:
            self._block(block, columns)

    def _block(self, rows: Extent, columns: Extent) -> None:
        """Adds what a block of rows and columns amounts to, if it is not zero."""
        builder = self.builder
        holds = self._may_skip(rows, columns)
        is_zero = builder.and_(holds, self.pieces.is_masked(rows, columns))
        with builder.when(builder.not_(is_zero)):
            self._add_block(rows, columns, holds)

    def _may_skip(self, rows: Extent, columns: Extent) -> Value:
        """Whether a block has masked scores, and they are 0."""
        builder, condition = self.builder, self.args["condition"]
        may_be_zero = self.pieces.has_masked(rows, columns)
        return builder.if_else(
            builder.and_(may_be_zero, has_epilogue(builder, condition)),
            lambda: [self._condition_holds(rows, columns)],
            lambda: [may_be_zero],
        )[0]

    def _condition_holds(self, rows: Extent, columns: Extent) -> Value:
        builder, condition = self.builder, self.args["condition"]
        function = builder.load_ptr(condition, 0, "condition")
        needs_bound = builder.icmp_signed("!=", self.pieces.field("needs_score_bound"), builder.i64(0))
        bound = builder.if_else(
            needs_bound, lambda: [self._score_bound(rows, columns)], lambda: [constant(COMPUTE, 0.0)]
        )[0]
        where = self.args["batch"], rows.first, rows.count, columns.first, columns.count
        holds = builder.call_pointer(function, I64, (condition, *where, bound))
        return builder.icmp_signed("!=", holds, builder.i64(0))

    def _score_bound(self, rows: Extent, columns: Extent) -> Value:
        """What no product of a block exceeds."""
        builder, pieces = self.builder, self.pieces
        bounds = []
        for tile in self.tiles:
            left, panels = self._left_rows(tile, rows), (tile.packed_right, columns.count)
            bounds.append(pieces.score_bound(left, rows.count, panels, pieces.field(f"{tile.name}_depth")))
        return functools.reduce(lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b), bounds)

    def _clear_scores(self, place: Value, height: Value) -> None:
        """Zeros for what is summed over rows: those of a strip are with others there."""
        builder = self.builder
        for number in sorted({m.types.scores for m in self._members(over_rows=True)}):
            start = builder.offset(self._plane(number), place)
            builder.memset(start, const_int(I8, 0), builder.mul(height, self.scores_row), 64)

    def _add_block(self, rows: Extent, columns: Extent, may_skip: Value) -> None:
        builder, pieces = self.builder, self.pieces
        left = [self._left_rows(tile, rows) for tile in self.tiles]
        with self._strips(rows) as (strip, some):
            place = builder.mul(strip, self.scores_row)
            is_zero = builder.and_(may_skip, pieces.is_masked(some, columns))
            with builder.when(is_zero):
                self._clear_scores(place, some.count)
            with builder.when(builder.not_(is_zero)):
                self._make_tiles(some, strip, place, left, columns)
                self._add_strip(some, place, columns)
        self._add_columns(rows, builder.i64(0), columns)

    def _add_columns(self, rows: Extent, place: Value, columns: Extent) -> None:
        """Adds a block of scores, `place` bytes behind the first, to sums over rows."""
        for member in self._members(over_rows=True):
            self._pack(member, rows)
            self._multiply_columns(member, rows, place, columns)

    def _left_rows(self, tile: _Tile, rows: Extent) -> tuple[Value, Value]:
        """Where a block of rows lies, and the bytes between them: packed, if it is not read as it is in memory."""
        builder, pieces = self.builder, self.pieces
        strides, depth = self._fields(tile, "left_row", "left_k"), pieces.field(f"{tile.name}_depth")
        source = builder.offset(tile.left, builder.mul(rows.first, strides[0]))
        if tile.types[0] is not COMPUTE:
            pieces.pack_rows(tile.packed_left, tile.types[0], source, strides, rows.count, depth)
            return tile.packed_left, pieces.row_bytes(depth)
        is_packed = builder.icmp_signed("!=", strides[1], builder.i64(COMPUTE_BYTES))
        with builder.when(is_packed):
            pieces.pack_rows(tile.packed_left, tile.types[0], source, strides, rows.count, depth)
        start = builder.select(is_packed, tile.packed_left, source)
        return start, builder.select(is_packed, pieces.row_bytes(depth), strides[0])

    def _make_tiles(
        self, rows: Extent, strip: Value, place: Value, left: Sequence[tuple[Value, Value]], columns: Extent
    ) -> None:
        """Makes a few rows of the products, `strip` rows behind those of the block, `place` bytes behind the first."""
        builder, pieces = self.builder, self.pieces
        for tile, (start, row) in zip(self.tiles, left, strict=True):
            result = builder.offset(tile.scores, place), self.scores_row
            rows_of_strip = builder.offset(start, builder.mul(strip, row)), row
            panels, depth = (tile.packed_right, columns.count), pieces.field(f"{tile.name}_depth")
            pieces.multiply_strip(rows_of_strip, rows.count, depth, panels, result, builder.i64(0))

    def _call_program(self, closure: Value, rows: Extent, place: Value, columns: Extent) -> None:
        builder = self.builder
        where = self.args["batch"], rows.first, rows.count, columns.first, columns.count
        call_epilogue(builder, closure, (builder.offset(self.scores, place), self.scores_row, *where))

    def _add_strip(self, rows: Extent, place: Value, columns: Extent) -> None:
        """Completes a few rows of scores, and adds them to sums over columns."""
        builder, pieces = self.builder, self.pieces
        with builder.when(has_epilogue(builder, self.args["closure"])):
            self._call_program(self.args["closure"], rows, place, columns)
        for member in self._members(over_rows=False):
            width = pieces.field(f"{member.name}_width")
            row = pieces.row_bytes(width)
            behind = builder.mul(builder.sub(rows.first, self.args["first_row"]), row)
            scores = builder.offset(member.scores, place), self.scores_row
            sums = builder.offset(member.sums, behind), row
            pieces.multiply_strip(scores, rows.count, columns.count, (member.packed, width), sums, builder.i64(1))

    def _multiply_columns(self, member: _Member, rows: Extent, place: Value, columns: Extent) -> None:
        """Adds the columns of a block of scores to sums over rows."""
        builder, pieces = self.builder, self.pieces
        width = pieces.field(f"{member.name}_width")
        row, step = pieces.row_bytes(width), pieces.tile.rows
        with builder.loop(builder.i64(0), columns.count, step, "strip") as strip:
            height = builder.min(builder.sub(columns.count, strip), builder.i64(step))
            behind = builder.add(place, builder.mul(strip, builder.i64(COMPUTE_BYTES)))
            left = builder.offset(member.scores, behind), self.scores_row
            sums = builder.offset(member.sums, builder.mul(strip, row)), row
            pieces.multiply_transposed(left, height, rows.count, (member.packed, width), sums, builder.i64(1))

    # -- operands and sums of a product

    def _pack(self, member: _Member, summed: Extent) -> None:
        """Packs the rows of its operand that are summed over."""
        builder, strides = self.builder, self._fields(member, "right_k", "right_column")
        source = builder.offset(member.right, builder.mul(summed.first, strides[0]))
        width = self.pieces.field(f"{member.name}_width")
        self.pieces.pack_panels(member.packed, member.types.right, source, strides, summed.count, width)

    def _clear(self, member: _Member, rows: Value) -> None:
        builder = self.builder
        row = self.pieces.row_bytes(self.pieces.field(f"{member.name}_width"))
        builder.memset(member.sums, const_int(I8, 0), builder.mul(rows, row), 64)

    def _store(self, member: _Member, rows: Extent) -> None:
        builder, strides = self.builder, self._fields(member, "out_row", "out_column")
        target = builder.offset(member.out, builder.mul(rows.first, strides[0]))
        width = self.pieces.field(f"{member.name}_width")
        self.pieces.unpack(member.types.out, target, strides, member.sums, rows.count, width)


def sums_bytes(rows: int, width: int) -> int:
    """Returns the bytes of `memory` that a product over columns takes."""
    return rows * left_row_bytes(width)
