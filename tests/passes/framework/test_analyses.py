"""Analyses are found out once per version of a module; what the call graph and the side effects say."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloComputation, HloModule
from xjit.passes import PassDriver, cpu_pipeline
from xjit.passes.analysis.call_graph import CallContext, CallGraph
from xjit.passes.analysis.liveness import Liveness
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.calls_and_control.flatten_call_graph import FlattenCallGraph
from xjit.passes.framework import analyses
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
noise { p = f32[2] parameter(0)  t = token[] after-all()
  o = token[] outfeed(p, t), outfeed_shape=f32[2]  ROOT n = f32[2] negate(p) }
cond { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0  k = s32[] constant(3)
  ROOT c = pred[] compare(i, k), direction=LT }
body { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0  v = f32[2] get-tuple-element(s), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)  w = f32[2] call(v), to_apply=noise
  ROOT t = (s32[], f32[2]) tuple(j, w) }
ENTRY e {
  x = f32[2] parameter(0)  z = s32[] constant(0)  zero = f32[] constant(0)
  total = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  noisy = f32[2] call(x), to_apply=noise
  state = (s32[], f32[2]) tuple(z, noisy)
  loop = (s32[], f32[2]) while(state), condition=cond, body=body
  ROOT result = ((s32[], f32[2]), f32[]) tuple(loop, total)
}"""


@dataclass
class Counted:
    """Counts how often it is found out."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, module: HloModule) -> Counted:
        runs.append(module.version)
        return cls(tuple(c.name for c in module.computations()))


runs: list[int] = []


def computations(module: HloModule) -> dict[str, HloComputation]:
    return {c.name: c for c in module.computations()}


def test_once_per_version() -> None:
    runs.clear()
    module = parse_hlo(TEXT)
    first = analyses.get(Counted, module)
    assert analyses.get(Counted, module) is first and len(runs) == 1
    entry = module.entry_computation
    entry.root_instruction.operand(1).add_control_dependency_to(entry.root_instruction.operand(0))
    assert analyses.get(Counted, module) is not first and len(runs) == 2
    assert analyses.get(Counted, module.clone()).names == first.names and len(runs) == 3


def test_call_graph() -> None:
    module = parse_hlo(TEXT)
    named, graph = computations(module), analyses.get(CallGraph, module)
    assert graph.contexts[named["add"]] is CallContext.EMBEDDED
    assert all(graph.contexts[named[n]] is CallContext.SEQUENTIAL for n in ("e", "body", "cond", "noise"))
    assert [c.opcode for c in graph.sites[named["noise"]]] == ["call", "call"]
    assert graph.nesting[named["e"]] == 1 and graph.nesting[named["body"]] == 0
    assert graph.sequential[0] is named["e"] and set(graph.sequential) == set(named.values()) - {named["add"]}
    assert graph.order.index(named["noise"]) < graph.order.index(named["body"])
    assert not graph.is_flattened
    assert FlattenCallGraph().run(module)
    assert analyses.get(CallGraph, module).is_flattened


def test_a_computation_that_is_called_both_ways() -> None:
    module = parse_hlo("""HloModule m
f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)  z = f32[] constant(0)  r = f32[] reduce(x, z), dimensions={0}, to_apply=f
  ROOT c = f32[] call(r, z), to_apply=f }""")
    graph = analyses.get(CallGraph, module)
    assert graph.contexts[computations(module)["f"]] is CallContext.BOTH and not graph.is_flattened
    assert FlattenCallGraph().run(module) and analyses.get(CallGraph, module).is_flattened


def test_side_effects_reach_callers() -> None:
    module = parse_hlo(TEXT)
    named, effects = computations(module), analyses.get(SideEffects, module)
    assert effects.computations == {named["noise"], named["body"], named["e"]}
    by_name = {i.name: i for i in module.entry_computation.instructions}
    assert effects.of_instruction(by_name["loop"]) and effects.below(by_name["noisy"])
    assert not effects.of_instruction(by_name["total"]) and not effects.below(by_name["state"])


def test_buffer_assignment_takes_the_liveness_of_copy_insertion() -> None:
    module = parse_hlo("ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }")
    PassDriver().run(cpu_pipeline(), module)
    found = analyses.get(Liveness, module)
    assert assign_buffers(module).classes.live is found
