"""The cases of passes (cases/*.hlo), each checked six ways: the expected module, a second run that changes nothing, the
changed bit, the verifier, text that parses back, and values, evaluated and compiled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import xjit
from tests.support.pass_cases import ANNOTATIONS, PassCase, Structure, all_cases, update_golden
from tests.support.passes import leaves, random_arguments
from tests.support.tolerance import mismatch
from xjit.hlo import HloModule
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.ops.evaluation import evaluate, evaluate_devices
from xjit.ops.replica_groups import device_count
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.pass_text import find_pass
from xjit.text.parser import parse_hlo

NO_CASES = {
    "gemm-algorithm-picker": "measures: test_gpu_library_calls.py",
    "gpu-conv-algorithm-picker": "likewise",
    "hlo-verifier": "changes nothing: tests/ops/test_verifier.py",
    "hlo-memory-scheduler": "a schedule is no part of the graph: test_schedulers_and_layouts.py",
    "hlo-trivial-scheduler": "likewise",
    "hlo-descheduler": "likewise",
    "latency-hiding-scheduler": "likewise: test_latency_hiding_scheduler.py",
    "alias-passthrough-params": "aliases are no part of the graph: test_header_passes.py",
    "optimize-input-output-buffer-alias": "likewise",
    "add-original-value": "original values are no part of the graph: test_header_passes.py",
    "add-tracking-suffix-to-instruction-names": "names are no part of the graph: test_header_passes.py",
    "gpu-sanitize-constant-names": "names are no part of the graph: test_header_passes.py",
    "indexed-array-analysis": "changes nothing: test_indexed_arrays.py",
    "hlo-domain-verifier": "changes nothing: test_header_passes.py",
    "spmd-partitioner": "one device's program for a module's: compared on all devices in test_spmd_partitioner.py",
    "dynamic-padder": "values depend on sizes at run time: test_dynamic_padder.py goes through them",
}
NEGATIVES = 3
ULPS = 64  # of compiled values: sums of some ten terms in another order, and functions of a few ulps
CASES = all_cases()


def run(passes: list[HloModulePass], module: HloModule) -> bool:
    """Runs passes; checks each one's answer, and verifies what it leaves. True if one changed the module."""
    changed = False
    for item in passes:
        fingerprint = module_fingerprint(module)
        answer = item.run(module)
        assert answer == (module_fingerprint(module) != fingerprint), f"{item.name} returned {answer}"
        verify_module(module)
        changed |= answer
    return changed


def check(case: PassCase, update: bool = False) -> None:
    """All six checks of a case."""
    before = parse_hlo(case.before)
    verify_module(before)
    module = before.clone("")
    changed = run(case.passes(), module)
    structure = Structure(case.equal)
    if case.after is not None and update and structure.of(module) != _number(structure, case.after):
        update_golden(case, module)
    else:
        assert changed == (case.after is not None), f"{'changed' if changed else 'unchanged'}:\n{module}"
        expected = before if case.after is None else parse_hlo(case.after)
        assert structure.of(module) == structure.of(expected), f"the result is\n{module}\nexpected\n{expected}"
    assert not run(case.passes(), module), f"the second run changed something:\n{module}"
    everything = Structure(frozenset(ANNOTATIONS))
    assert everything.of(parse_hlo(str(module))) == everything.of(module), "the text parses to something else"
    if "none" not in case.values:
        _check_values(case, before, module)


def _number(structure: Structure, text: str) -> int | None:
    return structure.of(parse_hlo(text)) if text.strip() else None


def _check_values(case: PassCase, before: HloModule, after: HloModule) -> None:
    """Compares the evaluator before and after (bit by bit, unless the case has a tolerance) and compiled code."""
    ulps = float(case.values.get("ulps", 0))
    scale = float(case.values.get("scale", 0))
    devices = before.config.replica_count * before.config.num_partitions
    if device_count(before) > 1:
        inputs = [random_arguments(before, seed) for seed in range(devices)]
        _compare(evaluate_devices(after, inputs), evaluate_devices(before, inputs), ulps, scale)
        return
    arguments = random_arguments(before)
    expected = evaluate(before, *arguments)
    _compare(evaluate(after, *arguments), expected, ulps, scale)
    _compare(xjit.compile(str(after))(*arguments), expected, max(ulps, ULPS), max(scale, 1e-2))


def _compare(got: Any, expected: Any, ulps: float, scale: float) -> None:
    for a, e in zip(leaves(_tuples(got)), leaves(_tuples(expected)), strict=True):
        assert not (wrong := mismatch(a, e, ulps, scale)), wrong


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: PassCase, request: pytest.FixtureRequest) -> None:
    check(case, request.config.getoption("--update-golden", default=False))


def test_every_pass_has_a_pair_and_refusals() -> None:
    pairs, negatives = Counter[str](), Counter[str]()
    for case in CASES:
        for item in case.passes():
            (negatives if case.after is None else pairs)[item.name] += 1
    names = {cls.name for cls in PASSES.values()} - NO_CASES.keys()
    assert {n for n in names if not pairs[n]} == set()
    assert {n: negatives[n] for n in names if negatives[n] < NEGATIVES} == {}
    assert all(find_pass(PASSES, name) for name in NO_CASES)


PAIR = next(c for c in CASES if c.id == "simplify/algebra_movement:identity_transpose")


def test_a_wrong_expectation_fails() -> None:
    assert PAIR.after is not None
    check(PAIR)
    with pytest.raises(AssertionError, match="the result is"):
        check(replace(PAIR, after=PAIR.before))
    with pytest.raises(AssertionError, match="changed"):
        check(replace(PAIR, after=None))
    with pytest.raises(AssertionError, match="unchanged"):
        check(replace(PAIR, before=PAIR.after))


@pytest.mark.parametrize(
    ("equal", "text", "other"),
    [
        ("metadata", 'metadata={op_name="a"}', 'metadata={op_name="b"}'),
        ("sharding", "sharding={replicated}", ""),
        ("frontend", 'frontend_attributes={a="1"}', 'frontend_attributes={a="2"}'),
        ("control", "control-predecessors={q}", ""),
        ("layouts", "", "{0,1}"),
    ],
)
def test_annotations_count_where_a_case_asks_for_them(equal: str, text: str, other: str) -> None:
    layout = other if equal == "layouts" else ""
    a, b = (
        parse_hlo(
            f"HloModule m ENTRY e {{ x = f32[2,3] parameter(0) q = f32[2,3] abs(x) r = f32[2,3]{where} negate(x)"
            f"{', ' if note else ''}{note} ROOT t = (f32[2,3], f32[2,3]{where}) tuple(q, r) }}"
        )
        for note, where in ((text, ""), ("" if layout else other, layout))
    )
    structure, plain = Structure(frozenset({equal})), Structure(frozenset())
    assert plain.of(a) == plain.of(b)
    assert structure.of(a) != structure.of(b)
