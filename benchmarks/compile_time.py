"""How long does compilation take, in which phases, and how does it grow? Real modules, chains of elementwise ops, and
the smallest program of each family of kernels.

Seconds of wall clock, from HLO text to an executable, beside XLA:CPU in the same process. Code of big modules is
generated beside emission, in other threads: "generate code" is how long that takes after emission has ended.

Small programs take milliseconds of CPU time, the least of alternating repetitions: "cold" compiles the libraries that
the program calls, too; "kept" finds them where a program before it, or another process, has left them. With `--cold`,
models are measured like this, too.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from cases import Case
from corpus import add_arguments, choose, open_corpus, short_name
from families import FAMILIES
from reporting import Report, parse_arguments
from side_by_side import geometric_mean
from xla_cpu import XlaExecutable

import xjit
from xjit.hlo.diagnostics import HloError
from xjit.runtime.machine_code.library_cache import forget_libraries

DEFAULT_NAMES = [
    "vit/inference/2gpu",
    "dit/inference",
    "clip/inference",
    "resnet50/inference/2gpu",
    "llama3_8b/inference",
]
PHASES = ("parse", "verify", "optimize", "assign buffers", "emit", "generate code", "load")
CHAIN_LENGTHS = (100, 1000, 10_000)
LONGEST_FOR_XLA = 1000
"""XLA:CPU takes two minutes for 10,000 operations; `--all` waits for it."""


def chain(length: int) -> str:
    """A module of `length` elementwise operations, each of which takes the one before."""
    opcodes = ("add", "multiply", "maximum", "subtract", "minimum")
    lines = ["HloModule chain", "ENTRY main {", "  x0 = f32[64] parameter(0)", "  y = f32[64] parameter(1)"]
    for i in range(1, length + 1):
        root = "ROOT " if i == length else ""
        lines.append(f"  {root}x{i} = f32[64] {opcodes[i % len(opcodes)]}(x{i - 1}, y)")
    return "\n".join((*lines, "}", ""))


def seconds_of(function: Callable[[], Any], repetitions: int) -> tuple[float, Any]:
    """Returns the median time and the last result."""
    times: list[float] = []
    result: Any = None
    for _ in range(repetitions):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def measure(text: str, repetitions: int, with_xla: bool) -> dict[str, Any]:
    """Returns the values of one row."""

    def ours() -> tuple[float, Any]:
        start = time.perf_counter()
        module = xjit.parse_hlo(text)
        parsed = time.perf_counter() - start
        return parsed, xjit.compile(module)

    total, (parsed, exe) = seconds_of(ours, repetitions)
    values: dict[str, Any] = {"xjit s": total, "parse": parsed, **exe.compile_seconds}
    if with_xla:
        values["xla s"], _ = seconds_of(lambda: XlaExecutable(text), repetitions)
        values["ratio"] = values["xla s"] / total
    return values


def hlo_text(case: Case) -> str:
    """The program of a row, as JAX lowers it."""
    arguments = case.arguments(np.random.default_rng(0))
    return jax.jit(case.function).lower(*arguments).as_text("hlo")


def measure_cold(text: str, repetitions: int, with_xla: bool) -> dict[str, Any]:
    """Returns the values of one row: the least milliseconds of CPU time of all threads."""

    def ours() -> Any:
        return xjit.compile(text, options=xjit.CompileOptions(cache_dir=""))  # nothing on disk

    ways: dict[str, Callable[[], Any]] = {"cold ms": ours, "kept ms": ours}
    if with_xla:
        ways["xla ms"] = lambda: XlaExecutable(text)
    values: dict[str, Any] = {}
    for _ in range(repetitions):
        for name, compile_once in ways.items():
            if name == "cold ms":
                forget_libraries()
            start = time.process_time()
            compile_once()
            values[name] = min(values.get(name, np.inf), (time.process_time() - start) * 1e3)
    for way in ("cold", "kept") if with_xla else ():
        values[f"xla / {way}"] = values["xla ms"] / values[f"{way} ms"]
    return values


def report_cold(
    programs: Iterable[tuple[str, Callable[[], str]]], repetitions: int, with_xla: bool, json: Path | None
) -> None:
    """Measures programs, given by names and what makes their texts, and prints the mean ratios."""
    report = Report(("cold ms", "kept ms", "xla ms", "xla / cold", "xla / kept"), 36)
    for name, make_text in programs:
        try:
            report.add(name, **measure_cold(make_text(), repetitions, with_xla))
        except HloError as error:
            report.add(name)
            print(f"    {error}")
    ratios = {name: [row[name] for row in report.rows if name in row] for name in ("xla / cold", "xla / kept")}
    report.finish(json, **{f"mean_{name}": geometric_mean(values) for name, values in ratios.items() if values})


def small_programs() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields the smallest program of each family."""
    for family in FAMILIES:
        name, case = next(iter(family.cases().items()))
        yield name, functools.partial(hlo_text, case)


def print_fit(rows: list[dict[str, Any]], column: str) -> None:
    """Prints the line through the times of the chains, and how far the longest is from it."""
    points = [(length, row[column]) for length, row in zip(CHAIN_LENGTHS, rows) if column in row]
    if len(points) < 2:
        return
    lengths, times = np.array(points, float).T
    weights = 1 / times
    slope, start = np.polyfit(lengths, times, 1, w=weights)
    line = f"{column}: {start * 1e3:.1f} ms + {slope * 1e6:.1f} us per op"
    print(f"{line}; {lengths[-1]:.0f} ops take {times[-1] / times[-2]:.1f} times as long as {lengths[-2]:.0f}")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--no-xla", action="store_true")
    parser.add_argument("--all", action="store_true", help=f"XLA compiles chains longer than {LONGEST_FOR_XLA}, too")
    parser.add_argument("--only", choices=("models", "chains", "small"))
    parser.add_argument("--cold", action="store_true", help="models in CPU time, cold and kept, as small programs are")
    options = parse_arguments(parser)
    measure(chain(3), 1, not options.no_xla)  # libraries start up
    if options.only == "small":
        report_cold(small_programs(), options.repetitions, not options.no_xla, options.json)
        return
    if options.cold:
        models = open_corpus(options.corpus)
        chosen = choose(models, options.names or DEFAULT_NAMES)
        texts = ((short_name(entry), functools.partial(models.load_text, entry)) for entry in chosen)
        report_cold(texts, options.repetitions, not options.no_xla, options.json)
        return
    report = Report(("xjit s", "xla s", "ratio", *PHASES), 36)
    if options.only != "chains":
        models = open_corpus(options.corpus)
        for entry in choose(models, options.names or DEFAULT_NAMES):
            try:
                report.add(
                    short_name(entry), **measure(models.load_text(entry), options.repetitions, not options.no_xla)
                )
            except HloError as error:
                report.add(short_name(entry))
                print(f"    {error}")
    if options.only != "models":
        first = len(report.rows)
        for length in CHAIN_LENGTHS:
            with_xla = not options.no_xla and (options.all or length <= LONGEST_FOR_XLA)
            report.add(f"chain of {length}", **measure(chain(length), options.repetitions, with_xla))
        for column in ("xjit s", "xla s"):
            print_fit(report.rows[first:], column)
    ratios = [row["ratio"] for row in report.rows if "ratio" in row]
    report.finish(options.json, **({"mean_ratio": geometric_mean(ratios)} if ratios else {}))


if __name__ == "__main__":
    main()
