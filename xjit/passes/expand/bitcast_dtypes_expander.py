"""bitcast-convert between types of different sizes by shifts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction, Literal, PrimitiveType, Shape
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

_BITS = {8: PrimitiveType.U8, 16: PrimitiveType.U16, 32: PrimitiveType.U32, 64: PrimitiveType.U64}


@dataclass
class BitcastDtypesExpander(OpExpander):
    """Cuts the bits of an element into several narrower ones, or joins those; the lowest bits come first."""

    name = "bitcast-dtypes-expander"
    opcodes = frozenset({"bitcast-convert"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the same bits; None for types of one size, complex ones, and those below eight bits."""
        source, result = instruction.operand(0).shape, instruction.shape
        widths = [shape.element_type.bit_width for shape in (source, result)]
        is_complex = any(shape.element_type.is_complex for shape in (source, result))
        if widths[0] == widths[1] or is_complex or not all(width in _BITS for width in widths):
            return None
        if not (source.is_static_array and source.is_row_major and result.is_row_major):
            return None
        bits = into.make("bitcast-convert", instruction.operand(0), shape=source.with_element_type(_BITS[widths[0]]))
        kind = _BITS[widths[1]]
        changed = _cut(into, bits, kind) if widths[0] > widths[1] else _joined(into, bits, kind)
        return into.like_source("bitcast-convert", [changed])


def _shifts(into: Expansion, shape: Shape, narrow: PrimitiveType) -> HloInstruction:
    """How far each part along the last dimension lies from the lowest bit."""
    places = np.arange(shape.dimensions[-1], dtype=shape.element_type.dtype) * np.array(narrow.bit_width).astype(
        shape.element_type.dtype
    )
    line = into.constant(Literal.from_array(places))
    return into.add(build.broadcast(line, shape, [shape.rank - 1]))


def _cut(into: Expansion, bits: HloInstruction, narrow: PrimitiveType) -> HloInstruction:
    wide = bits.shape.element_type
    shape = Shape.array(wide, (*bits.shape.dimensions, wide.bit_width // narrow.bit_width))
    repeated = into.add(build.broadcast(bits, shape, range(bits.shape.rank)))
    shifted = into.make("shift-right-logical", repeated, _shifts(into, shape, narrow))
    mask = into.full(shape, 2**narrow.bit_width - 1)
    return into.add(build.convert(into.make("and", shifted, mask), narrow))


def _joined(into: Expansion, bits: HloInstruction, wide: PrimitiveType) -> HloInstruction:
    narrow, shape = bits.shape.element_type, bits.shape.with_element_type(wide)
    shifted = into.make("shift-left", into.add(build.convert(bits, wide)), _shifts(into, shape, narrow))
    reducer = into.embed(build.make_binary_computation("or", wide))
    zero = into.full(Shape.array(wide), 0)
    return into.add(build.make_reduce(shifted, zero, [shape.rank - 1], reducer))
