"""Reductions, windows of elements, and scans."""

from __future__ import annotations

import numpy as np

from xjit.affine.pool import dim
from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.scalars import code_of, is_scalar_code
from xjit.linalg_ext.from_hlo.scope import Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.tensors import padded
from xjit.linalg_ext.from_hlo.types import has_scalar_code
from xjit.linalg_ext.ir.attributes import Attribute, BoolAttr, DenseArrayAttr, IntegerAttr
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import IntegerType, element_type
from xjit.linalg_ext.structured.view import shape_of
from xjit.ops.prefix_scan import prefix_dimension
from xjit.ops.reducers import reduction_identity

__all__ = ["REDUCTION_RULES"]


def _is_raisable(instruction: HloInstruction) -> bool:
    """Whether a reducer is scalar code on elements that `arith` has."""
    return all(has_scalar_code(o.shape) for o in instruction.operands) and is_scalar_code(instruction.to_apply)


def _reduce(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """`linalg.reduce`: the elements come before the accumulators, in HLO it is the other way round."""
    if not _is_raisable(instruction):
        return None
    count = instruction.operand_count // 2
    axes = instruction.attributes_as(at.DimensionsAttributes).dimensions
    values = [scope.value(o) for o in instruction.operands[:count]]
    sizes = [n or 0 for d, n in enumerate(shape_of(values[0])) if d not in axes]
    inits = [scope.full(scope.scalar(o), sizes) for o in instruction.operands[count:]]
    order = [*range(count, 2 * count), *range(count)]
    types = [element_type(v.type) for v in (*values, *inits)]
    region = scope.region(types, code_of(instruction.to_apply, order))
    attributes: dict[str, Attribute] = {"dimensions": DenseArrayAttr.i64(sorted(axes))}
    results = scope.named("linalg.reduce", values, inits, attributes, region)
    return tuple(results) if instruction.shape.is_tuple else results[0]


def _reduce_window(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """A scan, or a generic over the result and the window; what lies outside of the array changes nothing."""
    if instruction.operand_count != 2 or not _is_raisable(instruction) or 0 in instruction.shape.dimensions:
        return None
    axis = prefix_dimension(instruction)
    if axis is not None:
        return _scan(scope, instruction, axis)
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions
    identity = reduction_identity(instruction.to_apply)
    if identity is None and any(w.padding_low or w.padding_high or w.base_dilation > 1 for w in window):
        return None
    operand, start = instruction.operands
    first = scope.scalar(start)
    outside = first if identity is None else scope.number(float(np.asarray(identity[1])), first.type)
    old = operand.shape.dimensions
    padding = [at.PaddingDimension(w.padding_low, w.padding_high, w.base_dilation - 1) for w in window]
    sizes = [(n - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high for n, w in zip(old, window)]
    value = padded(scope, scope.value(operand), padding, outside, sizes)
    rank = len(window)
    steps = [dim(rank + i) for i in range(rank)]
    index = [dim(i) * w.stride + steps[i] * w.window_dilation for i, w in enumerate(window)]
    shape = scope.empty([w.size for w in window], first.type)
    code = code_of(instruction.to_apply, (2, 0))
    init = scope.full(first, instruction.shape.dimensions)
    inputs = [(value, index), (shape, steps)]
    return scope.generic(inputs, [(init, [dim(i) for i in range(rank)])], 2 * rank, code)[0]


def _reversed(scope: Scope, value: Value, axis: int) -> Value:
    sizes = [n or 0 for n in shape_of(value)]
    index = [sizes[axis] - 1 - dim(i) if i == axis else dim(i) for i in range(len(sizes))]
    return scope.moved(value, index, sizes)


def _scan(scope: Scope, instruction: HloInstruction, axis: int) -> Value:
    """A window of everything before an element, or of everything behind it: then from the other end."""
    value = scope.value(instruction.operand(0))
    sizes = list(instruction.shape.dimensions)
    first = scope.scalar(instruction.operand(1))
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions[axis]
    total = scope.full(first, sizes[:axis] + sizes[axis + 1 :])
    inits = (scope.empty(sizes, first.type), total)
    order = (1, 0) if window.padding_high else (0, 1)
    region = scope.region([first.type] * 2, code_of(instruction.to_apply, order), "linalg_ext.yield")
    attributes: dict[str, Attribute] = {
        "dimension": IntegerAttr(axis, IntegerType(64)),
        "inclusive": BoolAttr(True),
    }
    given = _reversed(scope, value, axis) if window.padding_high else value
    result = scope.named("linalg_ext.scan", (given,), inits, attributes, region)[0]
    return _reversed(scope, result, axis) if window.padding_high else result


REDUCTION_RULES: dict[str, Rule] = {"reduce": _reduce, "reduce-window": _reduce_window}
