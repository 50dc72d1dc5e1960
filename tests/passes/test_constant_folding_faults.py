"""Constant folding leaves what the evaluator does not support, and hides none of its faults."""

from __future__ import annotations

import pytest

from xjit.hlo import Unsupported
from xjit.ops.evaluation.table import EVALUATORS
from xjit.passes.simplify.hlo_constant_folding import HloConstantFolding
from xjit.text.parser import parse_hlo

TEXT = "HloModule m\nENTRY e { c = f32[2] constant({1, 2})  ROOT n = f32[2] negate(c) }"


@pytest.mark.parametrize("error", [Unsupported("negate"), ValueError("a fault")])
def test_only_refusals_are_expected(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("xjit.passes.simplify.hlo_constant_folding.EVALUATORS", {**EVALUATORS, "negate": fail})
    if isinstance(error, Unsupported):
        assert not HloConstantFolding().run(parse_hlo(TEXT))
    else:
        with pytest.raises(ValueError, match="a fault"):
            HloConstantFolding().run(parse_hlo(TEXT))
