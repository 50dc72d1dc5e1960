"""Opcodes that cannot be compiled, and why: always, or in the forms that no pass has rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.table import UNSUPPORTED as NOT_EVALUATED
from xjit.ops.replica_groups import has_several_devices

_DEVICES = "it needs values from several devices"
_DYNAMIC = "a dynamic dimension is involved"

UNSUPPORTED: Mapping[str, str] = MappingProxyType(
    {
        **NOT_EVALUATED,
        **dict.fromkeys(("send", "send-done", "recv", "recv-done"), _DEVICES),
    }
)
"""Opcodes without any emitter."""

LEFT_OVER: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "all-gather-start", "all-gather-done", "all-reduce", "all-reduce-start", "all-reduce-done",
                "collective-permute-start", "collective-permute-done", "reduce-scatter",
            ),
            "its operands, its reducer and its result are not of one static type",
        ),
        **dict.fromkeys(("get-dimension-size", "set-dimension-size", "dynamic-reshape"), _DYNAMIC),
        **dict.fromkeys(
            ("copy-start", "copy-done", "async-start", "async-update", "async-done"),
            "its start and its end do not belong together, or its context is no array",
        ),
        "ragged-dot": "it has several ragged dimensions or batched group sizes",
    }
)  # fmt: skip
"""Opcodes that passes rewrite; one that gets to the emitters is a form that they leave, for this reason."""


SEVERAL_DEVICES = frozenset(
    {
        "all-gather", "all-to-all", "collective-broadcast", "collective-permute", "partition-id",
        "ragged-all-to-all", "replica-id",
    }
)  # fmt: skip
"""Opcodes that programs of several devices have kernels for. Of one device passes leave none that has a meaning."""


def refuse_unsupported(instruction: HloInstruction) -> None:
    """Errors: Unsupported names an instruction that no target has an emitter for, and why."""
    reason = UNSUPPORTED.get(instruction.opcode) or LEFT_OVER.get(instruction.opcode)
    if instruction.opcode in SEVERAL_DEVICES and not has_several_devices(instruction):
        reason = _DEVICES
    if reason is not None:
        message = f"{instruction.opcode} '{instruction.name}' cannot be compiled: {reason}"
        raise Unsupported(message, instruction.span)
