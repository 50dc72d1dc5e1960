"""Constant folding stays within its budget; its pairs and refusals are cases/simplify/constant_folding.hlo."""

from __future__ import annotations

from xjit.passes.simplify.hlo_constant_folding import HloConstantFolding
from xjit.text.parser import parse_hlo


def test_constant_folding_respects_its_budget() -> None:
    body = "a = f32[64] constant({...}) ROOT r = f32[64] add(a, a)"
    module = parse_hlo(f"HloModule m ENTRY e {{ {body} }}", allow_elided_constants=True)
    assert not HloConstantFolding(max_work=10).run(module)
    assert HloConstantFolding().run(module)
