"""The first k elements of a line in total order, in a short sorted list.

The list has the keys and positions of the best elements so far. A vector of elements is looked at one by one only if
some lane beats the worst of them, which gets rare quickly. Lines that are long enough leave all of it to a library.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.emitters.elemental import load_convert, storage_type
from xjit.emitters.kernels.loops.lines import Line, contiguous
from xjit.emitters.kernels.sort.merge_sort import shift_while, store_record
from xjit.emitters.kernels.sort.sort_order import from_raw, unsigned_key
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.library import Library
from xjit.llvm.module import Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.target import Target
from xjit.llvm.types import I32, I64, PTR, VOID, int_type, vector
from xjit.llvm.values import Value, zero

VECTOR_LANES = 16
LONG_LINE = 256
"""Elements: what a kernel does for such a line besides calling the library takes no time."""

_PARAMS = (*((PTR, name) for name in ("source", "values", "positions", "keys", "places")), (I64, "size"), (I64, "k"))


def key_kind(kind: PrimitiveType) -> PrimitiveType:
    """The type of the keys of elements."""
    return PrimitiveType.U64 if kind.bit_width == 64 else PrimitiveType.U32


def load_key(builder: IRBuilder, source: Line, position: Value, largest: bool) -> Value:
    """The unsigned key of an element."""
    value = from_raw(builder, source.kind, source.load_raw(builder, position))
    assert isinstance(value, Value)
    return unsigned_key(builder, value, source.kind, total=True, descending=largest)


def any_better(builder: IRBuilder, source: Line, block: Value, worst: Value, largest: bool) -> Value:
    """Whether one of `VECTOR_LANES` neighbours, from place `block` on, has a smaller key."""
    kind = source.kind
    part = storage_type(kind)
    stored = builder.load(vector(part, VECTOR_LANES), source.address(builder, block), part.bits // 8)
    keys = unsigned_key(builder, load_convert(builder, kind, stored), kind, total=True, descending=largest)
    smaller = builder.icmp_unsigned("<", keys, builder.splat(worst, VECTOR_LANES))
    better = builder.bitcast(smaller, int_type(VECTOR_LANES))
    return builder.icmp_signed("!=", better, zero(better.type))


@dataclass(frozen=True, slots=True)
class BestList:
    """The best `k` of `size` elements of a line, more than 0; `pairs` are scratch memory for as many keys and places.

    The results are lines of values and of positions (32 bits).
    """

    source: Line
    results: Sequence[Line]
    pairs: Sequence[Line]
    size: Value
    k: Value
    largest: bool

    def emit(self, builder: StructuredBuilder, *, in_blocks: bool) -> None:
        """Emits the loops; `in_blocks` if the line has neighbours in memory, and more vectors than the list takes."""
        nothing = builder.i64(0)
        with builder.loop(nothing, self.k, name="fill") as i:
            self._insert(builder, load_key(builder, self.source, i, self.largest), i, i)
        start = self.k
        if in_blocks:
            rest = builder.and_(builder.sub(self.size, self.k), builder.i64(VECTOR_LANES - 1))
            start = builder.sub(self.size, rest)
            with builder.loop(self.k, start, VECTOR_LANES, name="block") as block:
                stop = builder.add(block, builder.i64(VECTOR_LANES))
                better = self._any_better(builder, block)
                with builder.when(better), builder.loop(block, stop, name="lane") as i:
                    self._consider(builder, i)
        with builder.loop(start, self.size, name="rest") as i:
            self._consider(builder, i)
        with builder.loop(nothing, self.k, name="out") as i:
            position = self.pairs[1].load_raw(builder, i)
            self.results[0].store_raw(builder, i, self.source.load_raw(builder, builder.zext(position, I64)))
            self.results[1].store_raw(builder, i, position)

    def call(self, builder: StructuredBuilder) -> None:
        """Emits a call of the library that does it, for lines whose elements are neighbours."""
        module, kind = builder.module, self.source.kind
        name = f"xjit_topk_{kind.text}{'' if self.largest else '_smallest'}"
        module.libraries.setdefault(name, Library.of(name, _module, name, kind, self.largest, module.target))
        function = module.declare(name, VOID, [type for type, _ in _PARAMS])
        lines = self.source, *self.results, *self.pairs
        builder.call(function, [*(line.pointer for line in lines), self.size, self.k])

    def _any_better(self, builder: StructuredBuilder, block: Value) -> Value:
        worst = self.pairs[0].load_raw(builder, self._last(builder))
        return any_better(builder, self.source, block, worst, self.largest)

    def _consider(self, builder: StructuredBuilder, position: Value) -> None:
        """Inserts an element if it beats the worst of the list, which it replaces. Equal keys stay behind."""
        key, last = load_key(builder, self.source, position, self.largest), self._last(builder)
        with builder.when(builder.icmp_unsigned("<", key, self.pairs[0].load_raw(builder, last))):
            self._insert(builder, key, position, last)

    def _last(self, builder: StructuredBuilder) -> Value:
        return builder.sub(self.k, builder.i64(1))

    def _insert(self, builder: StructuredBuilder, key: Value, position: Value, free: Value) -> None:
        """Puts a pair into the sorted list, whose place `free` may be overwritten."""
        place = shift_while(
            builder, free, builder.i64(0), self.pairs, lambda below: builder.icmp_unsigned("<", key, below[0])
        )
        store_record(builder, self.pairs, place, [key, builder.trunc(position, I32)])


def _module(name: str, kind: PrimitiveType, largest: bool, target: Target) -> Module:
    module = Module(f"{name}_library", target)
    builder = define(module, name, _PARAMS, linkage="")
    *pointers, size, k = builder.function.args
    places = PrimitiveType.U32
    kinds = kind, kind, places, key_kind(kind), places
    source, values, positions, *pairs = (contiguous(*line, 0) for line in zip(kinds, pointers, strict=True))
    BestList(source, (values, positions), pairs, size, k, largest).emit(builder, in_blocks=True)
    builder.ret_void()
    return module
