"""Passes leave computations of other execution threads alone, and what they make runs on the thread of its caller."""

from __future__ import annotations

import pytest

from tests.support.pass_cases import PassCase, all_cases
from xjit.hlo import HloModule
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.hlo.diagnostics import HloVerifyError
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES, make_pass
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


def _verifies(module: HloModule) -> bool:
    try:
        verify_module(module)
    except HloVerifyError:
        return False
    return True


@pytest.mark.parametrize("case", _one_of_each(), ids=lambda case: case.run)
def test_what_is_made_runs_on_the_thread_of_its_caller(case: PassCase) -> None:
    module = parse_hlo(case.before)
    for computation in module.computations():
        computation.execution_thread = "other"
    if not _verifies(module):
        pytest.skip("it starts something on another thread")
    for item in case.passes():
        item.run(module)
    verify_module(module)


def test_threads_do_not_share_what_is_called() -> None:
    module = parse_hlo("""HloModule m
on { x = f32[8] parameter(0)  n = f32[8] negate(x)  f = c64[5] fft(n), fft_type=RFFT, fft_length={8}
  ROOT r = f32[5] real(f) }
started { x = f32[8] parameter(0)  ROOT c = f32[5] call(x), to_apply=on }
ENTRY e {
  x = f32[8] parameter(0)
  s = ((f32[8]), f32[5], s32[]) async-start(x), calls=started
  g = c64[5] fft(x), fft_type=RFFT, fft_length={8}
  h = f32[5] real(g)
  d = f32[5] async-done(s), calls=started
  ROOT a = f32[5] add(d, h)
}""")
    for computation in module.computations():
        computation.execution_thread = "main" if computation.name == "e" else "other"
    verify_module(module)
    assert make_pass(PASSES, "fft-expander").run(module)
    verify_module(module)


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
