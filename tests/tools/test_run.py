"""`xjit run`: reports, inputs, exit status, errors without tracebacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xjit.api import evaluate, load_module, to_hlo_proto
from xjit.tools.main import BAD_INPUT, COMPILE_ERROR, MISMATCH, main
from xjit.version import __version__

TEXT = """HloModule scale
ENTRY e {
  x = f32[2,3] parameter(0)
  n = s8[] parameter(1)
  c = f32[] convert(n)
  b = f32[2,3] broadcast(c), dimensions={}
  ROOT r = f32[2,3] multiply(x, b)
}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    return str(path)


def test_report(file: str, capsys: Capture) -> None:
    assert main(["run", file]) == 0
    shown = capsys.readouterr().out
    assert "module scale: 5 instructions" in shown and "evaluator: match" in shown and "loop" in shown


def test_json(file: str, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.full((2, 3), 1.5))  # float64: rounded to the parameter's type
    given = ["--input", f"2x3xf32=@{tmp_path / 'x.npy'}", "--input", "s8=-2"]
    assert main(["run", file, *given, "--json", "--num-repeats", "2", "--profile"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["outputs"] == [{"shape": "f32[2,3]", "min": -3.0, "max": -3.0, "mean": -3.0}]
    assert report["reference"]["ok"] and report["kernels"]["calls"] == len(report["kernel_calls"]) == 1
    assert report["kernel_calls"][0]["kind"] == "loop" and report["kernel_calls"][0]["cycles"] > 0


def test_profile_lists_the_kernel_calls(file: str, capsys: Capture) -> None:
    assert main(["run", file, "--profile", "--reference", "none"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("100.0 %") == 2 and "TSC cycles per run" in shown and "by kind" in shown


def test_targets_and_references(file: str, capsys: Capture) -> None:
    assert main(["run", file, "--target", "evaluator", "--json"]) == 0
    assert "kernels" not in json.loads(capsys.readouterr().out)
    assert main(["run", file, "--reference", "none", "--json"]) == 0
    assert "reference" not in json.loads(capsys.readouterr().out)


def test_simulated_gpus(file: str, capsys: Capture) -> None:
    assert main(["run", file, "--target", "cuda-sim:sm_80", "--sanitize", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"]["calls"] == 1


def test_what_jax_cannot_run(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(
        "HloModule m ENTRY e { x = f32[] parameter(0) t = token[] after-all() ROOT r = (f32[], token[]) tuple(x, t) }"
    )
    assert main(["run", str(path), "--reference", "jax"]) == BAD_INPUT
    assert "XLA cannot run this module" in capsys.readouterr().err


def test_a_mismatch_has_a_status_of_its_own(file: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("xjit.tools.run.evaluate", lambda module, *inputs: np.ones((2, 3), np.float32))
    assert main(["run", file]) == MISMATCH
    assert "MISMATCH" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "2x3xf32"], "expected SHAPExTYPE=VALUE"),
        (["--input", "3x2xf32=1"], "is 3x2xf32, expected 2x3xf32"),
        (["--input", "2x3xf64=1"], "is 2x3xf64, expected 2x3xf32"),
        (["--input", "2x3xf32=[1,2]"], "holds [2], expected [2, 3]"),
        (["--input", "2x3xf32=spam"], "is not a number or a nested list"),
        (["--input", "2x3xf32=1j"], "holds complex128 values that f32 does not represent"),
        (["--input", "2x3xf32=1", "--input", "s8=300"], "holds int64 values that s8 does not represent"),
        (["--input", "2x3xf32=1", "--input", "s8=1.5"], "holds float64 values that s8 does not represent"),
        (["--input", "2x3xf32=@none.npy"], "cannot read input file 'none.npy'"),
        (["--input", "s8=1"] * 3, "3 inputs given, the entry computation takes 2"),
        (["--num-repeats", "0"], "argument --num-repeats: must be at least 1"),
        (["--seed", "-1"], "argument --seed: must be at least 0, got -1"),
        (["--target", "cuda-sim:sm_1"], "unknown GPU 'sm_1'"),
        (["--sanitize"], "target 'cpu' cannot sanitize"),
        (["--num-threads", "0"], "argument --num-threads: must be at least 1"),
        (["--tolerance", "nan"], "argument --tolerance: must be at least 0.0"),
        (["--seed", "x"], "argument --seed: invalid number value: 'x'"),
        (["--target", "tpu"], "invalid choice: 'tpu'"),
    ],
)
def test_errors(file: str, arguments: list[str], message: str, capsys: Capture) -> None:
    assert main(["run", file, *arguments]) == BAD_INPUT
    shown = capsys.readouterr().err
    assert message in shown and "Traceback" not in shown


def test_threads_and_tolerance(file: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    counts: list[int] = []
    monkeypatch.setattr("xjit.tools.run.set_num_threads", counts.append)
    assert main(["run", file, "--num-threads", "1"]) == 0
    assert counts == [1]
    reference = evaluate
    monkeypatch.setattr("xjit.tools.run.evaluate", lambda *a: reference(*a) * np.float32(1.01))
    assert main(["run", file]) == MISMATCH
    assert main(["run", file, "--tolerance", "0.02"]) == 0


def test_standard_input_and_protos(file: str, tmp_path: Path, capsys: Capture) -> None:
    command = [sys.executable, "-m", "xjit", "run", "-", "--json"]
    shown = subprocess.run(command, input=TEXT, capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["reference"]["ok"]
    path = tmp_path / "m.pb"
    path.write_bytes(to_hlo_proto(load_module(file)))
    assert main(["run", str(path)]) == 0
    path.write_bytes(b"no proto")
    assert main(["run", str(path)]) == BAD_INPUT
    assert "Traceback" not in capsys.readouterr().err


def test_stablehlo_runs_whatever_the_name(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.txt"
    path.write_text(
        "module @m {\n  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "    %y = stablehlo.sine %x : tensor<4xf32>\n    return %y : tensor<4xf32>\n  }\n}\n"
    )
    assert main(["run", str(path)]) == 0
    assert main(["opt", str(path), "--stage", "hlo"]) == 0
    assert "sine(" in capsys.readouterr().out
    path.write_text(path.read_text().replace("%y : tensor<4xf32>\n  }", "%z : tensor<4xf32>\n  }"))
    assert main(["run", str(path)]) == BAD_INPUT
    assert f"{path}:4:12: error: not valid StableHLO: use of undeclared SSA value" in capsys.readouterr().err


def test_no_command_shows_help(capsys: Capture) -> None:
    assert main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


def test_files_that_are_no_programs(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.hlo"
    assert main(["run", str(path)]) == BAD_INPUT
    assert "xjit: error: cannot read HLO" in capsys.readouterr().err
    path.write_text(TEXT.replace("multiply", "multiplie"))
    assert main(["run", str(path)]) == BAD_INPUT
    assert f"{path}:7:21: error: unknown opcode 'multiplie' (did you mean 'multiply'?)" in capsys.readouterr().err
    path.write_text(TEXT.replace("multiply(x, b)", 'custom-call(x), custom_call_target="unheard_of"'))
    assert main(["run", str(path)]) == COMPILE_ERROR
    assert "unheard_of" in capsys.readouterr().err


def test_the_command_as_a_module() -> None:
    shown = subprocess.run([sys.executable, "-m", "xjit", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"xjit {__version__}\n"
