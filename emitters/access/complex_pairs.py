"""Complex elements that follow each other in memory: their parts alternate there, and are vectors in registers."""

from __future__ import annotations

from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I64, LLVMType, vector
from xjit.llvm.values import Value, const_int


def load_pairs(
    builder: IRBuilder, address: Value, part: LLVMType, mask: Value | None, alignment: int
) -> tuple[Value, Value]:
    """Loads as many elements as the vector type `part` has lanes; `mask` says which are wanted."""
    width = part.width
    halves: list[Value] = []
    for half in range(2):
        place = _half(builder, address, part, half)
        if mask is None:
            halves.append(builder.load(part, place, alignment))
        else:
            halves.append(builder.masked_load(part, place, _doubled(builder, mask, half), part.elem.bits // 8))
    real, imag = (builder.shuffle_vector(halves[0], halves[1], range(n, 2 * width, 2)) for n in range(2))
    return real, imag


def split_pairs(builder: IRBuilder, elements: Value, part: LLVMType) -> tuple[Value, Value]:
    """Returns the parts, of a scalar type, of complex elements that were loaded as integers of twice the size."""
    width = elements.type.width
    both = builder.bitcast(elements, vector(part, 2 * width))
    real, imag = (builder.shuffle_vector(both, None, range(n, 2 * width, 2)) for n in range(2))
    return real, imag


def store_pairs(
    builder: IRBuilder, address: Value, parts: tuple[Value, Value], mask: Value | None, alignment: int
) -> None:
    """Stores the elements with those real and imaginary parts."""
    type = parts[0].type
    order = [n + place for place in range(type.width) for n in (0, type.width)]
    for half in range(2):
        value = builder.shuffle_vector(*parts, order[half * type.width : (half + 1) * type.width])
        place = _half(builder, address, type, half)
        if mask is None:
            builder.store(value, place, alignment)
        else:
            builder.masked_store(value, place, _doubled(builder, mask, half), type.elem.bits // 8)


def _half(builder: IRBuilder, address: Value, part: LLVMType, half: int) -> Value:
    return builder.gep(part.elem, address, const_int(I64, half * part.width)) if half else address


def _doubled(builder: IRBuilder, mask: Value, half: int) -> Value:
    """The mask of one half: each lane of that half of the elements twice."""
    width = mask.type.width
    return builder.shuffle_vector(mask, None, [(half * width + lane) // 2 for lane in range(width)])
