"""Dataflow and aliases of modules in any order, flattened or not."""

from __future__ import annotations

import pytest

from tests.support.passes import count
from xjit.hlo import HloInstruction, HloModule, HloSchedule
from xjit.passes.analysis.alias_analysis import HloAliasAnalysis
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.analysis.hlo_value import HloValue
from xjit.passes.framework import analyses
from xjit.passes.schedule_and_memory.copy_insertion import CopyInsertion
from xjit.text.parser import parse_hlo

LOOP = """
cond { p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
body { q = (s32[], f32[4], f32[4]) parameter(0)  j = s32[] get-tuple-element(q), index=0  one = s32[] constant(1)
  k = s32[] add(j, one)  a = f32[4] get-tuple-element(q), index=1  b = f32[4] get-tuple-element(q), index=2
  m = f32[4] multiply(a, b)  ROOT t = (s32[], f32[4], f32[4]) tuple(k, m, b) }
ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  z = s32[] constant(0)
  s = (s32[], f32[4], f32[4]) tuple(z, x, y)
  w = (s32[], f32[4], f32[4]) while(s), condition=cond, body=body
  v = f32[4] get-tuple-element(w), index=1  o = f32[4] get-tuple-element(w), index=2  ROOT r = f32[4] add(v, o) }
"""


def analyze(text: str) -> tuple[HloDataflowAnalysis, dict[str, HloInstruction]]:
    """Returns the dataflow of a module, and its instructions by name."""
    module = parse_hlo(text)
    return analyses.get(HloDataflowAnalysis, module), by_name(module)


def by_name(module: HloModule) -> dict[str, HloInstruction]:
    """Returns the instructions of a module."""
    return {i.name: i for c in module.computations() for i in c.instructions}


def names(values: object) -> list[str]:
    """Returns values as their instructions and indices are written."""
    assert isinstance(values, tuple | list)
    return [repr(v) for v in values]


def only(flow: HloDataflowAnalysis, instruction: HloInstruction) -> HloValue:
    """Returns the one value of an array."""
    return flow.unique_value_at(instruction)


def test_loops_join_what_they_change_and_hand_on_what_they_do_not() -> None:
    flow, at = analyze(LOOP)
    phi = flow.unique_value_at(at["w"], (1,))
    assert phi.phi and only(flow, at["a"]) is phi and only(flow, at["v"]) is phi
    assert names(flow.inputs(phi)) == ["%x{}", "%m{}"]
    assert names(flow.value_set(at["v"]).values) == ["%x{}", "%m{}"] and flow.value_set(at["v"]).is_ambiguous
    assert only(flow, at["b"]) is only(flow, at["o"]) is only(flow, at["y"])
    assert names(flow.value_set(at["o"]).values) == ["%y{}"]
    assert only(flow, at["i"]) is flow.unique_value_at(at["w"], (0,))


def test_positions_and_uses() -> None:
    flow, at = analyze(LOOP)
    y = only(flow, at["y"])
    assert [str(p) for p in flow.positions(y)] == [
        "%y{}", "%s{2}", "%w{2}", "%p{2}", "%q{2}", "%b{}", "%t{2}", "%o{}"
    ]  # fmt: skip
    assert [str(u) for u in flow.uses(y)] == ["%w, operand 0 {2}", "%m, operand 1 {}", "%r, operand 1 {}"]
    assert y.defining_position == flow.positions(y)[0]
    assert flow.is_live_out(only(flow, at["r"])) and not flow.is_live_out(y)


def test_the_dump_names_every_value_once() -> None:
    flow, _ = analyze("ENTRY e { x = f32[4] parameter(0)  b = f32[2,2] bitcast(x)  ROOT r = f32[2,2] negate(b) }")
    assert (
        flow.to_text()
        == """HloDataflowAnalysis of module_e: 2 values
<0 %x{}>
  stands at %x{}
  stands at %b{}
  read by %b, operand 0 {}
  read by %r, operand 0 {}
<1 %r{}> live-out
  stands at %r{}
"""
    )


def test_a_bitcast_may_define_a_value() -> None:
    module = parse_hlo("ENTRY e { x = f32[4] parameter(0)  ROOT b = f32[2,2] bitcast(x) }")
    root = module.entry_computation.root_instruction
    assert only(HloDataflowAnalysis(module), root).instruction.name == "x"
    assert only(HloDataflowAnalysis(module, bitcast_defines_value=True), root).instruction is root


CONDITIONAL = """
yes { a = (f32[4], f32[4]) parameter(0)  a0 = f32[4] get-tuple-element(a), index=0
  a1 = f32[4] get-tuple-element(a), index=1  n = f32[4] negate(a1)  ROOT ta = (f32[4], f32[4]) tuple(a0, n) }
no { b = (f32[4], f32[4]) parameter(0)  b0 = f32[4] get-tuple-element(b), index=0
  b1 = f32[4] get-tuple-element(b), index=1  ROOT tb = (f32[4], f32[4]) tuple(b0, b1) }
ENTRY e { p = pred[] parameter(0)  x = f32[4] parameter(1)  y = f32[4] parameter(2)
  u = f32[4] sine(x)  v = f32[4] cosine(y)  t = (f32[4], f32[4]) tuple(u, v)
  c = (f32[4], f32[4]) conditional(p, t, t), true_computation=yes, false_computation=no
  c0 = f32[4] get-tuple-element(c), index=0  c1 = f32[4] get-tuple-element(c), index=1
  ROOT r = f32[4] add(c0, c1) }
"""


def test_conditionals_join_what_branches_return() -> None:
    flow, at = analyze(CONDITIONAL)
    assert only(flow, at["c0"]) is only(flow, at["u"])  # both branches hand it on
    assert only(flow, at["c1"]).phi and names(flow.value_set(at["c1"]).values) == ["%v{}", "%n{}"]


def test_what_all_branches_hand_on_is_not_copied() -> None:
    module = parse_hlo(CONDITIONAL)
    CopyInsertion().run(module)
    assert count(module, "copy") == 1  # of v, in the branch that returns it as it is


def test_a_computation_called_twice_joins_its_arguments() -> None:
    flow, at = analyze("""
f { a = f32[4] parameter(0)  b = f32[4] parameter(1)  n = f32[4] add(a, b)  ROOT t = (f32[4], f32[4]) tuple(n, b) }
ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  c = (f32[4], f32[4]) call(x, y), to_apply=f
  d = f32[4] get-tuple-element(c), index=0  g = (f32[4], f32[4]) call(d, y), to_apply=f
  h = f32[4] get-tuple-element(g), index=0  o = f32[4] get-tuple-element(g), index=1  ROOT r = f32[4] add(h, o) }""")
    assert only(flow, at["a"]).phi and names(flow.value_set(at["a"]).values) == ["%x{}", "%n{}"]
    assert only(flow, at["b"]) is only(flow, at["y"]) is only(flow, at["o"])
    assert only(flow, at["h"]) is only(flow, at["n"])


def test_loops_within_loops_that_change_nothing_are_seen_through() -> None:
    flow, at = analyze("""
c1 { p1 = (s32[], f32[4]) parameter(0)  i1 = s32[] get-tuple-element(p1), index=0  n1 = s32[] constant(2)
  ROOT l1 = pred[] compare(i1, n1), direction=LT }
b1 { q1 = (s32[], f32[4]) parameter(0)  j1 = s32[] get-tuple-element(q1), index=0  o1 = s32[] constant(1)
  k1 = s32[] add(j1, o1)  x1 = f32[4] get-tuple-element(q1), index=1  ROOT t1 = (s32[], f32[4]) tuple(k1, x1) }
c2 { p2 = (s32[], f32[4]) parameter(0)  i2 = s32[] get-tuple-element(p2), index=0  n2 = s32[] constant(2)
  ROOT l2 = pred[] compare(i2, n2), direction=LT }
b2 { q2 = (s32[], f32[4]) parameter(0)  j2 = s32[] get-tuple-element(q2), index=0  o2 = s32[] constant(1)
  k2 = s32[] add(j2, o2)  x2 = f32[4] get-tuple-element(q2), index=1  z2 = s32[] constant(0)
  s2 = (s32[], f32[4]) tuple(z2, x2)  w2 = (s32[], f32[4]) while(s2), condition=c1, body=b1
  y2 = f32[4] get-tuple-element(w2), index=1  ROOT t2 = (s32[], f32[4]) tuple(k2, y2) }
ENTRY e { x = f32[4] parameter(0)  z = s32[] constant(0)  s = (s32[], f32[4]) tuple(z, x)
  w = (s32[], f32[4]) while(s), condition=c2, body=b2  ROOT r = f32[4] get-tuple-element(w), index=1 }""")
    assert {repr(only(flow, at[name])) for name in ("x1", "x2", "y2", "r")} == {"%x{}"}


def test_asynchronous_operations_hand_their_operands_on() -> None:
    flow, at = analyze("""
f { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }
ENTRY e { x = f32[4] parameter(0)  s = ((f32[4]), f32[4]) async-start(x), calls=f
  ROOT d = f32[4] async-done(s), calls=f }""")
    assert flow.unique_value_at(at["s"], (0, 0)) is only(flow, at["x"]) is only(flow, at["a"])
    assert only(flow, at["d"]) is flow.unique_value_at(at["s"], (1,)) is only(flow, at["n"])


def test_copies_and_sends_hand_on_what_they_read() -> None:
    flow, at = analyze("""
ENTRY e { x = f32[4] parameter(0)  s = (f32[4], f32[4], u32[]) copy-start(x)  d = f32[4] copy-done(s)
  k = token[] after-all()  n = (f32[4], u32[], token[]) send(x, k), channel_id=1
  m = token[] send-done(n), channel_id=1  ROOT r = f32[4] negate(d) }""")
    assert flow.unique_value_at(at["s"], (1,)) is only(flow, at["x"]) is flow.unique_value_at(at["n"], (0,))
    assert only(flow, at["d"]) is flow.unique_value_at(at["s"], (0,)) is not only(flow, at["x"])
    assert flow.unique_value_at(at["n"], (1,)).instruction is at["n"]


def test_fused_computations_have_values_of_their_own() -> None:
    flow, at = analyze("""
fused { a = f32[4] parameter(0)  b = f32[4] exponential(a)  ROOT t = (f32[4], f32[4]) tuple(a, b) }
ENTRY e { x = f32[4] parameter(0)  f = (f32[4], f32[4]) fusion(x), kind=kLoop, calls=fused
  ROOT g = f32[4] get-tuple-element(f), index=0 }""")
    assert only(flow, at["g"]).instruction.name == "f" and flow.unique_value_at(at["t"], (0,)) is only(flow, at["a"])
    assert len(flow.all_values) == 3 and len(flow.values_of_module()) == 5
    assert [v.id for v in flow.values_of_module()] == list(range(5))


def test_the_order_changes_nothing() -> None:
    module = parse_hlo(LOOP)
    before = HloDataflowAnalysis(module)
    orders = {c: c.make_instruction_post_order() for c in module.computations()}
    entry = orders[module.entry_computation]
    entry.sort(key=lambda i: ("zyx".find(i.name) < 0, "zyx".find(i.name)))
    module.set_schedule(HloSchedule(orders))
    after = analyses.get(HloDataflowAnalysis, module)
    for instruction in by_name(module).values():
        assert names(before.values(instruction)) == names(after.values(instruction))
    assert entry[0].name == "z" and repr(after.all_values[0]) == "%z{}" != repr(before.all_values[0])


def test_there_is_no_value_at_a_token() -> None:
    flow, at = analyze("ENTRY e { ROOT t = token[] after-all() }")
    assert flow.values(at["t"]) == (None,)
    with pytest.raises(KeyError, match="no value at %t"):
        flow.unique_value_at(at["t"])


def test_buffers_hold_what_control_flow_ties_together() -> None:
    flow, at = analyze(LOOP)
    alias = HloAliasAnalysis(flow)
    assert names(alias.unique_buffer_at(at["w"], (1,)).values) == ["%x{}", "%w{1}", "%m{}"]
    assert names(alias.unique_buffer_at(at["y"]).values) == ["%y{}"]
    assert "buffer 0: <0 %x{}>, <4 %w{1} phi>, <10 %m{}>\n  at %x{}\n  at %s{1}\n" in alias.to_text()


def test_partial_updates_stay_in_the_buffer_of_their_operand() -> None:
    flow, at = analyze("""
ENTRY e { x = f32[8] parameter(0)  i = s32[] parameter(1)  n = f32[8] negate(x)  u = f32[1] constant({1})
  d = f32[8] dynamic-update-slice(n, u, i)  ROOT r = f32[8] exponential(d) }""")
    alias = HloAliasAnalysis(flow)
    assert names(alias.unique_buffer_at(at["d"]).values) == ["%n{}", "%d{}"]
    assert len(alias.unique_buffer_at(at["r"]).values) == 1  # it may share as well, but need not
    assert [(repr(u.operand), repr(u.result), u.partial) for u in alias.updates] == [
        ("%x{}", "%n{}", False), ("%n{}", "%d{}", True), ("%d{}", "%r{}", False)
    ]  # fmt: skip
