"""rng (uniform and normal numbers) from the bits of rng-bit-generator, whose counter is the module's random state.

HLO leaves the values open; these repeat in every execution, and differ from one execution of an instruction in a loop
to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import CompareAttributes, RngAttributes, RngBitGeneratorAttributes, RngStateAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

KEY = 0x9E3779B97F4A7C15
"""The Philox key: any number will do."""


@dataclass
class RngExpander(OpExpander):
    """Uniform numbers scale the leading bits; normal ones come in pairs from Box and Muller's transformation."""

    name = "rng-expander"
    opcodes = frozenset({"rng"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction:
        """Returns the random array."""
        numbers = _Numbers(instruction, into)
        if instruction.attributes_as(RngAttributes).distribution == "rng_normal":
            return numbers.normal()
        kind = instruction.shape.element_type
        return numbers.uniform_float() if kind.is_float else numbers.uniform_integer()


class _Numbers:
    """The expressions of one instruction with scalar operands a and b."""

    def __init__(self, instruction: HloInstruction, into: Expansion) -> None:
        self.into = into
        self.shape = instruction.shape
        self.kind = instruction.shape.element_type
        self.work = PrimitiveType.F64 if self.kind is PrimitiveType.F64 else PrimitiveType.F32
        self.a, self.b = (into.add(build.broadcast_scalar(o, self.shape)) for o in instruction.operands)

    def _op(self, opcode: str, *operands: HloInstruction) -> HloInstruction:
        return self.into.make(opcode, *operands)

    def _like(self, operand: HloInstruction, value: float) -> HloInstruction:
        return self.into.full(operand.shape, value)

    def _convert(self, operand: HloInstruction, kind: PrimitiveType) -> HloInstruction:
        return operand if operand.shape.element_type is kind else self.into.add(build.convert(operand, kind))

    def _bits(self, dimensions: tuple[int, ...], kind: PrimitiveType) -> HloInstruction:
        """Random bits of an unsigned type."""
        into = self.into
        count = math.prod(dimensions) * kind.bit_width
        counter = into.make("rng-get-and-update-state", attributes=RngStateAttributes(-(-count // 128)))
        key = into.full(Shape.array(PrimitiveType.U64, (1,)), KEY)
        state = into.add(build.concatenate([key, counter], 0))
        shape = Shape.tuple_of([state.shape, Shape.array(kind, dimensions)])
        attributes = RngBitGeneratorAttributes("rng_philox")
        return into.element(into.make("rng-bit-generator", state, attributes=attributes, shape=shape), 1)

    def _unit(self, dimensions: tuple[int, ...]) -> HloInstruction:
        """Uniform numbers in [0, 1): multiples of 2^-23 (f32) or 2^-52 (f64)."""
        bits, digits = (PrimitiveType.U64, 52) if self.work is PrimitiveType.F64 else (PrimitiveType.U32, 23)
        raw = self._bits(dimensions, bits)
        leading = self._op("shift-right-logical", raw, self._like(raw, bits.bit_width - digits))
        number = self._convert(leading, self.work)
        return self._op("multiply", number, self._like(number, 2.0**-digits))

    def uniform_float(self) -> HloInstruction:
        """a + u (b - a); what rounding makes as large as b is a."""
        a, b = (self._convert(x, self.work) for x in (self.a, self.b))
        scaled = self._op("multiply", self._unit(self.shape.dimensions), self._op("subtract", b, a))
        value = self._convert(self._op("add", a, scaled), self.kind)
        beyond = self.into.make("compare", value, self.b, attributes=CompareAttributes("GE"))
        return self._op("select", beyond, self.a, value)

    def uniform_integer(self) -> HloInstruction:
        """a + bits mod (b - a), or a where that range is empty."""
        wide = self._bits(self.shape.dimensions, PrimitiveType.U64)
        if self.kind is PrimitiveType.PRED:
            half = self._like(wide, 1 << 63)
            return self.into.make("compare", wide, half, attributes=CompareAttributes("GE"))
        low, high = (self._convert(x, PrimitiveType.U64) for x in (self.a, self.b))
        offset = self._op("remainder", wide, self._op("subtract", high, low))
        value = self._convert(self._op("add", low, offset), self.kind)
        some = self.into.make("compare", self.a, self.b, attributes=CompareAttributes("LT"))
        return self._op("select", some, value, self.a)

    def normal(self) -> HloInstruction:
        """a + b sqrt(-2 ln(1 - u)) cos(2 pi v)."""
        pair = self._unit((2, *self.shape.dimensions))
        halves = [self._half(pair, i) for i in range(2)]
        inverse = self._op("subtract", self._like(halves[0], 1.0), halves[0])
        radius = self._op("sqrt", self._op("multiply", self._op("log", inverse), self._like(inverse, -2.0)))
        angle = self._op("cosine", self._op("multiply", halves[1], self._like(halves[1], 2 * math.pi)))
        a, b = (self._convert(x, self.work) for x in (self.a, self.b))
        value = self._op("add", a, self._op("multiply", b, self._op("multiply", radius, angle)))
        return self._convert(value, self.kind)

    def _half(self, pair: HloInstruction, i: int) -> HloInstruction:
        dimensions = pair.shape.dimensions
        starts, limits = [i, *[0] * self.shape.rank], [i + 1, *dimensions[1:]]
        return self.into.add(build.reshape(self.into.add(build.slice_(pair, starts, limits)), dimensions[1:]))
