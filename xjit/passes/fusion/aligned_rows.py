"""Arrays whose elements belong to rows of scores, as arrays over the rows' own dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import dim
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.ops import build
from xjit.passes.analysis.attention.digits import digits_of, is_plain
from xjit.passes.analysis.attention.places import Place


def aligned(
    computation: HloComputation, place: Place, sizes: Sequence[int], wanted: Mapping[int, int]
) -> HloInstruction:
    """Returns an array over variables of `wanted` sizes, in f32; repeated where it has less.

    `place` is over variables of `sizes`, read by digits (see `digits_of`).
    """

    def add(instruction: HloInstruction) -> HloInstruction:
        return instruction if instruction.parent is not None else computation.add_instruction(instruction)

    def reshaped(value: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        return value if value.shape.dimensions == tuple(dimensions) else add(build.reshape(value, dimensions))

    place = numbered_through(computation, place, sizes)
    value, shape = place.instruction, place.instruction.shape
    read = [(e.position, n) for n, e in enumerate(place.index) if not e.is_constant and shape.dimensions[n] > 1]
    value = reshaped(value, [shape.dimensions[n] for _, n in read])
    order = sorted(range(len(read)), key=lambda n: read[n][0])
    if order != list(range(len(read))):
        value = add(build.transpose(value, order))
    if value.shape.element_type is not PrimitiveType.F32:
        value = add(build.convert(value, PrimitiveType.F32))
    numbers = list(wanted)
    dimensions = [numbers.index(position) for position in sorted(position for position, _ in read)]
    whole = Shape.array(PrimitiveType.F32, tuple(wanted.values()))
    if value.shape.num_elements == whole.num_elements:
        return reshaped(value, whole.dimensions)
    return add(build.broadcast(value, whole, dimensions))


def numbered_through(computation: HloComputation, place: Place, sizes: Sequence[int]) -> Place:
    """Returns a place in an array whose dimensions are variables: digits are put together, missing ones repeated."""
    if is_plain(place):
        return place
    digits = digits_of(place, sizes)
    assert digits is not None
    shape = place.instruction.shape
    kept = sorted(digit.number for digit in digits)
    value = computation.add_instruction(build.reshape(place.instruction, [shape.dimensions[n] for n in kept]))
    value = computation.add_instruction(build.transpose(value, [kept.index(digit.number) for digit in digits]))
    variables = list(dict.fromkeys(digit.variable for digit in digits))
    wide: list[int] = []
    present: list[int] = []
    for variable in variables:
        above = sizes[variable]
        for digit in (d for d in digits if d.variable == variable):
            size = shape.dimensions[digit.number]
            wide += [above // (digit.divisor * size), size]
            present.append(len(wide) - 1)
            above = digit.divisor
        wide.append(above)
    repeated = build.broadcast(value, Shape.array(shape.element_type, wide), present)
    value = computation.add_instruction(repeated)
    value = computation.add_instruction(build.reshape(value, [sizes[variable] for variable in variables]))
    return Place(value, tuple(dim(variable) for variable in variables))
