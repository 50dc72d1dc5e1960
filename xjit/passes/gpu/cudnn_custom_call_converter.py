"""Calls to cuDNN with a computation become fusions that name cuDNN."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import FusionAttributes
from xjit.ops.library_calls.targets import call_target
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

CUDNN_FUSION = "__cudnn$fusion"


@dataclass
class CuDnnCustomCallConverter(OpExpander):
    """Replaces a custom call of `__cudnn$fusion` by a fusion of kind kCustom that computes what it calls.

    A computation that something else calls, too, is cloned: a fusion's is its own.
    """

    name = "cudnn-custom-call-converter"
    opcodes = frozenset({"custom-call"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the fusion; None for other targets."""
        if call_target(instruction) != CUDNN_FUSION or len(instruction.called_computations) != 1:
            return None
        called = instruction.called_computations[0]
        if len(called.caller_instructions()) > 1:
            called = into.embed(called.clone())
        attributes = FusionAttributes("kCustom")
        fusion = HloInstruction.create("fusion", instruction.shape, instruction.operands, attributes, [called])
        fusion.backend_config = {"fusion_backend_config": {"kind": CUDNN_FUSION}}
        return into.add(fusion)
