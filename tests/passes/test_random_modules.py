"""Random modules, and catalogue-like control flow, before and after each pass alone and after random sequences of passes.

The evaluator must say the same of both, up to the rounding that the cases allow; the second run of a pass may only
change what another one left. All seeds are fixed; `-m slow` does many more of the same.
"""

from __future__ import annotations

import random

import pytest

import xjit
from tests.support.hlo_cases import Case, computed, difference, graph, magnitudes
from tests.support.hlo_rules import COLLECTIVE, CONTROL
from xjit.hlo import HloModule
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES
from xjit.passes.framework.base import HloModulePass

NOT_VALUES = {
    "rng-expander": "random numbers of another stream",
    "rng-bit-generator-expander": "of the default algorithm, another stream",
    "hlo-verifier": "changes nothing",
}
"""Passes after which the evaluator need not say the same, or of which there is nothing to say."""

NAMES = sorted({cls.name for cls in PASSES.values()} - NOT_VALUES.keys())
FEW, MANY = 3, 60
FOUND = (1018, 1027)
"""Seeds that found what no other test does: costs of fusions that were merged, origins of loops that get elements."""


LOSES_SIGN_OF_ZERO = "all-gather-decomposer"
"""Adds parts to zeros, and 0 + -0.0 is 0."""


def check(case: Case, passes: list[HloModulePass]) -> None:
    """Runs passes on a case; checks the changed bit, the verifier and the values."""
    module = xjit.parse_hlo(case.text)
    for item in passes:
        _run(item, module)
    found = computed(module, case.inputs)
    expected = computed(xjit.parse_hlo(case.text), case.inputs)
    signed = all(item.name != LOSES_SIGN_OF_ZERO for item in passes)
    for number, (a, e, exact, magnitude) in enumerate(zip(found, expected, case.exact, magnitudes(case), strict=True)):
        wrong = difference(a, e, exact and signed, magnitude)
        assert not wrong, f"{[p.name for p in passes]}: result {number}: {wrong}\n{case.text}\nbecame\n{module}"


def _run(item: HloModulePass, module: HloModule) -> None:
    before = _content(module)
    try:
        changed = item.run(module)
    except (FailedPrecondition, InvalidArgument):
        return  # it needs a schedule, layouts or a flat call graph: it says so, and touches nothing
    verify_module(module)
    assert changed == (_content(module) != before), f"{item.name} returned {changed}"


def _content(module: HloModule) -> tuple[bytes, str]:
    """What a pass can change: the graph, and aliases and donors, which are in the header."""
    return module_fingerprint(module), str(module).split("\n", 1)[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_alone(name: str) -> None:
    for seed in range(FEW):
        check(graph(7000 + seed), [PASSES[name]()])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_pass_alone_on_many(name: str) -> None:
    for seed in range(FEW, MANY):
        check(graph(7000 + seed), [PASSES[name]()])


@pytest.mark.parametrize("seed", range(12))
def test_passes_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    check(graph(8000 + seed), [PASSES[name]() for name in rng.sample(NAMES, 8)])


def _check_control(seed: int) -> None:
    """Loops and branches over tuples, and what is dear inside and around them."""
    rng = random.Random(seed)
    check(graph(9000 + seed, CONTROL, 4, 16), [PASSES[name]() for name in rng.sample(NAMES, 10)])


@pytest.mark.parametrize("seed", range(6))
def test_control_flow_in_any_order(seed: int) -> None:
    _check_control(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 400))
def test_much_control_flow_in_any_order(seed: int) -> None:
    _check_control(seed)


DEVICES = ((2, 1), (1, 3), (2, 2), (3, 2))
"""Replicas and partitions."""

OF_COLLECTIVES = sorted(cls.name for cls in PASSES.values() if ".collectives." in cls.__module__)
ANY_NUMBER_OF_DEVICES = [name for name in NAMES if name != "spmd-partitioner"]
"""That pass takes a module of several partitions for one that is still to be partitioned."""


def _check_devices(seed: int) -> None:
    """Collectives over groups of replicas, of partitions and of all devices; half of the passes are about these."""
    rng = random.Random(seed)
    case = graph(5000 + seed, COLLECTIVE, 4, 16, DEVICES[seed % len(DEVICES)])
    names = rng.sample(OF_COLLECTIVES, 5) + rng.sample(ANY_NUMBER_OF_DEVICES, 5)
    check(case, [PASSES[name]() for name in rng.sample(names, len(names))])


@pytest.mark.parametrize("seed", range(8))
def test_collectives_in_any_order(seed: int) -> None:
    _check_devices(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 400))
def test_many_collectives_in_any_order(seed: int) -> None:
    _check_devices(seed)


LEFT_WORK = (151, 265, 3580)
"""Seeds of programs in which the simplifier found something once more: values that lost a user, bounds known late."""


@pytest.mark.parametrize("seed", LEFT_WORK)
def test_a_second_run_of_the_simplifier_finds_nothing(seed: int) -> None:
    module = xjit.parse_hlo(graph(seed).text)
    PASSES["algebraic-simplifier"]().run(module)
    assert not PASSES["algebraic-simplifier"]().run(module)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4000, 4200))
def test_second_runs_of_the_simplifier_find_nothing(seed: int) -> None:
    test_a_second_run_of_the_simplifier_finds_nothing(seed)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found(seed: int) -> None:
    test_many_passes_in_any_order(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 300))
def test_many_passes_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    check(graph(8000 + seed), [PASSES[name]() for name in rng.sample(NAMES, 12)])
