"""Batch normalization becomes calls to cuDNN, which speak of 1/sqrt(variance + epsilon) and not of the variance."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction, PrimitiveType
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

    Those that are empty or have an epsilon smaller than the library's least stay.
    """

    name = "cudnn-batch-norm-rewriter"
    opcodes = frozenset(_TARGETS)

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the call, of training a tuple that has the variance."""
        attributes = instruction.attributes_as(BatchNormAttributes)
        x = instruction.operand(0).shape
        if x.element_type is not PrimitiveType.F32 or not x.is_static_array or not x.num_elements:
            return None
        if attributes.epsilon < MIN_EPSILON or has_control_dependencies(instruction):
            return None
        epsilon = into.add(build.make_constant(attributes.epsilon, PrimitiveType.F32))
        feature = into.add(build.make_constant(attributes.feature_index, PrimitiveType.S64))
        operands = list(instruction.operands)
        if instruction.opcode == "batch-norm-grad":
            spread = into.add(build.broadcast_scalar(epsilon, operands[3].shape))
            operands[3] = into.make("rsqrt", into.make("add", operands[3], spread))
        target = CustomCallAttributes(_TARGETS[instruction.opcode])
        call = into.add(HloInstruction.create("custom-call", instruction.shape, [*operands, epsilon, feature], target))
        if instruction.opcode != "batch-norm-training":
            return call
        y, mean, inverse = (into.element(call, i) for i in range(3))
        power = into.make("power", inverse, into.full(inverse.shape, -2))
        spread = into.add(build.broadcast_scalar(epsilon, inverse.shape))
        return into.tuple_of(y, mean, into.make("subtract", power, spread))
