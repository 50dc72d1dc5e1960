"""Strided 2-D copies that convert: how operands are packed and results unpacked.

`emit_copy` defines `dst[i, j] = convert(src[i, j])`. Where rows are contiguous on both sides, that is rows of vectors;
for any byte strides, the fast way is found at run time: in-register transposes where the two sides are contiguous along
different dimensions, else element by element. Invariant: exactly `rows x columns` elements are read and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xjit.emitters.gemm.blocking.storage import has_native_masks, memory_type, size_of
from xjit.emitters.gemm.packing.conversions import lane_mask, load_as, store_as, widen
from xjit.emitters.gemm.packing.tile_depths import by_depth
from xjit.llvm import Function, LLVMType, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.transpose import transpose_blocks
from xjit.llvm.types import I64, PTR

_UNROLL = 4
_TILE_DEPTHS = (16, 8, 4, 2)  # of a transposed tile: vectors in flight; the first reads whole cache lines

COPY_PARAMS = (
    (PTR, "dst"), (I64, "dst_row"), (I64, "dst_column"), (PTR, "src"), (I64, "src_row"), (I64, "src_column"),
    (I64, "rows"), (I64, "columns"),
)  # fmt: skip
"""Strides are in bytes."""


@dataclass(frozen=True, slots=True)
class _Strided:
    """A matrix in memory."""

    ptr: Value
    row: Value
    column: Value
    elem: LLVMType

    def at(self, builder: StructuredBuilder, i: Value, j: Value) -> Value:
        return builder.offset_2d(self.ptr, i, self.row, j, self.column)

    def contiguous(self, builder: StructuredBuilder) -> _Strided:
        """The same matrix, if its columns are contiguous."""
        return replace(self, column=builder.i64(size_of(self.elem)))


def emit_copy(
    module: Module,
    name: str,
    types: tuple[LLVMType, LLVMType, LLVMType],
    *,
    transposes: bool,
    whole: bool = False,
) -> Function:
    """Defines the copy. `types` are those of source and destination elements, and that on the way (no narrower than the
    source's). Without `transposes`, columns must be contiguous on both sides, if there is more than one; where rows are
    `whole`, they must be whole vectors, too.
    """
    builder = define(module, name, COPY_PARAMS)
    _CopyEmitter(builder, types, transposes, whole).emit()
    return builder.function


class _CopyEmitter:
    def __init__(
        self,
        builder: StructuredBuilder,
        types: tuple[LLVMType, LLVMType, LLVMType],
        transposes: bool,
        whole: bool,
    ) -> None:
        source, destination, compute = types
        dst, dst_row, dst_column, src, src_row, src_column, self.rows, self.columns = builder.function.args
        self.builder = builder
        self.compute = compute
        self.transposes = transposes
        self.whole = whole
        self.dst = _Strided(dst, dst_row, dst_column, destination)
        self.src = _Strided(src, src_row, src_column, source)
        self.width = builder.target.vector_width(compute)
        self.masked = has_native_masks(builder.target, source) and has_native_masks(builder.target, destination)

    def emit(self) -> None:
        """Picks the way: rows, transposed, or with the dimensions swapped first; what is left goes element by
        element.
        """
        builder, dst, src = self.builder, self.dst, self.src
        if not self.transposes:
            self._copy_rows()
            builder.ret_void()
            return
        dst_unit, src_unit = builder.i64(size_of(dst.elem)), builder.i64(size_of(src.elem))
        by_columns = builder.icmp_signed("!=", dst.column, dst_unit)
        is_column = builder.and_(
            builder.icmp_signed("==", self.columns, builder.i64(1)),
            builder.icmp_signed("!=", self.rows, builder.i64(1)),
        )
        swappable = builder.and_(builder.or_(by_columns, is_column), builder.icmp_signed("==", dst.row, dst_unit))
        with builder.when(swappable):
            swapped = (dst.ptr, dst.column, dst.row, src.ptr, src.column, src.row, self.columns, self.rows)
            builder.call(builder.function, swapped)
            builder.ret_void()
        by_rows = builder.not_(by_columns)
        with builder.when(builder.and_(by_rows, builder.icmp_signed("==", src.column, src_unit))):
            self._copy_rows()
            builder.ret_void()
        is_across = builder.and_(by_rows, builder.icmp_signed("==", src.row, src_unit))
        (done_rows,) = builder.if_else(is_across, lambda: [self._transpose_tiles()], lambda: [builder.i64(0)])
        self._copy_elements(done_rows)
        builder.ret_void()

    def _copy_elements(self, first_row: Value) -> None:
        """Copies the elements with i >= first_row, `_UNROLL` of a row at a time."""
        builder, first_column = self.builder, self.builder.i64(0)
        full = builder.and_(self.columns, builder.i64(-_UNROLL))
        with builder.loop(first_row, self.rows, name="i") as i:
            ends: list[Value] = [self.dst.at(builder, i, first_column), self.src.at(builder, i, first_column)]
            for start, stop, count in ((first_column, full, _UNROLL), (full, self.columns, 1)):
                with builder.loop_with(start, stop, ends, count, "j") as (_, carried, following):
                    dst, src = carried
                    for _ in range(count):
                        value = load_as(builder, self.compute, self.src.elem, src, 1)
                        store_as(builder, value, self.dst.elem, dst)
                        dst, src = builder.offset(dst, self.dst.column), builder.offset(src, self.src.column)
                    following.extend((dst, src))
                ends = list(carried)

    def _move(
        self, sides: tuple[_Strided, _Strided], i: Value, j: Value, width: int, mask: Value | None = None
    ) -> None:
        builder, (dst, src) = self.builder, sides
        value = load_as(builder, self.compute, src.elem, src.at(builder, i, j), width, mask)
        store_as(builder, value, dst.elem, dst.at(builder, i, j), mask)

    def _copy_rows(self) -> None:
        builder, width = self.builder, self.width
        sides = self.dst.contiguous(builder), self.src.contiguous(builder)
        full = self.columns if self.whole else builder.and_(self.columns, builder.i64(-width))
        left = builder.sub(self.columns, full)
        mask = lane_mask(builder, left, width) if self.masked and not self.whole else None
        with builder.loop(builder.i64(0), self.rows, name="row") as i:
            with builder.loop(builder.i64(0), full, width, name="column") as j:
                self._move(sides, i, j, width)
            if self.whole:
                pass  # nothing is left
            elif mask is not None:
                with builder.when(builder.icmp_signed(">", left, builder.i64(0))):
                    self._move(sides, i, full, width, mask)
            else:
                with builder.loop(full, self.columns, name="tail") as j:
                    self._move(sides, i, j, 1)

    def _transpose_tiles(self) -> Value:
        """src is contiguous along i, dst along j: tiles of a few i and `width` j through registers. Returns how many
        rows it does.

        Those follow each other that are near on the side whose rows, or columns, are farther apart: that may be a power
        of two, of whose lines a cache keeps few. The last ones lie over those before, where the size is no multiple of
        theirs.
        """
        builder, width = self.builder, self.width
        last_column = builder.sub(self.columns, builder.i64(width))
        keeps_row = builder.icmp_signed(">", self.dst.row, self.src.column)

        def tiles(depth: int) -> Sequence[Value]:
            last_row = builder.sub(self.rows, builder.i64(depth))
            down, across = (
                builder.udiv(builder.add(size, builder.i64(step - 1)), builder.i64(step))
                for size, step in ((self.rows, depth), (self.columns, width))
            )
            outer, inner = builder.select(keeps_row, down, across), builder.select(keeps_row, across, down)
            with (
                builder.loop(builder.i64(0), outer, name="outer") as a,
                builder.loop(builder.i64(0), inner, name="inner") as b,
            ):
                i = builder.mul(builder.select(keeps_row, a, b), builder.i64(depth))
                j = builder.mul(builder.select(keeps_row, b, a), builder.i64(width))
                self._transpose_tile(builder.min(i, last_row), builder.min(j, last_column), depth)
            return [self.rows]

        is_wide = builder.icmp_signed(">=", last_column, builder.i64(0))
        nothing = [builder.i64(0)]
        depths = [depth for depth in _TILE_DEPTHS if depth <= width]
        (done,) = builder.if_else(
            is_wide, lambda: by_depth(builder, self.rows, depths, tiles, nothing), lambda: nothing
        )
        return done

    def _transpose_tile(self, i: Value, j: Value, depth: int) -> None:
        builder, width, src, dst = self.builder, self.width, self.src, self.dst
        pieces: list[Value] = []
        pointer = src.at(builder, i, j)
        for lane in range(width):
            pieces.append(builder.load(memory_type(src.elem, depth), pointer, size_of(src.elem)))
            pointer = builder.offset(pointer, src.column) if lane < width - 1 else pointer
        merged = [pieces[lane::depth] for lane in range(depth)]  # vector q: pieces q, q + depth, ...
        while len(merged[0]) > 1:
            merged = [[builder.concatenate(a, b) for a, b in zip(parts[::2], parts[1::2])] for parts in merged]
        tile = [widen(builder, parts[0], src.elem, self.compute) for parts in merged]
        pointer = dst.at(builder, i, j)
        for lane, value in enumerate(transpose_blocks(builder, tile)):
            pointer = builder.offset(pointer, dst.row) if lane else pointer
            store_as(builder, value, dst.elem, pointer)
