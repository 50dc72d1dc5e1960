"""`xjit.compare`: targets side by side, what is missing, and the reports."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import xjit
from tests.support.fake_cuda import FakeDriver
from tests.test_cuda_target import SOFTMAX
from xjit.comparison import timing
from xjit.comparison.ceilings import Ceilings
from xjit.comparison.comparison import Comparison
from xjit.runtime.cuda import bindings_driver
from xjit.tools.main import BAD_INPUT, main

ALIASED = """HloModule grow, input_output_alias={ {}: (0, {1}, must-alias) }
ENTRY e { p = (f32[2], f32[100]) parameter(0)
 x = f32[100] get-tuple-element(p), index=1
 ROOT r = f32[100] add(x, x) }"""


@pytest.fixture(scope="module")
def found() -> Comparison:
    return xjit.compare(SOFTMAX, ["cpu", "cuda-sim", "jax-cpu", "jax-cuda"], seconds=0.02, scale=1e-3)


def test_targets_agree(found: Comparison) -> None:
    assert found.ok and found.reference == "cpu" and [r.target for r in found.results] == ["cpu", "cuda-sim", "jax-cpu"]
    assert found.bytes_accessed == 2 * 5 * 100 * 4 and found.flops > 3 * 500
    assert all(a.max_ulps < 1000 for r in found.results for a in r.agreement)


def test_the_simulator_is_never_timed(found: Comparison) -> None:
    simulated = found.result("cuda-sim")
    assert simulated.times is None and simulated.kernels == ()
    for target in ("cpu", "jax-cpu"):
        times = found.result(target).times
        assert times is not None and 0 < times.best <= times.median and times.rounds >= timing.MIN_ROUNDS


def test_kernels_take_the_time_of_a_call(found: Comparison) -> None:
    cpu = found.result("cpu")
    assert cpu.times is not None and cpu.kernels
    assert sum(k.seconds for k in cpu.kernels) == pytest.approx(cpu.times.median)


def test_ceilings_are_measured(found: Comparison) -> None:
    (ceilings,) = found.ceilings
    assert ceilings.device == "cpu" and ceilings.bytes_per_second > 1e6 and ceilings.flops_per_second > 1e6
    assert len(ceilings.remarks) == 2


def test_what_is_missing_is_a_line(found: Comparison) -> None:
    ((target, reason),) = found.missing
    assert target == "jax-cuda" and "cuda" in reason
    with pytest.raises(xjit.FailedPrecondition, match="target 'jax-cuda' did not run"):
        found.result("jax-cuda")
    assert "jax-cuda: not here: " in found.to_text()


def test_json_and_csv_have_the_same_numbers(found: Comparison) -> None:
    record = json.loads(found.to_json())
    assert [t["target"] for t in record["targets"]] == ["cpu", "cuda-sim", "jax-cpu"]
    assert record["targets"][1]["median_seconds"] is None and record["missing"].keys() == {"jax-cuda"}
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert len(rows) == 3 + len(found.result("cpu").kernels)
    assert float(rows[0]["median_seconds"]) == record["targets"][0]["median_seconds"]


def test_the_page_needs_nothing_else(found: Comparison) -> None:
    page = found.to_html()
    assert page.count("<svg") == page.count("</svg>") == 2 and "jax-cuda" in page
    assert "<script" not in page and "href" not in page and "src=" not in page and "@import" not in page
    assert page.count("http") == page.count('xmlns="http://www.w3.org/2000/svg"')


def test_names_are_text_on_the_page() -> None:
    found = xjit.compare(SOFTMAX, ["cpu"], seconds=0.01, ceilings=False)
    hostile = Comparison("<b>&", "x<y", 1.0, 1, found.results, (("cuda", "<i>"),), ())
    page = hostile.to_html()
    assert "<b>&" not in page and "<i>" not in page and "&lt;i&gt;" in page


def test_shares_of_ceilings() -> None:
    """1: as fast as the slower of the two rates allows."""
    ceilings = Ceilings("cpu", 1e9, 1e10, ())
    found = Comparison("m", "cpu", 0.0, 0, (), (), (ceilings,))
    assert found.share_of_ceiling("cpu", 0, 1e9, 2.0) == 0.5
    assert found.share_of_ceiling("cpu", 1e10, 1e8, 1.0) == 1.0
    assert found.share_of_ceiling("cuda", 1e10, 1e8, 1.0) is None


def test_the_evaluator_as_reference_and_given_inputs() -> None:
    x = np.random.default_rng(3).random((5, 100), np.float32)
    found = xjit.compare(SOFTMAX, ["cpu"], [x], reference="evaluator", seconds=0.01, ceilings=False)
    assert found.reference == "evaluator" and found.ok and found.ceilings == ()
    assert 0 < found.results[0].agreement[0].max_ulps < 1000


def test_parameters_that_must_be_donated() -> None:
    """Each call gets a copy; the inputs stay what they are."""
    x = np.ones(100, np.float32)
    given = [(np.ones(2, np.float32), x)]
    found = xjit.compare(ALIASED, ["cpu", "cuda-sim"], given, reference="evaluator", seconds=0.01, ceilings=False)
    assert found.ok and not found.missing and (x == 1).all()
    assert all(result.agreement[0].equal == 1.0 for result in found.results)


def test_wrong_arguments() -> None:
    with pytest.raises(xjit.InvalidArgument, match="unknown target 'tpu': expected some of cpu, cuda"):
        xjit.compare(SOFTMAX, ["cpu", "tpu"])
    with pytest.raises(xjit.InvalidArgument, match="unknown reference 'numpy'"):
        xjit.compare(SOFTMAX, ["cpu"], reference="numpy")
    with pytest.raises(xjit.FailedPrecondition, match="the reference 'jax-cuda' did not run: "):
        xjit.compare(SOFTMAX, ["cpu", "jax-cuda"], reference="jax-cuda", seconds=0.01, ceilings=False)


def test_on_a_driver_that_simulates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of target "cuda": inputs lie on the device, kernels are timed by its events."""
    driver = FakeDriver(xjit.compile(SOFTMAX, "cuda-sim:sm_90").program.program.kernels)  # type: ignore[union-attr]
    monkeypatch.setattr("xjit.gpu_compiler.cuda_driver", lambda device=0: driver)
    found = xjit.compare(SOFTMAX, ["cpu", "cuda"], seconds=0.01, ceilings=False)
    cuda = found.result("cuda")
    assert found.ok and cuda.times is not None and [k.seconds for k in cuda.kernels] == [1e-6] * len(cuda.kernels)
    assert cuda.kernels and "kernels of cuda" in found.to_text()
    uploads = [entry for entry in driver.log if entry[0] == "to_device" and entry[1] == 2000]
    assert len(uploads) == 1, "inputs are brought there once"
    assert not driver.events or len(driver.events) < 5, "events are given back"


def test_times_are_taken_in_turns() -> None:
    order: list[str] = []
    functions = [lambda: order.append("a"), lambda: order.append("b")]
    found = timing.alternate(functions, 1e-9)
    assert len(found) == 2 and all(t.rounds == timing.MIN_ROUNDS for t in found)
    turns = "".join(order[4:])
    assert "a" in turns.lstrip("a").lstrip("b"), "b's rounds lie between a's"
    assert timing.alternate([], 1.0) == []


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings_driver, "_LIBRARY", "libthere-is-none.so")
    bindings_driver.cuda_driver.cache_clear()
    path, page, table = tmp_path / "m.hlo", tmp_path / "m.html", tmp_path / "m.csv"
    path.write_text(SOFTMAX)
    arguments = ["compare", str(path), "--targets", "cpu,cuda", "--seconds", "0.01", "--no-ceilings"]
    assert main([*arguments, "--html", str(page), "--csv", str(table)]) == 0
    shown = capsys.readouterr().out
    assert "module softmax" in shown and "cuda: not here: target 'cuda' needs" in shown
    assert page.read_text().startswith("<!doctype html>") and table.read_text().startswith("target,kernel")
    assert main([*arguments, "--json", str(tmp_path / "no" / "m.json")]) == BAD_INPUT
    assert main(["compare", str(path), "--targets", "tpu"]) == BAD_INPUT
    assert main(["compare", str(path), "--seconds", "0"]) == BAD_INPUT
