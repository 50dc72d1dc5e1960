"""The code of a product that needs no copies (`direct_plan`): all sizes and strides are constants.

Invariants: k ascends, one multiply-add per k and element, so sums have the bits of the library's multiply-adds; nothing
outside of the arrays is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.emitters.gemm.blocking.direct_plan import DirectProduct, Lanes
from xjit.emitters.gemm.blocking.storage import memory_type, size_of
from xjit.emitters.gemm.control_flow import batch_indices, moved_to
from xjit.emitters.gemm.epilogue import call_epilogue
from xjit.emitters.gemm.packing.conversions import convert, lane_mask, load_as, widen
from xjit.llvm import LLVMType, Value
from xjit.llvm.inline_control_flow import do_while
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I8, vector
from xjit.llvm.values import constant


@dataclass(frozen=True, slots=True)
class _Strip:
    """Where the operands of a strip are and where its sums go, as elements of `kept`, with rows `row` bytes apart."""

    lhs: Value
    rhs: Value
    sums: Value
    kept: LLVMType
    row: int
    batch: Value
    first_row: Value


@dataclass(frozen=True, slots=True)
class DirectEmitter:
    """Emits strips of a product. Sums are kept in `out`; None: in `scratch` memory, for the epilogue of `closure`."""

    builder: StructuredBuilder
    product: DirectProduct
    operands: tuple[Value, Value]
    out: Value | None
    closure: Value | None

    def emit(self, begin: Value, end: Value) -> None:
        """Emits the loop over a range of units."""
        builder, product = self.builder, self.product
        rows, rest = product.rows, product.shape.m % product.rows
        scratch = self._scratch() if self.out is None else None
        with builder.loop(begin, end, name="unit") as unit:
            batch, strip = builder.i64(0), unit
            if product.shape.num_batches > 1:
                strips = builder.i64(product.strips)
                batch, strip = builder.udiv(unit, strips), builder.urem(unit, strips)
            place = self._locate(batch, builder.mul(strip, builder.i64(rows)), scratch)
            if not rest:
                self._strip(place, rows)
            else:
                is_last = builder.icmp_signed("==", strip, builder.i64(product.strips - 1))
                with builder.when(is_last):
                    self._strip(place, rest)
                with builder.when(builder.not_(is_last)):
                    self._strip(place, rows)

    def _scratch(self) -> Value:
        return self.builder.alloca(I8, self.product.rows * self.product.scratch_row, align=64, name="sums")

    def _locate(self, batch: Value, first_row: Value, scratch: Value | None) -> _Strip:
        builder, shape, types = self.builder, self.product.shape, self.product.types
        inner = [builder.i64(d.size) for d in shape.batch[:-1]]
        indices = [first_row, *(batch_indices(builder, batch, inner) if shape.batch else ())]

        def place(base: Value, storage: LLVMType, row_stride: int, strides: Sequence[int]) -> Value:
            num_bytes = [builder.i64(stride * size_of(storage)) for stride in (row_stride, *strides)]
            return moved_to(builder, base, indices, num_bytes)

        lhs, rhs = self.operands
        lhs = place(lhs, types.lhs, shape.lhs_row, [d.lhs_stride for d in shape.batch])
        rhs = place(rhs, types.rhs, 0, [d.rhs_stride for d in shape.batch])
        if scratch is not None:
            return _Strip(lhs, rhs, scratch, types.compute, self.product.scratch_row, batch, first_row)
        assert self.out is not None
        sums = place(self.out, types.out, shape.out_row, [d.out_stride for d in shape.batch])
        return _Strip(lhs, rhs, sums, types.out, shape.out_row * size_of(types.out), batch, first_row)

    def _strip(self, strip: _Strip, rows: int) -> None:
        """All panels of a strip, and what is made of them."""
        builder = self.builder
        for count, lanes in self.product.panels:
            if count == 1:
                self._tile(strip, rows, lanes, builder.i64(lanes[0].first))
                continue
            columns = sum(lane.width for lane in lanes)
            start = lanes[0].first
            with builder.loop(builder.i64(start), builder.i64(start + count * columns), columns, "column") as column:
                self._tile(strip, rows, lanes, column)
        if self.closure is not None:
            where = strip.batch, strip.first_row, builder.i64(rows), builder.i64(0), builder.i64(self.product.shape.n)
            call_epilogue(builder, self.closure, (strip.sums, builder.i64(strip.row), *where))

    def _tile(self, strip: _Strip, rows: int, lanes: Sequence[Lanes], first: Value) -> None:
        """The sums of one register tile, whose columns begin at `first`."""
        builder, shape, types = self.builder, self.product.shape, self.product.types
        offsets = [lane.first - lanes[0].first for lane in lanes]
        masks = [lane_mask(builder, builder.i64(lane.count), lane.width) if lane.is_part else None for lane in lanes]
        width, compute = lanes[0].width, self.product.compute

        def column(row: Value, offset: int, mask: Value | None) -> Value:
            place = builder.offset(row, builder.i64(offset * size_of(types.rhs)))
            return load_as(builder, compute, types.rhs, place, width, mask)

        def splat(rows: Value, row: int) -> Value:
            place = builder.offset(rows, builder.i64(row * shape.lhs_row * size_of(types.lhs)))
            element = builder.load(memory_type(types.lhs, 1), place, size_of(types.lhs))
            return widen(builder, builder.splat(element, width), types.lhs, compute)

        def step(state: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
            left, a, b, *sums = state
            columns = [column(b, offset, mask) for offset, mask in zip(offsets, masks)]
            following: list[Value] = []
            for i in range(rows):
                element = splat(a, i)
                for b_lanes in columns:
                    following.append(builder.multiply_add(element, b_lanes, sums[len(following)]))
            left = builder.sub(left, builder.i64(1))
            a = builder.offset(a, builder.i64(shape.lhs_k_inner * size_of(types.lhs)))
            b = builder.offset(b, builder.i64(shape.rhs_k_inner * size_of(types.rhs)))
            return builder.icmp_signed("!=", left, builder.i64(0)), [left, a, b, *following]

        start = builder.offset(strip.rhs, builder.mul(first, builder.i64(size_of(types.rhs))))
        none = -0.0 if shape.k == 1 else 0.0  # one term is the sum, with its sign if it is zero
        sums = [constant(vector(compute, width), none) for _ in range(rows) for _ in lanes]
        _, _, _, *sums = do_while(builder, [builder.i64(shape.k), strip.lhs, start, *sums], step)
        size = size_of(strip.kept)
        target = builder.offset(strip.sums, builder.mul(first, builder.i64(size)))
        for i in range(rows):
            row = builder.offset(target, builder.i64(i * strip.row))
            for lane, offset, value in zip(lanes, offsets, sums[i * len(lanes) :]):
                place = builder.offset(row, builder.i64(offset * size))
                kept = convert(builder, value, strip.kept)
                if lane.is_part:  # the epilogue reads it soon
                    builder.store_first(kept, lane.count, place, size)
                else:
                    builder.store(kept, place, size)
