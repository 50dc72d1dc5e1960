"""A convolution call takes in what is done with its result: scale, side input, bias, relu, and conversions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, PrimitiveType
from xjit.hlo.attributes import ConstantAttributes, DimensionsAttributes
from xjit.ops import build
from xjit.ops.library_calls.convolution import S8_LIMITS, conv_parts
from xjit.ops.library_calls.targets import CONV_FORWARD, CONV_FUSED, call_target, library_config, with_changes
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table
from xjit.passes.gpu.conv_calls import has_scratch, is_conv_call, replaced_conv_call, result_shape
from xjit.passes.gpu.gemm_calls import constant_factor, json_number, product_of_factors

_MOVES = frozenset({"broadcast", "transpose", "reshape"})
_LEFT_OUT: dict[str, Any] = {"conv_result_scale": 1, "side_input_scale": 0, "activation_mode": "none"}


@dataclass
class CudnnFusedConvRewriter(HloModulePass):
    """Folds `max(0, alpha * conv + beta * side + broadcast(bias))` into `__cudnn$convBiasActivationForward`.

    The pieces may be there or not, and each must be read by the next alone: alpha and beta are constants for all
    elements, the bias a vector along the features. A conversion to f16 is folded if the inputs are f16 values, that of
    an s8 convolution to f32, or clamped to s8, too.
    """

    name = "cudnn-fused-conv-rewriter"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites all computations."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= apply_rules(computation, _RULES, lambda i: not has_control_dependencies(i))
        return changed


def _is_open(element: HloInstruction) -> bool:
    """Whether more can be folded into the call that this reads: nothing can behind a relu."""
    call = element.operand(0)
    return _may_be_converted(element) and library_config(call).get("activation_mode", "none") == "none"


def _may_be_converted(element: HloInstruction) -> bool:
    """Whether this is the only reader of a forward call, for which no algorithm has been chosen."""
    call = element.operand(0)
    return (
        call_target(call) in (CONV_FORWARD, CONV_FUSED)
        and is_conv_call(call)
        and not has_scratch(call)
        and element.shape == result_shape(call)
        and call.user_count == 1
        and not call.is_root()
    )


def _call(element: HloInstruction) -> HloInstruction:
    return element.operand(0)


def _bias_and_side(call: HloInstruction) -> list[HloInstruction]:
    return list(call.operands[2:])


def _rebuilt(into: Expansion, call: HloInstruction, *more: HloInstruction, **changes: Any) -> HloInstruction:
    """The result of the fused call with these bias and side input; without a bias it is zero."""
    operands = list(more)
    result = result_shape(call)
    if not operands:
        features = result.dimensions[conv_parts(call)[1].output_feature_dimension]
        kind = result.element_type
        operands = [into.full(result.with_dimensions([features]).with_element_type(kind), 0)]
    new = replaced_conv_call(call, result, [*call.operands[:2], *operands], custom_call_target=CONV_FUSED)
    new.backend_config = with_changes(call, {**_LEFT_OUT, **library_config(call), **changes})
    return into.element(into.add(new), 0)


def _fold_scale(match: Match, into: Expansion) -> HloInstruction | None:
    call, factor = _call(match["conv"]), constant_factor(match["k"])
    if factor is None or call_target(call) != CONV_FORWARD or not result_shape(call).element_type.is_float:
        return None
    scale = product_of_factors(
        result_shape(call).element_type, factor, library_config(call).get("conv_result_scale", 1)
    )
    if scale is None:
        return None
    new = replaced_conv_call(call, result_shape(call), call.operands)
    new.backend_config = with_changes(call, {"conv_result_scale": json_number(scale.real)})
    return into.element(into.add(new), 0)


def _has_bias(call: HloInstruction) -> bool:
    """Whether a bias has been folded into a call; the zeros of a call without one are none."""
    return call.operand_count > 2 and not _is_zero(call.operand(2))


def _is_zero(vector: HloInstruction) -> bool:
    return m.splat(0.0).match(vector) is not None


def _fold_bias(match: Match, into: Expansion) -> HloInstruction | None:
    call, bias = _call(match["conv"]), match["bias"]
    vector, feature = bias.operand(0), conv_parts(call)[1].output_feature_dimension
    if _has_bias(call) or not result_shape(call).element_type.is_float or vector.shape.rank != 1:
        return None
    if bias.attributes_as(DimensionsAttributes).dimensions != (feature,):
        return None
    return _rebuilt(into, call, vector, *_bias_and_side(call)[1:])


def _fold_side(match: Match, into: Expansion) -> HloInstruction | None:
    return _add_side(_call(match["conv"]), match["side"], 1, into)


def _fold_scaled_side(match: Match, into: Expansion) -> HloInstruction | None:
    factor = constant_factor(match["k"])
    if factor is None or not factor.real:
        return None
    return _add_side(_call(match["conv"]), match["side"], factor.real, into)


def _add_side(call: HloInstruction, side: HloInstruction, scale: float, into: Expansion) -> HloInstruction | None:
    kind = result_shape(call).element_type
    if not kind.is_float or call.operand_count > 3 or side.shape != result_shape(call):
        return None
    if side.opcode in ("broadcast", "constant"):
        return None
    bias = _bias_and_side(call)
    if not bias:
        features = side.shape.dimensions[conv_parts(call)[1].output_feature_dimension]
        bias = [into.full(side.shape.with_dimensions([features]), 0)]
    return _rebuilt(into, call, *bias, side, side_input_scale=json_number(scale))


def _fold_relu(match: Match, into: Expansion) -> HloInstruction | None:
    call = _call(match["conv"])
    if not result_shape(call).element_type.is_float:
        return None
    return _rebuilt(into, call, *_bias_and_side(call), activation_mode="relu")


def _narrowed(into: Expansion, value: HloInstruction, kind: PrimitiveType) -> HloInstruction | None:
    """The value in a narrower type if all its elements are exact there, else None."""
    if value.shape.element_type is kind:
        return value
    if value.opcode == "convert" and value.operand(0).shape.element_type is kind:
        return value.operand(0)
    return into.add(build.convert(value, kind)) if _is_exact(value, kind) else None


def _is_exact(value: HloInstruction, kind: PrimitiveType) -> bool:
    while value.opcode in _MOVES:
        value = value.operand(0)
    if value.opcode == "convert":
        return value.operand(0).shape.element_type is kind
    if value.opcode != "constant":
        return False
    array = value.attributes_as(ConstantAttributes).literal.array
    return bool((array.astype(kind.dtype).astype(array.dtype) == array).all())


def _fold_to_f16(match: Match, into: Expansion) -> HloInstruction | None:
    call, kind = _call(match["conv"]), match.root.shape.element_type
    if kind not in (PrimitiveType.F16, PrimitiveType.BF16) or result_shape(call).element_type is not PrimitiveType.F32:
        return None
    operands = [narrow for o in call.operands if (narrow := _narrowed(into, o, kind)) is not None]
    if len(operands) != call.operand_count:
        return None
    return into.element(into.add(replaced_conv_call(call, result_shape(call).with_element_type(kind), operands)), 0)


def _fold_s8_to_f32(match: Match, into: Expansion) -> HloInstruction | None:
    call, kind = _call(match["conv"]), match.root.shape.element_type
    if kind is not PrimitiveType.F32 or not _is_s8(call) or result_shape(call).element_type is not PrimitiveType.S32:
        return None
    result = result_shape(call).with_element_type(kind)
    return into.element(into.add(replaced_conv_call(call, result, call.operands)), 0)


def _is_s8(call: HloInstruction) -> bool:
    return call.operand(0).shape.element_type is PrimitiveType.S8


def _fold_clamp_to_s8(match: Match, into: Expansion) -> HloInstruction | None:
    call, kind = _call(match["conv"]), match.root.shape.element_type
    if kind is not PrimitiveType.S8 or not _is_s8(call):
        return None
    operands = list(call.operands)
    if len(operands) > 3:
        side = _narrowed(into, operands[3], kind)
        if side is None:
            return None
        operands[3] = side
    return into.element(into.add(replaced_conv_call(call, result_shape(call).with_element_type(kind), operands)), 0)


def _limit(value: int) -> m.Pattern:
    def is_limit(bound: HloInstruction) -> bool:
        constant = bound.operand(0) if bound.opcode == "broadcast" else bound
        return m.constant_scalar(value).match(constant) is not None

    return m.op("constant|broadcast").where(is_limit)


_ELEMENT = m.op("get-tuple-element", name="conv").one_use()
_CONV = _ELEMENT.where(_is_open)
_DONE = _ELEMENT.where(_may_be_converted)
_CLAMPED = m.op("clamp", _limit(S8_LIMITS[0]), _DONE, _limit(S8_LIMITS[1])).one_use()
_SCALED_SIDE = m.op("multiply", m.any("side"), m.splat(name="k")).one_use()
_RULES = rule_table(
    [
        Rule("k * conv", m.op("multiply", _CONV, m.splat(name="k")), _fold_scale),
        Rule("conv + broadcast(bias)", m.op("add", _CONV, m.op("broadcast", name="bias")), _fold_bias),
        Rule("conv + k * side", m.op("add", _CONV, _SCALED_SIDE), _fold_scaled_side),
        Rule("conv + side", m.op("add", _CONV, m.any("side")), _fold_side),
        Rule("max(conv, 0)", m.op("maximum", _CONV, m.splat(0.0)), _fold_relu),
        Rule("f16(conv)", m.op("convert", _DONE), _fold_to_f16),
        Rule("f32(conv)", m.op("convert", _DONE), _fold_s8_to_f32),
        Rule("s8(clamp(conv))", m.op("convert", _CLAMPED), _fold_clamp_to_s8),
    ]
)
