"""Which sorts go by the digits of their keys, and how: plain numbers, known before any code exists.

A pass takes eight bits of the keys, from the lowest on, and is stable: three kernels count the digits of each tile, add
the counts up, and move the elements. Source: Satish, Harris, Garland, "Designing efficient sorting algorithms for
manycore GPUs" (2009).
"""

from __future__ import annotations

from collections.abc import Mapping

from xjit.dataclass import dataclass
from xjit.emitters.planners.gpu.sort_network import SortNetwork, register_parts
from xjit.emitters.planners.plan import PlanContext
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.gpu_models import SECTOR_BYTES, WARP_SIZE
from xjit.ops.sort_keys import KeyOrder, key_order

P = PrimitiveType
RADIX_BITS = 8
DIGITS = 1 << RADIX_BITS
THREADS = DIGITS
WARPS = THREADS // WARP_SIZE
SHARED_BYTES = 36 * 1024
"""Of the elements of a tile and their places; counters take 9 KiB more."""

PLACE_BYTES = 2
MAX_ITEMS = 16

_KEY_BITS: Mapping[PrimitiveType, tuple[int, int]] = {
    **dict.fromkeys((P.S8, P.U8), (0, 8)),
    **dict.fromkeys((P.S16, P.U16), (0, 16)),
    **dict.fromkeys((P.S32, P.U32, P.F32), (0, 32)),
    **dict.fromkeys((P.S64, P.U64, P.F64), (0, 64)),
    P.BF16: (16, 32),
    P.F16: (13, 32),
}
"""By the type of the keys, the bits of `unsigned_key`, less its smallest value, that differ: floats are f32 there."""


@dataclass(frozen=True, slots=True)
class RadixPlan:
    """A sort by `order`, in passes over the bits `bits` of its keys. A thread has `items` elements of a tile."""

    network: SortNetwork
    order: KeyOrder
    bits: tuple[int, int]
    items: int
    shapes: tuple[Shape, ...]

    @staticmethod
    def of(sort: HloInstruction) -> RadixPlan | None:
        """Returns how to sort so; None if the comparator is no order by one key, or of keys that have no digits."""
        order = key_order(sort.to_apply)
        bits = None if order is None else _KEY_BITS.get(order.kind)
        if order is None or bits is None:
            return None
        taken = sum(max(8, part.bits) // 8 for operand in sort.operands for part in register_parts(operand))
        items = min(MAX_ITEMS, SHARED_BYTES // (THREADS * (taken + PLACE_BYTES)))
        if not items:
            return None
        return RadixPlan(SortNetwork.of(sort), order, bits, items, tuple(o.shape for o in sort.operands))

    @property
    def tile(self) -> int:
        """Elements of a block."""
        return THREADS * self.items

    @property
    def tiles(self) -> int:
        """Tiles of a line."""
        return -(-self.network.size // self.tile)

    @property
    def blocks(self) -> int:
        """Tiles of all lines."""
        return self.network.lines * self.tiles

    @property
    def shifts(self) -> range:
        """The lowest bit of each pass."""
        return range(*self.bits, RADIX_BITS)

    def lowest_key(self, width: int) -> int:
        """The smallest of the keys of so many bits: those of narrow integers are extended."""
        kind = self.order.kind
        if kind.is_float or kind.bit_width == width:
            return 0
        if kind.is_signed:
            return (1 << (width - 1)) - (1 << (kind.bit_width - 1))
        return (1 << width) - (1 << kind.bit_width) if self.order.descending else 0

    @property
    def counts(self) -> Shape:
        """How often each digit is in each tile of each line; later, in all tiles before."""
        return Shape.array(P.S32, (self.network.lines, DIGITS, self.tiles))

    @property
    def totals(self) -> Shape:
        """How often each digit is in each line."""
        return Shape.array(P.S32, (self.network.lines, DIGITS))

    @property
    def scratch(self) -> tuple[Shape, ...]:
        """The arrays that the kernels need besides operands and results: another place for the elements, and counts."""
        return (*self.shapes, self.counts, self.totals)

    @property
    def count_bytes(self) -> int:
        """Bytes that counting the digits moves."""
        return self.shapes[self.order.operand].byte_size + self.counts.byte_size

    @property
    def scan_bytes(self) -> int:
        """Bytes that adding the counts up moves."""
        return 2 * self.counts.byte_size + self.totals.byte_size

    @property
    def move_bytes(self) -> int:
        """Bytes that moving the elements moves: a run of equal digits may begin and end inside of a sector."""
        edges = self.blocks * min(DIGITS, self.tile) * SECTOR_BYTES * len(self.shapes)
        arrays = 2 * sum(shape.byte_size for shape in self.shapes)  # the keys of a tile are read again from a cache
        return arrays + edges + self.counts.byte_size + self.totals.byte_size

    @property
    def bytes_moved(self) -> int:
        """Bytes that all passes move."""
        return len(self.shifts) * (self.count_bytes + self.scan_bytes + self.move_bytes)

    def facts(self, context: PlanContext) -> Mapping[str, object]:
        """See `planners.plan.Work`."""
        return {
            "passes": f"{len(self.shifts)}, over the bits {self.bits[0]} to {self.bits[1] - 1}",
            "bytes moved": self.bytes_moved,
            "bytes that a bitonic network would move": self.network.bytes_moved(self.shapes),
        }


def radix_plan(sort: HloInstruction) -> RadixPlan | None:
    """Returns how to sort by digits, where that moves fewer bytes than a bitonic network.

    That depends on sizes, types and the comparator, not on layouts, and nothing between the passes that ask and the
    emitter changes these.
    """
    plan = RadixPlan.of(sort)
    if plan is None or plan.network.size >= 1 << 31:
        return None
    shapes = [*plan.shapes, *([_positions(sort)] if sort.attributes_as(at.SortAttributes).is_stable else [])]
    return plan if plan.bytes_moved < plan.network.bytes_moved(shapes) else None


def _positions(sort: HloInstruction) -> Shape:
    """What a bitonic network would sort besides, to be stable."""
    return sort.operand(0).shape.with_element_type(P.S32)
