"""Element access: from a logical index to a load or store that fits the stride of the vector variable.

The physical offset of an element is the buffer's layout map applied to the index. How it moves with the vector variable
decides the instruction: not at all - one scalar load; by 1 - a vector load; by a pattern that stays within a few
vectors (reversed, strided, repeated), or is a few runs - vector loads and a shuffle; from row to row, of a few elements
each - blocks of rows that are turned (`row_block`); otherwise a gather. Complex elements that move by 1 are two vectors
(`complex_pairs`). Guards say where an access is allowed (`guards`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from xjit.affine import AffineExpr, constant, dim, linear_combination, substitute
from xjit.emitters.access.complex_pairs import load_pairs, split_pairs, store_pairs
from xjit.emitters.access.guards import EVERYWHERE, Guard, first_lane
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.access.row_block import load_column, load_column_from_anywhere, row_length, store_columns
from xjit.emitters.access.transpose_tile import load_from_tile
from xjit.emitters.elemental import ComplexValue, RegisterValue, load_convert, storage_type, store_convert
from xjit.emitters.loops.loop_levels import VectorVariable
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.loops.variables import known_divisor
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I1, I64, LLVMType, int_type, vector
from xjit.llvm.values import Value, const_int, poison

BUFFER_ALIGNMENT = 16  # bytes: that of every operand and result of a kernel
SECOND_LEVEL = 2  # the locality of a prefetch that leaves the first-level cache alone
MAX_WINDOW = 4  # vectors that a load of unevenly spaced elements may span
MIN_RUN = 4
"""Elements, on average, of what is loaded at a time where lanes lie in several places."""
MAX_BRANCHES = 16
"""Lanes that LLVM may load one by one under conditions of their own: with hundreds in a function it takes minutes."""
MIN_EXACT_BITS = 32
"""Smaller elements are stored by masks: parts of vectors would be many, and no loop reads them where it writes them."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array in memory: its shape (with layout) and a pointer parameter of the kernel."""

    shape: Shape
    pointer: Value


def _runs(pattern: Sequence[int]) -> list[range]:
    """Cuts lanes where the next element is not behind the one before; none if they are few elements each."""
    runs: list[range] = []
    for place in pattern:
        if runs and place == runs[-1].stop:
            runs[-1] = range(runs[-1].start, place + 1)
        else:
            runs.append(range(place, place + 1))
    return runs if len(runs) * MIN_RUN <= len(pattern) else []


def _needed_lanes(pattern: Sequence[int] | None, known: Sequence[bool] | None) -> Sequence[int]:
    """How far the elements of the lanes that are known to be needed lie from the first lane's; none where it is not."""
    if pattern is None or known is None:
        return ()
    return [place for place, wanted in zip(pattern, known, strict=True) if wanted]


class MemoryAccess:
    """Loads and stores elements of buffers inside a loop nest."""

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self._fetched: int | None = None

    @contextmanager
    def fetching_next(self, variable: int) -> Generator[None]:
        """With each vector that is loaded meanwhile, fetches the one that the next value of a variable stands for."""
        self._fetched = variable
        try:
            yield
        finally:
            self._fetched = None

    def fetch(self, buffer: Buffer, index: Sequence[AffineExpr]) -> None:
        """Emits a prefetch of an element, which need not be there."""
        nest = self.nest
        position = nest.index_value(physical_offset(nest.table, buffer.shape, index))
        element = int_type(8 * buffer.shape.element_type.byte_width)
        nest.builder.prefetch(nest.builder.gep(element, buffer.pointer, position, inbounds=False))

    def load(
        self, buffer: Buffer, index: Sequence[AffineExpr], guard: Guard = EVERYWHERE, as_stored: bool = False
    ) -> RegisterValue:
        """Emits the read of one element (or one vector of them) at a logical index, as a register value.

        Lanes outside the guard hold anything. The access is placed at the outermost level that knows the index. A real
        value `as_stored` is that of memory: the bits of a narrow type.
        """
        nest = self.nest
        offset = physical_offset(nest.table, buffer.shape, index)
        varies = nest.uses_vector(offset) and (guard.lanes is not None or any(nest.lane_pattern(offset) or (1,)))
        lanes = guard.lanes if varies else None
        key = ("load", buffer.pointer.text, offset, guard.scalar and guard.scalar.text, lanes and lanes.text, as_stored)
        found = nest.lookup(key)
        if found is not None:
            return found
        depth = nest.depth_of(offset)
        if guard.scalar is not None or lanes is not None:
            depth = max(depth, guard.depth)
        level = nest.levels[depth]
        element = buffer.shape.element_type
        if element.is_complex:
            value = self._load_complex(buffer, offset, guard, level.builder, varies)
        else:
            kind = storage_type(element)
            if varies and self._is_whole_or_none(buffer, offset, guard):
                raw = self._load_whole(buffer.pointer, kind, offset, guard, level.builder)
            elif varies:
                raw = self._load_column(buffer, kind, offset, guard) or self._load_vector(
                    buffer.pointer, kind, offset, self._needed(buffer, offset, guard), level.builder
                )
            else:
                raw = self._load_scalar(buffer.pointer, kind, offset, guard, level.builder)
            value = raw if as_stored else load_convert(level.builder, element, raw)
        level.cache[key] = value
        return value

    def _load_scalar(
        self, pointer: Value, kind: LLVMType, offset: AffineExpr, guard: Guard, builder: IRBuilder
    ) -> Value:
        position = self.nest.index_value(offset)
        if guard.scalar is not None:  # element 0 exists, so the load is safe either way
            position = builder.select(guard.scalar, position, const_int(I64, 0))
        address = builder.gep(kind, pointer, position)
        return builder.load(kind, address, align=kind.bits // 8)

    def _needed(self, buffer: Buffer, offset: AffineExpr, guard: Guard) -> Guard:
        """The guard, or none where elements are not neighbours and all exist: a mask would make a gather of them."""
        if guard.lanes is None and guard.scalar is None:
            return guard
        pattern, bounds = self.nest.lane_pattern(offset), self.nest.interval(offset)
        inside = bounds.lower >= 0 and bounds.upper < buffer.shape.num_elements
        is_window = pattern is not None and pattern != tuple(range(len(pattern)))
        return EVERYWHERE if inside and is_window else guard

    def vector_address(self, buffer: Buffer, index: Sequence[AffineExpr], guard: Guard, size: int) -> Value | None:
        """Returns where a vector of `size` bytes lies, aligned to as many; None if it is none in one piece.

        Where a scalar guard fails, the array's first one takes its place.
        """
        nest, lanes = self.nest, self._lanes()
        offset = physical_offset(nest.table, buffer.shape, index)
        wide = vector(storage_type(buffer.shape.element_type), lanes.width)
        whole = guard.lanes is None and lanes.mask is None and buffer.shape.num_elements >= lanes.width
        if not whole or wide.bits != 8 * size or not nest.uses_vector(offset):
            return None
        if nest.lane_pattern(offset) != tuple(range(lanes.width)) or self._alignment(wide, offset) % size:
            return None
        position = nest.index_value(offset)
        if guard.scalar is not None:
            position = nest.builder.select(guard.scalar, position, const_int(I64, 0))
        return nest.builder.gep(wide.elem, buffer.pointer, position)

    def _is_whole_or_none(self, buffer: Buffer, offset: AffineExpr, guard: Guard) -> bool:
        """Whether a vector lies in one piece and is wanted as a whole or not at all, where masks are no instruction."""
        lanes = self._lanes()
        wanted = guard.scalar is not None and guard.lanes is None and lanes.mask is None
        if not wanted or not self.nest.target.has_aligned_vectors or buffer.shape.num_elements < lanes.width:
            return False
        return self.nest.lane_pattern(offset) == tuple(range(lanes.width))

    def _load_whole(
        self, pointer: Value, kind: LLVMType, offset: AffineExpr, guard: Guard, builder: IRBuilder
    ) -> Value:
        """Loads a vector, or the first one of the array in place of one that is not wanted."""
        assert guard.scalar is not None
        wide = vector(kind, self._lanes().width)
        position = builder.select(guard.scalar, self.nest.index_value(offset), const_int(I64, 0))
        return builder.load(wide, builder.gep(kind, pointer, position), align=self._alignment(wide, offset))

    def _load_column(self, buffer: Buffer, kind: LLVMType, offset: AffineExpr, guard: Guard) -> Value | None:
        """Loads one element of each row, where a window around those of all lanes is too wide."""
        lanes, pattern = self._lanes(), self.nest.lane_pattern(offset)
        whole = guard == EVERYWHERE and lanes.mask is None and lanes.present == lanes.width
        if not whole or not self.nest.target.has_vector_arithmetic:
            return None
        nest, size = self.nest, buffer.shape.num_elements
        if pattern is None:
            builder = nest.levels[nest.depth_of(offset)].builder
            lane_addresses = partial(self._lane_addresses, buffer.pointer, kind, builder=builder)
            return load_column_from_anywhere(nest, lane_addresses, kind, offset, lanes.width, size)
        length = row_length(pattern)
        if length <= MAX_WINDOW:
            return None
        return load_column(nest, buffer.pointer, kind, offset, lanes.width, length, size)

    def _load_vector(
        self, pointer: Value, kind: LLVMType, offset: AffineExpr, guard: Guard, builder: IRBuilder
    ) -> Value:
        lanes = self._lanes()
        pattern = self.nest.lane_pattern(offset)
        mask = self._mask(lanes, guard, builder)
        wide = vector(kind, lanes.width)
        if pattern == tuple(range(lanes.present)):
            address = self._address(pointer, kind, offset, builder)
            self._fetch_next(address, kind, offset, builder)
            if mask is None:
                return builder.load(wide, address, align=self._alignment(wide, offset))
            return builder.masked_load(wide, address, mask, kind.bits // 8)
        needed = pattern if guard.lanes is None else _needed_lanes(pattern, guard.known)
        if pattern is not None and needed and guard.scalar is None:
            if self.nest.tile is not None and len(pattern) > 1 and guard.lanes is None:
                column = load_from_tile(self.nest, self.nest.tile, pointer, kind, offset, pattern)
                if column is not None:
                    return column
            if max(needed) - min(needed) < MAX_WINDOW * lanes.width:
                wanted = [place if place in needed else needed[0] for place in pattern]
                return self._load_window(pointer, kind, offset, wanted, lanes, builder)
            if mask is None and (runs := _runs(pattern)):
                return self._load_runs(pointer, kind, offset, runs, builder)
        return self._gather(pointer, kind, offset, mask, lanes, builder)

    def _fetch_next(self, address: Value, kind: LLVMType, offset: AffineExpr, builder: IRBuilder) -> None:
        """Fetches what lies as far behind an address as the variable's next value says: it may be outside the array."""
        if self._fetched is None:
            return
        change = self.nest.simplify(substitute(offset, {self._fetched: dim(self._fetched) + 1}) - offset)
        if change.is_constant and change.value:
            distance = const_int(I64, change.value)
            builder.prefetch(builder.gep(kind, address, distance, inbounds=False), locality=SECOND_LEVEL)

    def _load_window(
        self, pointer: Value, kind: LLVMType, offset: AffineExpr, pattern: Sequence[int], lanes: VectorVariable,
        builder: IRBuilder,
    ) -> Value:  # fmt: skip
        """Loads what lies between the first and the last element wanted, in one or two vectors, and picks the lanes."""
        low, high = min(pattern), max(pattern)
        width = 1 << ((high - low + 1).bit_length() - 1)
        last = high - width + 1  # where the second vector starts
        address = self._address(pointer, kind, offset, builder)
        part = vector(kind, width)

        def load(place: int) -> Value:
            return builder.load(part, builder.gep(kind, address, const_int(I64, place)), align=kind.bits // 8)

        first = load(low)
        second = first if last == low else load(last)
        if width == 1:
            pair = builder.concatenate(first, second)
            order = [0 if p == low else 1 for p in pattern]
            return builder.shuffle_vector(pair, None, order + [0] * (lanes.width - len(order)))
        order = [p - low if p - low < width else width + p - last for p in pattern]
        order += [0] * (lanes.width - len(order))
        return builder.shuffle_vector(first, None if last == low else second, order)

    def _load_runs(
        self, pointer: Value, kind: LLVMType, offset: AffineExpr, runs: Sequence[range], builder: IRBuilder
    ) -> Value:
        """Loads elements that follow each other at a time."""
        address, width = self._address(pointer, kind, offset, builder), self._lanes().width
        result, first = poison(vector(kind, width)), 0
        for run in runs:
            place = builder.gep(kind, address, const_int(I64, run.start))
            part = builder.load(vector(kind, len(run)), place, align=kind.bits // 8)
            own = range(first, first + len(run))
            first += len(run)
            if len(run) == 1:
                result = builder.insert_element(result, part, own.start)
                continue
            moved = builder.shuffle_vector(part, None, [n - own.start if n in own else -1 for n in range(width)])
            result = builder.shuffle_vector(result, moved, [width + n if n in own else n for n in range(width)])
        return result

    def _gather(
        self,
        pointer: Value,
        kind: LLVMType,
        offset: AffineExpr,
        mask: Value | None,
        lanes: VectorVariable,
        builder: IRBuilder,
    ) -> Value:
        addresses = self._lane_addresses(pointer, kind, offset, builder)
        wide, target = vector(kind, lanes.width), self.nest.target
        in_one = target.has_masked_ops and kind.bits >= 32
        if mask is not None and not in_one and target.has_vector_arithmetic and lanes.width > MAX_BRANCHES:
            addresses = builder.select(mask, addresses, builder.splat(pointer, lanes.width))  # element 0 exists
            mask = None
        return builder.masked_gather(wide, addresses, kind.bits // 8, mask)

    def _load_complex(
        self, buffer: Buffer, offset: AffineExpr, guard: Guard, builder: IRBuilder, varies: bool
    ) -> ComplexValue:
        part = storage_type(buffer.shape.element_type.component)
        if varies and self._is_run(offset) and (self._lanes().mask is None or guard != EVERYWHERE):
            address = self._address(buffer.pointer, part, offset * 2, builder)
            mask, wide = self._mask(self._lanes(), guard, builder), vector(part, self._lanes().width)
            return ComplexValue(*load_pairs(builder, address, wide, mask, part.bits // 8))
        if varies and part.bits == 32 and not self.nest.target.has_aligned_vectors:
            whole = self._load_vector(buffer.pointer, I64, offset, self._needed(buffer, offset, guard), builder)
            return ComplexValue(*split_pairs(builder, whole, part))
        if varies:
            guard = self._needed(buffer, offset, guard)
            real = self._load_vector(buffer.pointer, part, offset * 2, guard, builder)
            imag = self._load_vector(buffer.pointer, part, offset * 2 + 1, guard, builder)
        else:
            real = self._load_scalar(buffer.pointer, part, offset * 2, guard, builder)
            imag = self._load_scalar(buffer.pointer, part, offset * 2 + 1, guard, builder)
        return ComplexValue(real, imag)

    def store_all(
        self, stores: Sequence[tuple[Buffer, Sequence[AffineExpr], RegisterValue]], guard: Guard = EVERYWHERE
    ) -> None:
        """Emits writes at the innermost level, those of all elements of rows at once."""
        columns: dict[str, list[tuple[Buffer, Sequence[AffineExpr], RegisterValue]]] = {}
        for each in stores:
            columns.setdefault(each[0].pointer.text, []).append(each)
        for group in columns.values():
            if len(group) == 1 or not self._store_columns(group, guard):
                for buffer, index, value in group:
                    self.store(buffer, index, value, guard)

    def _store_columns(
        self, stores: Sequence[tuple[Buffer, Sequence[AffineExpr], RegisterValue]], guard: Guard
    ) -> bool:
        """Writes the columns of a block of rows; returns whether that is what the stores are."""
        nest, buffer = self.nest, stores[0][0]
        lanes, element = nest.vector, buffer.shape.element_type
        parts = [value for _, _, value in stores if isinstance(value, Value)]
        if lanes is None or guard != EVERYWHERE or lanes.mask is not None or len(parts) < len(stores):
            return False
        first, *others = (physical_offset(nest.table, buffer.shape, index) for _, index, _ in stores)
        pattern = nest.lane_pattern(first)
        if pattern is None or row_length(pattern) != len(stores) or lanes.present != lanes.width:
            return False
        if any(nest.simplify(o - first) != constant(n) for n, o in enumerate(others, 1)):
            return False
        builder, kind = nest.builder, storage_type(element)
        raw = [store_convert(builder, element, value) for value in parts]
        values = [value if value.type.is_vector else builder.splat(value, lanes.width) for value in raw]
        address = self._address(buffer.pointer, kind, first, builder)
        store_columns(builder, address, values, nest.target.vector_bits // kind.bits)
        return True

    def store(
        self, buffer: Buffer, index: Sequence[AffineExpr], value: RegisterValue, guard: Guard = EVERYWHERE
    ) -> None:
        """Emits the write of one element (or vector) at a logical index, at the innermost level."""
        nest = self.nest
        offset = physical_offset(nest.table, buffer.shape, index)
        element = buffer.shape.element_type
        builder = nest.builder
        parts: list[tuple[AffineExpr, Value]]
        if isinstance(value, ComplexValue):
            kind = storage_type(element.component)
            if nest.uses_vector(offset) and self._is_run(offset):
                self._store_run(buffer.pointer, kind, offset, value, guard)
                return
            parts = [(offset * 2, value.real), (offset * 2 + 1, value.imag)]
        else:
            kind = storage_type(element)
            parts = [(offset, store_convert(builder, element, value))]
        for place, raw in parts:
            assert raw.type.elem is kind, f"{raw.type} stored into {buffer.shape}"
            if nest.uses_vector(place):
                self._store_vector(buffer.pointer, kind, place, raw, guard, builder)
            else:
                self._store_scalar(buffer.pointer, kind, place, raw, guard, builder)

    def _is_run(self, offset: AffineExpr) -> bool:
        """Whether the lanes' elements follow each other, on a target whose vectors may lie anywhere."""
        present = self._lanes().present
        in_order = present > 1 and self.nest.lane_pattern(offset) == tuple(range(present))
        return in_order and not self.nest.target.has_aligned_vectors

    def _store_run(self, pointer: Value, kind: LLVMType, offset: AffineExpr, value: ComplexValue, guard: Guard) -> None:
        builder, lanes = self.nest.builder, self._lanes()
        real, imag = (p if p.type.is_vector else builder.splat(p, lanes.width) for p in (value.real, value.imag))
        assert real.type.elem is kind, f"{real.type} stored as complex numbers of {kind}"
        address = self._address(pointer, kind, offset * 2, builder)
        store_pairs(builder, address, (real, imag), self._mask(lanes, guard, builder), kind.bits // 8)

    def _store_scalar(
        self, pointer: Value, kind: LLVMType, offset: AffineExpr, raw: Value, guard: Guard, builder: IRBuilder
    ) -> None:
        assert not raw.type.is_vector, "a vector of values for one element"
        self._store_at(builder.gep(kind, pointer, self.nest.index_value(offset)), kind, raw, guard, builder)

    def _store_at(self, address: Value, kind: LLVMType, raw: Value, guard: Guard, builder: IRBuilder) -> None:
        if guard.scalar is None:
            builder.store(raw, address, align=kind.bits // 8)
            return
        wanted = builder.append_block("store")
        after = builder.append_block("stored")
        builder.cbranch(guard.scalar, wanted, after)
        builder.position_at_end(wanted)
        builder.store(raw, address, align=kind.bits // 8)
        builder.br(after)
        builder.position_at_end(after)

    def _store_vector(
        self, pointer: Value, kind: LLVMType, offset: AffineExpr, raw: Value, guard: Guard, builder: IRBuilder
    ) -> None:
        lanes = self._lanes()
        if lanes.present == 1:  # LLVM's scalar form of a truncating masked store writes as many bytes as before it
            only, value = first_lane(guard, builder), builder.extract_element(raw, 0)
            if self.nest.has_lane_values(offset):
                addresses = self._lane_addresses(pointer, kind, offset, builder)
                self._store_at(builder.extract_element(addresses, 0), kind, value, only, builder)
            else:
                self._store_scalar(pointer, kind, offset, value, only, builder)
            return
        raw = raw if raw.type.is_vector else builder.splat(raw, lanes.width)
        mask = self._mask(lanes, guard, builder)
        if self.nest.lane_pattern(offset) == tuple(range(lanes.present)):
            address = self._address(pointer, kind, offset, builder)
            if mask is None:
                builder.store(raw, address, align=self._alignment(raw.type, offset))
            elif mask is lanes.mask and lanes.active and kind.bits >= MIN_EXACT_BITS:
                builder.store_first(raw, lanes.active, address, kind.bits // 8)
            else:
                builder.masked_store(raw, address, mask, align=kind.bits // 8)
            return
        addresses = self._lane_addresses(pointer, kind, offset, builder)
        builder.masked_scatter(raw, addresses, kind.bits // 8, mask)

    def _alignment(self, wide: LLVMType, offset: AffineExpr) -> int:
        """The alignment of a vector in bytes. Where vectors may lie anywhere, the least will do."""
        least = wide.elem.bits // 8
        if not self.nest.target.has_aligned_vectors:
            return least
        lanes = self._lanes()
        step = least * known_divisor(self.nest.table, offset, {lanes.position: lanes.width})
        return math.gcd(step, BUFFER_ALIGNMENT)

    def _lanes(self) -> VectorVariable:
        lanes = self.nest.vector
        assert lanes is not None
        return lanes

    def _mask(self, lanes: VectorVariable, guard: Guard, builder: IRBuilder) -> Value | None:
        """The lanes that exist and are wanted, or None for all."""
        mask = guard.lanes
        if lanes.mask is not None:
            mask = lanes.mask if mask is None else builder.and_(mask, lanes.mask)
        if guard.scalar is not None and guard.scalar.text != const_int(I1, 1).text:
            wanted = builder.splat(guard.scalar, lanes.width)
            mask = wanted if mask is None else builder.and_(mask, wanted)
        return mask

    def _address(self, pointer: Value, kind: LLVMType, offset: AffineExpr, builder: IRBuilder) -> Value:
        """The address of an element; the part of the offset known further out is added there."""
        nest = self.nest
        deepest = nest.depth_of(offset)
        outer = [t for t in offset.terms if nest.depth_of(t[0]) < deepest]
        inner = [t for t in offset.terms if nest.depth_of(t[0]) == deepest]
        if not outer and not offset.constant_term:
            return builder.gep(kind, pointer, nest.index_value(offset))
        base = linear_combination(outer, offset.constant_term)
        key = ("address", pointer.text, kind, base)
        start = nest.lookup(key)
        if start is None:
            level = nest.levels[nest.depth_of(base)]
            start = level.builder.gep(kind, pointer, nest.index_value(base))
            level.cache[key] = start
        return builder.gep(kind, start, nest.index_value(linear_combination(inner, 0))) if inner else start

    def _lane_addresses(self, pointer: Value, kind: LLVMType, offset: AffineExpr, builder: IRBuilder) -> Value:
        """The address of each lane's element; what all lanes share of the offset is added once."""
        nest = self.nest
        uniform = [t for t in offset.terms if not nest.uses_vector(t[0])]
        varying = [t for t in offset.terms if nest.uses_vector(t[0])]
        start = builder.gep(kind, pointer, nest.index_value(linear_combination(uniform, offset.constant_term)))
        return builder.gep(kind, start, nest.lane_values(linear_combination(varying)))
