"""The op table: one `OpDef` row per opcode, joined from the columns that the packages beside it provide."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo.attributes.opcodes import OPCODES
from xjit.ops.evaluation.table import EVALUATORS
from xjit.ops.indexing.output_to_input import OUTPUT_TO_INPUT
from xjit.ops.opdef import OpDef
from xjit.ops.shape_inference import SHAPE_RULES

OPS: Mapping[str, OpDef] = MappingProxyType(
    {
        name: OpDef(
            opcode,
            infer_shape=SHAPE_RULES[name],
            evaluate=EVALUATORS.get(name),
            output_to_input=OUTPUT_TO_INPUT.get(name),
        )
        for name, opcode in OPCODES.items()
    }
)
