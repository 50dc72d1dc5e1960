"""What the calls to cuDNN's batch normalization and to cuSOLVER's Cholesky factorization mean."""

from __future__ import annotations

from xjit.hlo.attributes import BatchNormAttributes, CholeskyAttributes, ConstantAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops import build
from xjit.ops.library_calls.body import Body
from xjit.ops.library_calls.targets import BATCH_NORM_GRAD, BATCH_NORM_INFERENCE, call_target, library_config

_OPCODES = {BATCH_NORM_INFERENCE: "batch-norm-inference", BATCH_NORM_GRAD: "batch-norm-grad"}


def plain_batch_norm(call: HloInstruction) -> HloComputation:
    """The computation of a batch normalization: the library's statistic is 1/sqrt(variance + epsilon).

    Errors: Unsupported if epsilon and feature index, the last operands, are no constants.
    """
    epsilon, feature = _number(call, -2), int(_number(call, -1))
    body, opcode = Body(call), _OPCODES.get(call_target(call), "batch-norm-training")
    operands = body.parameters[:-2]
    if opcode == "batch-norm-grad":
        operands[3] = _variance(body, operands[3], epsilon)
    norm = body.add(build.make(opcode, *operands, attributes=BatchNormAttributes(epsilon, feature)))
    if opcode != "batch-norm-training":
        return body.build(norm, call.shape)
    y, mean, variance = (body.add(HloInstruction.create_get_tuple_element(norm, i)) for i in range(3))
    inverse = body.op("rsqrt", body.op("add", variance, body.full(variance.shape, epsilon)))
    return body.build(body.add(HloInstruction.create_tuple([y, mean, inverse])), call.shape)


def _variance(body: Body, inverse: HloInstruction, epsilon: float) -> HloInstruction:
    square = body.op("multiply", inverse, inverse)
    whole = body.op("divide", body.full(inverse.shape, 1), square)
    return body.op("subtract", whole, body.full(inverse.shape, epsilon))


def _number(call: HloInstruction, position: int) -> float:
    operand = call.operands[position]
    if operand.opcode == "copy":
        operand = operand.operand(0)
    if operand.opcode != "constant":
        raise Unsupported("batch normalization whose epsilon or feature index is no constant", call.span)
    return float(operand.attributes_as(ConstantAttributes).literal.array[()])


def plain_cholesky(call: HloInstruction) -> HloComputation:
    """The computation of a factorization: (factor, workspace, info); workspace and info are zero."""
    body = Body(call)
    attributes = CholeskyAttributes(bool(library_config(call).get("lower", False)))
    return body.build(body.add(build.make("cholesky", body.parameters[0], attributes=attributes)), call.shape)
