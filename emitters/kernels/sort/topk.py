"""topk (and the custom call TopK): the first k of each line in total order, with their positions.

For small k a line's best pairs stay sorted in a short list; a vector of elements is looked at one by one only if some
lane beats the worst of them, which gets rare quickly. For larger k the (key, position) pairs are sorted.
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
        length = self.k if self.by_list else self.size
        sets = 1 if self.by_list else 2
        sizes = [length * self.key_kind.byte_width, length * 4] * sets
        sizes.append(0 if self.by_list else work_bytes(self.size, self.key_kind.bit_width))
        self.scratch = Scratch(context.module, self.nest.levels[0].builder, sizes)
        kinds = (self.key_kind, PrimitiveType.U32)
        pieces = [contiguous(kinds[i % 2], p, length) for i, p in enumerate(self.scratch.pieces[:-1])]
        self.pairs, self.other = pieces[:2], pieces[2:]

    def build(self) -> Kernel:
        """Emits the kernel."""
        per_element = NS_PER_ELEMENT if self.by_list else NS_PER_SORTED_ELEMENT
        return self.emit(self._body, "topk", self.shape.num_elements * per_element, self.shape.num_elements)

    def on_exit(self, builder: IRBuilder) -> None:
        self.scratch.free(builder)

    def _body(self, builder: StructuredBuilder) -> None:
        source = self.line(self.operand(self.view.hero.operand(0)))
        values, positions = (self.line(r) for r in self.results)
        best = self._list(builder, source) if self.by_list else self._sorted(builder, source)
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
        worst = builder.splat(self.pairs[0].load_raw(builder, const_int(I64, self.k - 1)), VECTOR_LANES)
        better = builder.bitcast(builder.icmp_unsigned("<", keys, worst), int_type(VECTOR_LANES))
        return builder.icmp_signed("!=", better, const_int(better.type, 0))

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
