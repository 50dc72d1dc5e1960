"""Passes around bf16 with what a backend says it has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.ops.verifier_options import VerifierOptions
from xjit.passes.float_types.bfloat16_conversion_folding import BFloat16ConversionFolding
from xjit.passes.float_types.bfloat16_propagation import BFloat16Propagation
from xjit.passes.float_types.float_normalization import BFloat16MixedPrecisionRemoval, BFloat16Normalization
from xjit.passes.float_types.float_support import ExactFloatSupport, FloatSupport, UniformFloatSupport
from xjit.passes.simplify.hlo_dce import HloDCE
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


def test_a_reduction_by_several_instructions_is_not_folded() -> None:
    module = parse_hlo("""HloModule m
fold { a = f32[] parameter(0)  b = f32[] parameter(1)  m = f32[] abs(b)  ROOT r = f32[] add(a, m) }
ENTRY e { x = bf16[8] parameter(0)  z = bf16[] parameter(1)  y = f32[8] convert(x)  i = f32[] convert(z)
  s = f32[] reduce(y, i), dimensions={0}, to_apply=fold  ROOT r = bf16[] convert(s) }""")
    assert not BFloat16ConversionFolding(UniformFloatSupport()).run(module)


class TruncatedDots(ExactFloatSupport):
    """Dots round what they read."""

    def effective_operand_precision_is_low_precision(self, instruction: HloInstruction, index: int) -> bool:
        return instruction.opcode == "dot" or super().effective_operand_precision_is_low_precision(instruction, index)


LOOP = """HloModule m
body { p = (f32[2,2], f32[2,2], s32[]) parameter(0)  a = f32[2,2] get-tuple-element(p), index=0
  b = f32[2,2] get-tuple-element(p), index=1  t = f32[2,2] transpose(a), dimensions={1,0}
  d = f32[2,2] dot(t, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}  s = f32[2,2] add(b, d)
  i = s32[] get-tuple-element(p), index=2  one = s32[] constant(1)  j = s32[] add(i, one)
  ROOT r = (f32[2,2], f32[2,2], s32[]) tuple(t, s, j) }
cond { p = (f32[2,2], f32[2,2], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=2  k = s32[] constant(3)
  ROOT r = pred[] compare(i, k), direction=LT }
ENTRY e { x = f32[2,2] parameter(0)  y = f32[2,2] sine(x)  i = s32[] constant(0)
  t = (f32[2,2], f32[2,2], s32[]) tuple(y, x, i)
  w = (f32[2,2], f32[2,2], s32[]) while(t), condition=cond, body=body  ROOT s = f32[2,2] get-tuple-element(w), index=1 }"""


def test_propagation_and_normalization_leave_no_mixed_precision() -> None:
    module = parse_hlo(LOOP)
    assert BFloat16Propagation(TruncatedDots()).run(module)
    assert "(bf16[2,2]{1,0}, f32[2,2]{1,0}, s32[]) while" in str(module)
    verify_module(module)
    BFloat16Normalization(TruncatedDots()).run(module)
    BFloat16MixedPrecisionRemoval().run(module)
    HloDCE().run(module)
    verify_module(module, VerifierOptions(allow_mixed_precision=False))
    x = np.asarray([[1, 1.001], [0.3, -0.7]], np.float32)
    rounded = parse_hlo(
        LOOP.replace("y = f32[2,2] sine(x)", "z = f32[2,2] sine(x) v = bf16[2,2] convert(z) y = f32[2,2] convert(v)")
    )
    assert np.array_equal(evaluate(module, x), evaluate(rounded, x))
