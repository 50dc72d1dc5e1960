"""The plain form of dot and convolution, as elements of a fusion: sums of products over the range variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xjit.affine import AffineExpr, dim
from xjit.emitters.access.access_analysis import Index, apply_map, map_conditions
from xjit.emitters.access.guards import Guard, restrict
from xjit.emitters.elemental import RegisterValue, constant_register, emit_elementwise, round_to_type
from xjit.emitters.nested import splat_register, width_of
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.element_types import PROMOTED
from xjit.llvm.values import Value

if TYPE_CHECKING:
    from xjit.emitters.fused import Element, FusedIrEmitter


def emit_contraction(fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard) -> Element:
    """Emits one element of a dot or convolution as a sum over its range variables: any type, any dimension numbers."""
    nest = fused.nest
    depth = max([nest.depth_of(e) for e in index] + [guard.depth])
    declared = instruction.shape.element_type
    kind = PROMOTED.get(declared, declared)
    with nest.at_depth(depth):
        width = nest.vector.width if nest.vector is not None and any(nest.uses_vector(e) for e in index) else 0
        zero = splat_register(nest.builder, constant_register(kind, 0), width)
        ranges, steps = _ranges_and_steps(fused, instruction, index)

        def body(accumulators: Sequence[Value]) -> Sequence[Value]:
            total = unflatten(accumulators, [zero])[0]
            for symbols in steps:
                total = _multiply_add(fused, instruction, index, guard, symbols, total, kind)
            return flatten([total])

        values = nest.loops(ranges, body, flatten([zero]))
        result = unflatten(values, [zero])[0]
        if declared in PROMOTED:
            result = round_to_type(nest.builder, declared, result)
    return result, depth


def _ranges_and_steps(
    fused: FusedIrEmitter, instruction: HloInstruction, index: Index
) -> tuple[Sequence[int], Sequence[Sequence[AffineExpr]]]:
    """The loops around the steps, and the values of the range variables in each step."""
    planned = fused.planned.get((instruction, index))
    if planned is not None:
        return planned.loops, planned.steps
    indexing = fused.maps.of(instruction)[0][0].indexing
    sizes = [v.bounds.upper - v.bounds.lower + 1 for v in indexing.range_vars]
    ranges = [fused.nest.new_variable(size) for size in sizes]
    return ranges, [[dim(p) for p in ranges]]


def _multiply_add(
    fused: FusedIrEmitter,
    instruction: HloInstruction,
    index: Index,
    guard: Guard,
    symbols: Sequence[AffineExpr],
    total: RegisterValue,
    kind: PrimitiveType,
) -> RegisterValue:
    nest = fused.nest
    maps = [fused.maps.of(instruction)[i][0] for i in range(2)]
    conditions = map_conditions(maps[0], instruction.shape.dimensions, index, symbols)
    inner = restrict(nest, guard, conditions)
    if inner is None:
        return total
    test = restrict(nest, Guard(), conditions)
    assert test is not None
    elements = [
        fused.element(instruction.operand(i), apply_map(nest.table, maps[i], index, symbols), inner) for i in range(2)
    ]
    builder = nest.builder
    width = max([width_of(total)] + [width_of(v) for v, _ in elements])
    factors = [
        convert_register(builder, instruction.operand(i).shape.element_type, kind, fused.splat(e, width))
        for i, e in enumerate(elements)
    ]
    parts = flatten([_sum_with_product(builder, kind, total, factors)])
    for mask in (test.scalar, test.lanes):
        if mask is not None:
            parts = [builder.select(mask, p, t) for p, t in zip(parts, flatten([total]), strict=True)]
    return unflatten(parts, [total])[0]


def _sum_with_product(
    builder: IRBuilder, kind: PrimitiveType, total: RegisterValue, factors: Sequence[RegisterValue]
) -> RegisterValue:
    a, b = factors
    if kind.is_float or kind.is_integer:
        assert isinstance(a, Value) and isinstance(b, Value) and isinstance(total, Value)
        return builder.multiply_add(a, b, total)
    product = emit_elementwise(builder, "multiply", kind, [kind, kind], factors, at.NO_ATTRIBUTES)
    return emit_elementwise(builder, "add", kind, [kind, kind], [total, product], at.NO_ATTRIBUTES)


def convert_register(
    builder: IRBuilder, source: PrimitiveType, kind: PrimitiveType, value: RegisterValue
) -> RegisterValue:
    """Emits a value of one type as one of another; as it is where both are kept in the same registers."""
    if PROMOTED.get(source, source) is kind:
        return value
    return emit_elementwise(builder, "convert", kind, [source], [value], at.NO_ATTRIBUTES)
