"""Programs of JAX's public API give on xjit's backend what they give on XLA:CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PARTS = 8
GPU_PARTS = 80


def check(script: str, parts: int, part: int, least: int, *backend: str) -> None:
    """Runs a part of a script's programs in a process of its own."""
    command = [sys.executable, "-W", "ignore", str(HERE / script), str(parts), str(part), *backend]
    result = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent.parent)
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["count"] >= least
    assert report["wrong"] == {}, "\n".join(f"{name}: {text}" for name, text in report["wrong"].items())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", [pytest.param(i, marks=[pytest.mark.slow] if i else []) for i in range(PARTS)])
def test_programs_agree_with_xla(part: int) -> None:
    check("run_programs.py", PARTS, part, 60)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_programs_on_four_devices_agree_with_xla(part: int) -> None:
    check("sharded_programs.py", 2, part, 8)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", [pytest.param(i, marks=[pytest.mark.slow] if i else []) for i in range(GPU_PARTS)])
def test_programs_on_a_simulated_gpu_agree_with_xla(part: int) -> None:
    check("run_programs.py", GPU_PARTS, part, 5, "xjit_cuda_sim")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(2))
def test_programs_on_four_simulated_gpus_agree_with_xla(part: int) -> None:
    check("sharded_programs.py", 2, part, 8, "xjit_cuda_sim")


def test_there_are_400_programs() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import programs; print(len(programs.all_programs()))"
    result = subprocess.run([sys.executable, "-c", code, str(HERE)], capture_output=True, text=True, check=True)
    assert int(result.stdout) >= 400
