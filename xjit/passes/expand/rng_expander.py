"""rng (uniform and normal numbers) from the bits of rng-bit-generator, whose counter is the module's random state.

HLO leaves the values open; these repeat in every execution, and differ from one execution of an instruction in a loop
to the next, from one instruction to another, and between devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import RngAttributes, RngBitGeneratorAttributes, RngStateAttributes
from xjit.passes.expand.call_expander import CallExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion

U64 = PrimitiveType.U64
GOLDEN = 0x9E3779B97F4A7C15
"""2^64 by the golden ratio: its multiples spread small numbers over all bits."""

_MASK64 = (1 << 64) - 1


@dataclass
class RngExpander(CallExpander):
    """Calls a computation with a key, the random state, and the two operands of the distribution.

    The state is the counter before it went on by the number of 32-bit words that the result has. The key is made of the
    module's seed, the instruction's id, and, where there are several, the replica's and the partition's number.
    Uniform numbers scale the leading bits; normal ones come in pairs from Box and Muller's transformation.
    """

    name = "rng-expander"
    opcodes = frozenset({"rng"})

    def arguments(self, instruction: HloInstruction, into: Expansion) -> Sequence[HloInstruction]:
        """Returns key, state and operands."""
        shape = instruction.shape
        words = shape.num_elements * -(-shape.element_type.bit_width // 32)
        state = into.make("rng-get-and-update-state", attributes=RngStateAttributes(words))
        return [_key(instruction, Writer(into)), state, *instruction.operands]

    def applies(self, instruction: HloInstruction) -> bool:
        """Whether the size of the result is known."""
        return instruction.shape.is_static_array

    def write(
        self, instruction: HloInstruction, writer: Writer, parameters: Sequence[HloInstruction]
    ) -> HloInstruction:
        """Writes the random array."""
        key, state, a, b = parameters
        numbers = _Numbers(instruction.shape, writer, key, state)
        if instruction.attributes_as(RngAttributes).distribution == "rng_normal":
            return numbers.normal(a, b)
        kind = instruction.shape.element_type
        return numbers.uniform_float(a, b) if kind.is_float else numbers.uniform_integer(a, b)


def _key(instruction: HloInstruction, writer: Writer) -> HloInstruction:
    """Returns seed ^ the id's bits ^ replica ^ partition << 32, as u64[]."""
    module = instruction.module
    assert module is not None
    config = module.config
    key = writer.constant((config.seed & _MASK64) ^ ((instruction.unique_id * GOLDEN & _MASK64) >> 32), U64)
    for opcode, count, shift in (("replica-id", config.replica_count, 0), ("partition-id", config.num_partitions, 32)):
        if count > 1:
            number = writer.convert(writer.make(opcode), U64)
            if shift:
                number = writer.make("shift-left", number, writer.constant(shift, U64))
            key = writer.make("xor", key, number)
    return key


class _Numbers:
    """The expressions of one shape, in the computation that is called."""

    def __init__(self, shape: Shape, writer: Writer, key: HloInstruction, state: HloInstruction) -> None:
        self.writer = writer
        self.shape = shape
        self.kind = shape.element_type
        self.work = PrimitiveType.F64 if self.kind is PrimitiveType.F64 else PrimitiveType.F32
        self.state = writer.concatenate([writer.reshape(key, [1]), state], 0)

    def _op(self, opcode: str, *operands: HloInstruction) -> HloInstruction:
        return self.writer.make(opcode, *operands)

    def _all(self, scalar: HloInstruction) -> HloInstruction:
        """A scalar for every element of the result."""
        return self.writer.broadcast(scalar, self.shape.dimensions) if self.shape.rank else scalar

    def _bits(self, dimensions: Sequence[int], kind: PrimitiveType) -> HloInstruction:
        """Random bits of an unsigned type."""
        shape = Shape.tuple_of([self.state.shape, Shape.array(kind, tuple(dimensions))])
        attributes = RngBitGeneratorAttributes("rng_philox")
        generator = self.writer.make("rng-bit-generator", self.state, attributes=attributes, shape=shape)
        return self.writer.element(generator, 1)

    def _unit(self, dimensions: Sequence[int]) -> HloInstruction:
        """Uniform numbers in [0, 1): multiples of 2^-23 (f32) or 2^-52 (f64)."""
        bits, digits = (U64, 52) if self.work is PrimitiveType.F64 else (PrimitiveType.U32, 23)
        raw = self._bits(dimensions, bits)
        leading = self._op("shift-right-logical", raw, self.writer.like(raw, bits.bit_width - digits))
        number = self.writer.convert(leading, self.work)
        return self._op("multiply", number, self.writer.like(number, 2.0**-digits))

    def uniform_float(self, a: HloInstruction, b: HloInstruction) -> HloInstruction:
        """u (b - a) + a; what rounding makes as large as b is a."""
        writer = self.writer
        low, high = (writer.convert(x, self.work) for x in (a, b))
        scaled = self._op("multiply", self._unit(self.shape.dimensions), self._all(self._op("subtract", high, low)))
        value = writer.convert(self._op("add", scaled, self._all(low)), self.kind)
        return self._op("select", writer.compare("GE", value, self._all(b)), self._all(a), value)

    def uniform_integer(self, a: HloInstruction, b: HloInstruction) -> HloInstruction:
        """a + bits mod (b - a), without a sign, or a where they are equal; of booleans one bit."""
        writer, dimensions = self.writer, self.shape.dimensions
        if self.kind is PrimitiveType.PRED:
            raw = self._bits(dimensions, PrimitiveType.U32)
            return writer.compare("GE", raw, writer.like(raw, 1 << 31))
        unsigned = PrimitiveType.from_text(f"u{max(self.kind.bit_width, 32)}")
        bits = self._bits(dimensions, unsigned)
        low, high = (self._unsigned(x, unsigned) for x in (a, b))
        width = self._op("maximum", self._op("subtract", high, low), writer.constant(1, unsigned))
        value = self._op("add", self._all(low), self._op("remainder", bits, self._all(width)))
        return self._from_unsigned(value)

    def _unsigned(self, scalar: HloInstruction, unsigned: PrimitiveType) -> HloInstruction:
        if self.kind.bit_width < unsigned.bit_width or self.kind is unsigned:
            return self.writer.convert(scalar, unsigned)
        return self.writer.make("bitcast-convert", scalar, shape=Shape.array(unsigned))

    def _from_unsigned(self, value: HloInstruction) -> HloInstruction:
        if self.kind.bit_width < value.shape.element_type.bit_width or self.kind is value.shape.element_type:
            return self.writer.convert(value, self.kind)
        return self.writer.make("bitcast-convert", value, shape=self.shape.with_layout(None))

    def normal(self, a: HloInstruction, b: HloInstruction) -> HloInstruction:
        """a + b n, where two n are sqrt(-2 ln(1 - u)) times the cosine and the sine of 2 pi v."""
        writer, count = self.writer, self.shape.num_elements
        pairs = -(-count // 2)
        unit = self._unit([2, pairs])
        u, v = (writer.reshape(writer.slice(unit, [i, 0], [i + 1, pairs]), [pairs]) for i in range(2))
        logarithm = self._op("log", self._op("subtract", writer.like(u, 1.0), u))
        radius = self._op("sqrt", self._op("multiply", logarithm, writer.like(u, -2.0)))
        angle = self._op("multiply", v, writer.like(v, 2 * math.pi))
        halves = [self._op("multiply", radius, self._op(part, angle)) for part in ("cosine", "sine")]
        flat = writer.concatenate(halves, 0)
        if 2 * pairs > count:
            flat = writer.slice(flat, [0], [count])
        numbers = writer.reshape(flat, self.shape.dimensions)
        a, b = (self._all(writer.convert(x, self.work)) for x in (a, b))
        value = self._op("add", a, self._op("multiply", b, numbers))
        return writer.convert(value, self.kind)
