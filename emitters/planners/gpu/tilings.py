"""How large the tiles of contractions are: of a block, and of each of its threads or warps."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.llvm.gpu_models import WARP_SIZE

ENOUGH_BLOCKS = 128
"""About as many as a GPU has multiprocessors: smaller tiles are taken where there would be fewer blocks."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """A block makes rows x columns sums, with `workers` (down, across) that have equal rectangles of them.

    A worker is a thread, or for a matrix unit a warp. `steps` products of each sum are staged at a time.
    """

    rows: int
    columns: int
    steps: int
    workers: tuple[int, int]
    worker_threads: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.workers[0] * self.workers[1] * self.worker_threads

    def blocks(self, rows: int, columns: int, batches: int) -> int:
        """Returns how many blocks some matrices take."""
        return -(-rows // self.rows) * -(-columns // self.columns) * batches


THREAD_TILINGS = (
    Tiling(128, 128, 8, (16, 16)),
    Tiling(64, 64, 16, (16, 16)),
    Tiling(32, 32, 16, (8, 8)),
    Tiling(16, 64, 16, (4, 16)),
    Tiling(64, 16, 16, (16, 4)),
    Tiling(16, 16, 16, (8, 8)),
)
"""For products of single elements, the best ones first."""


def warp_tilings(steps: int) -> tuple[Tiling, ...]:
    """Returns those for a matrix unit that takes so many steps at a time, the best ones first."""
    return (
        Tiling(128, 128, 2 * steps, (2, 4), WARP_SIZE),
        Tiling(64, 64, 2 * steps, (2, 2), WARP_SIZE),
        Tiling(32, 32, 2 * steps, (2, 2), WARP_SIZE),
        Tiling(16, 64, 2 * steps, (1, 4), WARP_SIZE),
        Tiling(64, 16, 2 * steps, (4, 1), WARP_SIZE),
        Tiling(16, 16, 2 * steps, (1, 2), WARP_SIZE),
    )


def choose_tiling(tilings: Sequence[Tiling], rows: int, columns: int, batches: int) -> Tiling:
    """Returns the first tiling that makes enough blocks, of those that are not larger than the matrix.

    If none does, the one that makes most.
    """
    fitting = [t for t in tilings if t.rows <= _padded(rows) and t.columns <= _padded(columns)]
    enough = (t for t in fitting if t.blocks(rows, columns, batches) >= ENOUGH_BLOCKS)
    most = max(fitting, key=lambda t: t.blocks(rows, columns, batches))
    return next(enough, most)


def _padded(size: int) -> int:
    """A size as the smallest tile pads it."""
    return -(-size // 16) * 16
