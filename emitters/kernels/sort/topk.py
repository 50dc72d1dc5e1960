"""topk (and the custom call TopK): the first k of each line in total order, with their positions.

For small k a line's best pairs stay sorted in a short list (`best_list`). For larger k the (key, position) pairs are
sorted: of long lines, those that may be among the first (`candidates`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.loops.hand_loops import Scratch
from xjit.emitters.kernels.loops.lines import Line, LineKernel, contiguous
from xjit.emitters.kernels.sort.best_list import LONG_LINE, VECTOR_LANES, BestList, key_kind, load_key
from xjit.emitters.kernels.sort.candidates import LONG_LINE as LONG_FOR_CANDIDATES
from xjit.emitters.kernels.sort.candidates import Candidates, room_for
from xjit.emitters.kernels.sort.merge_sort import store_record
from xjit.emitters.kernels.sort.pair_sort import emit_pair_sort, work_bytes
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I32, I64
from xjit.llvm.values import const_int

MAX_LIST = 64
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
        self.key_kind = key_kind(self.kind)
        self.by_list = self.k <= MAX_LIST
        room = room_for(self.k)
        self.filters = not self.by_list and self.size >= LONG_FOR_CANDIDATES * room
        length = self.k if self.by_list else room if self.filters else self.size
        sets = 1 if self.by_list else 2
        sizes = [length * self.key_kind.byte_width, length * 4] * sets
        sizes += [0 if self.by_list else work_bytes(length, self.key_kind.bit_width), 8, self.key_kind.byte_width]
        self.scratch = Scratch(context.module, self.nest.levels[0].builder, sizes)
        kinds = (self.key_kind, PrimitiveType.U32)
        pieces = [contiguous(kinds[i % 2], p, length) for i, p in enumerate(self.scratch.pieces[:-3])]
        self.pairs, self.other = pieces[:2], pieces[2:]
        self.work, *self.state = self.scratch.pieces[-3:]

    def build(self) -> Kernel:
        """Emits the kernel."""
        per_element = NS_PER_ELEMENT if self.by_list or self.filters else NS_PER_SORTED_ELEMENT
        return self.emit(self._body, "topk", self.shape.num_elements * per_element, self.shape.num_elements)

    def on_exit(self, builder: IRBuilder) -> None:
        self.scratch.free(builder)

    def _body(self, builder: StructuredBuilder) -> None:
        source = self.line(self.operand(self.view.hero.operand(0)))
        values, positions = (self.line(r) for r in self.results)
        if self.by_list:
            self._list(builder, source, (values, positions))
            return
        best = self._candidates(source).emit(builder) if self.filters else self._sorted(builder, source)
        with builder.loop(const_int(I64, 0), const_int(I64, self.k), name="out") as i:
            position = best[1].load_raw(builder, i)
            values.store_raw(builder, i, source.load_raw(builder, builder.zext(position, I64)))
            positions.store_raw(builder, i, position)

    def _sorted(self, builder: StructuredBuilder, source: Line) -> Sequence[Line]:
        with builder.loop(const_int(I64, 0), const_int(I64, self.size), name="key") as i:
            store_record(builder, self.pairs, i, [load_key(builder, source, i, self.largest), builder.trunc(i, I32)])
        return emit_pair_sort(builder, self.size, self.pairs, self.other, self.work)

    def _candidates(self, source: Line) -> Candidates:
        kinds = PrimitiveType.U64, self.key_kind
        count, worst = (contiguous(kind, pointer, 1) for kind, pointer in zip(kinds, self.state, strict=True))
        lines = self.pairs, self.other, count, worst, self.work
        return Candidates(source, self.k, self.size, self.largest, *lines)

    def _list(self, builder: StructuredBuilder, source: Line, results: Sequence[Line]) -> None:
        if not self.k:
            return
        best = BestList(source, results, self.pairs, builder.i64(self.size), builder.i64(self.k), self.largest)
        self.function.is_cold = self.size >= LONG_LINE and all(line.stride == 1 for line in (source, *results))
        if self.function.is_cold:
            best.call(builder)
        else:
            best.emit(builder, in_blocks=source.stride == 1 and self.size - self.k >= VECTOR_LANES)
