"""Products that need no copies: small ones, whose operands are read where they lie, by code of the program. Pure
arithmetic.

The library's multiplication serves all shapes, but takes longer to compile than XLA takes for a small program; here all
sizes and strides are constants, and what is left is one loop over k per register tile. Products are multiply-adds, and
summed in the library's order: both have the same bits, where its unit is that, or sums are of integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xjit.emitters.gemm.blocking.method import GemmTypes, Method
from xjit.emitters.gemm.blocking.plan import SMALL_RHS_BYTES, rhs_stays_in_cache
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.blocking.shapes import GemmParameters, GemmShape
from xjit.emitters.gemm.blocking.storage import has_native_masks, size_of
from xjit.emitters.gemm.blocking.units import Unit
from xjit.llvm.target import Target
from xjit.llvm.types import I16, LLVMType

MAX_ROWS = 8
MAX_VECTORS = 8
MAX_SCRATCH_BYTES = 32 << 10  # of a strip's sums that have no place in a result
CACHE_WAY_BYTES = 4096  # addresses that far apart share a set of the first-level cache
FMA_LATENCY = 4  # cycles; two start in each, and two loads
L1_BYTES = 16 << 10  # of a right operand that stays in the first-level cache; else it is read by lines
LINE_BYTES, LINE_CYCLES = 64, 2.0
LOOP_CYCLES = 0.5  # of a step of k
VARIANT_COST = 0.05  # of the time: what another size of tile must save
MAX_CONVERTED_TERMS = 24  # of operands that are converted wherever they are used
MAX_CONVERTED_STEPS = 64  # multiply-adds of a row of them: more are worth packing, and have better units


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector of a row: `width` elements from `first` on, of which `count` are there (fewer: under a mask)."""

    first: int
    width: int
    count: int

    @property
    def is_part(self) -> bool:
        """Whether some elements are not there."""
        return self.count < self.width


@dataclass(frozen=True, slots=True)
class DirectProduct:
    """A product by register tiles of `rows` rows and `vectors` vectors, and smaller ones at the ends.

    A unit of work is a strip: the tiles of `rows` rows of one batch. `panels` are the columns of its tiles: how many
    there are of a kind that follow each other, and the lanes of the first.
    """

    shape: GemmShape
    types: GemmTypes
    rows: int
    vectors: int
    panels: tuple[tuple[int, tuple[Lanes, ...]], ...]

    @property
    def compute(self) -> LLVMType:
        """The type of sums in registers: of integers whose result keeps 16 bits or fewer, that many."""
        narrow = all(type.is_int and type.bits <= I16.bits for type in (self.types.lhs, self.types.rhs, self.types.out))
        return I16 if narrow else self.types.compute

    @property
    def strips(self) -> int:
        """Strips of a batch; the last may have fewer rows."""
        return -(-self.shape.m // self.rows)

    @property
    def scratch_row(self) -> int:
        """Bytes between rows of sums in scratch memory: whole lines."""
        return -(-self.shape.n * size_of(self.types.compute) // 64) * 64

    @property
    def units(self) -> int:
        """Strips of all batches."""
        return self.shape.num_batches * self.strips


def plan_direct(
    shape: GemmShape, types: GemmTypes, plan: GemmParameters, target: Target, *, in_scratch: bool
) -> DirectProduct | None:
    """The product of a shape for which the library has a `plan`; None if it is better off there.

    With `in_scratch`, an epilogue takes the sums from scratch memory.
    """
    if not _reads_in_place(shape, types, plan, target) or not (in_scratch or _writes_in_place(shape)):
        return None
    product = _product(shape, replace(types, unit=Unit.FMA), target)
    if not types.lhs is types.rhs is types.compute and not _converts_few(product, target):
        return None
    types_in_memory = (types.rhs, types.compute if in_scratch else types.out)
    if product.panels[-1][1][-1].is_part and not all(has_native_masks(target, type) for type in types_in_memory):
        return None
    return None if in_scratch and product.rows * product.scratch_row > MAX_SCRATCH_BYTES else product


def _product(shape: GemmShape, types: GemmTypes, target: Target) -> DirectProduct:
    whole = DirectProduct(shape, types, 1, 1, ())
    width = target.vector_width(whole.compute)
    rows, vectors = _tile(whole, width, target)
    return replace(whole, rows=rows, vectors=vectors, panels=_panels(shape.n, width, vectors))


def _reads_in_place(shape: GemmShape, types: GemmTypes, plan: GemmParameters, target: Target) -> bool:
    """Whether vectors of the right operand lie in memory as they are multiplied, and stay in the cache."""
    if plan.swap_operands or shape.rhs_column != 1 or shape.k_outer != 1 or plan.block_k_inner < shape.k:
        return False
    lhs_size, size = size_of(types.lhs), size_of(types.rhs)
    match plan.method:
        case Method.TILES if not rhs_stays_in_cache(
            shape, size, min(plan.block_m, shape.m), register_tile(target, types).rows
        ):
            return False
        case Method.VECTOR_ALONG_N if shape.k * abs(shape.rhs_k_inner) * size > SMALL_RHS_BYTES:
            return False
        case Method.TILES | Method.VECTOR_ALONG_N:
            pass
        case _:
            return False
    if shape.lhs_k_inner == 1 or shape.k == 1:
        return shape.lhs_row * lhs_size % (CACHE_WAY_BYTES // 2) != 0 or shape.m <= MAX_ROWS
    step = abs(shape.lhs_k_inner) * lhs_size
    return shape.k * step <= SMALL_RHS_BYTES and step % (CACHE_WAY_BYTES // 4) != 0


def _converts_few(product: DirectProduct, target: Target) -> bool:
    vectors = -(-product.shape.n // target.vector_width(product.compute))
    return product.shape.k <= MAX_CONVERTED_TERMS and product.shape.k * vectors <= MAX_CONVERTED_STEPS


def _writes_in_place(shape: GemmShape) -> bool:
    return shape.out_column == 1 or shape.n == 1


def _tile(product: DirectProduct, width: int, target: Target) -> tuple[int, int]:
    """The tile that takes least time: its sums, the vectors of a row of the right operand, and an element of the left
    are in registers.
    """
    shape, size, registers = product.shape, size_of(product.types.rhs), 32 if target.vector_bits >= 512 else 16
    vectors, spare = -(-shape.n // width), 1 if target.has_fma else 2
    tiles = (
        (rows, columns)
        for columns in range(min(vectors, MAX_VECTORS), 0, -1)
        for rows in range(min(shape.m, MAX_ROWS), 0, -1)
        if (rows + 1) * columns + spare <= registers
    )
    far = abs(shape.rhs_k_inner) * shape.k * size > L1_BYTES
    vectors_of_line = LINE_BYTES * 8 // target.vector_bits if far else 0
    return min(tiles, key=lambda tile: _cycles(shape, vectors, vectors_of_line, *tile))


def _cycles(shape: GemmShape, vectors: int, vectors_of_line: int, rows: int, columns: int) -> float:
    """An estimate of the time of a batch with such tiles; right operands come by lines of some vectors, or 0."""

    def of_tile(m: int, n: int) -> float:
        step = max(m * n / 2, (m + n) / 2, FMA_LATENCY) + LOOP_CYCLES
        step += LINE_CYCLES * -(-n // vectors_of_line) if vectors_of_line else 0
        return shape.k * step + m * n

    heights = [(shape.m // rows, rows), (1 if shape.m % rows else 0, shape.m % rows)]
    widths = [(vectors // columns, columns), (1 if vectors % columns else 0, vectors % columns)]
    cycles = sum(a * b * of_tile(m, n) for a, m in heights for b, n in widths if a and b)
    variants = (1 + bool(shape.m % rows)) * (1 + bool(vectors % columns))
    return cycles * (1 + VARIANT_COST * (variants - 1))


def _panels(columns: int, width: int, vectors: int) -> tuple[tuple[int, tuple[Lanes, ...]], ...]:
    """The columns in panels of whole vectors; the last may end under a mask."""
    lanes = [Lanes(first, width, min(width, columns - first)) for first in range(0, columns, width)]
    even = columns // width // vectors
    last = lanes[even * vectors :]
    return (*([(even, tuple(lanes[:vectors]))] if even else []), *([(1, tuple(last))] if last else []))
