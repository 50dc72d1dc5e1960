"""Every opcode that CPUs run, on a simulated GPU: sanitized, threads in either order, against the evaluator.

Random single instructions where the generator has a rule, modules of `opcodes.hlo` for all else. What is refused is
refused by name, for a reason. `-m slow` does many more random ones.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import xjit
from tests.support.gpu_simulation import check_simulated
from tests.support.hlo_cases import difference, leaves, magnitudes, single_instruction
from tests.support.hlo_rules import ELEMENTWISE, RULES
from tests.support.tolerance import same_bits
from xjit.emitters.coverage import UNSUPPORTED
from xjit.hlo.attributes.opcodes import OPCODES

TARGET = "cuda-sim:sm_90"
COMBINATIONS = {"argmax", "loop", "branches"}
"""Rules of the generator that are no opcode."""
ELSEWHERE = {"rng", "ragged-all-to-all"}
"""Opcodes with a test of their own, below, and what one device has none of."""
OFTEN_RUN = [opcode for opcode in RULES if opcode not in ELEMENTWISE]

ON_CPUS_ONLY = {
    "dynamic-reshape": """HloModule m
ENTRY e { x = f32[6,4] parameter(0)
 n = s32[] parameter(1)
 ROOT r = f32[<=24] dynamic-reshape(x, n) }""",
}
"""Opcodes in forms that a CPU runs and a GPU does not."""


def modules() -> dict[str, tuple[str, float]]:
    """The modules of the file and their tolerances, by name."""
    _, *parts = (Path(__file__).parent / "opcodes.hlo").read_text().split("\n\n")
    found: dict[str, tuple[str, float]] = {}
    for part in parts:
        tolerance = re.match(r"// tolerance (\S+)\n", part)
        head = re.search(r"HloModule (\S+)", part)
        assert head is not None
        names = head[1]
        found[names] = (part[head.start() :].replace(names, "m", 1), float(tolerance[1]) if tolerance else 0.0)
    return found


MODULES = modules()


def test_every_opcode_has_its_case() -> None:
    named = [opcode for name in MODULES for opcode in name.split(",")]
    assert len(named) == len(set(named))
    cases = {*named, *RULES, *UNSUPPORTED, *ON_CPUS_ONLY, *ELSEWHERE} - COMBINATIONS
    assert cases == set(OPCODES)


@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    text, tolerance = MODULES[name]
    check_simulated(text, rtol=tolerance, atol=tolerance)


def check_random(opcode: str, seed: int) -> None:
    """A random module of one instruction."""
    case = single_instruction(opcode, seed)
    executable = xjit.compile(case.text, TARGET)
    expected = leaves(xjit.evaluate(case.text, *case.inputs))
    actual = leaves(executable.run(*case.inputs, sanitize=True))  # type: ignore[union-attr]
    backwards = leaves(executable.run(*case.inputs, reverse=True))  # type: ignore[union-attr]
    for number, (a, e, exact, magnitude) in enumerate(zip(actual, expected, case.exact, magnitudes(case), strict=True)):
        found = difference(a, e, exact, magnitude)
        assert not found, f"result {number}: {found}\n{case.text}"
    for a, b in zip(actual, backwards, strict=True):
        assert same_bits(a, b), f"results depend on the order of threads\n{case.text}"


@pytest.mark.parametrize("opcode", OFTEN_RUN)
def test_random_instruction(opcode: str) -> None:
    check_random(opcode, 0)


@pytest.mark.slow
@pytest.mark.parametrize("opcode", RULES)
def test_many_random_instructions(opcode: str) -> None:
    for seed in range(40):
        check_random(opcode, seed)


@pytest.mark.parametrize("opcode", ON_CPUS_ONLY)
def test_what_only_a_cpu_runs(opcode: str) -> None:
    xjit.compile(ON_CPUS_ONLY[opcode])
    with pytest.raises(xjit.Unsupported, match=opcode):
        xjit.compile(ON_CPUS_ONLY[opcode], TARGET)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            'f32[4] custom-call(x), custom_call_target="nobody"',
            "custom-call to 'nobody': expected one of AllocateBuffer",
        ),
        (
            'f32[4,4] custom-call(x), custom_call_target="tridiagonal_solve_perturbed_ffi"',
            "cannot be compiled for target 'cuda': it has no kernel",
        ),
    ],
)
def test_custom_calls_that_gpus_do_not_have(call: str, reason: str) -> None:
    shape = call.split(" custom-call")[0]
    text = f"HloModule m\nENTRY e {{ x = f32[4,4] parameter(0)\n ROOT r = {shape} custom-call{call.split(' custom-call')[1]} }}"
    with pytest.raises(xjit.Unsupported, match=reason):
        xjit.compile(text, TARGET)


def test_random_numbers_are_those_of_the_cpu() -> None:
    """HLO leaves the values of rng open, so the evaluator has others."""
    text = """HloModule m
ENTRY e { a = f32[] constant(0)
 b = f32[] constant(1)
 x = f32[7,3] rng(a, b), distribution=rng_uniform
 y = f32[5] rng(a, b), distribution=rng_normal
 ROOT r = (f32[7,3], f32[5]) tuple(x, y) }"""
    actual = leaves(xjit.compile(text, TARGET).run(sanitize=True))  # type: ignore[union-attr]
    for a, e in zip(actual, leaves(xjit.compile(text)()), strict=True):
        np.testing.assert_array_equal(a, e)
