"""Passes leave computations of other execution threads than the given ones alone."""

from __future__ import annotations

import pytest

from tests.support.pass_cases import PassCase, all_cases
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.text.parser import parse_hlo

WHOLE_MODULE = {
    "ar-crs-combiner": "looks at all partitions",
    "copy-fusion": "runs with all threads, behind copy insertion",
    "copy-insertion": "needs one order of the whole module",
    "despecializer": "begins with the schedule, which is the module's",
    "flatten-call-graph": "call sites of all threads count",
    "gpu-copy-insertion": "needs one order of the whole module",
}
"""Passes that have no use for threads, and why."""


def _one_of_each() -> list[PassCase]:
    cases: dict[str, PassCase] = {}
    for case in all_cases():
        if case.after is not None:
            cases.setdefault(case.run, case)
    return [case for run, case in cases.items() if run not in WHOLE_MODULE]


@pytest.mark.parametrize("case", _one_of_each(), ids=lambda case: case.run)
def test_other_threads_stay(case: PassCase) -> None:
    module = parse_hlo(case.before)
    for computation in module.computations():
        computation.execution_thread = "other"
    fingerprint = module_fingerprint(module)
    changed = [item.run(module, ["main"]) for item in case.passes()]
    assert not any(changed)
    assert module_fingerprint(module) == fingerprint


def test_dead_computations_stay_with_what_calls_them() -> None:
    module = parse_hlo("""HloModule m
inner { x = f32[] parameter(0)  ROOT n = f32[] negate(x) }
outer { x = f32[] parameter(0)  ROOT c = f32[] call(x), to_apply=inner }
ENTRY e { ROOT x = f32[] parameter(0) }""")
    for computation in module.computations():
        computation.execution_thread = "other" if computation.name == "outer" else "main"
    assert not HloDCE().run(module, ["main"])
    assert HloDCE().run(module)
    assert module.computation_count == 1
