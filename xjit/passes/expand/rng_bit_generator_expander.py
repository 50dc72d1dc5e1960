"""rng-bit-generator in integer arithmetic: ThreeFry-2x32 and Philox-4x32-10, bit by bit as XLA defines them.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import RngBitGeneratorAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.expand.call_expander import CallExpander
from xjit.passes.expand.writing import Writer

U32, U64 = PrimitiveType.U32, PrimitiveType.U64
ALGORITHMS = ("rng_philox", "rng_three_fry")
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)


@dataclass
class RngBitGeneratorExpander(CallExpander):
    """Both algorithms encrypt a counter with a key; the state is the key and the counter that comes next.

    ThreeFry counts over half of the result, split along its first even (else its longest) dimension: the two words of
    a block are neighbours along it. Philox fills the result in row-major order, four words at a time. Elements below
    32 bits are the low bits of a word, those of 64 bits two words, the low one first.
    """

    default_algorithm: str = ALGORITHMS[0]
    name = "rng-bit-generator-expander"
    opcodes = frozenset({"rng-bit-generator"})

    def __post_init__(self) -> None:
        """InvalidArgument for an unknown algorithm."""
        if self.default_algorithm not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            raise InvalidArgument(f"default_algorithm is one of {known}, found '{self.default_algorithm}'")

    def applies(self, instruction: HloInstruction) -> bool:
        """Whether the state is u64[2] or u64[3], and the elements have whole bytes."""
        state, bits = instruction.operand(0).shape, instruction.shape.tuple_shapes[1]
        whole = bits.element_type.bit_width >= 8 and not bits.element_type.is_complex
        return state.element_type is U64 and state.dimensions in ((2,), (3,)) and whole and bits.is_static_array

    def write(
        self, instruction: HloInstruction, writer: Writer, parameters: Sequence[HloInstruction]
    ) -> HloInstruction:
        """Writes the tuple of the new state and the bits."""
        algorithm = instruction.attributes_as(RngBitGeneratorAttributes).algorithm
        if algorithm == "rng_default":
            algorithm = self.default_algorithm
        shape = instruction.shape.tuple_shapes[1]
        (state,) = parameters
        generate = _three_fry_bits if algorithm == "rng_three_fry" else _philox_bits
        kind = shape.element_type
        new_state, words = generate(writer, state, shape.dimensions, kind.bit_width == 64)
        unsigned = PrimitiveType.from_text(f"u{kind.bit_width}")
        bits = writer.convert(words, unsigned)
        if kind is not unsigned:
            bits = writer.make("bitcast-convert", bits, shape=Shape.array(kind, shape.dimensions))
        return writer.tuple_of(new_state, bits)


def _three_fry_bits(
    writer: Writer, state: HloInstruction, dimensions: tuple[int, ...], wide: bool
) -> tuple[HloInstruction, HloInstruction]:
    """Returns the new state and the bits as u32 or u64."""
    sizes = dimensions or (1,)
    even = [d for d, n in enumerate(sizes) if n % 2 == 0]
    split = even[0] if even else max(range(len(sizes)), key=lambda d: (sizes[d], -d))
    half = list(sizes) if wide else [-(-n // 2) if d == split else n for d, n in enumerate(sizes)]
    count = math.prod(half)
    start = _part(writer, state, 1)
    numbers = _numbers(writer, start, count)
    low, high = _three_fry(writer, _words(writer, _part(writer, state, 0)), *_words(writer, numbers))
    if wide:
        bits = writer.reshape(_joined(writer, low, high), dimensions)
    else:
        single = [*half[: split + 1], 1, *half[split + 1 :]]
        pairs = writer.concatenate([writer.reshape(w, single) for w in (low, high)], split + 1)
        merged = writer.reshape(pairs, [2 * n if d == split else n for d, n in enumerate(half)])
        if merged.shape.dimensions != sizes:
            merged = writer.slice(merged, [0] * len(sizes), sizes)
        bits = writer.reshape(merged, dimensions)
    after = writer.make("add", start, writer.constant(count, U64))
    return _state(writer, state, [after]), bits


def _three_fry(
    writer: Writer, key: tuple[HloInstruction, HloInstruction], low: HloInstruction, high: HloInstruction
) -> tuple[HloInstruction, HloInstruction]:
    """Returns the two words of each block: twenty rounds, a part of the key after every four."""
    first, second = key
    mixed = writer.make("xor", first, second)
    keys = (first, second, writer.make("xor", mixed, writer.constant(PARITY, U32)))
    size = low.shape.dimensions
    x = writer.make("add", low, writer.broadcast(keys[0], size))
    y = writer.make("add", high, writer.broadcast(keys[1], size))
    for block in range(5):
        for distance in ROTATIONS[block % 2]:
            x = writer.make("add", x, y)
            left = writer.make("shift-left", y, writer.like(y, distance))
            right = writer.make("shift-right-logical", y, writer.like(y, 32 - distance))
            y = writer.make("xor", writer.make("or", left, right), x)
        following = writer.make("add", keys[(block + 2) % 3], writer.constant(block + 1, U32))
        x = writer.make("add", x, writer.broadcast(keys[(block + 1) % 3], size))
        y = writer.make("add", y, writer.broadcast(following, size))
    return x, y


def _philox_bits(
    writer: Writer, state: HloInstruction, dimensions: tuple[int, ...], wide: bool
) -> tuple[HloInstruction, HloInstruction]:
    """Returns the new state and the bits as u32 or u64. A state of two holds the high word in the key's place."""
    long = state.shape.dimensions == (3,)
    count = math.prod(dimensions)
    blocks = -(-count * (2 if wide else 1) // 4)
    key, low = _part(writer, state, 0), _part(writer, state, 1)
    high = _part(writer, state, 2) if long else key
    numbers = _numbers(writer, low, blocks)
    carry = writer.convert(writer.compare("LT", numbers, writer.broadcast(low, [blocks])), U64)
    upper = writer.make("add", carry, writer.broadcast(high, [blocks]))
    counter = [*_words(writer, numbers), *_words(writer, upper)]
    words = _philox(writer, _words(writer, key), counter)
    if wide:
        words = [_joined(writer, *words[:2]), _joined(writer, *words[2:])]
    columns = writer.concatenate([writer.reshape(w, [blocks, 1]) for w in words], 1)
    flat = writer.slice(writer.reshape(columns, [blocks * len(words)]), [0], [count])
    after = [writer.make("add", low, writer.constant(blocks, U64))]
    if long:
        overflow = writer.convert(writer.compare("LT", after[0], low), U64)
        after.append(writer.make("add", high, overflow))
    return _state(writer, state, after), writer.reshape(flat, dimensions)


def _philox(
    writer: Writer, key: tuple[HloInstruction, HloInstruction], counter: list[HloInstruction]
) -> list[HloInstruction]:
    """Returns the four words of each block: ten rounds, with a key that goes on by Weyl's constants."""
    size, words = counter[0].shape.dimensions, counter
    for step in range(10):
        keys = [
            writer.make("add", k, writer.constant(step * w & 0xFFFFFFFF, U32)) for k, w in zip(key, WEYL, strict=True)
        ]
        products = [
            writer.make("multiply", writer.convert(words[2 * i], U64), writer.full(Shape.array(U64, size), m))
            for i, m in enumerate(MULTIPLIERS)
        ]
        (low0, high0), (low1, high1) = (_words(writer, p) for p in products)
        a = writer.make("xor", writer.make("xor", high1, words[1]), writer.broadcast(keys[0], size))
        b = writer.make("xor", writer.make("xor", high0, words[3]), writer.broadcast(keys[1], size))
        words = [a, low1, b, low0]
    return words


def _part(writer: Writer, state: HloInstruction, index: int) -> HloInstruction:
    return writer.reshape(writer.slice(state, [index], [index + 1]), [])


def _numbers(writer: Writer, start: HloInstruction, count: int) -> HloInstruction:
    """Returns u64[count]: start, start + 1, ..."""
    return writer.make("add", writer.iota(U64, [count], 0), writer.broadcast(start, [count]))


def _words(writer: Writer, numbers: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """Returns the low and the high u32 words of u64 numbers."""
    high = writer.make("shift-right-logical", numbers, writer.like(numbers, 32))
    return writer.convert(numbers, U32), writer.convert(high, U32)


def _joined(writer: Writer, low: HloInstruction, high: HloInstruction) -> HloInstruction:
    """Returns the u64 numbers of low and high u32 words."""
    upper = writer.convert(high, U64)
    return writer.make("or", writer.convert(low, U64), writer.make("shift-left", upper, writer.like(upper, 32)))


def _state(writer: Writer, old: HloInstruction, counter: Sequence[HloInstruction]) -> HloInstruction:
    """Returns the state with another counter; what is behind it stays."""
    (size,) = old.shape.dimensions
    parts = [writer.slice(old, [0], [1]), *(writer.reshape(c, [1]) for c in counter)]
    if len(parts) < size:
        parts.append(writer.slice(old, [len(parts)], [size]))
    return writer.concatenate(parts, 0)
