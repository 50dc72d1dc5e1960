"""`xjit bench`: rows, ceilings of a working set, reports, history, and what is said without XLA."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import xjit
from xjit.comparison import bench as bench_module
from xjit.comparison import ceilings
from xjit.comparison.bench import Bench, bench
from xjit.comparison.bench_history import bench_record, past_run, read_history
from xjit.comparison.bench_report import bench_html, bench_text
from xjit.comparison.plots import Line, line_chart
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.tools.main import BAD_INPUT, main

TEXT = """HloModule small
ENTRY e {
  x = f32[64,32] parameter(0)
  ROOT r = f32[64,32] multiply(x, x)
}"""
SCALE = 1e-6


@pytest.fixture(scope="module")
def run() -> Bench:
    other = xjit.parse_hlo(TEXT.replace("multiply(x, x)", "tanh(x)").replace("small", "second"))
    return bench([xjit.parse_hlo(TEXT), other], seconds=0.02, scale=SCALE)


def test_rows(run: Bench) -> None:
    first, second = run.rows
    assert (first.name, second.name) == ("small", "second")
    assert first.bytes_accessed == 2 * 64 * 32 * 4
    assert first.flops == 64 * 32
    assert first.ok and first.other is not None and first.ratio is not None
    assert first.ratio == first.other.times.median / first.ours.times.median
    assert first.bytes_per_second * first.ours.times.median == pytest.approx(first.bytes_accessed)
    assert first.ours.compile_seconds > 0
    assert first.share_of_ceiling > 0
    assert first.ceilings is second.ceilings  # one size, one measurement
    assert run.mean_ratio == pytest.approx(math.sqrt(first.ratio * (second.ratio or 0)))


def test_streams_have_the_size_of_the_working_set() -> None:
    copy, total, multiply = ceilings._programs("cpu", SCALE, 1 << 16)
    assert "f32[8192]" in copy.text and copy.moved == 1 << 16
    assert "f32[16384]" in total.text and total.moved == 1 << 16
    assert multiply.flops == 2 * 64**3
    assert "f32[16384]" not in ceilings._programs("cpu", SCALE, None)[1].text


def test_reports(run: Bench) -> None:
    text = bench_text(run)
    assert "small" in text and "as fast as XLA:CPU" in text and text.count("agree") == 2
    page = bench_html(run)
    assert "small" in page
    assert "History" not in page
    assert page.count("<svg") == 4
    record = json.loads(json.dumps(bench_record(run), allow_nan=False))
    assert [row["module"] for row in record["rows"]] == ["small", "second"]
    assert record["rows"][0]["xla"]["compile_seconds"] > 0


def test_without_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    real = bench_module.make_runner

    def make(target: str, *arguments: object) -> object:
        if target == "jax-cpu":
            raise FailedPrecondition("XLA needs the extra")
        return real(target, *arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(bench_module, "make_runner", make)
    found = bench([xjit.parse_hlo(TEXT)], seconds=0.01, scale=SCALE)
    assert found.ok and found.rows[0].other is None and found.rows[0].ratio is None and found.mean_ratio is None
    assert "XLA:CPU did not run: XLA needs the extra" in bench_text(found)
    assert "not compared" in bench_html(found)
    assert bench_record(found)["rows"][0]["xla"] is None
    assert past_run(found).ratios == {}


def test_lines_over_time() -> None:
    assert line_chart([]) == ""
    chart = line_chart([Line("a<b", [(0.0, 2.0), (10.0, 1.0), (20.0, 4.0)], "#000"), Line("c", [(5.0, 3.0)], "#111")])
    assert chart.count("<polyline") == 2 and chart.count("<circle") == 4
    assert "a&lt;b" in chart and "2.00×" in chart


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench_module, "CEILING_SECONDS", 0.01)
    monkeypatch.setitem(ceilings.MATRIX_SIZE, "cpu", 64)
    file, page, history = tmp_path / "m.hlo", tmp_path / "m.html", tmp_path / "runs.jsonl"
    file.write_text(TEXT)
    command = ["bench", str(file), "--seconds", "0.01", "--html", str(page), "--history", str(history)]
    assert main([*command, "--json", str(tmp_path / "m.json")]) == 0
    assert "History" not in page.read_text()
    assert main(command) == 0
    assert "2 runs" in page.read_text()
    assert [sorted(past.seconds) for past in read_history(str(history))] == [["small"]] * 2
    assert json.loads((tmp_path / "m.json").read_text())["rows"][0]["ok"] is True
    assert "small" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": 1}', '{"when": 1, "machine": "m", "rows": [{}]}'])
def test_other_files_are_no_history(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match="is no history of xjit bench"):
        read_history(str(path))
    assert read_history(str(tmp_path / "none")) == []
    assert main(["bench", "none.hlo", "--seconds", "0"]) == BAD_INPUT
    assert main(["bench", "none.hlo", "--history", str(tmp_path)]) == BAD_INPUT
    capsys.readouterr()
