"""The tile of a product that stays in registers, for each target. Pure arithmetic."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.units import TILE_LANES
from xjit.llvm.target import Target


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The largest tile: `rows` x `vectors` vectors of `width` elements. `row_variants` are the row counts with a
    kernel.
    """

    rows: int
    vectors: int
    width: int
    row_variants: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Columns of the full tile."""
        return self.vectors * self.width

    def variant_for(self, rows: int) -> int:
        """The number of rows of the kernel that computes `rows` rows."""
        return min(variant for variant in self.row_variants if variant >= rows)

    def panel_vectors(self, remaining: int) -> int:
        """How many of `remaining` vectors the next panel takes. The emitted code follows the same rule."""
        return 2 if self.vectors == 3 and remaining == 4 else min(remaining, self.vectors)


def register_tile(target: Target, types: GemmTypes) -> RegisterTile:
    """The tile for a target: 24 accumulators with 32 vector registers, 12 with 16 (8 if multiply and add are
    separate); two by two tiles of a matrix unit.
    """
    if types.unit.is_tiles:
        return RegisterTile(2 * TILE_LANES, 2, TILE_LANES, (TILE_LANES, 2 * TILE_LANES))
    width = target.vector_width(types.compute)
    if target.vector_bits >= 512 or target.triple.startswith("aarch64"):
        return RegisterTile(8, 3, width, (4, 8))
    if target.has_fma:
        return RegisterTile(6, 2, width, (3, 6))
    return RegisterTile(4, 2, width, (2, 4))
