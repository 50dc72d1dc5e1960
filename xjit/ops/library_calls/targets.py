"""The targets of custom calls to GPU libraries, spelled as XLA spells them, and how their configurations are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.ir.instruction import HloInstruction

GEMM = "__cublas$gemm"
GEMM_LT = "__cublas$lt$matmul"
GEMM_F8 = "__cublas$lt$matmul$f8"
GEMM_TARGETS = frozenset({GEMM, GEMM_LT})
"""What gemm-rewriter writes, and folds more into."""

MATMUL_TARGETS = GEMM_TARGETS | {GEMM_F8}

CONV_FORWARD = "__cudnn$convForward"
CONV_BACKWARD_INPUT = "__cudnn$convBackwardInput"
CONV_BACKWARD_FILTER = "__cudnn$convBackwardFilter"
CONV_FUSED = "__cudnn$convBiasActivationForward"
CONV_TARGETS = frozenset({CONV_FORWARD, CONV_BACKWARD_INPUT, CONV_BACKWARD_FILTER, CONV_FUSED})

BATCH_NORM_INFERENCE = "__cudnn$batchNormalizationForwardInference"
BATCH_NORM_TRAINING = "__cudnn$batchNormalizationForwardTraining"
BATCH_NORM_GRAD = "__cudnn$batchNormalizationBackward"
BATCH_NORM_TARGETS = frozenset({BATCH_NORM_INFERENCE, BATCH_NORM_TRAINING, BATCH_NORM_GRAD})

CHOLESKY = "__cusolver$cholesky"
LIBRARY_TARGETS = MATMUL_TARGETS | CONV_TARGETS | BATCH_NORM_TARGETS | {CHOLESKY}

GEMM_WRAPPER = "gemm_backend_config"
_WRAPPERS = (GEMM_WRAPPER, "cudnn_conv_backend_config")


def call_target(instruction: HloInstruction) -> str:
    """The target of a custom call; "" for anything else."""
    if instruction.opcode != "custom-call":
        return ""
    return instruction.attributes_as(CustomCallAttributes).custom_call_target


def library_config(call: HloInstruction) -> dict[str, Any]:
    """The configuration of a call, without the object of one key in which XLA wraps it."""
    config = call.parsed_backend_config
    for wrapper in _WRAPPERS:
        if isinstance(inner := config.get(wrapper), dict):
            return inner
    return config


def with_changes(call: HloInstruction, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a call with other values of some keys, wrapped as it was."""
    config = call.parsed_backend_config
    for wrapper in _WRAPPERS:
        if isinstance(inner := config.get(wrapper), dict):
            return {**config, wrapper: {**inner, **changes}}
    return {**config, **changes}
