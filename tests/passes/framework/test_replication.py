"""What is the same on all replicas, or on all partitions: rule by rule, and against values on simulated devices."""

from __future__ import annotations

import pytest

from xjit.hlo import HloInstruction, HloModule
from xjit.passes.analysis.replication import Across, HloReplication, HloReplicationAnalysis
from xjit.passes.framework import analyses
from xjit.text.parser import parse_hlo

HEADER = """HloModule m, replica_count=2, num_partitions=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
noisy { a = f32[] parameter(0)  i = u32[] replica-id()  c = f32[] convert(i)  ROOT s = f32[] add(a, c) }
same { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }
"""


def named(module: HloModule, name: str) -> HloInstruction:
    return next(i for c in module.computations() for i in c.instructions if i.name == name)


def known(body: str, name: str = "r", header: str = HEADER) -> tuple[bool, bool]:
    module = parse_hlo(f"{header}\nENTRY e {{ {body} }}")
    found = analyses.get(HloReplication, module)
    instruction = named(module, name)
    return (found.across_replicas.is_replicated_at(instruction), found.across_partitions.is_replicated_at(instruction))


X = "x = f32[4] parameter(0) "
K = "k = f32[4] constant({1,2,3,4}) "
BODIES = {
    K + "ROOT r = f32[4] negate(k)": (True, True),
    "ROOT r = s32[4] iota(), iota_dimension=0": (True, True),
    X + "ROOT r = f32[4] negate(x)": (False, False),
    "ROOT r = u32[] replica-id()": (False, True),
    "ROOT r = u32[] partition-id()": (True, False),
    "x = f32[4] parameter(0), parameter_replication={true} ROOT r = f32[4] negate(x)": (True, False),
    "x = f32[4] parameter(0), sharding={replicated} ROOT r = f32[4] negate(x)": (False, True),
    X + K + "ROOT r = f32[4] add(x, k)": (False, False),
    X + "ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=add": (True, False),
    X + "ROOT r = f32[4] all-reduce(x), replica_groups={{0},{1}}, to_apply=add": (False, False),
    X + "ROOT r = f32[4] all-reduce(x), channel_id=1, replica_groups={{0},{1}}, to_apply=add": (False, True),
    X + "ROOT r = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, to_apply=add": (True, True),
    X + "ROOT r = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=add": (False, True),
    X + "ROOT r = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=add": (True, False),
    X + "ROOT r = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}": (True, False),
    K + "ROOT r = f32[4] collective-permute(k), source_target_pairs={{0,1}}": (False, False),
    K + "ROOT r = f32[4] all-to-all(k), replica_groups={{0,1}}, dimensions={0}": (False, False),
    K + 'ROOT r = f32[4] custom-call(k), custom_call_target="f"': (False, False),
    "a = f32[] constant(0) b = f32[] constant(1) ROOT r = f32[4] rng(a, b), distribution=rng_uniform": (False, False),
    K + "z = f32[] constant(0) ROOT r = f32[] reduce(k, z), dimensions={0}, to_apply=add": (True, True),
    K + "ROOT r = f32[4] map(k), dimensions={0}, to_apply=noisy": (False, True),
    K + "ROOT r = f32[4] fusion(k), kind=kLoop, calls=same": (True, True),
    X + "ROOT r = f32[4] call(x), to_apply=same": (False, False),
    X + K + "f = f32[4] call(k), to_apply=same g = f32[4] call(x), to_apply=same ROOT r = f32[4] negate(f)": (False, False),
    X + K + "t = (f32[4], f32[4]) tuple(x, k) ROOT r = f32[4] get-tuple-element(t), index=1": (True, True),
    X + K + "t = (f32[4], f32[4]) tuple(x, k) b = (f32[4], f32[4]) opt-barrier(t) ROOT r = f32[4] get-tuple-element(b), index=1": (True, True),
    K + "c = pred[] constant(true) ROOT r = f32[4] conditional(c, k, k), true_computation=same, false_computation=same": (True, True),
    K + "c = pred[] parameter(0) ROOT r = f32[4] conditional(c, k, k), true_computation=same, false_computation=same": (False, False),
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_rules(body: str) -> None:
    assert known(body) == BODIES[body]


def test_one_device_is_the_same_as_itself() -> None:
    assert known(X + "ROOT r = f32[4] negate(x)", header="HloModule m, num_partitions=2") == (True, False)


def loop(bound: str) -> str:
    return (
        HEADER
        + f"""
cond {{ p = (s32[], f32[4], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  n = {bound}  ROOT c = pred[] compare(i, n), direction=LT }}
body {{ p = (s32[], f32[4], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)  j = s32[] add(i, one)  u = f32[4] get-tuple-element(p), index=1
  v = f32[4] get-tuple-element(p), index=2  w = f32[4] get-tuple-element(p), index=3
  ROOT t = (s32[], f32[4], f32[4], f32[4]) tuple(j, u, w, v) }}"""
    )


def test_loops_are_followed_around() -> None:
    body = (
        X
        + K
        + """z = s32[] constant(0)  t = (s32[], f32[4], f32[4], f32[4]) tuple(z, k, k, START)
      ROOT r = (s32[], f32[4], f32[4], f32[4]) while(t), condition=cond, body=body"""
    )
    counted, device = loop("s32[] constant(3)"), loop("s32[] convert(d) d = u32[] replica-id()")
    device = device.replace(
        "n = s32[] convert(d) d = u32[] replica-id()", "d = u32[] replica-id()  n = s32[] convert(d)"
    )
    assert known(body.replace("START", "k"), header=counted) == (True, True)
    module = parse_hlo(f"{counted}\nENTRY e {{ {body.replace('START', 'x')} }}")
    facts = HloReplicationAnalysis(module, Across.REPLICAS).facts(named(module, "r"))
    assert facts == (True, True, False, False)  # the two change places
    assert known(body.replace("START", "k"), header=device) == (False, True)
