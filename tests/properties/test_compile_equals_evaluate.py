"""Compiled modules give what the evaluator gives: every opcode alone, and random graphs through the whole pipeline.

All seeds are fixed. The default run is a sample; `-m slow` does many more of the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tests.support.verified_passes  # noqa: F401
import xjit
from tests.support.hlo_cases import Case, difference, graph, leaves, magnitudes, single_instruction
from tests.support.hlo_rules import RULES
from xjit.compile_options import CompileOptions
from xjit.runtime import thread_pool

OPTIONS = {
    "host": CompileOptions(),
    "no-fusion": CompileOptions(fusion=False),
    "avx2": CompileOptions(cpu_level="avx2"),
    "sse4.2": CompileOptions(cpu_level="sse4.2"),
    "sse2": CompileOptions(cpu_level="sse2"),
    "short": CompileOptions(unoptimized_us=1e9),
}
LEVELS = list(OPTIONS)
FEW_SINGLES, MANY_SINGLES = 4, 200
FEW_GRAPHS, MANY_GRAPHS = 8, 400


def check(case: Case, option: str) -> None:
    """Compiles and evaluates a case and compares all results."""
    expected = leaves(xjit.evaluate(case.text, *case.inputs))
    actual = leaves(xjit.compile(case.text, options=OPTIONS[option])(*case.inputs))
    results = zip(actual, expected, case.exact, magnitudes(case), strict=True)
    for number, (a, e, exact, magnitude) in enumerate(results):
        found = difference(a, e, exact, magnitude)
        assert not found, f"{option}: result {number}: {found}\n{case.text}"


@pytest.mark.parametrize("opcode", RULES)
def test_single_instruction(opcode: str) -> None:
    for seed in range(FEW_SINGLES):
        check(single_instruction(opcode, seed), LEVELS[seed % len(LEVELS)])
    check(single_instruction(opcode, FEW_SINGLES), "short")


@pytest.mark.slow
@pytest.mark.parametrize("opcode", RULES)
def test_many_single_instructions(opcode: str) -> None:
    for seed in range(FEW_SINGLES, MANY_SINGLES):
        check(single_instruction(opcode, seed), LEVELS[seed % len(LEVELS)])


@pytest.mark.parametrize("option", OPTIONS)
def test_graphs(option: str) -> None:
    first = LEVELS.index(option) * 1000
    for seed in range(first, first + FEW_GRAPHS):
        check(graph(seed), option)


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_many_graphs(option: str) -> None:
    first = LEVELS.index(option) * 1000
    for seed in range(first + FEW_GRAPHS, first + MANY_GRAPHS):
        check(graph(seed), option)


@pytest.fixture
def restored_threads() -> Iterator[None]:
    before = thread_pool.num_threads()
    yield
    thread_pool.set_num_threads(before)


@pytest.mark.usefixtures("restored_threads")
def test_results_do_not_depend_on_the_number_of_threads() -> None:
    for seed in range(5000, 5006):
        case = graph(seed)
        executable = xjit.compile(case.text)
        bits: list[list[bytes]] = []
        for count in (1, 2, 3):
            thread_pool.set_num_threads(count)
            bits.append([x.tobytes() for x in leaves(executable(*case.inputs))])
        assert bits[0] == bits[1] == bits[2], case.text
