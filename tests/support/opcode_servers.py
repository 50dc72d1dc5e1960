"""What takes care of each opcode in a compilation for CPUs."""

from __future__ import annotations

from xjit.emitters import fused, unnested
from xjit.emitters.coverage import UNSUPPORTED
from xjit.emitters.elemental import supports_elementwise
from xjit.emitters.planners.cpu.kernels import HAND_WRITTEN, HERO_PLANNERS
from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.passes import cpu_pipeline
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.simplify.transpose_folding import TransposeFolding

KINDS = (PrimitiveType.F32, PrimitiveType.S32, PrimitiveType.C64, PrimitiveType.PRED)
PLANNED = {*HERO_PLANNERS, *HAND_WRITTEN}
ONE_DEVICE = {"replica-id", "partition-id", "opt-barrier", "domain"}
"""What SingleDeviceCanonicalizer removes."""
SIZES = {"get-dimension-size", "set-dimension-size", "dynamic-reshape"}
"""What DynamicPadder and HloGetDimensionSizeRewriter remove."""


def expanded() -> set[str]:
    """TransposeFolding leaves its opcodes there."""
    expanders = [p for p in cpu_pipeline() if isinstance(p, OpExpander) and not isinstance(p, TransposeFolding)]
    return {opcode for p in expanders for opcode in p.opcodes} | SIZES


def servers(opcode: str) -> set[str]:
    """The names of what takes care of an opcode."""
    found = {
        "kernel table": opcode in PLANNED,
        "fused": opcode in fused._RULES,
        "elementwise": any(supports_elementwise(opcode, k) for k in KINDS),
        "unnested": opcode in unnested._RULES or OPCODES[opcode].has(Trait.PLUMBING) or opcode == "fusion",
        "expander": opcode in expanded(),
        "one device": opcode in ONE_DEVICE,
        "unsupported": opcode in UNSUPPORTED,
    }
    return {name for name, serves in found.items() if serves}
