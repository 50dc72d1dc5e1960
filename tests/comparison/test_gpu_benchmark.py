"""`benchmarks/gpu.py` without a GPU: its programs are valid, a dry run is right, and measuring runs on a driver of ours."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

import xjit
from tests.support.fake_cuda import FakeDriver
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("gpu")


@pytest.mark.parametrize("tiny", [False, True])
def test_programs_are_valid(gpu: ModuleType, tiny: bool) -> None:
    found = importlib.import_module("gpu_cases").cases(tiny)
    assert len({case.name for case in found}) == len(found) == 15
    for case in found:
        module = parse_hlo(case.text)
        verify_module(module)
        entry = module.entry_computation
        shapes = [*(p.shape for p in entry.parameter_instructions), entry.root_instruction.shape]
        if case.name not in ("gather", "scatter"):  # which do not touch all of their operands
            assert case.moved == sum(s.byte_size for s in shapes), case.name


def test_a_dry_run(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "dry.json"
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--dry-run", "--only", "reduction", "--json", str(path)])
    with pytest.raises(SystemExit) as stop:
        gpu.main()
    assert stop.value.code == 0
    record = json.loads(path.read_text())
    assert [row["name"] for row in record["cases"]] == ["row reduction", "column reduction"]
    assert all(row["ok"] for row in record["cases"]) and record["left_out"] == []


def test_without_a_gpu(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise xjit.FailedPrecondition("there is no GPU")

    monkeypatch.setattr(gpu, "cuda_driver", missing)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(SystemExit, match="--dry-run checks the cases on the simulator"):
        gpu.main()


def test_measuring(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that a GPU takes: times mean nothing here, but every number that is reported is there."""
    (case,) = (case for case in importlib.import_module("gpu_cases").cases(True) if case.name == "transpose")
    driver = FakeDriver(xjit.compile(case.text, "cuda-sim:sm_90").program.program.kernels)  # type: ignore[union-attr]
    monkeypatch.setattr("xjit.gpu_compiler.cuda_driver", lambda device=0: driver)
    monkeypatch.setattr(gpu, "COPY_BYTES", 1 << 12)
    rate = gpu.copy_rate(driver)
    assert rate == pytest.approx(2 * (1 << 12) / 1e-6)
    row = gpu.measure_kernel(case, 0.03, {"copy_bytes_per_second": rate})
    assert row["ok"] and row["share_of_copy_rate"] == pytest.approx(case.moved / 1e-6 / rate)
    assert row["targets"]["cuda"]["median_seconds"] > 0 and "error" in row["targets"]["jax-cuda"]
    assert gpu._line({"name": "transpose"} | row).startswith("transpose")
    assert driver.live_memory < 8, "memory is given back"
