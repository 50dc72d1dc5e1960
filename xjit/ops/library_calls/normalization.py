"""What the calls to cuDNN's batch normalization and to cuSOLVER's Cholesky factorization mean."""

from __future__ import annotations

from xjit.hlo.attributes import BatchNormAttributes, CholeskyAttributes, CompareAttributes, ConstantAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops import build
from xjit.ops.library_calls.body import Body
from xjit.ops.library_calls.targets import BATCH_NORM_GRAD, BATCH_NORM_INFERENCE, call_target, library_config

_OPCODES = {BATCH_NORM_INFERENCE: "batch-norm-inference", BATCH_NORM_GRAD: "batch-norm-grad"}


def plain_batch_norm(call: HloInstruction) -> HloComputation:
    """The computation of a batch normalization: the library's statistic is 1/sqrt(variance + epsilon).

    Arrays may have a narrower type than the scale: all is computed in that.
    Errors: Unsupported if epsilon and feature index, the last operands, are no constants.
    """
    epsilon, feature = _number(call, -2), int(_number(call, -1))
    body, opcode = Body(call), _OPCODES.get(call_target(call), "batch-norm-training")
    operands = [body.convert(p, call.operand(1).shape.element_type) for p in body.parameters[:-2]]
    if opcode == "batch-norm-grad":
        operands[3] = _variance(body, operands[3], epsilon)
    norm = body.add(build.make(opcode, *operands, attributes=BatchNormAttributes(epsilon, feature)))
    if not call.shape.is_tuple:
        return body.build(body.convert(norm, call.shape.element_type), call.shape)
    results = [body.add(HloInstruction.create_get_tuple_element(norm, i)) for i in range(3)]
    if opcode == "batch-norm-training":
        variance = results[2]
        results[2] = body.op("rsqrt", body.op("add", variance, body.full(variance.shape, epsilon)))
    results = [body.convert(r, s.element_type) for r, s in zip(results, call.shape.tuple_shapes, strict=True)]
    return body.build(body.add(HloInstruction.create_tuple(results)), call.shape)


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
    """The computation of a factorization: (factor, workspace, info).

    The workspace is zero, info one of a matrix whose factor has a NaN, as there is none, else zero.
    """
    body = Body(call)
    attributes = CholeskyAttributes(bool(library_config(call).get("lower", False)))
    factor = body.add(build.make("cholesky", body.parameters[0], attributes=attributes))
    if not call.shape.is_tuple:
        return body.build(factor, call.shape)
    _, workspace, info = call.shape.tuple_shapes
    is_nan = body.add(build.make("compare", factor, factor, attributes=CompareAttributes("NE")))
    rank, kind = factor.shape.rank, info.element_type
    larger = build.make_binary_computation("maximum", kind)
    failed = body.add(
        build.make_reduce(body.convert(is_nan, kind), body.full(Shape.array(kind), 0), (rank - 2, rank - 1), larger)
    )
    if failed.shape.dimensions != info.dimensions:
        failed = body.add(build.reshape(failed, info.dimensions))
    return body.build(body.add(HloInstruction.create_tuple([factor, body.full(workspace, 0), failed])), call.shape)
