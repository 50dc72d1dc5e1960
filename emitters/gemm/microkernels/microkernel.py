"""The register-tile kernels: C[rows, columns] (+)= A[rows, k] * B[k, columns] with all of the C tile in registers.

Rows of A are read through a table of row pointers, along which k is contiguous: rows may lie anywhere (a matrix with
any row stride, a packed block, the pixels of an image). B is read in vectors of consecutive columns, a fixed byte
stride from one k to the next. There is one kernel per (rows, vectors) variant (`kernels`). Here k counts lanes
(`units`): several elements of k for units that sum their products.

Packed columns are padded to whole vectors; a kernel for others (`masks`) reads no more of a row than its lanes.

Invariants: k ascends, one multiply-add per k and element, so a result does not depend on the variant; nothing outside
the given rows and `lanes` is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.register_tile import RegisterTile, register_tile
from xjit.emitters.gemm.blocking.storage import has_native_masks, size_of
from xjit.emitters.gemm.blocking.units import Unit, is_biased
from xjit.emitters.gemm.microkernels.tile_instructions import bf16_part, flush
from xjit.emitters.gemm.packing.conversions import lane_mask
from xjit.llvm import Function, Module, Phi, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import BFLOAT, I8, I16, I32, I64, PTR, vector
from xjit.llvm.values import zero

MAX_ROWS = 8
PREFETCH_STEPS = 8  # of k: panels come from the second-level cache, a little late if only the hardware asks for them


class Slot(IntEnum):
    """Fields of the record that a kernel's first parameter points to; row pointers are slots 0 to MAX_ROWS - 1."""

    K_OUTER = MAX_ROWS  # runs of k: the row pointers move by A_OUTER bytes between runs
    A_OUTER = MAX_ROWS + 1
    K_INNER = MAX_ROWS + 2  # length of a run
    C_STRIDE = MAX_ROWS + 3
    NUM_ROWS = MAX_ROWS + 4
    ACCUMULATE = MAX_ROWS + 5  # 1: add to C, 0: overwrite it
    A_STRIDE = MAX_ROWS + 6  # of matrix units, which read rows from slot 0 on, so many bytes apart
    KERNELS = MAX_ROWS + 7  # their table (`kernels`)
    COUNT = MAX_ROWS + 8


KERNEL_PARAMS = ((PTR, "record"), (PTR, "b"), (I64, "b_stride"), (PTR, "c"), (I64, "lanes"))
"""`lanes` counts the valid lanes of the last vector."""


def emit_microkernel(
    module: Module, name: str, types: GemmTypes, rows: int, vectors: int, masks: bool, partial: bool
) -> Function:
    """Defines the variant of so many rows and vectors, with masks or none (`KernelSize`)."""
    tile = register_tile(module.target, types)
    return _Microkernel(module, name, types, (rows, vectors), tile, masks=masks, partial=partial).emit()


class _Microkernel:
    """Emits one variant."""

    def __init__(
        self,
        module: Module,
        name: str,
        types: GemmTypes,
        size: tuple[int, int],
        tile: RegisterTile,
        *,
        masks: bool,
        partial: bool,
    ) -> None:
        self.target = module.target
        self.types = types
        self.compute = types.compute
        self.rows, self.vectors = size
        self.masks = masks
        self.partial = partial
        self.width = tile.width
        self.type = vector(types.compute, tile.width)
        self.sure_rows = 1 + max((variant for variant in tile.row_variants if variant < self.rows), default=0)
        self.builder = define(module, name, KERNEL_PARAMS, linkage="")

    def emit(self) -> Function:
        """Emits the kernel: twice, where few columns leave half of a vector empty."""
        lanes, width = self.builder.function.args[-1], self.width
        if self._may_be_narrow():
            with self.builder.when(self.builder.icmp_signed("<=", lanes, self.builder.i64(width // 2))):
                self._emit_columns(width // 2)
        self._emit_columns(width)
        return self.builder.function

    def _may_be_narrow(self) -> bool:
        """Whether half a register may do for all columns: many CPUs split an operation of 512 bits in two."""
        halves = self.target.vector_bits >= 512 and self.width * self.compute.bits == self.target.vector_bits
        return self.partial and self.vectors == 1 and self.types.unit is Unit.FMA and halves

    def _emit_columns(self, width: int) -> None:
        """Emits all of the work in vectors of `width` elements, and the return."""
        builder = self.builder
        record, b, b_stride, c, lanes = builder.function.args
        self.width, self.type = width, vector(self.compute, width)
        masked = self.partial and has_native_masks(self.target, self.compute)
        self.mask = lane_mask(builder, lanes, self.width) if masked else None
        self.c_rows = self._c_rows(record, c)
        for pointer in self.c_rows:
            self._prefetch(pointer, write=True)
        sums, b_end = self._multiply(record, b, b_stride)
        if is_biased(self.types.unit, self.types.lhs):
            sums = self._correct(sums, b_end)
        if self.mask is not None and self.target.vector_bits < 512:  # there, masked stores are slow
            with builder.when(builder.icmp_signed("==", lanes, builder.i64(self.width))):
                self._finish(record, sums, None)
        self._finish(record, sums, self.mask)

    def _finish(self, record: Value, sums: list[Value], mask: Value | None) -> None:
        """Writes the sums, or adds them to what is there, and returns; `mask`: of the last vector (None: all lanes)."""
        sums = self._accumulate(record, sums, mask)
        for i in range(self.rows):
            for v in range(self.vectors):
                self._store_c(sums[i * self.vectors + v], i, v, mask)
        self.builder.ret_void()

    def _prefetch(self, row: Value, *, write: bool = False) -> None:
        """Asks for the lines of a row of the tile."""
        for line in range(0, self.vectors * self.width * size_of(self.compute), 64):
            self.builder.prefetch(self.builder.offset(row, self.builder.i64(line)), write=write)

    def _c_rows(self, record: Value, c: Value) -> list[Value]:
        """Addresses of the rows of C; rows that may be missing go to a dummy if they are."""
        builder = self.builder
        stride = builder.load_i64(record, Slot.C_STRIDE)
        rows = [builder.offset(c, builder.mul(stride, builder.i64(i))) for i in range(self.rows)]
        if self.sure_rows < self.rows:
            dummy = builder.alloca(self.type, self.vectors, align=64)
            num_rows = builder.load_i64(record, Slot.NUM_ROWS)
            for i in range(self.sure_rows, self.rows):
                rows[i] = builder.select(builder.icmp_signed("<", builder.i64(i), num_rows), rows[i], dummy)
        return rows

    def _correct(self, sums: list[Value], corrections: Value) -> list[Value]:
        """Adds what lies behind the last k of the panel: -128 times the sum of each column."""
        addends = [self._load_b(corrections, v) for v in range(self.vectors)]
        return [self.builder.add(total, addends[i % self.vectors]) for i, total in enumerate(sums)]

    def _multiply(self, record: Value, b: Value, b_stride: Value) -> tuple[list[Value], Value]:
        """The sums, and where B ends."""
        builder = self.builder
        pointers = [builder.load_ptr(record, i, "row") for i in range(self.rows)]
        k_outer, a_outer, k_inner = (
            builder.load_i64(record, slot) for slot in (Slot.K_OUTER, Slot.A_OUTER, Slot.K_INNER)
        )
        zeros = [zero(self.type)] * (self.rows * self.vectors)
        entry, outer, inner = builder.block, builder.append_block("outer"), builder.append_block("inner")
        latch, done = builder.append_block("latch"), builder.append_block("done")
        builder.br(outer)
        builder.position_at_end(outer)
        run = builder.phi(I64, [(builder.i64(0), entry)], "run")
        rows = [builder.phi(PTR, [(pointer, entry)], "row") for pointer in pointers]
        b_run = builder.phi(PTR, [(b, entry)], "b")
        run_sums = [builder.phi(self.type, [(value, entry)], "sum") for value in zeros]
        builder.br(inner)
        builder.position_at_end(inner)
        k = builder.phi(I64, [(builder.i64(0), outer)], "k")
        b_now = builder.phi(PTR, [(b_run, outer)], "b")
        sums = [builder.phi(self.type, [(value, outer)], "sum") for value in run_sums]
        self._prefetch(builder.offset(b_now, builder.mul(b_stride, builder.i64(PREFETCH_STEPS))))
        new_sums = self._step(rows, k, b_now, sums)
        b_next = builder.offset(b_now, b_stride)
        k_next = builder.add(k, builder.i64(1), nuw=True)
        for phi, value in ((k, k_next), (b_now, b_next), *zip(sums, new_sums)):
            phi.add_incoming(value, inner)
        builder.cbranch(builder.icmp_signed("<", k_next, k_inner), inner, latch)
        builder.position_at_end(latch)
        run_next = builder.add(run, builder.i64(1))
        moved = [builder.offset(row, a_outer) for row in rows]
        for phi, value in ((run, run_next), (b_run, b_next), *zip(rows, moved), *zip(run_sums, new_sums)):
            phi.add_incoming(value, latch)
        builder.cbranch(builder.icmp_signed("<", run_next, k_outer), outer, done)
        builder.position_at_end(done)
        return new_sums, b_next

    def _step(self, rows: Sequence[Value], k: Value, b: Value, sums: Sequence[Phi]) -> list[Value]:
        """One k: broadcasts an element of each row and multiplies it with the vectors of B."""
        builder = self.builder
        columns = [self._load_b(b, v) for v in range(self.vectors)]
        result: list[Value] = []
        for i, row in enumerate(rows):
            element = builder.load(self.compute, builder.gep(self.compute, row, k), size_of(self.compute))
            splat = builder.splat(element, self.width)
            for v in range(self.vectors):
                result.append(add_products(builder, self.types.unit, splat, columns[v], sums[i * self.vectors + v]))
        return result

    def _column_address(self, row: Value, v: int) -> Value:
        return self.builder.offset(row, self.builder.i64(v * self.width * size_of(self.compute)))

    def _load_b(self, row: Value, v: int) -> Value:
        pointer = self._column_address(row, v)
        return self._load(pointer, v, self.mask if self.masks else None)

    def _load(self, pointer: Value, v: int, mask: Value | None) -> Value:
        if mask is None or v < self.vectors - 1:
            return self.builder.load(self.type, pointer, size_of(self.compute))
        return self.builder.masked_load(self.type, pointer, mask, size_of(self.compute), zero(self.type))

    def _c_address(self, i: int, v: int) -> Value:
        return self._column_address(self.c_rows[i], v)

    def _accumulate(self, record: Value, sums: list[Value], mask: Value | None) -> list[Value]:
        builder = self.builder

        def added() -> list[Value]:
            return [
                add(builder, self._load(self._c_address(i, v), v, mask), sums[i * self.vectors + v])
                for i in range(self.rows)
                for v in range(self.vectors)
            ]

        wanted = builder.icmp_signed("!=", builder.load_i64(record, Slot.ACCUMULATE), builder.i64(0))
        return list(builder.if_else(wanted, added, lambda: sums))

    def _store_c(self, value: Value, i: int, v: int, mask: Value | None) -> None:
        pointer = self._c_address(i, v)
        if mask is None or v < self.vectors - 1:
            self.builder.store(value, pointer, size_of(self.compute))
        else:
            self.builder.masked_store(value, pointer, mask, size_of(self.compute))


_PAIR_PRODUCTS = {16: "x86.avx512.pmaddw.d.512", 8: "x86.avx2.pmadd.wd", 4: "x86.sse2.pmadd.wd"}
_BYTE_PRODUCTS = {16: "x86.avx512.vpdpbusd.512", 8: "x86.avx512.vpdpbusd.256"}


def add_products(builder: StructuredBuilder, unit: Unit, a: Value, b: Value, c: Value) -> Value:
    """c + the products of the elements in each lane of a and b."""
    if unit is Unit.PAIRS:
        pairs = [builder.bitcast(value, vector(I16, 2 * c.type.width)) for value in (a, b)]
        return builder.add(builder.intrinsic(_PAIR_PRODUCTS[c.type.width], c.type, pairs, ()), c)
    if unit is Unit.BYTES:
        fours = [builder.bitcast(value, vector(I8, 4 * c.type.width)) for value in (a, b)]
        return builder.intrinsic(_BYTE_PRODUCTS[c.type.width], c.type, (c, *fours), ())
    if unit is Unit.BF16:
        return _add_bf16_pairs(builder, a, b, c)
    return builder.multiply_add(a, b, c)


def _add_bf16_pairs(builder: StructuredBuilder, a: Value, b: Value, c: Value) -> Value:
    """vdpbf16ps: the products of the odd elements are added first, then those of the even ones, each rounded."""
    if builder.target.has("avx512bf16"):
        pairs = [builder.bitcast(value, vector(BFLOAT, 2 * c.type.width)) for value in (a, b)]
        return builder.intrinsic("x86.avx512bf16.dpbf16ps.512", c.type, (c, *pairs), ())
    for part in (1, 0):
        x, y = (bf16_part(builder, builder.bitcast(value, I32), part) for value in (a, b))
        c = flush(builder, builder.fma(x, y, flush(builder, c)))
    return c


def add(builder: StructuredBuilder, a: Value, b: Value) -> Value:
    """a + b of floats or integers."""
    return builder.add(a, b) if a.type.is_int else builder.fadd(a, b)
