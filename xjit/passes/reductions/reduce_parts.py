"""What passes that rewrite reductions share: their arrays, and the same reduction of other arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import ConstantAttributes, DimensionsAttributes
from xjit.ops.build import convert, make_binary_computation, make_constant, make_reduce, reshape
from xjit.ops.reducers import reduction_identity
from xjit.passes.expand.dot_factors import WIDE
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion


def arrays_of(reduce: HloInstruction) -> tuple[HloInstruction, ...]:
    """Returns the arrays that are reduced together."""
    return reduce.operands[: reduce.operand_count // 2]


def reduced_dimensions(reduce: HloInstruction) -> list[int]:
    """Returns the dimensions that are reduced, in order."""
    return sorted(reduce.attributes_as(DimensionsAttributes).dimensions)


def result_shapes(reduce: HloInstruction) -> tuple[Shape, ...]:
    """Returns the shapes of the results, one per array."""
    return reduce.shape.tuple_shapes if reduce.shape.is_tuple else (reduce.shape,)


def may_rewrite(reduce: HloInstruction) -> bool:
    """Whether a reduction may be written otherwise: static shapes with layouts, no control edges, no sharding."""
    shapes = (*(a.shape for a in arrays_of(reduce)), *result_shapes(reduce))
    return (
        not has_control_dependencies(reduce)
        and reduce.sharding is None
        and all(s.is_static and s.layout is not None and not s.layout.tiles for s in shapes)
    )


def is_row_major(array: HloInstruction) -> bool:
    """Whether the dimensions are in memory as they are numbered."""
    return array.shape.minor_to_major == tuple(range(array.shape.rank - 1, -1, -1))


def starts_with_identity(reduce: HloInstruction) -> bool:
    """Whether one array is reduced, and what it starts with changes no element, -0 included.

    A complex product with 1 changes infinities.
    """
    found, init = reduction_identity(reduce.to_apply), reduce.operand(reduce.operand_count // 2)
    if reduce.operand_count != 2 or found is None or init.opcode != "constant" or init.shape.element_type.is_complex:
        return False
    value = init.attributes_as(ConstantAttributes).literal.array[()]
    wanted = np.asarray(found[1]).astype(value.dtype)[()]
    return bool(value == wanted and np.signbit(value) == np.signbit(wanted))


def may_apply_init_twice(reduce: HloInstruction) -> bool:
    """Whether the initial value changes nothing that it is combined with again: the reducer's identity, or a zero of a
    sum, which has been added already.
    """
    found = reduction_identity(reduce.to_apply)
    init = reduce.operand(reduce.operand_count // 2)
    if reduce.operand_count != 2 or found is None or init.opcode != "constant":
        return False
    opcode, identity = found
    value = init.attributes_as(ConstantAttributes).literal.array[()]
    wanted = np.asarray(identity).astype(value.dtype)[()]
    return bool(value == wanted) or (opcode == "add" and bool(value == 0))


def bitcast(into: Expansion, operand: HloInstruction, shape: Shape) -> HloInstruction:
    """Returns the operand's bytes as another shape."""
    return operand if operand.shape == shape else into.add(HloInstruction.create("bitcast", shape, [operand]))


def reduce_again(
    into: Expansion, arrays: Sequence[HloInstruction], dimensions: Sequence[int], shapes: Sequence[Shape]
) -> HloInstruction:
    """Returns the source's reduction of other arrays, with the same initial values, whose results have some shapes."""
    source = into.source
    attributes = DimensionsAttributes(tuple(dimensions))
    operands = [*arrays, *source.operands[len(arrays) :]]
    shape = Shape.tuple_of(shapes) if source.shape.is_tuple else shapes[0]
    return into.add(HloInstruction.create("reduce", shape, operands, attributes, [source.to_apply]))


def bitcast_results(into: Expansion, reduce: HloInstruction) -> HloInstruction:
    """Returns a reduction's results as those of the source."""
    wanted = result_shapes(into.source)
    if not reduce.shape.is_tuple:
        return bitcast(into, reduce, wanted[0])
    if reduce.shape == into.source.shape:
        return reduce
    return into.tuple_of(*(bitcast(into, into.element(reduce, i), shape) for i, shape in enumerate(wanted)))


def sum_in_two_steps(
    into: Expansion, array: HloInstruction, first: Sequence[int], second: Sequence[int]
) -> HloInstruction:
    """Reduces some dimensions, then others, numbered as in the array; returns the result, which is the source's."""
    kept = [d for d in range(array.shape.rank) if d not in first]
    partial = Shape.array(array.shape.element_type, [array.shape.dimensions[d] for d in kept]).with_default_layouts()
    inner = reduce_again(into, [array], first, [partial])
    return reduce_again(into, [inner], [kept.index(d) for d in second], [into.source.shape])


def reduce_in_parts(
    into: Expansion, sizes: Sequence[int], first: Sequence[int], second: Sequence[int]
) -> HloInstruction | None:
    """The source's reduction of one array, as an array of such `sizes`: of the dimensions `first`, from the reducer's
    identity, and of `second`, numbered as in that array, from the initial value.

    Partial results of narrow floats are wide, and not rounded twice. None for a reducer without an identity, and for
    complex products, whose infinities a product with 1 changes.
    """
    source = into.source
    array, found = source.operand(0), reduction_identity(source.to_apply)
    result = array.shape.element_type
    if found is None or (found[0] == "multiply" and result.is_complex):
        return None
    opcode, identity = found
    kind = WIDE.get(result, result)
    combine = into.embed(make_binary_computation(opcode, kind, f"{opcode}_partial"))
    wide = _as(into, array, kind)
    wide = wide if wide.shape.dimensions == tuple(sizes) else into.add(reshape(wide, sizes))
    neutral = into.add(make_constant(identity, kind))
    partial = into.add(make_reduce(wide, neutral, first, combine))
    kept = [d for d in range(len(sizes)) if d not in first]
    left = DimensionsAttributes(tuple(kept.index(d) for d in second))
    shape = Shape.array(kind, source.shape.dimensions, source.shape.minor_to_major)
    operands = [partial, _as(into, source.operand(1), kind)]
    return _as(into, into.add(HloInstruction.create("reduce", shape, operands, left, [combine])), result)


def _as(into: Expansion, array: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    return array if array.shape.element_type is kind else into.add(convert(array, kind))


def value_everywhere(array: HloInstruction) -> Any:
    """Returns the value of all elements of a constant, or of the broadcast of one, as a scalar; None for others."""
    constant = array.operand(0) if array.opcode == "broadcast" else array
    if constant.opcode != "constant":
        return None
    splat = constant.attributes_as(ConstantAttributes).literal.splat_value()
    return None if splat is None else np.asarray(splat).reshape(-1)[0]
