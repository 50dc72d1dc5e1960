"""`xjit opt`: stages, passes, lists, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import xjit
from xjit.tools.main import BAD_INPUT, main
from xjit.tools.opt import GPU_STAGES, STAGES, STRUCTURED

TEXT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(x)
  ROOT r = f32[4] add(a, b)
}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    return str(path)


def test_lists(capsys: Capture) -> None:
    assert main(["opt", "--list-stages"]) == 0
    assert capsys.readouterr().out.split() == [*STAGES, STRUCTURED]
    assert main(["opt", "--list-passes"]) == 0
    assert capsys.readouterr().out.split() == sorted(xjit.PASSES)


@pytest.mark.parametrize("stage", [s for s in STAGES if s not in GPU_STAGES])
def test_stages(file: str, stage: str, capsys: Capture) -> None:
    assert main(["opt", file, "--stage", stage]) == 0
    assert capsys.readouterr().out.strip() == xjit.compile(file).as_text(stage).strip()


@pytest.mark.parametrize("stage", [s for s in STAGES if s not in ("asm", "sass")])
def test_stages_of_gpus_take_no_gpu(file: str, stage: str, capsys: Capture) -> None:
    assert main(["opt", file, "--stage", stage, "--target", "cuda:sm_80"]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() == xjit.compile(file, "cuda-sim:sm_80").as_text(stage).strip()
    assert (".target sm_80" in shown) == (stage == "ptx")


def test_passes(file: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.hlo"
    assert main(["opt", file, "--passes", "cse, dce", "-o", str(out)]) == 0
    module = xjit.parse_hlo(out.read_text())
    assert module.entry_computation.instruction_count == 3
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--passes", "dcee"], "unknown pass 'dcee'"),
        (["--stage", "bass"], "invalid choice: 'bass'"),
        (["--target", "tpu"], "unknown target 'tpu'"),
        (["-o", "/nonexistent/out.hlo"], "cannot write '/nonexistent/out.hlo'"),
    ],
)
def test_errors(file: str, arguments: list[str], message: str, capsys: Capture) -> None:
    assert main(["opt", file, *arguments]) == BAD_INPUT
    shown = capsys.readouterr().err
    assert message in shown and "Traceback" not in shown


def test_a_file_is_needed(capsys: Capture) -> None:
    assert main(["opt"]) == BAD_INPUT
    assert "needs a FILE" in capsys.readouterr().err
