"""Shape inference: every rule on valid and broken instructions (tests/ops/shape_cases.py)."""

from __future__ import annotations

import pytest

from tests.ops.shape_cases import INVALID, VALID, module_text
from xjit.hlo import OPCODES, HloVerifyError, Trait
from xjit.ops.shape_inference import SHAPE_RULES, infer_shape
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo


def _root(text: str):
    return parse_hlo(text).entry_computation.root_instruction


def test_every_opcode_has_a_rule():
    assert set(SHAPE_RULES) == set(OPCODES)


@pytest.mark.parametrize(("instruction", "shape"), VALID)
def test_infers_the_shape(instruction: str, shape: str):
    root = _root(module_text(instruction, shape))
    inferred = infer_shape(root)
    assert inferred.compatible(root.shape)
    assert inferred.to_string(layout=False) == root.shape.to_string(layout=False)
    if not root.op.has(Trait.ASYNC):  # a start is no result
        verify_module(root.module)


@pytest.mark.parametrize(("instruction", "shape", "message"), INVALID)
def test_rejects(instruction: str, shape: str, message: str):
    module = parse_hlo(module_text(instruction, shape))
    with pytest.raises(HloVerifyError) as caught:
        verify_module(module)
    assert message in caught.value.message
    assert caught.value.message.startswith(instruction.split("(")[0] + ": ")
    assert caught.value.span is not None
    assert "ROOT result" in caught.value.span.line_text
    assert "in computation e" in caught.value.notes


@pytest.mark.parametrize("opcode", [op.name for op in OPCODES.values() if op.has(Trait.ELEMENTWISE) and op.arity <= 2])
def test_elementwise_opcodes_keep_dimensions_and_dynamic_marks(opcode: str):
    kind = {"complex": "f32", "stochastic-convert": "u32"}.get(opcode, "f32")
    wants_integers = ("and", "or", "xor", "not", "mulhi", "count-leading-zeros", "popcnt")
    if opcode in wants_integers or opcode.startswith("shift"):
        kind = "s32"
    if opcode == "stochastic-convert":
        operands, declared = [("a", "f32[<=4,3]"), ("b", "u32[<=4,3]")], "f16[<=4,3]"
    else:
        operands = [(name, f"{kind}[<=4,3]") for name in "ab"[: OPCODES[opcode].arity]]
        results = {"compare": "pred", "is-finite": "pred", "complex": "c64"}
        declared = f"{results.get(opcode, kind)}[<=4,3]"
    parameters = "\n".join(f"  {n} = {s} parameter({i})" for i, (n, s) in enumerate(operands))
    attributes = {"compare": ", direction=EQ", "reduce-precision": ", exponent_bits=8, mantissa_bits=7"}.get(opcode, "")
    arguments = ", ".join(n for n, _ in operands)
    text = f"HloModule m\nENTRY e {{\n{parameters}\n  ROOT r = {declared} {opcode}({arguments}){attributes}\n}}"
    assert infer_shape(_root(text)).to_string(layout=False) == declared


_STARTS_AND_DONES = """
HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
wrapped { a = f32[8] parameter(0)
  ROOT r = f32[8] negate(a) }
ENTRY e {
  x = f32[8] parameter(0)
  t = token[] after-all()
  gs = (f32[8], f32[16]) all-gather-start(x), dimensions={0}, replica_groups={{0,1}}
  gd = f32[16] all-gather-done(gs)
  rs = f32[8] all-reduce-start(x), replica_groups={}, to_apply=add
  rd = f32[8] all-reduce-done(rs)
  ps = (f32[8], f32[8], u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,1}}
  pd = f32[8] collective-permute-done(ps)
  cs = (f32[8], f32[8], u32[]) copy-start(x)
  cd = f32[8] copy-done(cs)
  ss = (f32[8], u32[], token[]) send(x, t), channel_id=1
  sd = token[] send-done(ss), channel_id=1
  rc = (f32[8], u32[], token[]) recv(t), channel_id=2
  rcd = (f32[8], token[]) recv-done(rc), channel_id=2
  as = ((f32[8]), f32[8], u32[]) async-start(x), calls=wrapped
  au = ((f32[8]), f32[8], u32[]) async-update(as), calls=wrapped
  ROOT ad = f32[8] async-done(au), calls=wrapped
}
"""


def test_starts_and_dones_verify():
    verify_module(parse_hlo(_STARTS_AND_DONES))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gd = f32[16]", "gd = f32[8]", "the declared shape is f32[8], but the operands give f32[16]"),
        ("rd = f32[8]", "rd = f32[9]", "the operands give f32[8]"),
        ("pd = f32[8]", "pd = u32[]", "the operands give f32[8]"),
        ("cd = f32[8]", "cd = u32[]", "the operands give f32[8]"),
        ("sd = token[]", "sd = f32[8]", "the operands give token[]"),
        ("rcd = (f32[8], token[])", "rcd = (f32[9], token[])", "the operands give (f32[8], token[])"),
        ("au = ((f32[8]), f32[8], u32[])", "au = ((f32[8]), f32[8])", "async-update: the declared shape"),
        ("async-done(au)", "async-done(gs)", "must be async-start or async-update, but is all-gather-start"),
        ("collective-permute-done(ps)", "collective-permute-done(gs)", "but gs is all-gather-start"),
        ("all-reduce-done(rs)", "all-reduce-done(x)", "must be all-reduce-start, but x is parameter"),
        ("copy-done(cs)", "copy-done(gs)", "must be copy-start, but gs is all-gather-start"),
        ("as = ((f32[8]), f32[8]", "as = ((f32[8]), f32[9]", "async-start: the declared shape"),
    ],
)
def test_starts_and_dones_are_checked(old: str, new: str, message: str):
    assert old in _STARTS_AND_DONES
    with pytest.raises(HloVerifyError) as caught:
        verify_module(parse_hlo(_STARTS_AND_DONES.replace(old, new)))
    assert message in caught.value.message


def test_reduce_window_of_a_large_base_has_exact_sizes():
    n = 2**40
    text = f"""HloModule m
add {{ a = s8[] parameter(0)
  b = s8[] parameter(1)
  ROOT r = s8[] add(a, b) }}
ENTRY e {{
  x = s8[{n}] parameter(0)
  z = s8[] constant(0)
  ROOT r = s8[{(n - 5) // 7 + 1}] reduce-window(x, z), window={{size=5 stride=7}}, to_apply=add
}}"""
    verify_module(parse_hlo(text))
