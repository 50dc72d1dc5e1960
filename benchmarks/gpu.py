"""Kernels and models on a GPU: beside the device's copy rate, cublasLt, and XLA:GPU where jax has CUDA.

    python benchmarks/gpu.py --json gpu.json            # about eight minutes on a GPU
    python benchmarks/gpu.py --dry-run --json dry.json  # without one: tiny sizes, values only, on the simulator

Targets take turns on arrays that lie on the device. In whole models XLA multiplies f32 as tf32, xjit does not.
A case that fails is a line with the error; those for which no time is left are named at the end. Models come from the
corpus (`--corpus`) and the example in this repository.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import cublaslt
import numpy as np
from gpu_cases import TF32_TOLERANCE, Case, cases

import xjit
from xjit.comparison.agreement import OutputAgreement, agreement
from xjit.comparison.runners import Runner, make_runner, own_kernels
from xjit.comparison.timing import alternate
from xjit.hlo.diagnostics import FailedPrecondition, HloError
from xjit.hlo.ir.module import HloModule
from xjit.runtime.cuda import CudaDriver, cuda_driver
from xjit.text.parser import parse_hlo
from xjit.tools.inputs import make_inputs

EXAMPLE = Path(__file__).parents[1] / "examples" / "vision_transformer.hlo"
MODELS = ("vit/inference/1gpu", "dit/inference/1gpu", "resnet50/inference/1gpu", "llama3_8b/inference/1gpu")
TARGETS = ("cuda", "jax-cuda")
COPY_BYTES = 1 << 30
SHOWN_KERNELS = 12


def main() -> None:
    """Measures everything that there is time for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the simulator: values only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE")
    parser.add_argument("--seconds", type=float, default=480.0, help="to spend in all (default: 480)")
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose name contains it")
    parser.add_argument("--corpus", type=Path, default=corpus.DEFAULT, help=f"of models (default: {corpus.DEFAULT})")
    options = parser.parse_args()
    start = time.perf_counter()
    report: dict[str, Any] = {"xjit": xjit.__version__, "dry_run": options.dry_run, "cases": [], "left_out": []}
    driver = None if options.dry_run else _driver()
    if driver is not None:
        report |= {"architecture": driver.architecture, "copy_bytes_per_second": copy_rate(driver)}
        print(
            f"{driver.architecture}: device to device copies {report['copy_bytes_per_second'] / 1e9:.0f} GB/s",
            flush=True,
        )
    work = [(name, make) for name, make in _work(options) if options.only in name]
    for number, (name, make) in enumerate(work):
        left = options.seconds - (time.perf_counter() - start)
        if left <= 0:
            report["left_out"] = [name for name, _ in work[number:]]
            break
        row = {"name": name} | _attempt(make, left / (len(work) - number), report)
        report["cases"].append(row)
        print(_line(row), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(report, indent=1) + "\n")
    if report["left_out"]:
        print(f"no time left for: {', '.join(report['left_out'])}")
    failed = [row["name"] for row in report["cases"] if not row.get("ok", True)]
    print(
        f"{len(report['cases'])} cases in {time.perf_counter() - start:.0f} s, {len(failed)} wrong or failed: {failed}"
    )
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if failed else 0)


Measure = Callable[[float, dict[str, Any]], dict[str, Any]]
"""What measures a case, given its seconds and the report so far."""


def _work(options: argparse.Namespace) -> list[tuple[str, Measure]]:
    """All cases by name: kernels first, then models."""
    dry = options.dry_run
    found: list[tuple[str, Measure]] = []
    for case in cases(tiny=dry):
        found.append((case.name, lambda s, r, case=case: dry_kernel(case) if dry else measure_kernel(case, s, r)))
    found.append(
        (
            "vision transformer example",
            lambda s, r: _dry(_example()) if dry else measure(_example(), None, s, TF32_TOLERANCE),
        )
    )
    if not dry and (options.corpus / "run_models.py").is_file():
        models = corpus.open_corpus(options.corpus)
        for rel in corpus.choose(models, list(MODELS)):
            found.append((rel, lambda s, r, rel=rel: measure(*_model(models, rel), s, TF32_TOLERANCE)))
    return found


def _example() -> HloModule:
    return xjit.load_module(EXAMPLE)


def _model(models: Any, rel: str) -> tuple[HloModule, list[Any]]:
    text, inputs = models.load(rel)
    return parse_hlo(text), inputs


def _attempt(measured: Measure, seconds: float, report: dict[str, Any]) -> dict[str, Any]:
    try:
        return measured(seconds, report)
    except (HloError, MemoryError) as error:
        return {"ok": False, "error": str(error).splitlines()[0]}


def _driver() -> CudaDriver:
    try:
        return cuda_driver()
    except FailedPrecondition as error:
        sys.exit(f"{error}\nWithout a GPU, --dry-run checks the cases on the simulator.")


def copy_rate(driver: CudaDriver) -> float:
    """Returns the best rate of large copies from device to device, counting what is read and what is written."""
    stream = driver.create_stream()
    copy = driver.copy_on_device
    first, second = driver.allocate(COPY_BYTES, stream), driver.allocate(COPY_BYTES, stream)
    best = 0.0
    for _ in range(10):
        before = driver.record_time(stream)
        copy(second, first, COPY_BYTES, stream)
        after = driver.record_time(stream)
        driver.synchronize(stream)
        best = max(best, 2 * COPY_BYTES / driver.seconds_between(before, after))
        driver.destroy_event(before)
        driver.destroy_event(after)
    driver.free(first, stream)
    driver.free(second, stream)
    return best


def measure_kernel(case: Case, seconds: float, report: dict[str, Any]) -> dict[str, Any]:
    """Measures a program of one kind, against the copy rate and, for matrix products, cublasLt."""
    row = measure(parse_hlo(case.text), None, seconds, case.tolerance)
    whole = row["targets"]["cuda"]["median_seconds"]
    own = min(whole, sum(kernel["seconds"] for kernel in row["kernels"]) or whole)
    row |= {"bytes": case.moved, "flops": case.flops, "bytes_per_second": case.moved / own}
    row |= {
        "flops_per_second": case.flops / own,
        "share_of_copy_rate": case.moved / own / report["copy_bytes_per_second"],
    }
    if case.library is not None:
        try:
            row["cublaslt_seconds"] = cublaslt.seconds_of(*case.library, cuda_driver())
        except HloError as error:
            row["cublaslt"] = error.message
    return row


def measure(
    module: HloModule, inputs: list[Any] | None, seconds: float, tolerance: float | None = None
) -> dict[str, Any]:
    """Times a module on the targets that are here, in turns, and compares their values."""
    given = make_inputs(module, []) if inputs is None else inputs
    runners: list[Runner] = []
    row: dict[str, Any] = {"ok": True, "targets": {}, "kernels": []}
    for target in TARGETS:
        try:
            is_own = target == "cuda"  # products by kernels: cublasLt is measured beside them
            runners.append(own_kernels(module, given) if is_own else make_runner(target, module, given))
        except HloError as error:
            if target == "cuda":
                raise
            row["targets"][target] = {"error": str(error).splitlines()[0]}
    outputs = [[np.asarray(leaf) for leaf in runner.outputs()] for runner in runners]
    for runner, found in zip(runners[1:], outputs[1:], strict=True):
        agrees = agreement(outputs[0], found)
        row["ok"] &= all(_is_near(output, tolerance) for output in agrees)
        row["error_against_" + runner.target] = max((output.error for output in agrees), default=0.0)
    for runner, times in zip(runners, alternate([runner.call for runner in runners], seconds / 3), strict=True):
        row["targets"][runner.target] = {"median_seconds": times.median, "best_seconds": times.best}
    kernels = sorted(runners[0].kernel_times(0.0), key=lambda k: -k.seconds)
    row["kernels"] = [
        {
            "instruction": k.instruction,
            "kind": k.kind,
            "seconds": k.seconds,
            "bytes": k.bytes_accessed,
            "flops": k.flops,
        }
        for k in kernels[:SHOWN_KERNELS]
    ]
    return row


def dry_kernel(case: Case) -> dict[str, Any]:
    """Runs a tiny program on the simulator and compares it with the CPU."""
    return _dry(parse_hlo(case.text), case.tolerance) | {"bytes": case.moved, "flops": case.flops}


def _is_near(output: OutputAgreement, tolerance: float | None) -> bool:
    return output.ok or (tolerance is not None and output.error <= tolerance)


def _dry(module: HloModule, tolerance: float | None = None) -> dict[str, Any]:
    inputs = make_inputs(module, [])
    simulated, expected = (make_runner(target, module, inputs).outputs() for target in ("cuda-sim", "cpu"))
    agrees = agreement(simulated, expected)
    error = max((output.error for output in agrees), default=0.0)
    return {"ok": all(_is_near(output, tolerance) for output in agrees), "max_error": error}


def _line(row: dict[str, Any]) -> str:
    name = f"{row['name'][:44]:44}"
    if "error" in row:
        return f"{name} failed: {row['error']}"
    if "targets" not in row:
        return f"{name} {'ok' if row['ok'] else 'WRONG'}, relative error {row['max_error']:.1e}"
    cells = []
    for target, found in row["targets"].items():
        seconds = found.get("median_seconds")
        cells.append(f"{target} " + (f"{1e3 * seconds:.4g} ms" if seconds else found["error"]))
    if row.get("share_of_copy_rate"):
        cells.append(f"{100 * row['share_of_copy_rate']:.0f} % of the copy rate")
    if row.get("flops"):
        cells.append(f"{row['flops_per_second'] / 1e12:.1f} TFLOP/s")
    if row.get("cublaslt_seconds"):
        cells.append(f"cublasLt {1e3 * row['cublaslt_seconds']:.4g} ms")
    return f"{name} {'' if row['ok'] else 'WRONG '}{', '.join(cells)}"


if __name__ == "__main__":
    main()
