"""Building and merging fusions: structure, values, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo import HloInstruction, HloModule, InvalidArgument
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
first {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  m = f32[4] multiply(a, b)
  ROOT r1 = f32[4] cosine(m)
}
second {
  c = f32[4] parameter(0)
  d = f32[4] parameter(1)
  ROOT r2 = f32[4] subtract(c, d)
}
pair {
  p = f32[4] parameter(0)
  n = f32[4] negate(p)
  q = f32[4] abs(p)
  ROOT t = (f32[4], f32[4]) tuple(n, q)
}
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] sine(x)
  f1 = f32[4] fusion(s, y), kind=kLoop, calls=first
  f2 = f32[4] fusion(f1, y), kind=kLoop, calls=second
  f3 = (f32[4], f32[4]) fusion(f2), kind=kLoop, calls=pair
  g0 = f32[4] get-tuple-element(f3), index=0
  g1 = f32[4] get-tuple-element(f3), index=1
  other = f32[4] add(s, y)
  ROOT out = (f32[4], f32[4], f32[4], f32[4]) tuple(g0, g1, f1, other)
}"""
X, Y = np.array([0.5, -1.0, 2.0, 3.0], np.float32), np.array([1.0, 2.0, -0.5, 4.0], np.float32)
EXPECTED = [np.asarray(v) for v in xjit.evaluate(TEXT, X, Y)]


def load() -> HloModule:
    return parse_hlo(TEXT)


def named(module: HloModule, name: str) -> HloInstruction:
    return next(i for i in module.entry_computation.instructions if i.name == name)


def check(module: HloModule) -> None:
    """The module is valid and computes what it did at first."""
    verify_module(module)
    for got, expected in zip(xjit.evaluate(module, X, Y), EXPECTED, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_fuse_instruction() -> None:
    module = load()
    f1, s = named(module, "f1"), named(module, "s")
    clone = f1.fuse_instruction(s)
    assert clone.opcode == "sine" and s.parent is not None  # `other` reads it, too
    assert [o.name for o in f1.operands] == ["y", "x"] and len(f1.fused_parameters) == 2
    check(module)
    with pytest.raises(InvalidArgument, match="x is not an operand of f3"):
        named(module, "f3").fuse_instruction(named(module, "x"))
    with pytest.raises(InvalidArgument, match="use merge_fusion_instruction"):
        named(module, "f2").fuse_instruction(f1)


def test_fused_producers_without_readers_go() -> None:
    module = load()
    other, f1 = named(module, "other"), named(module, "f1")
    fusion = module.entry_computation.create_fusion_instruction([other])
    f1.fuse_instruction(named(module, "s"))
    fusion.fuse_instruction(named(module, "s"))
    assert not any(i.opcode == "sine" for i in module.entry_computation.instructions)
    check(module)


def test_call_and_shared_computations() -> None:
    module = load()
    f1, s = named(module, "f1"), named(module, "s")
    call = HloInstruction.create_call(f1.shape, f1.operands, f1.fused_instructions_computation)
    module.entry_computation.add_instruction(call)
    with pytest.raises(FailedPrecondition, match="is called by others than f1"):
        f1.fuse_instruction(s)
    module.entry_computation.replace_instruction(f1, call)
    assert call.append_instruction_into_called_computation(s).opcode == "sine"
    check(module)
    call.append_instruction_into_called_computation(s, add_output=True)
    assert call.shape.is_tuple
    check(module)
    with pytest.raises(InvalidArgument, match="neither a fusion nor a call"):
        named(module, "out").fuse_instruction(named(module, "other"))
    with pytest.raises(InvalidArgument, match="y is a parameter"):
        call.append_instruction_into_called_computation(named(module, "y"))


def test_multi_output_with_a_producer() -> None:
    module = load()
    f1, s = named(module, "f1"), named(module, "s")
    clone = f1.fuse_instruction_into_multi_output(s)
    assert f1.is_multi_output_fusion() and f1.fused_expression_root.operands[1] is clone and s.parent is None
    assert [o.name for o in f1.operands] == ["y", "x"]
    check(module)


def test_a_grown_fusion_has_no_origin_of_fewer_leaves() -> None:
    module = load()
    f1 = named(module, "f1")
    f1.origin = '{{"f1"}}'
    f1.fuse_instruction_into_multi_output(named(module, "s"))
    check(module)
    y = f1.operand(0)
    y.origin = '{{"y"}}'
    pair = HloInstruction.create_tuple([y, y])
    pair.copy_annotations_from(y)
    assert not pair.origin


def test_multi_output_with_a_sibling_twice() -> None:
    module = load()
    f1, other = named(module, "f1"), named(module, "other")
    f1.fuse_instruction_into_multi_output(other)
    assert other.parent is None and len(f1.shape.tuple_shapes) == 2 and f1.operand_count == 2
    check(module)
    f1.fuse_instruction_into_multi_output(named(module, "s"))
    assert len(f1.shape.tuple_shapes) == 3 and f1.fused_instructions_computation.instruction_count == 7
    check(module)


def test_a_multi_output_fusion_that_is_read_as_a_whole() -> None:
    text = """HloModule m
pair { p = f32[4] parameter(0)  n = f32[4] negate(p)  ROOT t = (f32[4], f32[4]) tuple(n, p) }
ENTRY e {
  x = f32[4] parameter(0)
  s = f32[4] sine(x)
  ROOT f = (f32[4], f32[4]) fusion(s), kind=kLoop, calls=pair
}"""
    module = parse_hlo(text)
    named(module, "f").fuse_instruction_into_multi_output(named(module, "s"))
    verify_module(module)
    for got, expected in zip(xjit.evaluate(module, X), xjit.evaluate(text, X), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert module.entry_computation.root_instruction.opcode == "tuple"


def test_multi_output_refuses_cycles() -> None:
    module = load()
    f1, f2 = named(module, "f1"), named(module, "f2")
    late = module.entry_computation.add_instruction(HloInstruction.create_negate(f1.shape, f1))
    with pytest.raises(InvalidArgument, match="it reads the fusion"):
        f1.fuse_instruction_into_multi_output(late)
    with pytest.raises(InvalidArgument, match="f1 lies between them"):
        f2.fuse_instruction_into_multi_output(named(module, "s"))
    with pytest.raises(InvalidArgument, match="not another instruction"):
        f1.merge_fusion_instruction_into_multi_output(load().entry_computation.instructions[3])
    module.entry_computation.remove_instruction(late)
    check(module)


def test_merge() -> None:
    module = load()
    f1, f2 = named(module, "f1"), named(module, "f2")
    f2.merge_fusion_instruction(f1)
    assert [o.name for o in f2.operands] == ["y", "s"]  # y is one parameter
    assert {i.opcode for i in f2.fused_instructions_computation.instructions} >= {"multiply", "cosine", "subtract"}
    check(module)
    with pytest.raises(InvalidArgument, match="is a sine, not a fusion"):
        f2.merge_fusion_instruction(named(module, "s"))
    with pytest.raises(InvalidArgument, match="f1 does not read f2"):
        f1.merge_fusion_instruction(f2)


def test_merge_one_output_of_a_pair() -> None:
    module = load()
    entry = module.entry_computation
    g0, root = named(module, "g0"), entry.root_instruction
    fusion = entry.create_fusion_instruction([entry.add_instruction(HloInstruction.create_exponential(g0.shape, g0))])
    root.replace_operand_with(0, fusion)
    expected = xjit.evaluate(module, X, Y)
    fusion.merge_fusion_instruction(named(module, "f3"))
    verify_module(module)
    opcodes = {i.opcode for i in fusion.fused_instructions_computation.instructions}
    assert opcodes == {"parameter", "negate", "exponential"}
    for got, wanted in zip(xjit.evaluate(module, X, Y), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_merge_into_multi_output_with_a_producer() -> None:
    module = load()
    f1, f2 = named(module, "f1"), named(module, "f2")
    f2.merge_fusion_instruction_into_multi_output(f1)
    assert f1.parent is None and len(f2.shape.tuple_shapes) == 2
    check(module)


def test_merge_pairs() -> None:
    module = load()
    f2, f3 = named(module, "f2"), named(module, "f3")
    f3.merge_fusion_instruction_into_multi_output(f2)
    assert f2.parent is None and len(f3.shape.tuple_shapes) == 3
    check(module)
    f3.merge_fusion_instruction_into_multi_output(named(module, "f1"))
    assert len(f3.shape.tuple_shapes) == 4
    check(module)


def test_merge_a_pair_as_a_sibling() -> None:
    module = load()
    entry = module.entry_computation
    fusion = entry.create_fusion_instruction([named(module, "other")])
    fusion.merge_fusion_instruction_into_multi_output(named(module, "f3"))
    assert len(fusion.shape.tuple_shapes) == 3
    assert not any(i.opcode == "fusion" and i.name == "f3" for i in entry.instructions)
    check(module)
    with pytest.raises(InvalidArgument, match="is not another fusion"):
        fusion.merge_fusion_instruction_into_multi_output(fusion)
    with pytest.raises(InvalidArgument, match="use merge_fusion_instruction_into_multi_output"):
        fusion.fuse_instruction_into_multi_output(named(module, "f2"))
