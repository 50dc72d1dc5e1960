"""The tables of what opcodes mean are complete: every gap has its reason."""

from __future__ import annotations

from xjit.hlo import OPCODES
from xjit.ops.evaluation.table import EVALUATORS, UNSUPPORTED
from xjit.ops.indexing.output_to_input import OUTPUT_TO_INPUT
from xjit.ops.shape_inference import SHAPE_RULES


def test_every_opcode_has_a_shape_rule_and_indexing_maps() -> None:
    assert set(SHAPE_RULES) == set(OUTPUT_TO_INPUT) == set(OPCODES)


def test_opcodes_without_evaluation_have_a_reason() -> None:
    assert set(OPCODES) - set(EVALUATORS) == set(UNSUPPORTED)
