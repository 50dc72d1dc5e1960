"""The maps of every instruction of the corpus's largest module: under a minute together, none over half a second."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "indexing.py"


@pytest.mark.slow
@pytest.mark.corpus
def test_largest_module() -> None:
    spec = importlib.util.spec_from_file_location("indexing_benchmark", BENCHMARK)
    assert spec and spec.loader
    benchmark = importlib.util.module_from_spec(spec)
    sys.modules["indexing_benchmark"] = benchmark
    spec.loader.exec_module(benchmark)
    path = benchmark.largest()
    if path is None:
        pytest.skip("the corpus is not there")
    timings = benchmark.measure(path)
    print(benchmark.report(timings))
    assert sum(t.seconds for t in timings) < 60
    assert max(t.slowest for t in timings) < 0.5
