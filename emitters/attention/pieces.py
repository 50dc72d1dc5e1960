"""What the loops over blocks call: packing of operands, and products of what is packed, in registers.

Left operands are packed as rows, `left_row_bytes` apart; right operands as panels of columns, as the GEMM's are. Sums
lie in rows like those of left operands. All strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import numpy as np

from xjit.dataclass import dataclass
from xjit.emitters.attention.score_bound import score_bound_function
from xjit.emitters.attention.shapes import COMPUTE, COMPUTE_BYTES, PRODUCTS
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.library import add_record
from xjit.emitters.gemm.microkernels.kernels import kernels_of_blocks
from xjit.emitters.gemm.microkernels.microkernel import Slot
from xjit.emitters.gemm.panels import multiply_panels_function, pack_panels_function, vectors_for
from xjit.emitters.gemm.support import GemmSupport, copy_function, support_for
from xjit.llvm import LLVMType, Module, Value
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I1, I8
from xjit.llvm.values import const_int
from xjit.passes.analysis.attention.half_planes import MAX_PLANES


@dataclass(frozen=True, slots=True)
class Extent:
    """Rows or columns first .. first + count."""

    first: Value
    count: Value


class BlockPieces:
    """The pieces for one function: `builder` is at its start, `parameters` is its record, of `layout`, with the
    table of kernels behind it (`add_block_record`).
    """

    def __init__(self, builder: StructuredBuilder, layout: StructLayout, parameters: Value) -> None:
        module = builder.module
        self.builder = builder
        self.module = module
        self.tile = register_tile(module.target, PRODUCTS)
        self._layout = layout
        self._parameters = parameters
        self._multiply = multiply_panels_function(module, _support(module, COMPUTE))
        self._record = self.scratch(8 * Slot.COUNT, "kernel_record")
        kernels = builder.offset(parameters, builder.i64(layout.size))
        builder.store_slot(kernels, self._record, Slot.KERNELS)

    def scratch(self, size: int, name: str) -> Value:
        """Memory on the stack."""
        return self.builder.alloca(I8, size, align=64, name=name)

    def field(self, name: str) -> Value:
        """A field of the record."""
        return self._layout.load(self.builder, self._parameters, name)

    def row_bytes(self, depth: Value) -> Value:
        """Bytes between the packed rows of a left operand, or of sums: see `left_row_bytes`."""
        builder = self.builder
        size = builder.mul(depth, builder.i64(COMPUTE_BYTES))
        lines = builder.udiv(builder.add(size, builder.i64(63)), builder.i64(64))
        return builder.mul(builder.or_(lines, builder.i64(1)), builder.i64(64))

    def number(self, name: str) -> Value:
        """A field of the record that holds the bits of a number of the compute type."""
        place = self._layout.pointer(self.builder, self._parameters, name)
        return self.builder.load(COMPUTE, place, COMPUTE_BYTES)

    def is_masked(self, rows: Extent, columns: Extent) -> Value:
        """Whether all scores of a block are in one of the record's half-planes, as i1."""
        builder = self.builder
        found: Value = const_int(I1, 0)
        for n in range(MAX_PLANES):
            least = self.field(f"plane_{n}_offset")
            for extent, name in ((rows, "row"), (columns, "column")):
                factor = self.field(f"plane_{n}_{name}")
                last = builder.sub(builder.add(extent.first, extent.count), builder.i64(1))
                ends = builder.mul(factor, extent.first), builder.mul(factor, last)
                least = builder.add(least, builder.min(*ends))
            found = builder.or_(found, builder.icmp_signed(">=", least, builder.i64(0)))
        return found

    def has_masked(self, rows: Extent, columns: Extent) -> Value:
        """Whether some row of a block may be masked: the first one or the last one."""
        builder = self.builder
        last = builder.sub(builder.add(rows.first, rows.count), builder.i64(1))
        first, last = (self.is_masked(Extent(row, builder.i64(1)), columns) for row in (rows.first, last))
        return builder.or_(first, last)

    def score_bound(self, left: tuple[Value, Value], rows: Value, panels: tuple[Value, Value], depth: Value) -> Value:
        """What no product of rows with packed columns exceeds; for `left` and `panels` see `multiply_strip`."""
        builder = self.builder
        packed, columns = panels
        numbers = builder.mul(vectors_for(builder, self.tile, columns), builder.i64(self.tile.width))
        args = *left, rows, packed, builder.mul(numbers, depth), depth
        return builder.call(score_bound_function(self.module), args)

    # -- packing

    def pack_rows(
        self, target: Value, storage: LLVMType, source: Value, strides: tuple[Value, Value], rows: Value, depth: Value
    ) -> None:
        """Packs rows of a left operand; `strides` are those of rows and of what is summed over."""
        builder = self.builder
        packed = self.row_bytes(depth), builder.i64(COMPUTE_BYTES)
        copy = copy_function(self.module, storage, COMPUTE, COMPUTE, transposes=True)
        builder.call(copy, (target, *packed, source, *strides, rows, depth))

    def pack_panels(
        self,
        target: Value,
        storage: LLVMType,
        source: Value,
        strides: tuple[Value, Value],
        depth: Value,
        columns: Value,
    ) -> None:
        """Packs a right operand; `strides` are those of what is summed over and of columns."""
        builder, zero = self.builder, self.builder.i64(0)
        pack = pack_panels_function(self.module, _support(self.module, storage))
        runs = zero, *strides, builder.i64(1)
        builder.call(pack, (target, source, *runs, depth, columns, depth, zero, depth))

    def unpack(
        self, storage: LLVMType, target: Value, strides: tuple[Value, Value], sums: Value, rows: Value, width: Value
    ) -> None:
        """Rounds and stores sums."""
        builder = self.builder
        packed = self.row_bytes(width), builder.i64(COMPUTE_BYTES)
        copy = copy_function(self.module, COMPUTE, storage, COMPUTE, transposes=True)
        builder.call(copy, (target, *strides, sums, *packed, rows, width))

    # -- products

    def multiply_strip(
        self,
        left: tuple[Value, Value],
        height: Value,
        depth: Value,
        panels: tuple[Value, Value],
        result: tuple[Value, Value],
        adds: Value,
    ) -> None:
        """Multiplies a strip of packed rows: at most those of a register tile.

        `left` and `result` are where they start and the bytes between rows; `panels` are where they are packed, and how
        many columns. The products are added to the result if `adds` is not 0.
        """
        builder = self.builder
        start, row = left
        self._describe(start, row, height, (builder.i64(1), builder.i64(0), depth), result[1], adds)
        self._multiply_panels(panels, depth, result[0], height)

    def multiply_transposed(
        self,
        left: tuple[Value, Value],
        height: Value,
        depth: Value,
        panels: tuple[Value, Value],
        result: tuple[Value, Value],
        adds: Value,
    ) -> None:
        """The same for a strip of packed columns: rows, as far apart as `left` says, are summed over."""
        builder = self.builder
        start, row = left
        each = builder.i64(COMPUTE_BYTES)
        self._describe(start, each, height, (depth, row, builder.i64(1)), result[1], adds)
        self._multiply_panels(panels, depth, result[0], height)

    def _describe(
        self, left: Value, row: Value, height: Value, runs: tuple[Value, Value, Value], result_row: Value, adds: Value
    ) -> None:
        """Tells the kernels where their left rows lie; rows that are not there repeat the last one."""
        builder = self.builder
        last = builder.sub(height, builder.i64(1))
        for i in range(self.tile.rows):
            index = builder.min(builder.i64(i), last)
            builder.store_slot(builder.offset(left, builder.mul(index, row)), self._record, i)
        for slot, value in (
            *zip((Slot.K_OUTER, Slot.A_OUTER, Slot.K_INNER), runs, strict=True),
            (Slot.C_STRIDE, result_row),
            (Slot.NUM_ROWS, height),
            (Slot.ACCUMULATE, adds),
        ):
            builder.store_slot(value, self._record, slot)

    def _multiply_panels(self, panels: tuple[Value, Value], depth: Value, result: Value, height: Value) -> None:
        builder = self.builder
        packed, columns = panels
        panel_step = builder.mul(depth, builder.i64(self.tile.width * COMPUTE_BYTES))
        builder.call(self._multiply, (self._record, result, packed, panel_step, builder.i64(0), columns, height))


def _support(module: Module, right: LLVMType) -> GemmSupport:
    """What packs a right operand of a type and multiplies it."""
    return support_for(module, GemmTypes(COMPUTE, right, COMPUTE), transposes=True, linked=True)


def add_block_record(module: Module, numbers: np.ndarray, rows: Iterable[int], columns: Set[int]) -> Value:
    """A constant of some numbers, and the table of kernels for left operands of so many rows and results of so many
    columns; links the kernels.
    """
    kernels = kernels_of_blocks(register_tile(module.target, PRODUCTS), rows, columns, PRODUCTS)
    return add_record(module, PRODUCTS, numbers, kernels)
