"""Passes around bf16 with what a backend says it has."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.ops.verifier import verify_module
from xjit.passes.float_types.bfloat16_conversion_folding import BFloat16ConversionFolding
from xjit.passes.float_types.float_support import FloatSupport
from xjit.text.parser import parse_hlo


@dataclass(frozen=True)
class Sums(FloatSupport):
    """All-reduces may read and make bf16; `mixes`: one and not the other."""

    mixes: bool = True

    def supports_low_precision_operand(self, instruction: HloInstruction, index: int) -> bool:
        return instruction.opcode == "all-reduce"

    def supports_low_precision_output(self, instruction: HloInstruction) -> bool:
        return instruction.opcode == "all-reduce"

    def supports_mixed_precisions(self, instruction: HloInstruction) -> bool:
        return instruction.opcode == "all-reduce" and self.mixes


SUMS = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = bf16[4] parameter(0)  y = f32[4] parameter(1)  z = bf16[4] parameter(2)
  w = f32[4] convert(x)  v = f32[4] convert(z)
  r = (f32[4], f32[4], f32[4]) all-reduce(w, y, v), replica_groups={}, to_apply=add
  a = f32[4] get-tuple-element(r), index=0  b = f32[4] get-tuple-element(r), index=1
  c = f32[4] get-tuple-element(r), index=2
  d = bf16[4] convert(a)  f = bf16[4] convert(b)
  ROOT t = (bf16[4], bf16[4], f32[4]) tuple(d, f, c)
}"""


def folded(mixes: bool, text: str = SUMS) -> str:
    """The types of operands and results of the all-reduce, after folding; "" if nothing changed."""
    module = parse_hlo(text)
    if not BFloat16ConversionFolding(Sums(mixes=mixes)).run(module):
        return ""
    verify_module(module)
    assert not BFloat16ConversionFolding(Sums(mixes=mixes)).run(module)
    found = next(i for i in module.entry_computation.instructions if i.opcode == "all-reduce")
    kinds = [s.element_type.text for s in (*[o.shape for o in found.operands], *found.shape.tuple_shapes)]
    return " ".join(kinds)


def test_each_element_of_an_all_reduce_is_folded_by_itself() -> None:
    assert folded(mixes=True) == "bf16 f32 bf16 bf16 bf16 f32"
    assert folded(mixes=False) == "bf16 f32 f32 bf16 f32 f32"


def test_an_all_reduce_that_is_read_as_a_whole_makes_what_it_made() -> None:
    whole = SUMS.replace(
        "ROOT t = (bf16[4], bf16[4], f32[4]) tuple(d, f, c)", "ROOT o = (f32[4], f32[4], f32[4]) opt-barrier(r)"
    )
    assert folded(mixes=True, text=whole) == "bf16 f32 bf16 f32 f32 f32"
    assert folded(mixes=False, text=whole) == ""
