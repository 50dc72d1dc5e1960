"""How a sort's lines are cut into what threads and blocks do: plain numbers, known before any code exists.

Step k of the network merges neighbouring runs of 2^(k-1) elements: it compares each element with its mirror image in
the two runs, then with the one 2^(k-2) away, and so on down to 1. Every comparison puts the lesser element first, so
what a line lacks of a power of two counts as the largest elements, which never move and need not exist. Source:
Batcher, "Sorting networks and their applications" (1968).
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, delinearize
from xjit.dataclass import dataclass
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.element_types import register_type
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import LLVMType

THREADS = 256
TILE_ELEMENTS = 2048
SHARED_BYTES = 32 * 1024
FAR_BITS = 3
"""Comparisons over so many distances in a row are done in registers, by threads with 2^3 elements each."""


@dataclass(frozen=True, slots=True)
class FarPass:
    """Comparisons over distances of 2^high down to 2^low, the first with the mirror image if it is the step's first."""

    high: int
    low: int
    is_first: bool

    @property
    def width(self) -> int:
        """How many distances there are."""
        return self.high - self.low + 1


@dataclass(frozen=True, slots=True)
class SortNetwork:
    """`lines` of `size` elements along the dimension `axis`, in tiles of 2^`bits` elements.

    A block has one tile, or `lines_per_block` of them if a tile holds a whole line. `order` are the other dimensions,
    and `sizes` theirs, outermost in memory first.
    """

    size: int
    lines: int
    axis: int
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    is_contiguous: bool
    bits: int
    lines_per_block: int
    threads: int

    @staticmethod
    def of(sort: HloInstruction) -> SortNetwork:
        """Reads the lines off the first operand, and the size of tiles off the types of all."""
        shape = sort.operand(0).shape
        axis = sort.attributes_as(at.SortAttributes).sort_dimension
        size = shape.dimensions[axis]
        lines = shape.num_elements // size
        order = tuple(d for d in shape.minor_to_major[::-1] if d != axis)
        taken = sum(max(8, part.bits) // 8 for operand in sort.operands for part in register_parts(operand))
        largest = min(TILE_ELEMENTS, SHARED_BYTES // taken).bit_length() - 1
        bits = min(largest, max(1, (size - 1).bit_length()))
        several = size <= 1 << bits
        lines_per_block = min(max(1, 2 * THREADS >> bits), 1 << (lines - 1).bit_length()) if several else 1
        threads = min(THREADS, max(WARP_SIZE, lines_per_block << bits >> 1))
        sizes = tuple(shape.dimensions[d] for d in order)
        contiguous = shape.minor_to_major[0] == axis
        return SortNetwork(size, lines, axis, order, sizes, contiguous, bits, lines_per_block, threads)

    @property
    def steps(self) -> int:
        """The number of the last step, which merges whole lines."""
        return max(1, (self.size - 1).bit_length())

    @property
    def tiles(self) -> int:
        """Tiles of a line."""
        return -(-self.size >> self.bits)

    @property
    def block_elements(self) -> int:
        """Places for elements in a block's shared memory."""
        return self.lines_per_block << self.bits

    @property
    def blocks(self) -> int:
        """Blocks of the kernels that work on tiles."""
        return -(-self.lines // self.lines_per_block) * self.tiles

    def far_passes(self, step: int) -> list[FarPass]:
        """What a step compares over distances of a tile and more: one kernel each."""
        return [
            FarPass(high, max(self.bits, high - FAR_BITS + 1), high == step - 1)
            for high in range(step - 1, self.bits - 1, -FAR_BITS)
        ]

    def bytes_moved(self, shapes: Sequence[Shape]) -> int:
        """Bytes that all kernels move, if these are the arrays: each reads and writes every element."""
        passes = 1 + sum(len(self.far_passes(step)) + 1 for step in range(self.bits + 1, self.steps + 1))
        return 2 * passes * sum(shape.byte_size for shape in shapes)

    def index(self, line: AffineExpr, place: AffineExpr) -> tuple[AffineExpr, ...]:
        """The index of an element of the arrays."""
        parts = delinearize(line, self.sizes) if self.order else []
        places = {**dict(zip(self.order, parts, strict=True)), self.axis: place}
        return tuple(places[d] for d in range(len(places)))


def register_parts(operand: HloInstruction) -> list[LLVMType]:
    """Returns the register types of an element: two of a complex one."""
    kind = operand.shape.element_type
    part = register_type(kind.component)
    return [part, part] if kind.is_complex else [part]
