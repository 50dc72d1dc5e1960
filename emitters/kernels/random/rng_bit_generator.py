"""rng-bit-generator: XLA's bits from counters, ThreeFry-2x32 (20 rounds) and Philox-4x32 (10 rounds).

Every counter is independent, so the counters are the parallel range and the lanes. Where the words of a counter go is
an index map: ThreeFry's two words are neighbours along the first even (else the longest) dimension, Philox fills the
result in row-major order. A kernel of its own writes the new state. Source: Salmon et al., "Parallel random numbers:
as easy as 1, 2, 3" (2011), and XLA's counter layout.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence

from xjit.affine import AffineExpr, Interval, constant, dim
from xjit.affine.reshape import delinearize, linearize
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.guards import EVERYWHERE, Guard, restrict
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I32, I64, LLVMType, int_type, vector
from xjit.llvm.values import Value, const_int

THREE_FRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
THREE_FRY_PARITY = 0x1BD11BDA
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
NS_PER_COUNTER = 3.0
BLOCKS_PER_UNIT = 64

_UNSIGNED = {8: PrimitiveType.U8, 16: PrimitiveType.U16, 32: PrimitiveType.U32, 64: PrimitiveType.U64}


def emit_rng_bit_generator(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernels of an rng-bit-generator: the bits, and the new state."""
    shape, state = view.hero.shape, view.hero.operand(0).shape
    fits = state.element_type is PrimitiveType.U64 and state.rank == 1 and 2 <= state.dimensions[0] <= 3
    kind = shape.tuple_shapes[1].element_type if shape.is_tuple else None
    if not fits or kind is None or kind.bit_width < 8 or kind.is_complex or kind is PrimitiveType.PRED:
        raise Unsupported(f"rng-bit-generator of {shape} with state {state}: expected a state of u64[2] or u64[3]")
    algorithm = view.hero.attributes_as(at.RngBitGeneratorAttributes).algorithm
    generator = _ThreeFry if algorithm == "rng_three_fry" else _Philox
    kernels = [generator(context, view, ".state").emit_state()]
    if shape.tuple_shapes[1].num_elements:
        kernels.append(generator(context, view, "").emit_bits())
    return kernels


class _Generator(abc.ABC):
    """State while one kernel is emitted. `counters`: the sizes of the box that counters number in row-major order."""

    counters: tuple[int, ...] = ()

    def __init__(self, context: KernelContext, view: KernelView, suffix: str) -> None:
        self.context = context
        self.function, leaves, results = context.new_kernel(view, suffix)
        self.nest = LoopNest(context.module, self.function, context.target)
        self.state = leaves[view.hero.operand(0)]
        self.state_result = results[0]
        shape = results[1].shape
        self.bits = shape.element_type.bit_width
        self.shape: Shape = shape.with_element_type(_UNSIGNED[self.bits])
        self.result = Buffer(self.shape, results[1].pointer)
        self.memory = MemoryAccess(self.nest)
        self.size = state_size(self.state)
        self.counters = self.counter_box()

    @abc.abstractmethod
    def counter_box(self) -> tuple[int, ...]:
        """The sizes of the box of counters."""

    @abc.abstractmethod
    def emit_words(self, builder: IRBuilder, number: Value) -> list[Value]:
        """Emits the words of counter `number` (vector of i64, start not yet added), each of the result's width."""

    @abc.abstractmethod
    def places(self, counter: Index) -> list[tuple[Index, list[tuple[AffineExpr, Interval]]]]:
        """Where each word goes, and under which conditions it exists."""

    def state_word(self, i: int) -> Value:
        """Word i of the old state, i64, read before any loop."""
        builder = self.nest.levels[0].builder
        return builder.load(I64, builder.gep(I64, self.state.pointer, const_int(I64, i)), 8)

    def emit_bits(self) -> Kernel:
        """Emits the kernel that writes the bits.

        Slices of the first dimension are the parallel range, or single counters where each can have a thread.
        """
        nest = self.nest
        width = nest.target.vector_width(I32)
        sizes = list(self.counters)
        units = math.prod(sizes) if self.context.has_unit_threads else sizes[0]
        begin, end = self.context.unit_range(nest, units)
        if self.context.has_unit_threads:
            loops = [nest.new_variable(units)]
            index = tuple(nest.simplify(e) for e in delinearize(dim(loops[0]), sizes))
        else:
            loops = [nest.new_variable(n) for n in sizes]
            index = tuple(dim(p) for p in loops)
        number = linearize(index, sizes)

        def counter(_: Sequence[Value]) -> Sequence[Value]:
            self._store(index, number)
            return ()

        def slice_(_: Sequence[Value]) -> Sequence[Value]:
            return nest.loops(loops[1:], counter, vector_width=width)

        lanes = width if len(loops) == 1 else 0
        nest.loop(loops[0], slice_, begin=begin, end=end, vector_width=lanes, name="counter")
        finish(nest)
        count = math.prod(sizes)
        return Kernel(self.function, units, count * NS_PER_COUNTER, "rng-bit-generator", self.shape.byte_size, count)

    def _store(self, index: Index, number: AffineExpr) -> None:
        nest = self.nest
        builder, lanes = nest.builder, nest.vector
        assert lanes is not None
        numbers = nest.lane_values(nest.simplify(number))
        if numbers.type.elem is not I64:
            numbers = builder.zext(numbers, I64)
        words = self.emit_words(builder, numbers)
        for word, (place, conditions) in zip(words, self.places(index), strict=True):
            guard = restrict(nest, EVERYWHERE, conditions)
            if guard is None:
                continue
            element = int_type(self.bits)
            narrow = builder.trunc(word, element) if word.type.elem.bits > self.bits else word
            place = tuple(nest.simplify(e) for e in place)
            if not any(nest.uses_vector(e) for e in place):  # only lane 0 can have a place
                narrow = builder.extract_element(narrow, 0)
                wanted = None if guard.lanes is None else builder.extract_element(guard.lanes, 0)
                guard = Guard(wanted or guard.scalar, None, guard.depth)
            self.memory.store(self.result, place, narrow, guard)

    def emit_state(self) -> Kernel:
        """Emits the kernel that writes the new state."""
        builder = StructuredBuilder(self.nest.builder.block)
        words = self.new_state(builder)
        for i, word in enumerate(words):
            builder.store(word, builder.gep(I64, self.state_result.pointer, const_int(I64, i)), 8)
        self.nest.builder.position_at_end(builder.block)
        finish(self.nest)
        return Kernel(self.function, 1, 10.0, "rng-state", 0, 0)

    @abc.abstractmethod
    def new_state(self, builder: IRBuilder) -> list[Value]:
        """Emits the words of the new state."""


def state_size(state: Buffer) -> int:
    """Number of 64-bit words of a state."""
    return state.shape.dimensions[0]


def _box(sizes: Sequence[int]) -> tuple[int, ...]:
    """The same counters with a first dimension to share among threads and a last one for lanes."""
    return tuple(sizes) if len(sizes) > 1 else (1, *sizes)


def _add(builder: IRBuilder, a: Value, b: int) -> Value:
    return builder.add(a, const_int(a.type, b))


class _ThreeFry(_Generator):
    """Two 32-bit words per counter; together one 64-bit element."""

    def split(self) -> int:
        """The dimension along which the words of a counter are neighbours."""
        sizes = self.shape.dimensions
        even = [d for d, n in enumerate(sizes) if n % 2 == 0]
        return even[0] if even else max(range(len(sizes)), key=lambda d: (sizes[d], -d), default=0)

    def half(self) -> list[int]:
        """The dimensions of the result with that one halved (rounded up); those of the result for 64 bits."""
        sizes = list(self.shape.dimensions) or [1]
        if self.bits < 64:
            sizes[self.split()] = -(-sizes[self.split()] // 2)
        return sizes

    def counter_box(self) -> tuple[int, ...]:
        return _box(self.half())

    def places(self, counter: Index) -> list[tuple[Index, list[tuple[AffineExpr, Interval]]]]:
        index = list(counter[len(counter) - max(self.shape.rank, 1) :])
        if self.bits == 64:
            return [(tuple(index[: self.shape.rank]), [])]
        found: list[tuple[Index, list[tuple[AffineExpr, Interval]]]] = []
        split = self.split()
        for word in range(2):
            place = list(index)
            place[split] = index[split] * 2 + word
            size = self.shape.dimensions[split] if self.shape.rank else 1
            found.append((tuple(place[: self.shape.rank]), [(place[split], Interval(0, size - 1))]))
        return found

    def emit_words(self, builder: IRBuilder, number: Value) -> list[Value]:
        width = number.type.width
        key, start = self.state_word(0), self.state_word(1)
        outer = self.nest.levels[0].builder
        low, high = outer.trunc(key, I32), outer.trunc(outer.lshr(key, const_int(I64, 32)), I32)
        third = outer.xor(outer.xor(low, high), const_int(I32, THREE_FRY_PARITY))
        keys = [outer.splat(k, width) for k in (low, high, third)]
        counter = builder.add(number, outer.splat(start, width))
        x = builder.trunc(counter, I32)
        y = builder.trunc(builder.lshr(counter, const_int(counter.type, 32)), I32)
        x, y = emit_three_fry(builder, keys, x, y)
        if self.bits < 64:
            return [x, y]
        wide = builder.shl(builder.zext(y, I64), const_int(counter.type, 32))
        return [builder.or_(wide, builder.zext(x, I64))]

    def new_state(self, builder: IRBuilder) -> list[Value]:
        words = [self.state_word(i) for i in range(self.size)]
        return [words[0], _add(builder, words[1], math.prod(self.half())), *words[2:]]


def emit_three_fry(builder: IRBuilder, keys: Sequence[Value], x: Value, y: Value) -> tuple[Value, Value]:
    """Emits 20 rounds of ThreeFry-2x32; `keys` are the two words of the key and their parity word."""
    x, y = builder.add(x, keys[0]), builder.add(y, keys[1])
    for block in range(5):
        for rotation in THREE_FRY_ROTATIONS[block % 2]:
            x = builder.add(x, y)
            y = builder.xor(builder.intrinsic("fshl", y.type, (y, y, const_int(y.type, rotation))), x)
        x = builder.add(x, keys[(block + 1) % 3])
        y = _add(builder, builder.add(y, keys[(block + 2) % 3]), block + 1)
    return x, y


class _Philox(_Generator):
    """Four 32-bit words per counter, or two 64-bit elements; the counter has 128 bits."""

    def per_counter(self) -> int:
        """Elements per counter."""
        return 2 if self.bits == 64 else 4

    def blocks(self) -> int:
        """Number of counters."""
        return -(-self.shape.num_elements // self.per_counter())

    def counter_box(self) -> tuple[int, ...]:
        return -(-self.blocks() // BLOCKS_PER_UNIT), BLOCKS_PER_UNIT

    def places(self, counter: Index) -> list[tuple[Index, list[tuple[AffineExpr, Interval]]]]:
        found: list[tuple[Index, list[tuple[AffineExpr, Interval]]]] = []
        for word in range(self.per_counter()):
            linear = linearize((*counter, constant(word)), (*self.counters, self.per_counter()))
            place = delinearize(linear, self.shape.dimensions)
            found.append((tuple(place), [(linear, Interval(0, self.shape.num_elements - 1))]))
        return found

    def _start(self) -> tuple[Value, Value]:
        """The low and high word of the counter."""
        return self.state_word(1), self.state_word(2 if self.size >= 3 else 0)

    def emit_words(self, builder: IRBuilder, number: Value) -> list[Value]:
        width, outer = number.type.width, self.nest.levels[0].builder
        key, (low, high) = self.state_word(0), self._start()
        first = outer.splat(low, width)
        lower = builder.add(number, first)
        carry = builder.zext(builder.icmp_unsigned("<", lower, first), I64)
        upper = builder.add(carry, outer.splat(high, width))
        words = [part for value in (lower, upper) for part in _halves(builder, value)]
        keys = [outer.trunc(key, I32), outer.trunc(outer.lshr(key, const_int(I64, 32)), I32)]
        words = emit_philox(builder, lambda k: outer.splat(k, width), outer, keys, words)
        if self.bits < 64:
            return words
        return [_join(builder, words[0], words[1]), _join(builder, words[2], words[3])]

    def new_state(self, builder: IRBuilder) -> list[Value]:
        low, high = self._start()
        new_low = _add(builder, low, self.blocks())
        carry = builder.zext(builder.icmp_unsigned("<", new_low, low), I64)
        new_high = builder.add(high, carry)
        return [self.state_word(0), new_low, *([new_high] if self.size >= 3 else [])]


def _halves(builder: IRBuilder, value: Value) -> tuple[Value, Value]:
    return builder.trunc(value, I32), builder.trunc(builder.lshr(value, const_int(value.type, 32)), I32)


def _join(builder: IRBuilder, low: Value, high: Value) -> Value:
    wide: LLVMType = vector(I64, low.type.width)
    return builder.or_(builder.zext(low, I64), builder.shl(builder.zext(high, I64), const_int(wide, 32)))


def emit_philox(
    builder: IRBuilder,
    splat: Callable[[Value], Value],
    outer: IRBuilder,
    keys: Sequence[Value],
    words: Sequence[Value],
) -> list[Value]:
    """Emits 10 rounds of Philox-4x32; the scalar keys are stepped by `outer`, `splat` gives them to all lanes."""
    k0, k1 = keys
    x = list(words)
    for _ in range(10):
        products = [
            builder.mul(builder.zext(x[i], I64), const_int(vector(I64, x[i].type.width), m))
            for i, m in ((0, PHILOX_MULTIPLIERS[0]), (2, PHILOX_MULTIPLIERS[1]))
        ]
        (low0, high0), (low1, high1) = (_halves(builder, p) for p in products)
        x = [
            builder.xor(builder.xor(high1, x[1]), splat(k0)),
            low1,
            builder.xor(builder.xor(high0, x[3]), splat(k1)),
            low0,
        ]
        k0, k1 = _add(outer, k0, PHILOX_KEY_STEPS[0]), _add(outer, k1, PHILOX_KEY_STEPS[1])
    return x
