"""Compile and run an HLO file, and compare the result with a reference."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from xjit.api import evaluate, load
from xjit.compile_options import CompileOptions
from xjit.compiler import Executable, compile_module
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.runtime.thread_pool import set_num_threads
from xjit.targets import TARGETS, split_gpu_target
from xjit.tools.inputs import call_again, make_inputs
from xjit.tools.leaf_comparison import compare_leaf, leaves_of, summary
from xjit.tools.options import add_inputs, add_tolerance, at_least

if TYPE_CHECKING:
    from xjit.gpu_compiler import GpuExecutable

REFERENCES = ("evaluator", "jax", "none")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `xjit run`."""
    parser.add_argument(
        "file", metavar="FILE", help="HLO text or proto, StableHLO, a file of jax.export, or - for standard input"
    )
    parser.add_argument(
        "--target",
        default="cpu",
        type=_target,
        metavar="TARGET",
        help="cpu, cuda (a GPU), cuda-sim (its simulation), with an architecture or without (cuda:sm_90), or evaluator",
    )
    parser.add_argument("--sanitize", action="store_true", help="cuda-sim: check every access of every kernel")
    parser.add_argument("--reference", default="evaluator", choices=REFERENCES)
    add_inputs(parser)
    parser.add_argument("--num-repeats", type=at_least(1), default=5, metavar="N")
    parser.add_argument(
        "--num-threads", type=at_least(1), metavar="N", help="of this run (default: the CPUs it may use)"
    )
    add_tolerance(parser)
    parser.add_argument("--profile", action="store_true", help="list every kernel call with its share of the time")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _target(text: str) -> str:
    """Checks a target."""
    if text not in ("cpu", "evaluator") and split_gpu_target(text) is None:
        known = ", ".join((*TARGETS, "evaluator"))
        raise argparse.ArgumentTypeError(f"invalid choice: '{text}' (choose from {known})")
    return text


def main(options: argparse.Namespace) -> int:
    """Runs the file; returns 1 if the result does not match the reference."""
    if options.num_threads is not None:
        set_num_threads(options.num_threads)
    module = load(options.file)
    inputs = make_inputs(module, options.input, options.seed)
    report: dict[str, Any] = {"module": module.name, "instructions": module.instruction_count}
    if options.target == "evaluator":
        outputs, executable = _timed(lambda: evaluate(module, *inputs), 1, report), None
    else:
        executable = _compile(module, options, report)
        outputs = _timed(lambda: call_again(executable, inputs), options.num_repeats, report)
    report["outputs"] = [summary(leaf) for leaf in leaves_of(outputs)]
    ok = _compare(module, inputs, outputs, options, report)
    if executable is not None:
        kinds = Counter(k.kind for k in executable.kernels)
        report["kernels"] = {"calls": len(executable.kernels), "kinds": dict(kinds.most_common())}
        if options.profile:
            if not isinstance(executable, Executable):
                raise InvalidArgument(f"--profile: target '{options.target}' counts no cycles")
            report["kernel_calls"] = _profile(executable, options.num_repeats)
    if options.json:
        print(json.dumps(report))
    else:
        _print(report)
    return 0 if ok else 1


def _profile(executable: Executable, repeats: int) -> list[dict[str, Any]]:
    """What each kernel call has cost, the dearest first: cycles of the time-stamp counter per execution, on average."""
    calls = [
        {"name": k.name, "kind": k.kind, "instruction": k.instruction, "source": source, "cycles": cycles // repeats}
        for k, source, cycles in zip(
            executable.kernels, executable.kernel_sources, executable.profile_cycles(), strict=True
        )
    ]
    return sorted(calls, key=lambda call: -call["cycles"])


def _compile(module: HloModule, options: argparse.Namespace, report: dict[str, Any]) -> Executable | GpuExecutable:
    console = Console(stderr=True)
    start = time.perf_counter()
    with console.status("compiling") as status:  # silent unless standard error is a terminal
        compile_options = CompileOptions(
            profile=options.profile,
            sanitize=options.sanitize,
            progress=lambda phase: status.update(f"compiling: {phase}"),
        )
        executable = compile_module(module, options.target, compile_options, is_private=True)
    report["compile_s"] = round(time.perf_counter() - start, 4)
    report["compile_phases_s"] = {k: round(v, 4) for k, v in executable.compile_seconds.items()}
    return executable


def _timed(function: Any, repeats: int, report: dict[str, Any]) -> Any:
    times: list[float] = []
    result: Any = None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    report["run_ms"] = {"median": round(statistics.median(times) * 1e3, 4), "best": round(min(times) * 1e3, 4)}
    return result


def _compare(
    module: HloModule, inputs: list[Any], outputs: Any, options: argparse.Namespace, report: dict[str, Any]
) -> bool:
    reference = options.reference
    if reference == "none":
        return True
    start = time.perf_counter()
    expected = evaluate(module, *inputs) if reference == "evaluator" else _run_with_jax(module, inputs)
    seconds = time.perf_counter() - start
    pairs = zip(leaves_of(outputs), leaves_of(expected), strict=True)
    comparisons = [compare_leaf(a, b, options.tolerance) for a, b in pairs]
    ok = all(c.ok for c in comparisons)
    worst = max((c.error for c in comparisons), default=0.0)
    report["reference"] = {"name": reference, "ok": ok, "worst_error": worst, "seconds": round(seconds, 3)}
    return ok


def _run_with_jax(module: HloModule, inputs: list[Any]) -> Any:
    from xjit.tools.jax_reference import run_with_jax  # needs the extra [jax]

    return run_with_jax(str(module), inputs)


def _print(report: dict[str, Any]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    console.print(f"module {report['module']}: {report['instructions']} instructions")
    for number, facts in enumerate(report["outputs"][:8]):
        statistics_text = "  ".join(f"{k} {v:.6g}" for k, v in facts.items() if k != "shape")
        console.print(f"output {number}: {facts['shape']}  {statistics_text}", markup=False)
    if len(report["outputs"]) > 8:
        console.print(f"... and {len(report['outputs']) - 8} more outputs")
    if "reference" in report:
        r = report["reference"]
        verdict = "match" if r["ok"] else "MISMATCH"
        console.print(f"{r['name']}: {verdict}, worst relative error {r['worst_error']:.2e} ({r['seconds']} s)")
    if "compile_s" in report:
        console.print(f"compiled in {report['compile_s'] * 1e3:.0f} ms")
    console.print(f"run: median {report['run_ms']['median']} ms, best {report['run_ms']['best']} ms")
    if "kernels" in report:
        table = Table("kernel kind", "calls")
        for kind, calls in report["kernels"]["kinds"].items():
            table.add_row(kind, str(calls))
        console.print(table)
    if calls := report.get("kernel_calls"):
        _print_profile(console, calls)


def _print_profile(console: Console, calls: list[dict[str, Any]]) -> None:
    """Prints the kernel calls and the total of each kind, the dearest first."""
    total = sum(call["cycles"] for call in calls) or 1
    kinds = Counter[str]()
    rows = Table("TSC cycles per run", "share", title="kernel calls")
    for title in ("kernel", "kind", "instruction", "source"):
        rows.add_column(title, overflow="fold")
    for call in calls:
        kinds[call["kind"]] += call["cycles"]
        share = f"{100 * call['cycles'] / total:.1f} %"
        rows.add_row(f"{call['cycles']:,}", share, call["name"], call["kind"], call["instruction"], call["source"])
    totals = Table("TSC cycles per run", "share", "kind", title="by kind")
    for kind, cycles in kinds.most_common():
        totals.add_row(f"{cycles:,}", f"{100 * cycles / total:.1f} %", kind)
    console.print(rows)
    console.print(totals)
