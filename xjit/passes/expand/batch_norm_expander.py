"""Batch normalization as elementary operations, in f32 for narrower types."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes import BatchNormAttributes, DimensionAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class BatchNormExpander(OpExpander):
    """Expands batch-norm-training (two-pass variance), -inference and -grad, each if its option says so."""

    name = "batch-norm-expander"
    opcodes = frozenset({"batch-norm-training", "batch-norm-inference", "batch-norm-grad"})
    rewrite_training_op: bool = True
    rewrite_inference_op: bool = True
    rewrite_grad_op: bool = True

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the normalized array, or the tuple of it and its statistics or gradients; None if it is to stay."""
        rewrites = {
            "batch-norm-training": self.rewrite_training_op,
            "batch-norm-inference": self.rewrite_inference_op,
            "batch-norm-grad": self.rewrite_grad_op,
        }
        if not rewrites[instruction.opcode]:
            return None
        norm = _Normalization(instruction, into)
        results = {
            "batch-norm-training": norm.training,
            "batch-norm-inference": norm.inference,
            "batch-norm-grad": norm.gradient,
        }[instruction.opcode]()
        shapes = instruction.shape.tuple_shapes or (instruction.shape,)
        rounded = [norm.convert(r, s.element_type) for r, s in zip(results, shapes, strict=True)]
        result = into.tuple_of(*rounded) if instruction.shape.is_tuple else rounded[0]
        _share_out(into, instruction)
        return result


def _share_out(into: Expansion, instruction: HloInstruction) -> None:
    """Arrays like x are sharded as the normalized one; others are on its only device, or on all of them."""
    whole = instruction.sharding
    if whole is None:
        return
    parts = whole.elements or (whole,)
    alone = len(set(parts)) == 1 and parts[0].text.startswith("maximal")
    others = parts[0] if alone else HloSharding("replicated")
    like_x = instruction.operand(0).shape.dimensions
    for made in into.made:
        if made.shape.is_array:
            made.sharding = parts[0] if made.shape.dimensions == like_x else others


class _Normalization:
    """The expressions of one instruction; x is its first operand, vectors have one element per feature.

    What is spread over dynamic dimensions has their bounds: the size of the result is that of x.
    """

    def __init__(self, instruction: HloInstruction, into: Expansion) -> None:
        self.into = into
        attributes = instruction.attributes_as(BatchNormAttributes)
        self.epsilon, self.feature = attributes.epsilon, attributes.feature_index
        shape = instruction.operand(0).shape
        self.kind = PrimitiveType.F64 if shape.element_type is PrimitiveType.F64 else PrimitiveType.F32
        self.shape = replace(shape.with_element_type(self.kind), dynamic_dimensions=())
        self.others = tuple(d for d in range(shape.rank) if d != self.feature)
        self.dynamic = [d for d in self.others if shape.is_dynamic_dimension(d)]
        self.count = float(math.prod(shape.dimensions[d] for d in self.others if d not in self.dynamic))
        self.operands = [self.convert(o, self.kind) for o in instruction.operands]

    def convert(self, operand: HloInstruction, kind: PrimitiveType) -> HloInstruction:
        """The operand in another type."""
        return operand if operand.shape.element_type is kind else self.into.add(build.convert(operand, kind))

    def _op(self, opcode: str, *operands: HloInstruction) -> HloInstruction:
        return self.into.make(opcode, *operands)

    def _spread(self, vector: HloInstruction) -> HloInstruction:
        """A vector over features as an array like x."""
        return self.into.add(build.broadcast(vector, self.shape, (self.feature,)))

    def _number(self, like: HloInstruction, value: float) -> HloInstruction:
        return self.into.full(Shape.array(self.kind, like.shape.dimensions), value)

    def _count(self, like: HloInstruction) -> HloInstruction:
        """How many elements each feature has, in the shape of `like`."""
        if not self.dynamic:
            return self._number(like, self.count)
        count = self.into.full(Shape.array(self.kind), self.count)
        for d in self.dynamic:
            x = self.into.source.operand(0)
            size = self.into.make("get-dimension-size", x, attributes=DimensionAttributes(d))
            count = self._op("multiply", count, self.convert(size, self.kind))
        return self.into.add(build.broadcast_scalar(count, Shape.array(self.kind, like.shape.dimensions)))

    def _mean(self, array: HloInstruction) -> HloInstruction:
        total = self.into.sum(array, self.others)
        return self._op("divide", total, self._count(total))

    def _deviation(self, variance: HloInstruction) -> HloInstruction:
        return self._op("sqrt", self._op("add", variance, self._number(variance, self.epsilon)))

    def _normalized(self, mean: HloInstruction, variance: HloInstruction) -> HloInstruction:
        x, scale, offset = self.operands[:3]
        factor = self._op("divide", scale, self._deviation(variance))
        centred = self._op("subtract", x, self._spread(mean))
        return self._op("add", self._op("multiply", centred, self._spread(factor)), self._spread(offset))

    def training(self) -> list[HloInstruction]:
        """(normalized, mean, variance)."""
        x = self.operands[0]
        mean = self._mean(x)
        centred = self._op("subtract", x, self._spread(mean))
        variance = self._mean(self._op("multiply", centred, centred))
        return [self._normalized(mean, variance), mean, variance]

    def inference(self) -> list[HloInstruction]:
        """The normalized array."""
        return [self._normalized(self.operands[3], self.operands[4])]

    def gradient(self) -> list[HloInstruction]:
        """(gradient of x, of scale, of offset)."""
        x, scale, mean, variance, grad = self.operands
        inverse = self._op("divide", self._number(variance, 1.0), self._deviation(variance))
        centred = self._op("subtract", x, self._spread(mean))
        grad_scale = self._op("multiply", self.into.sum(self._op("multiply", grad, centred), self.others), inverse)
        grad_offset = self.into.sum(grad, self.others)
        part = self._op("multiply", centred, self._spread(self._op("multiply", inverse, grad_scale)))
        whole = self._op("multiply", grad, self._count(grad))
        inner = self._op("subtract", self._op("subtract", whole, self._spread(grad_offset)), part)
        factor = self._op("multiply", scale, inverse)
        factor = self._op("divide", factor, self._count(factor))
        return [self._op("multiply", self._spread(factor), inner), grad_scale, grad_offset]
