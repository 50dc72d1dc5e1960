"""topk (and the custom call TopK): the first k of each line in total order, with their positions.

For small k a line's best pairs stay sorted in a short list; a vector of elements is looked at one by one only if some
lane beats the worst of them, which gets rare quickly. For larger k the pairs (key, position) are sorted: all of them,
or, of long lines, again and again the best ones so far and those since that beat the worst of these.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.elemental import load_convert, storage_type
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.loops.hand_loops import Scratch
from xjit.emitters.kernels.loops.lines import Line, LineKernel, contiguous
from xjit.emitters.kernels.sort.merge_sort import shift_while, store_record
from xjit.emitters.kernels.sort.pair_sort import emit_pair_sort, work_bytes
from xjit.emitters.kernels.sort.sort_order import from_raw, unsigned_key
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I32, I64, int_type, vector
from xjit.llvm.values import Value, const_int

MAX_LIST = 64
VECTOR_LANES = 16
SEGMENT = 256
"""Elements of a long line that are looked at before it is asked whether there is room for as many more."""
ROOM = 4  # times k: of the best ones so far and those to be sorted with them
NS_PER_ELEMENT = 0.6
NS_PER_SORTED_ELEMENT = 8.0


def emit_topk(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a topk or of a custom call to TopK (whose k is the size of its results)."""
    return [_TopK(context, view).build()]


class _TopK(LineKernel):
    """Lines are along the last dimension; the results' lines have k elements."""

    def __init__(self, context: KernelContext, view: KernelView) -> None:
        topk = view.hero
        self.shape = topk.operand(0).shape
        super().__init__(context, view, self.shape.rank - 1, self.shape.dimensions)
        self.k = view.result_shapes[0].dimensions[-1]
        self.size = self.shape.dimensions[-1]
        self.kind = self.shape.element_type
        if self.kind.is_complex or self.size >= 1 << 31:
            raise Unsupported(f"{topk.opcode} of {self.shape}", topk.span)
        self.largest = topk.attributes_as(at.TopKAttributes).largest if topk.opcode == "topk" else True
        self.key_kind = PrimitiveType.U64 if self.kind.bit_width == 64 else PrimitiveType.U32
        self.by_list = self.k <= MAX_LIST
        room = max(ROOM * self.k, 4 * SEGMENT)
        self.filters = not self.by_list and self.size >= 4 * room
        length = self.k if self.by_list else room if self.filters else self.size
        sets = 1 if self.by_list else 2
        sizes = [length * self.key_kind.byte_width, length * 4] * sets
        sizes += [8, self.key_kind.byte_width, 0 if self.by_list else work_bytes(length, self.key_kind.bit_width)]
        self.length = length
        self.scratch = Scratch(context.module, self.nest.levels[0].builder, sizes)
        kinds = (self.key_kind, PrimitiveType.U32)
        pieces = [contiguous(kinds[i % 2], p, length) for i, p in enumerate(self.scratch.pieces[:-3])]
        self.pairs, self.other = pieces[:2], pieces[2:]
        self.count, self.worst = (
            contiguous(kind, piece, 1)
            for kind, piece in zip((PrimitiveType.U64, self.key_kind), self.scratch.pieces[-3:-1], strict=True)
        )

    def build(self) -> Kernel:
        """Emits the kernel."""
        per_element = NS_PER_ELEMENT if self.by_list or self.filters else NS_PER_SORTED_ELEMENT
        return self.emit(self._body, "topk", self.shape.num_elements * per_element, self.shape.num_elements)

    def on_exit(self, builder: IRBuilder) -> None:
        self.scratch.free(builder)

    def _body(self, builder: StructuredBuilder) -> None:
        source = self.line(self.operand(self.view.hero.operand(0)))
        values, positions = (self.line(r) for r in self.results)
        find = self._list if self.by_list else self._filtered if self.filters else self._sorted
        best = find(builder, source)
        with builder.loop(const_int(I64, 0), const_int(I64, self.k), name="out") as i:
            position = best[1].load_raw(builder, i)
            values.store_raw(builder, i, source.load_raw(builder, builder.zext(position, I64)))
            positions.store_raw(builder, i, position)

    def _key(self, builder: IRBuilder, stored: Value) -> Value:
        """The unsigned key of what was loaded as the storage type, or of a vector of it."""
        value = load_convert(builder, self.kind, stored)
        return unsigned_key(builder, value, self.kind, total=True, descending=self.largest)

    def _load_key(self, builder: StructuredBuilder, source: Line, position: Value) -> Value:
        value = from_raw(builder, self.kind, source.load_raw(builder, position))
        assert isinstance(value, Value)
        return unsigned_key(builder, value, self.kind, total=True, descending=self.largest)

    def _sorted(self, builder: StructuredBuilder, source: Line) -> Sequence[Line]:
        with builder.loop(const_int(I64, 0), const_int(I64, self.size), name="key") as i:
            store_record(builder, self.pairs, i, [self._load_key(builder, source, i), builder.trunc(i, I32)])
        return emit_pair_sort(builder, self.size, self.pairs, self.other, self.scratch.pieces[-1])

    def _list(self, builder: StructuredBuilder, source: Line) -> Sequence[Line]:
        with builder.loop(const_int(I64, 0), const_int(I64, self.k), name="fill") as i:
            self._insert(builder, self._load_key(builder, source, i), i, i)
        start = self.k
        if source.stride == 1 and self.size - self.k >= VECTOR_LANES:
            start = self.size - (self.size - self.k) % VECTOR_LANES
            with builder.loop(const_int(I64, self.k), const_int(I64, start), VECTOR_LANES, name="block") as block:
                stop = builder.add(block, const_int(I64, VECTOR_LANES))
                better = self._any_better(builder, source, block)
                with builder.when(better), builder.loop(block, stop, name="lane") as i:
                    self._consider(builder, source, i)
        with builder.loop(const_int(I64, start), const_int(I64, self.size), name="rest") as i:
            self._consider(builder, source, i)
        return self.pairs

    def _any_better(self, builder: StructuredBuilder, source: Line, block: Value) -> Value:
        part = storage_type(self.kind)
        stored = builder.load(vector(part, VECTOR_LANES), source.address(builder, block), part.bits // 8)
        keys = self._key(builder, stored)
        worst = builder.splat(self._worst(builder), VECTOR_LANES)
        better = builder.bitcast(builder.icmp_unsigned("<", keys, worst), int_type(VECTOR_LANES))
        return builder.icmp_signed("!=", better, const_int(better.type, 0))

    def _worst(self, builder: StructuredBuilder) -> Value:
        """The key that others must beat."""
        if self.filters:
            return self.worst.load_raw(builder, const_int(I64, 0))
        return self.pairs[0].load_raw(builder, const_int(I64, self.k - 1))

    def _filtered(self, builder: StructuredBuilder, source: Line) -> Sequence[Line]:
        """Appends what beats the worst of the best k; sorts these pairs, and keeps k, where there may be no room."""
        zero, k = const_int(I64, 0), const_int(I64, self.k)
        self.count.store_raw(builder, zero, zero)
        self.worst.store_raw(builder, zero, const_int(int_type(self.key_kind.bit_width), -1))
        with builder.loop(zero, const_int(I64, self.size), SEGMENT, name="segment") as first:
            stop = builder.min(builder.add(first, const_int(I64, SEGMENT)), const_int(I64, self.size))
            self._append_better(builder, source, first, stop)
            count = self.count.load_raw(builder, zero)
            is_full = builder.icmp_unsigned(">", count, const_int(I64, self.length - SEGMENT))
            is_last = builder.icmp_signed("==", stop, const_int(I64, self.size))
            with builder.when(builder.or_(is_full, is_last)):
                with builder.loop(count, const_int(I64, self.length), name="empty") as i:
                    last = [const_int(int_type(kind.bit_width), -1) for kind in (self.key_kind, PrimitiveType.U32)]
                    store_record(builder, self.pairs, i, last)
                best = emit_pair_sort(builder, self.length, self.pairs, self.other, self.scratch.pieces[-1])
                if best[0] is not self.pairs[0]:
                    with builder.loop(zero, k, name="best") as i:
                        store_record(builder, self.pairs, i, [line.load_raw(builder, i) for line in best])
                self.count.store_raw(builder, zero, k)
                last = self.pairs[0].load_raw(builder, const_int(I64, self.k - 1))
                self.worst.store_raw(builder, zero, last)
        return self.pairs

    def _append_better(self, builder: StructuredBuilder, source: Line, first: Value, stop: Value) -> None:
        """Appends those elements of a segment that beat the worst, and all as long as there are fewer than k."""
        if source.stride != 1:
            with builder.loop(first, stop, name="lane") as i:
                self._append(builder, source, i)
            return
        lanes = const_int(I64, VECTOR_LANES)
        whole = builder.sub(stop, builder.urem(builder.sub(stop, first), lanes))
        with builder.loop(first, whole, VECTOR_LANES, name="block") as block:
            better = builder.or_(self._any_better(builder, source, block), self._has_room(builder))
            with builder.when(better), builder.loop(block, builder.add(block, lanes), name="lane") as i:
                self._append(builder, source, i)
        with builder.loop(whole, stop, name="rest") as i:
            self._append(builder, source, i)

    def _has_room(self, builder: StructuredBuilder) -> Value:
        count = self.count.load_raw(builder, const_int(I64, 0))
        return builder.icmp_unsigned("<", count, const_int(I64, self.k))

    def _append(self, builder: StructuredBuilder, source: Line, position: Value) -> None:
        zero, key = const_int(I64, 0), self._load_key(builder, source, position)
        better = builder.icmp_unsigned("<", key, self._worst(builder))
        with builder.when(builder.or_(better, self._has_room(builder))):
            count = self.count.load_raw(builder, zero)
            store_record(builder, self.pairs, count, [key, builder.trunc(position, I32)])
            self.count.store_raw(builder, zero, builder.add(count, const_int(I64, 1)))

    def _consider(self, builder: StructuredBuilder, source: Line, position: Value) -> None:
        """Inserts an element if it beats the worst of the list, which it replaces. Equal keys stay behind."""
        key = self._load_key(builder, source, position)
        last = const_int(I64, self.k - 1)
        with builder.when(builder.icmp_unsigned("<", key, self.pairs[0].load_raw(builder, last))):
            self._insert(builder, key, position, last)

    def _insert(self, builder: StructuredBuilder, key: Value, position: Value, free: Value) -> None:
        """Puts a pair into the sorted list, whose place `free` may be overwritten."""
        place = shift_while(
            builder, free, const_int(I64, 0), self.pairs, lambda below: builder.icmp_unsigned("<", key, below[0])
        )
        store_record(builder, self.pairs, place, [key, builder.trunc(position, I32)])
