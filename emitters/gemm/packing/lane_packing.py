"""Packing for units whose lanes hold several elements of k: how a matrix becomes a matrix of lanes.

`emit_lane_copy` defines `dst[line, lane] = (src[line, k], src[line, k + 1], ...)` with `group` elements of k per lane,
converted to the type that the unit takes. A last lane that k does not fill is filled up with zeros. Numbers that are
taken apart in planes of bf16 become one such matrix for each. Lines are the rows of a left operand, the columns of a
right one. Invariant: exactly the given elements are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xjit.emitters.gemm.blocking.storage import memory_type, size_of
from xjit.emitters.gemm.packing.conversions import packed_bits, plane_bits
from xjit.emitters.gemm.packing.strided_copies import COPY_PARAMS
from xjit.emitters.gemm.packing.tile_depths import by_depth
from xjit.llvm import Function, LLVMType, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.transpose import transpose_blocks
from xjit.llvm.types import I32, I64, vector
from xjit.llvm.values import const_int

LANE_BYTES = 4
_TILE_LANES = (8, 4, 2)  # of a transposed tile


@dataclass(frozen=True, slots=True)
class LaneCopy:
    """What is packed: stored elements, as what, how many per lane; for a left operand lanes lie along a line, for a
    right one lines lie side by side. With `transposes` there are tiles for a source that lies the other way. `planes`:
    how many there are. A `whole` copy is of vectors only, of a source that lies as the lanes do.
    """

    storage: LLVMType
    packed: LLVMType
    group: int
    along_lines: bool
    transposes: bool
    planes: int = 1
    whole: bool = False

    @property
    def name(self) -> str:
        """The name of the function."""
        direction = "along" if self.along_lines else "across"
        types = f"{self.storage.mangled}_{self.packed.mangled}{'_planes' if self.planes > 1 else ''}"
        whole = "_whole" if self.whole else ""
        return f"xjit_lanes_{direction}_{types}{'_transposes' if self.transposes else ''}{whole}"


def emit_lane_copy(module: Module, copy: LaneCopy) -> Function:
    """Defines the copy once per module, with `COPY_PARAMS`: rows and columns are those of the operand.

    Of several planes it has one parameter more, the bytes between them.
    """
    known = module.functions.get(copy.name)
    if known is not None:
        return known
    builder = define(module, copy.name, (*COPY_PARAMS, (I64, "dst_plane")) if copy.planes > 1 else COPY_PARAMS)
    _LaneCopyEmitter(builder, copy).emit()
    return builder.function


class _LaneCopyEmitter:
    def __init__(self, builder: StructuredBuilder, copy: LaneCopy) -> None:
        self.builder = builder
        self.copy = copy
        self.width = builder.target.vector_width(I32)
        dst, dst_row, dst_column, src, src_row, src_column, rows, columns, *dst_plane = builder.function.args
        self.dst, self.src = dst, src
        self.planes = [builder.mul(step, builder.i64(n)) for step in dst_plane for n in range(1, copy.planes)]
        if copy.along_lines:
            self.dst_line, self.dst_lane, self.src_line, self.src_k = dst_row, dst_column, src_row, src_column
            self.lines, self.k = rows, columns
        else:
            self.dst_line, self.dst_lane, self.src_line, self.src_k = dst_column, dst_row, src_column, src_row
            self.lines, self.k = columns, rows

    def emit(self) -> None:
        """Picks the way by which direction is contiguous in the source, then does the elements that are left."""
        builder, unit = self.builder, self.builder.i64(size_of(self.copy.storage))
        self.lanes = builder.udiv(self.k, builder.i64(self.copy.group))
        along = self.copy.along_lines
        nothing = builder.i64(0), builder.i64(0)

        def with_tiles() -> Sequence[Value]:
            if not self.copy.transposes:
                return nothing
            is_across = builder.icmp_signed("==", self.src_line if along else self.src_k, unit)
            return builder.if_else(is_across, lambda: self._tiles(contiguous_k=not along), lambda: nothing)

        stride, vectors = (self.src_k, self._lines_of_lanes) if along else (self.src_line, self._rows_of_lanes)
        if self.copy.whole:
            vectors()
        else:
            self._elements(*builder.if_else(builder.icmp_signed("==", stride, unit), vectors, with_tiles))
        builder.ret_void()

    def _source(self, line: Value, lane: Value) -> Value:
        k = self.builder.mul(lane, self.builder.i64(self.copy.group))
        return self.builder.offset_2d(self.src, line, self.src_line, k, self.src_k)

    def _target(self, line: Value, lane: Value) -> Value:
        return self.builder.offset_2d(self.dst, line, self.dst_line, lane, self.dst_lane)

    def _packed(self, elements: Value) -> list[Value]:
        """Loaded elements as bits, for each plane."""
        builder, copy = self.builder, self.copy
        if copy.planes > 1:
            return plane_bits(builder, elements, copy.storage)
        return [packed_bits(builder, elements, copy.storage, copy.packed)]

    def _load_along(self, place: Value, count: int) -> list[Value]:
        """`count` lanes of one line, whose elements follow each other; for each plane."""
        builder, copy = self.builder, self.copy
        elements = builder.load(memory_type(copy.storage, count * copy.group), place, size_of(copy.storage))
        return [builder.bitcast(bits, vector(I32, count)) for bits in self._packed(elements)]

    def _load_across(self, place: Value, count: int) -> list[Value]:
        """One lane of each of `count` lines, which lie side by side; for each plane."""
        builder, copy = self.builder, self.copy
        totals: list[Value] = []
        for part in range(copy.group):
            elements = builder.load(memory_type(copy.storage, count), place, size_of(copy.storage))
            bits = [builder.zext(bits, I32) for bits in self._packed(elements)]
            if part:
                shift = const_int(bits[0].type, part * copy.packed.bits)
                bits = [builder.or_(total, builder.shl(b, shift)) for total, b in zip(totals, bits, strict=True)]
            totals = bits
            place = builder.offset(place, self.src_k) if part < copy.group - 1 else place
        return totals

    def _load_part(self, place: Value, count: int) -> list[Value]:
        """The last lane of each of `count` lines, which lie side by side: what k leaves, and zeros; for each plane."""
        builder, copy = self.builder, self.copy
        left = builder.urem(self.k, builder.i64(copy.group))
        zeros = [const_int(vector(I32, count), 0)] * copy.planes
        with builder.loop_with(builder.i64(0), left, zeros, 1, "part") as (part, lanes, following):
            source = builder.offset(place, builder.mul(part, self.src_k))
            elements = builder.load(memory_type(copy.storage, count), source, size_of(copy.storage))
            shift = builder.splat(builder.trunc(builder.mul(part, builder.i64(copy.packed.bits)), I32), count)
            for total, bits in zip(lanes, self._packed(elements), strict=True):
                following.append(builder.or_(total, builder.shl(builder.zext(bits, I32), shift)))
        return list(lanes)

    def _load_end(self, line: Value) -> list[Value]:
        """The same of one line whose elements follow each other, of more than one lane: the last elements, moved."""
        builder, copy = self.builder, self.copy
        group = builder.i64(copy.group)
        missing = builder.sub(group, builder.urem(self.k, group))
        source = builder.offset_2d(self.src, line, self.src_line, builder.sub(self.k, group), self.src_k)
        bits = builder.trunc(builder.mul(missing, builder.i64(copy.packed.bits)), I32)
        return [builder.lshr(lanes, bits) for lanes in self._load_along(source, 1)]

    def _store(self, values: list[Value], target: Value) -> None:
        """Stores lanes of each plane."""
        for value, place in zip(values, self._places(target), strict=True):
            self.builder.store(value, place, LANE_BYTES)

    def _places(self, target: Value) -> list[Value]:
        """`target`, and the same in the other planes."""
        return [target, *[self.builder.offset(target, plane) for plane in self.planes]]

    def _pieces(self, length: Value) -> list[tuple[Value, Value, int]]:
        """Cuts a length into vectors, quarters of vectors and single lanes: (begin, end, lanes at once)."""
        builder = self.builder
        if self.copy.whole:
            return [(builder.i64(0), length, self.width)]
        pieces: list[tuple[Value, Value, int]] = []
        begin = builder.i64(0)
        for count in (self.width, self.width // 4, 1):
            if pieces and count >= pieces[-1][2]:
                continue
            end = builder.and_(length, builder.i64(-count))
            pieces.append((begin, end, count))
            begin = end
        return pieces

    def _lines_of_lanes(self) -> tuple[Value, Value]:
        """Both sides contiguous along k. Like the other ways, returns how many lines it does, and how many lanes."""
        builder = self.builder
        pieces = self._pieces(self.lanes)
        with builder.loop(builder.i64(0), self.lines, name="line") as line:
            for begin, end, count in pieces:
                with builder.loop(begin, end, count, "lane") as lane:
                    values = self._load_along(self._source(line, lane), count)
                    self._store(values, self._target(line, lane))
        return self.lines, self.lanes

    def _rows_of_lanes(self) -> tuple[Value, Value]:
        """Both sides contiguous across lines."""
        builder = self.builder
        pieces = self._pieces(self.lines)

        def row(lane: Value, load: Callable[[Value, int], list[Value]]) -> None:
            for begin, end, count in pieces:
                with builder.loop(begin, end, count, "line") as line:
                    self._store(load(self._source(line, lane), count), self._target(line, lane))

        with builder.loop(builder.i64(0), self.lanes, name="lane") as lane:
            row(lane, self._load_across)
        if not self.copy.whole:
            with builder.when(self._has_part()):
                row(self.lanes, self._load_part)
        return self.lines, self._all_lanes()

    def _tiles(self, *, contiguous_k: bool) -> tuple[Value, Value]:
        """The source is contiguous in one direction, the destination in the other: tiles through registers.

        The last ones lie over those before, where the size is no multiple of theirs.
        """
        builder, width = self.builder, self.width
        last_line = builder.sub(self.lines, builder.i64(width))

        def tiles(depth: int) -> Sequence[Value]:
            last_lane = builder.sub(self.lanes, builder.i64(depth))
            with (
                builder.loop(builder.i64(0), self.lines, width, "line") as line,
                builder.loop(builder.i64(0), self.lanes, depth, "lane") as lane,
            ):
                start = builder.min(line, last_line), builder.min(lane, last_lane)
                self._tile_from_lines(*start, depth) if contiguous_k else self._tile_from_lanes(*start, depth)
            return self.lines, self.lanes

        is_wide = builder.icmp_signed(">=", last_line, builder.i64(0))
        nothing = builder.i64(0), builder.i64(0)
        depths = [depth for depth in _TILE_LANES if depth <= width]
        lines, lanes = builder.if_else(
            is_wide, lambda: by_depth(builder, self.lanes, depths, tiles, nothing), lambda: nothing
        )
        return lines, lanes

    def _tile_from_lines(self, line: Value, lane: Value, depth: int) -> None:
        """Reads `depth` lanes of each line, writes them side by side."""
        builder, width = self.builder, self.width
        place = self._source(line, lane)
        lines: list[list[Value]] = []
        for number in range(width):
            lines.append(self._load_along(place, depth))
            place = builder.offset(place, self.src_line) if number < width - 1 else place
        for pieces, target in zip(zip(*lines, strict=True), self._places(self._target(line, lane)), strict=True):
            merged = [pieces[number::depth] for number in range(depth)]  # vector q: lines q, q + depth, ...
            while len(merged[0]) > 1:
                merged = [[builder.concatenate(a, b) for a, b in zip(parts[::2], parts[1::2])] for parts in merged]
            for number, value in enumerate(transpose_blocks(builder, [parts[0] for parts in merged])):
                target = builder.offset(target, self.dst_lane) if number else target
                builder.store(value, target, LANE_BYTES)

    def _tile_from_lanes(self, line: Value, lane: Value, depth: int) -> None:
        """Reads one lane of all lines at a time, writes `depth` lanes of each line."""
        builder, width = self.builder, self.width
        lanes = [
            self._load_across(self._source(line, builder.add(lane, builder.i64(number))), width)
            for number in range(depth)
        ]
        for plane, target in zip(zip(*lanes, strict=True), self._places(self._target(line, lane)), strict=True):
            for number, value in enumerate(transpose_blocks(builder, plane)):
                for block in range(width // depth):
                    step = builder.mul(self.dst_line, builder.i64(block * depth + number))
                    part = builder.lanes(value, block * depth, depth) if depth < width else value
                    builder.store(part, builder.offset(target, step), LANE_BYTES)

    def _has_part(self) -> Value:
        """Whether k ends within a lane."""
        group = self.builder.i64(self.copy.group)
        return self.builder.icmp_signed("!=", self.builder.mul(self.lanes, group), self.k)

    def _all_lanes(self) -> Value:
        """The number of lanes, with one that k does not fill."""
        return self.builder.add(self.lanes, self.builder.zext(self._has_part(), I64))

    def _elements(self, done_lines: Value, done_lanes: Value) -> None:
        """Lane by lane: all but the first lanes of the first lines. The last lane ends with k."""
        builder, unit = self.builder, self.builder.i64(size_of(self.copy.storage))
        is_left = builder.or_(
            builder.icmp_signed("<", done_lines, self.lines), builder.icmp_signed("<", done_lanes, self._all_lanes())
        )
        is_along = builder.icmp_signed("==", self.src_k, unit)
        with builder.when(is_left), builder.loop(builder.i64(0), self.lines, name="line") as line:
            begin = builder.select(builder.icmp_signed("<", line, done_lines), done_lanes, builder.i64(0))
            for way, load in ((is_along, self._load_along), (builder.not_(is_along), self._load_across)):
                with builder.when(way), builder.loop(begin, self.lanes, name="lane") as lane:
                    self._store(load(self._source(line, lane), 1), self._target(line, lane))
            is_left = builder.icmp_signed("<", begin, self._all_lanes())
            with builder.when(builder.and_(is_left, self._has_part())):
                is_long = builder.and_(is_along, builder.icmp_signed(">", self.lanes, builder.i64(0)))
                part = builder.if_else(
                    is_long,
                    lambda: self._load_end(line),
                    lambda: self._load_part(self._source(line, self.lanes), 1),
                )
                self._store([*part], self._target(line, self.lanes))
