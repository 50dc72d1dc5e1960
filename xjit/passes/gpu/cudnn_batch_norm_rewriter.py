"""Batch normalization becomes calls to cuDNN, which speak of 1/sqrt(variance + epsilon) and not of the variance."""

from __future__ import annotations

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import BatchNormAttributes, CustomCallAttributes
from xjit.ops import build
from xjit.ops.library_calls.targets import BATCH_NORM_GRAD, BATCH_NORM_INFERENCE, BATCH_NORM_TRAINING
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion

MIN_EPSILON = 1e-5
"""The smallest epsilon that the library takes."""

_TARGETS = {
    "batch-norm-inference": BATCH_NORM_INFERENCE,
    "batch-norm-training": BATCH_NORM_TRAINING,
    "batch-norm-grad": BATCH_NORM_GRAD,
}


@dataclass
class CudnnBatchNormRewriter(OpExpander):
    """Writes batch normalizations of f32 arrays as calls; epsilon and the feature index are operands, constants.

    An array that was converted from f16 is handed over as it was, and the result converted; the gradient's, if both of
    its arrays were. Those that are empty or have an epsilon smaller than the library's least stay.
    """

    name = "cudnn-batch-norm-rewriter"
    opcodes = frozenset(_TARGETS)

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the call, of training a tuple that has the variance."""
        attributes = instruction.attributes_as(BatchNormAttributes)
        x = instruction.operand(0).shape
        if x.element_type is not PrimitiveType.F32 or not x.is_static_array or not x.num_elements:
            return None
        if np.float32(attributes.epsilon) < np.float32(MIN_EPSILON) or has_control_dependencies(instruction):
            return None
        epsilon = into.add(build.make_constant(attributes.epsilon, PrimitiveType.F32))
        feature = into.add(build.make_constant(attributes.feature_index, PrimitiveType.S64))
        operands = list(instruction.operands)
        if instruction.opcode == "batch-norm-grad":
            spread = into.add(build.broadcast_scalar(epsilon, operands[3].shape))
            operands[3] = into.make("rsqrt", into.make("add", operands[3], spread))
        shape = _hand_over_f16(instruction, operands)
        target = CustomCallAttributes(_TARGETS[instruction.opcode])
        call = into.add(HloInstruction.create("custom-call", shape, [*operands, epsilon, feature], target))
        if not shape.is_tuple:
            return _converted(into, call)
        if instruction.opcode == "batch-norm-grad":
            if shape == instruction.shape:
                return call
            first, *others = (into.element(call, i) for i in range(3))
            return into.tuple_of(_converted(into, first), *others)
        y, mean, inverse = (into.element(call, i) for i in range(3))
        power = into.make("power", inverse, into.full(inverse.shape, -2))
        spread = into.add(build.broadcast_scalar(epsilon, inverse.shape))
        return into.tuple_of(_converted(into, y), mean, into.make("subtract", power, spread))


def _hand_over_f16(norm: HloInstruction, operands: list[HloInstruction]) -> Shape:
    """Puts what arrays were converted from in their place among the operands, all or none; returns the call's shape."""
    arrays = (0, 4) if norm.opcode == "batch-norm-grad" else (0,)
    if any(not _is_from_f16(operands[i]) for i in arrays):
        return norm.shape
    for i in arrays:
        operands[i] = operands[i].operand(0)
    if not norm.shape.is_tuple:
        return norm.shape.with_element_type(PrimitiveType.F16)
    y, *others = norm.shape.tuple_shapes
    return Shape.tuple_of([y.with_element_type(PrimitiveType.F16), *others])


def _is_from_f16(array: HloInstruction) -> bool:
    return array.opcode == "convert" and array.operand(0).shape.element_type is PrimitiveType.F16


def _converted(into: Expansion, array: HloInstruction) -> HloInstruction:
    is_f32 = array.shape.element_type is PrimitiveType.F32
    return array if is_f32 else into.add(build.convert(array, PrimitiveType.F32))
