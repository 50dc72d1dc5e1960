"""What must run before what, against a search of the graph; maps that follow changes."""

from __future__ import annotations

import random

import pytest

from xjit.hlo import HloComputation, HloInstruction
from xjit.passes.analysis.reachability import HloReachability, HloReachabilityMap
from xjit.passes.framework import analyses
from xjit.text.parser import parse_hlo

TEXT = """ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] abs(x)
  c = f32[4] cosine(b), control-predecessors={a}
  d = f32[4] add(c, x)
  ROOT t = (f32[4], f32[4]) tuple(a, d)
}"""


def named(computation: HloComputation, *names: str) -> list[HloInstruction]:
    found = {i.name: i for i in computation.instructions}
    return [found[name] for name in names]


def reached_by_search(start: HloInstruction) -> set[HloInstruction]:
    found, stack = {start}, [start]
    while stack:
        for after in (*(i := stack.pop()).users, *i.control_successors):
            if after not in found:
                found.add(after)
                stack.append(after)
    return found


def check(found: HloReachabilityMap, computation: HloComputation) -> None:
    for start in computation.instructions:
        reached = reached_by_search(start)
        for end in computation.instructions:
            assert found.is_reachable(start, end) == (end in reached), (start.name, end.name)


def test_operands_and_control_edges() -> None:
    computation = parse_hlo(TEXT).entry_computation
    found = HloReachabilityMap(computation)
    check(found, computation)
    a, b, c, d = named(computation, "a", "b", "c", "d")
    assert found.is_reachable(a, d) and not found.is_reachable(d, a) and found.is_reachable(a, a)
    assert found.is_connected(d, a) and not found.is_connected(a, b)
    assert found.reaches_any(a, [b, d]) and not found.reaches_any(c, [a, b]) and not found.reaches_any(a, [])


def test_what_is_not_in_the_map() -> None:
    computation, other = parse_hlo(TEXT).entry_computation, parse_hlo(TEXT).entry_computation
    found, stranger = HloReachabilityMap(computation), other.root_instruction
    assert stranger not in found and computation.root_instruction in found
    with pytest.raises(KeyError):
        found.is_reachable(computation.root_instruction, stranger)


def test_the_map_follows_changes() -> None:
    computation = parse_hlo(TEXT).entry_computation
    found = HloReachabilityMap(computation)
    a, b, c, d, x = named(computation, "a", "b", "c", "d", "x")
    a.remove_control_dependency_to(c)
    found.update_through(c)
    check(found, computation)
    d.replace_operand_with(1, a)
    found.update_through(d)
    check(found, computation)
    new = computation.add_instruction(HloInstruction.create("add", x.shape, [a, b]))
    newer = computation.add_instruction(HloInstruction.create("negate", x.shape, [new]))
    c.replace_operand_with(0, newer)
    for changed in (c, newer, new):  # in any order
        found.update_through(changed)
    check(found, computation)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_and_random_changes(seed: int) -> None:
    r, count = random.Random(seed), 40
    lines = [f"v{i} = f32[4] add(v{r.randrange(i)}, v{r.randrange(i)})" for i in range(1, count)]
    text = "ENTRY e { v0 = f32[4] parameter(0) " + " ".join(lines[:-1]) + " ROOT " + lines[-1] + "}"
    computation = parse_hlo(text).entry_computation
    found = HloReachabilityMap(computation)
    check(found, computation)
    instructions = computation.instructions
    for _ in range(20):
        before, after = sorted(r.sample(range(1, count), 2))
        if r.random() < 0.5:
            instructions[after].replace_operand_with(r.randrange(2), instructions[before])
        else:
            instructions[before].add_control_dependency_to(instructions[after])
        found.update_through(instructions[after])
    check(found, computation)


def test_maps_are_kept_with_the_version() -> None:
    module = parse_hlo(TEXT)
    computation = module.entry_computation
    first = analyses.get(HloReachability, module).map(computation)
    assert analyses.get(HloReachability, module).map(computation) is first
    a, c = named(computation, "a", "c")
    a.remove_control_dependency_to(c)
    second = analyses.get(HloReachability, module).map(computation)
    assert second is not first and not second.is_reachable(a, c)
