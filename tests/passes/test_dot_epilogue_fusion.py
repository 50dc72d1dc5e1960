"""dot-epilogue-fusion: what joins its dot, what does not, and that values stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.passes import check_pass, random_arguments
from xjit.hlo import HloModule
from xjit.passes.fusion.dot_epilogue_fusion import DotEpilogueFusion
from xjit.passes.fusion.instruction_fusion import InstructionFusion
from xjit.text.parser import parse_hlo

BIAS = """HloModule m
ENTRY e {
  x = f32[8,10] parameter(0)
  w = f32[10,6] parameter(1)
  b = f32[8,6] parameter(2)
  d = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[8,6] add(d, b)
}
"""

BIAS_FUSED = """HloModule m
f {
  x = f32[8,10] parameter(0)
  w = f32[10,6] parameter(1)
  d = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,6] parameter(2)
  ROOT s = f32[8,6] add(d, b)
}
ENTRY e {
  x = f32[8,10] parameter(0)
  w = f32[10,6] parameter(1)
  b = f32[8,6] parameter(2)
  ROOT q = f32[8,6] fusion(x, w, b), kind=kOutput, calls=f
}
"""


def test_golden() -> None:
    check_pass(DotEpilogueFusion(), BIAS, BIAS_FUSED)


def test_a_dot_that_is_read_elsewhere_is_one_more_output() -> None:
    before = BIAS.replace("ROOT s", "s").replace("b)\n}", "b)\n  ROOT t = (f32[8,6], f32[8,6]) tuple(s, d)\n}")
    after = BIAS_FUSED.replace("ROOT s = f32[8,6] add(d, b)\n}", "s = f32[8,6] add(d, b)\n"
                               "  ROOT r = (f32[8,6], f32[8,6]) tuple(s, d)\n}")  # fmt: skip
    after = after.replace(
        "ROOT q = f32[8,6] fusion(x, w, b), kind=kOutput, calls=f",
        "q = (f32[8,6], f32[8,6]) fusion(x, w, b), kind=kOutput, calls=f\n"
        "  g = f32[8,6] get-tuple-element(q), index=0\n  h = f32[8,6] get-tuple-element(q), index=1\n"
        "  ROOT t = (f32[8,6], f32[8,6]) tuple(g, h)",
    )
    check_pass(DotEpilogueFusion(), before, after)


NOT_FUSED = {
    "transposed residual": ("b = f32[8,6] parameter(2)", "b = f32[8,6]{0,1} parameter(2)"),
    "another layout of the result": ("ROOT s = f32[8,6] add", "ROOT s = f32[8,6]{0,1} add"),
    "small": ("8", "1"),
    "integers": ("f32", "s32"),
    "a reduction": (
        "ROOT s = f32[8,6] add(d, b)",
        "z = f32[] constant(0)\n  ROOT s = f32[8] reduce(d, z), dimensions={1}, to_apply=add",
    ),
    "another dot": (
        "ROOT s = f32[8,6] add(d, b)",
        "ROOT s = f32[8,8] dot(d, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "a transpose": ("ROOT s = f32[8,6] add(d, b)", "ROOT s = f32[6,8] transpose(d), dimensions={1,0}"),
    "a slice": ("ROOT s = f32[8,6] add(d, b)", "ROOT s = f32[4,6] slice(d), slice={[0:4], [0:6]}"),
    "nothing": ("ROOT s = f32[8,6] add(d, b)", "n = f32[8,6] negate(b)\n  ROOT t = (f32[8,6], f32[8,6]) tuple(d, n)"),
    "control edges": ("ROOT s = f32[8,6] add(d, b)", "n = f32[8,6] negate(b), control-predecessors={d}\n"
                      "  ROOT s = f32[8,6] add(d, n)"),
}  # fmt: skip


@pytest.mark.parametrize("change", NOT_FUSED.values(), ids=NOT_FUSED.keys())
def test_what_does_not_fit_stays(change: tuple[str, str]) -> None:
    text = BIAS.replace(*change)
    if "to_apply" in text:
        adder = "add {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n"
        text = text.replace("ENTRY", adder + "ENTRY")
    check_pass(DotEpilogueFusion(), text)


def after_both(text: str) -> HloModule:
    module = parse_hlo(text)
    InstructionFusion().run(module)
    DotEpilogueFusion().run(module)
    return module


def opcodes(module: HloModule) -> list[str]:
    return [i.opcode for i in module.entry_computation.instructions if i.opcode != "parameter"]


CHAIN = """HloModule m
ENTRY e {
  x = f32[2,8,10] parameter(0)
  w = f32[10,6] parameter(1)
  b = f32[6] parameter(2)
  r = f32[16,6] parameter(3)
  d = f32[2,8,6] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  f = f32[16,6] bitcast(d)
  c = f32[16,6] broadcast(b), dimensions={1}
  s = f32[16,6] add(f, c)
  t = f32[16,6] tanh(s)
  ROOT o = f32[16,6] add(t, r)
}
"""


def test_through_bitcasts() -> None:
    assert opcodes(after_both(CHAIN)) == ["fusion"]


def test_no_cycle() -> None:
    """The sum reads a second dot that needs the first: it may join the second, not the first."""
    text = BIAS.replace(
        "ROOT s = f32[8,6] add(d, b)",
        "v = f32[6,6] parameter(3)\n"
        "  e = f32[8,6] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  ROOT s = f32[8,6] add(d, e)",
    )
    module = after_both(text)
    assert sorted(opcodes(module)) == ["dot", "fusion"]


def test_gate_and_up_projection() -> None:
    """What reads two dots joins one of them and reads the other from memory."""
    text = BIAS.replace(
        "ROOT s = f32[8,6] add(d, b)",
        "v = f32[10,6] parameter(3)\n"
        "  e = f32[8,6] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  t = f32[8,6] logistic(d)\n  ROOT s = f32[8,6] multiply(t, e)",
    )
    assert sorted(opcodes(after_both(text))) == ["dot", "fusion"]


@pytest.mark.parametrize("text", [BIAS, CHAIN, CHAIN.replace("8,", "40,").replace("16,", "80,").replace("6]", "70]")])
def test_same_bits_as_without(text: str) -> None:
    module = parse_hlo(text)
    given = random_arguments(module)
    with_pass = xjit.compile(module)
    without = xjit.compile(module, options=xjit.CompileOptions(disabled_passes=("dot-epilogue-fusion",)))
    assert len(with_pass.kernels) < len(without.kernels)
    np.testing.assert_array_equal(with_pass(*given), without(*given))


def test_a_residual_is_not_overwritten_while_sums_are_in_its_place() -> None:
    """In a loop the residual is the carried value, whose buffer the result would like to have."""
    text = """HloModule m
body {
  s = (s32[], f32[64,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64,64] get-tuple-element(s), index=1
  w = f32[64,64] get-tuple-element(s), index=2
  a = s32[] constant(1)
  j = s32[] add(i, a)
  d = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[] constant(0.0625)
  cb = f32[64,64] broadcast(c), dimensions={}
  m = f32[64,64] multiply(d, cb)
  y = f32[64,64] add(m, x)
  ROOT t = (s32[], f32[64,64], f32[64,64]) tuple(j, y, w)
}
test {
  s = (s32[], f32[64,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(30)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[64,64] parameter(0)
  w = f32[64,64] parameter(1)
  z = s32[] constant(0)
  s = (s32[], f32[64,64], f32[64,64]) tuple(z, x, w)
  l = (s32[], f32[64,64], f32[64,64]) while(s), condition=test, body=body
  ROOT r = f32[64,64] get-tuple-element(l), index=1
}
"""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((64, 64), dtype=np.float32), np.eye(64, dtype=np.float32)[::-1].copy()
    result = xjit.compile(text)(x, w)
    np.testing.assert_allclose(result, xjit.evaluate(text, x, w), rtol=1e-5)


@pytest.mark.parametrize(("reads", "kinds"), [("h", ["gemm", "loop"]), ("k", ["gemm"])])
def test_a_declared_alias_is_worth_more_than_an_epilogue(reads: str, kinds: list[str]) -> None:
    """Where the dot reads the parameter, the result can only take its memory in a kernel of its own."""
    text = f"""HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}
    ENTRY e {{
      h = f32[16,16] parameter(0)
      w = f32[16,16] parameter(1)
      k = f32[16,16] parameter(2)
      d = f32[16,16] dot({reads}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      ROOT r = f32[16,16] add(d, h)
    }}"""
    exe = xjit.compile(text)
    assert [kernel.kind for kernel in exe.kernels] == kinds
    assert exe.memory_analysis().alias_size_in_bytes == 16 * 16 * 4
    arguments = [np.random.default_rng(i).standard_normal((16, 16)).astype(np.float32) for i in range(3)]
    plain = exe(*arguments)
    np.testing.assert_array_equal(exe(arguments[0].copy(), *arguments[1:], donate=[0]), plain)


def test_an_attention_fusion_takes_no_epilogue() -> None:
    """Its kernel is known by what is in it: with an addition behind its last dot it would be a loop."""
    text = """HloModule m
f {
  x = f32[8,10] parameter(0)
  w = f32[10,6] parameter(1)
  ROOT d = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  x = f32[8,10] parameter(0)
  w = f32[10,6] parameter(1)
  b = f32[8,6] parameter(2)
  q = f32[8,6] fusion(x, w), kind=KIND, calls=f
  ROOT s = f32[8,6] add(q, b)
}
"""
    check_pass(DotEpilogueFusion(), text.replace("KIND", "kCustom"), None)
    check_pass(DotEpilogueFusion(), text.replace("KIND", "kOutput"), BIAS_FUSED)
