"""One unit of the products of one set of scores, where something of all scores of a column is to be known first.

Scores of all rows are kept for a block of columns: what they are made from is multiplied once, then the program goes
over them, level by level, for what it sums of a column (a softmax's maxima, then its sums), and completes them.
Blocks that are masked wholly are left out of that if their scores are 0, which is known behind the first level: then
those are made which are not.
"""

from __future__ import annotations

from xjit.emitters.attention.joint_block import JointEmitter
from xjit.emitters.attention.joint_shapes import JointTypes
from xjit.emitters.attention.pieces import Extent
from xjit.llvm import Function, Module, Value
from xjit.llvm.types import I64
from xjit.llvm.values import const_int


def emit_whole_columns_unit(module: Module, name: str, types: JointTypes) -> Function:
    """Defines `void name(JOINT_PARAMS)`.

    `levels` points to a closure for each level, of functions with EPILOGUE_PARAMS; `planes` to memory for the scores of
    a block of columns; `flags` to an i64 for each block of rows.
    """
    return _WholeColumnsEmitter(module, name, types).emit()


class _WholeColumnsEmitter(JointEmitter):
    def __init__(self, module: Module, name: str, types: JointTypes) -> None:
        super().__init__(module, name, types)
        self.levels = [self.builder.load_ptr(self.args["levels"], n) for n in range(types.levels)]

    def _block_columns(self, columns: Extent, rows: Extent) -> None:
        builder = self.builder
        with self._blocks(rows) as block:
            self._make_block(block, columns, masked=False)
        with self._blocks(rows) as block:
            may_skip = self._may_skip(block, columns)
            builder.store(builder.zext(may_skip, I64), self._flag(block), 8)
            left_out = builder.and_(self.pieces.has_masked(block, columns), builder.not_(may_skip))
            with builder.when(left_out):
                self._make_block(block, columns, masked=True)
        for level in self.levels[1:]:
            self._sum_level(level, columns, rows)
        with self._blocks(rows) as block, builder.when(builder.not_(self._is_zero(block, block, columns))):
            with self._strips(block) as (strip, some):
                is_zero, place = self._is_zero(block, some, columns), self._place(block, strip)
                with builder.when(is_zero):
                    self._clear_scores(place, some.count)
                with builder.when(builder.not_(is_zero)):
                    self._add_strip(some, place, columns)
            self._add_columns(block, self._place(block, builder.i64(0)), columns)

    def _sum_level(self, level: Value, columns: Extent, rows: Extent) -> None:
        """Has the program go over a block of columns' scores."""
        builder = self.builder
        with self._blocks(rows) as block, self._strips(block) as (strip, some):
            is_zero = self._is_zero(block, some, columns)
            with builder.when(builder.not_(is_zero)):
                self._call_program(level, some, self._place(block, strip), columns)

    def _place(self, block: Extent, strip: Value) -> Value:
        """How many bytes behind the first a strip's scores lie."""
        builder = self.builder
        behind = builder.sub(block.first, self.args["first_row"])
        return builder.mul(builder.add(behind, strip), self.scores_row)

    def _flag(self, block: Extent) -> Value:
        """Where it says whether masked scores of a block are 0."""
        builder = self.builder
        number = builder.udiv(builder.sub(block.first, self.args["first_row"]), self.pieces.field("block_rows"))
        return builder.offset(self.args["flags"], builder.mul(number, builder.i64(8)))

    def _is_zero(self, block: Extent, rows: Extent, columns: Extent) -> Value:
        """Whether all scores of some rows of a block are masked and 0."""
        builder = self.builder
        may_skip = builder.icmp_signed("!=", builder.load(I64, self._flag(block), 8), const_int(I64, 0))
        return builder.and_(may_skip, self.pieces.is_masked(rows, columns))

    def _make_block(self, block: Extent, columns: Extent, masked: bool) -> None:
        """Makes the products of a block's strips that are masked wholly, or of the others, and what is known first."""
        builder = self.builder
        left = [self._left_rows(tile, block) for tile in self.tiles]
        with self._strips(block) as (strip, some):
            is_masked = self.pieces.is_masked(some, columns)
            with builder.when(is_masked if masked else builder.not_(is_masked)):
                place = self._place(block, strip)
                self._make_tiles(some, strip, place, left, columns)
                self._call_program(self.levels[0], some, place, columns)
