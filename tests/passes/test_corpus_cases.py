"""Self-checking programs through the whole pipeline, executed on the memory that buffer assignment planned."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import corpus
from tests.support.passes import BufferMachine, leaves
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes import PassDriver, cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.passes.schedule_and_memory.buffer_verifier import verify_buffer_assignment
from xjit.text.parser import parse_hlo

CASES = corpus.stablehlo_case_names()


def check_case(name: str) -> None:
    """Compares the evaluator before the pipeline with an execution on planned memory after it."""
    case = corpus.load_stablehlo_case(name)
    expected = leaves(evaluate(parse_hlo(case.hlo_text), *case.inputs))
    module = parse_hlo(case.hlo_text)
    PassDriver(check_changed_bit=True).run(cpu_pipeline(), module)
    verify_module(module)
    assignment = assign_buffers(module)
    verify_buffer_assignment(assignment)
    got = BufferMachine(assignment, case.inputs).run()
    for x, y in zip(got, expected, strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        same = (x == y) | ((x != x) & (y != y))
        close = np.isclose(x.astype(np.complex128), y.astype(np.complex128), rtol=1e-4, atol=1e-5)
        assert bool(np.all(same | close))


@pytest.mark.corpus
@pytest.mark.parametrize("name", CASES[::40])
def test_sampled_cases(name: str) -> None:
    check_case(name)


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_cases(name: str) -> None:
    check_case(name)
