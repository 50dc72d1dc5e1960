"""How large the tiles of a product with scores are: rows of a block, and scores of each row at a time."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, constant, dim, substitute
from xjit.dataclass import dataclass
from xjit.emitters.planners.gpu.tilings import ENOUGH_BLOCKS
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.matrix_units import MatrixUnit

_M, _N = 16, 8
"""Rows and columns of the matrix instructions for types that scores are made from."""


@dataclass(frozen=True, slots=True)
class ScoreTiling:
    """A block of `threads` has `rows` rows and makes `columns` scores of each at a time.

    With a matrix unit each warp has 16 rows of its own. Else `across` neighbouring threads share rows: thread n of them
    has the columns n, n + across, ...
    """

    rows: int
    columns: int
    threads: int
    across: int = 0

    @property
    def down(self) -> int:
        """Threads, or warps, below each other."""
        return self.threads // (self.across or WARP_SIZE)

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns from one accumulator of a thread to the next one, or from one unit to the next one."""
        return (self.down, self.across) if self.across else (_M * self.down, _N)

    @property
    def lanes(self) -> int:
        """Neighbouring threads that have the same rows."""
        return self.across or WARP_SIZE // _N

    def blocks(self, rows: int, batches: int) -> int:
        """Returns how many blocks some products take."""
        return -(-rows // self.rows) * batches


UNIT_TILINGS = (
    ScoreTiling(64, 64, 128),
    ScoreTiling(64, 32, 128),
    ScoreTiling(32, 64, 64),
    ScoreTiling(32, 32, 64),
    ScoreTiling(16, 32, 32),
    ScoreTiling(16, 16, 32),
)
THREAD_TILINGS = (
    ScoreTiling(32, 32, 128, 16),
    ScoreTiling(32, 16, 128, 16),
    ScoreTiling(16, 16, 128, 16),
    ScoreTiling(16, 8, 128, 8),
)
"""The best ones first; the last ones have room for the longest rows that are fused."""


def choose_score_tiling(tilings: Sequence[ScoreTiling], rows: int, batches: int) -> ScoreTiling:
    """Returns the first tiling that makes enough blocks, of those that have no more rows than there are.

    If none does, the one that makes most. `tilings` are those that fit into shared memory.
    """
    fitting = [t for t in tilings if t.rows <= -(-rows // _M) * _M]
    enough = (t for t in fitting if t.blocks(rows, batches) >= ENOUGH_BLOCKS)
    return next(enough, max(fitting, key=lambda t: t.blocks(rows, batches)))


@dataclass(frozen=True, slots=True)
class ThreadPlaces:
    """Which rows and columns a thread's accumulators are for. `total` is the variable of a unit's sums."""

    tiling: ScoreTiling
    unit: MatrixUnit | None
    thread: int
    row: int
    total: int | None

    @property
    def rows_of_thread(self) -> int:
        """Different rows of the accumulators with one value of `row`."""
        return 1 if self.unit is None else self.unit.m // _N

    def begin(self, column: int) -> tuple[AffineExpr, AffineExpr]:
        """The row and column where the thread's element, or its warp's block, begins."""
        tiling, thread = self.tiling, dim(self.thread)
        down, across = tiling.step
        if self.unit is not None:
            return dim(self.row) * down + thread.floordiv(WARP_SIZE) * _M, dim(column) * across
        return dim(self.row) * down + thread.floordiv(tiling.across), dim(column) * across + thread.mod(tiling.across)

    def accumulator(self, column: int) -> tuple[AffineExpr, AffineExpr]:
        """The row and the column of an accumulator."""
        begin = self.begin(column)
        if self.unit is None or self.total is None:
            return begin
        change = {0: dim(self.thread).mod(WARP_SIZE), 1: dim(self.total)}
        more = [substitute(e, change) for e in self.unit.sum_place]
        return begin[0] + more[0], begin[1] + more[1]

    @property
    def number(self) -> AffineExpr:
        """The number of an accumulator's row among the thread's."""
        if self.unit is None or self.total is None:
            return dim(self.row)
        of_unit = substitute(self.unit.sum_place[0], {0: constant(0), 1: dim(self.total)})
        return dim(self.row) * self.rows_of_thread + of_unit.floordiv(_N)

    def row_with_number(self, number: int) -> tuple[AffineExpr, AffineExpr]:
        """The row that such a number (a variable) means, and the number of this thread among those that have it."""
        tiling, thread = self.tiling, dim(self.thread)
        if self.unit is None:
            return dim(number) * tiling.down + thread.floordiv(tiling.across), thread.mod(tiling.across)
        lane = thread.mod(WARP_SIZE)
        row = thread.floordiv(WARP_SIZE) * _M + lane.floordiv(tiling.lanes) + dim(number) * _N
        return row, lane.mod(tiling.lanes)
