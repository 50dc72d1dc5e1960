"""dot-operand-fusion: which conversions join their dot."""

from __future__ import annotations

import pytest

from xjit.hlo import HloModule
from xjit.passes.framework.hlo_verifier import HloVerifier
from xjit.passes.fusion.dot_operand_fusion import DotOperandFusion
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
ENTRY e {
  x = bf16[8,100] parameter(0)
  w = f32[100,64] parameter(1)
  y = bf16[100,64] convert(w)
  ROOT d = bf16[8,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def fused(text: str) -> HloModule | None:
    """The module after the pass; None if it did nothing."""
    module = parse_hlo(text)
    changed = DotOperandFusion().run(module)
    HloVerifier().run(module)
    assert not DotOperandFusion().run(module)
    return module if changed else None


def test_a_conversion_joins_its_dot() -> None:
    module = fused(TEXT)
    assert module is not None
    root = module.entry_computation.root_instruction
    assert root.opcode == "fusion" and [o.name for o in root.operands] == ["w", "x"]
    assert root.fused_expression_root.opcode == "dot"
    assert not any(i.opcode == "convert" for i in module.entry_computation.instructions)


@pytest.mark.parametrize(
    "change",
    [
        ("bf16[8,64] dot(x, y), lhs_contracting_dims={1}", "bf16[8,64] dot(x, z), lhs_contracting_dims={1}"),
        ("f32[100,64] parameter", "u8[100,64] parameter"),
        ("f32[100,64] parameter", "s32[100,64] parameter"),
        ("100", "10"),
    ],
    ids=["used twice", "unsigned bytes", "integers", "small"],
)
def test_others_do_not(change: tuple[str, str]) -> None:
    text = TEXT.replace(*change)
    if "(x, z)" in text:
        text = text.replace("  ROOT", "  n = bf16[100,64] negate(y)\n  z = bf16[100,64] add(y, n)\n  ROOT")
    assert fused(text) is None


def test_a_result_is_not_taken_away() -> None:
    """The converted array is a result of the program as well."""
    text = TEXT.replace("ROOT d", "d").replace("}\n}", "}\n  ROOT t = (bf16[8,64], bf16[100,64]) tuple(d, y)\n}")
    assert fused(text) is None
