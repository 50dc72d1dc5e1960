"""Passes say by `opcodes` what they look for, and are not run where that is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pytest

from tests.support.hlo_cases import graph
from tests.support.hlo_samples import sample_modules
from xjit.hlo import HloInstruction, HloModule
from xjit.passes.framework.base import NO_THREADS, HloModulePass
from xjit.passes.framework.driver import PassGroup
from xjit.passes.pipelines import cpu_pipeline
from xjit.text.parser import parse_hlo

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
SUM = f"""HloModule m
{ADD}
ENTRY e {{ x = f32[3] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=add }}"""


class Looking(HloModulePass):
    """Counts its runs, and takes every module for changed."""

    name = "looking"
    runs = 0

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        self.runs += 1
        return True


@pytest.mark.parametrize(
    ("opcodes", "runs"),
    [(set[str](), 1), ({"reduce"}, 1), ({"add"}, 1), ({"sort", "constant"}, 1), ({"sort"}, 0), ({"sort", "while"}, 0)],
)
def test_a_pass_runs_where_there_is_what_it_looks_for(opcodes: set[str], runs: int) -> None:
    """In any computation: the reducer's count as well."""
    module, item = parse_hlo(SUM), Looking()
    item.opcodes = opcodes
    version = module.version
    assert item.run(module) == bool(runs) and item.runs == runs
    assert (module.version > version) == bool(runs)


def test_a_pass_runs_once_there_is_what_it_looks_for() -> None:
    module, item = parse_hlo(SUM), Looking()
    item.opcodes = {"abs"}
    assert not item.run(module)
    entry = module.entry_computation
    root = entry.root_instruction
    entry.set_root_instruction(entry.add_instruction(HloInstruction.create("abs", root.shape, [root])))
    assert item.run(module) and item.runs == 1
    entry.set_root_instruction(root)
    entry.remove_instruction(next(i for i in entry.instructions if i.opcode == "abs"))
    assert not item.run(module) and item.runs == 1


def _modules() -> list[HloModule]:
    """Samples of all opcodes, random graphs, and the latter after each pass of the pipeline that changed them."""
    found = [parse_hlo(text) for text in sample_modules().values()]
    for seed in range(30_000, 30_005):
        module = parse_hlo(graph(seed).text)
        found.append(module.clone(""))
        for item in cpu_pipeline():
            if item.run(module):
                found.append(module.clone(""))
    return found


def test_passes_do_nothing_where_there_is_not_what_they_look_for() -> None:
    """The passes of the CPU pipeline, asked to run all the same."""
    modules = _modules()
    passes = [p for p in _single_passes(cpu_pipeline()) if p.opcodes]
    assert len(passes) > 25
    for item in passes:
        without = [m for m in modules if item.opcodes.isdisjoint(m.opcodes)]
        assert without, item.name
        for module in without:
            version = module.version
            assert not item.run_impl(module, NO_THREADS), f"{item.name}\n{module}"
            assert module.version == version, f"{item.name}\n{module}"


def _single_passes(passes: Iterable[HloModulePass]) -> Iterator[HloModulePass]:
    for item in passes:
        if isinstance(item, PassGroup):
            yield from _single_passes(item.passes)
        else:
            yield item
