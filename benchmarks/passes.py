"""What does each pass of the CPU pipeline bring? The corpus's programs without it, one pass at a time.

Columns are changes when the pass is left out: instructions of the optimized module, kernels that a run calls, bytes
that they read and write, temporary memory; in percent of the whole pipeline's, over all programs. `ms` is the time of
all its runs on the largest program. Nothing is emitted or run. What a right result needs cannot be left out.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from corpus import add_arguments, choose, open_corpus, short_name
from reporting import Report, parse_arguments

from xjit.hlo import HloModule, Trait
from xjit.passes import HloPassFix, PassDriver, PassSwitches, cpu_pipeline
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.text.parser import parse_hlo

DEFAULT_NAMES = ["/inference/1gpu"]
MEASURES = ("instructions", "kernels", "bytes", "temp")
COLUMNS = ("ms", *MEASURES)
_NO_KERNEL = frozenset({"parameter", "constant", "bitcast"})


def leaf_passes(passes: Iterable[HloModulePass]) -> Iterator[HloModulePass]:
    """Yields the passes of a pipeline, those of fixed points one by one."""
    for item in passes:
        yield from leaf_passes(item.passes) if isinstance(item, HloPassFix) else [item]


def kernel_count(module: HloModule) -> int:
    """How many instructions of the computations that run in sequence are neither plumbing nor control flow."""
    return sum(
        not (i.op.has(Trait.PLUMBING) or i.op.has(Trait.CONTROL_FLOW) or i.opcode in _NO_KERNEL)
        for c in analyses.get(CallGraph, module).sequential
        for i in c.instructions
    )


def bytes_moved(module: HloModule) -> float:
    """What the program reads and writes; the body of a loop counts as often as it is known to run."""
    return analyses.get(HloCostAnalysis, module).computation(module.entry_computation).bytes_accessed


def measure(module: HloModule) -> dict[str, float]:
    """What is left of an optimized module."""
    return {
        "instructions": module.instruction_count,
        "kernels": kernel_count(module),
        "bytes": bytes_moved(module),
        "temp": assign_buffers(module).arena_size,
    }


def optimized(module: HloModule, without: str = "") -> tuple[HloModule, PassDriver]:
    """Returns a copy through the pipeline, but for one pass, and the driver that has the times."""
    copy = module.clone("")
    driver = PassDriver(PassSwitches.of([without] if without else []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fixed point may not settle without one of its passes
        driver.run(cpu_pipeline(), copy)
    return copy, driver


def totals(modules: Iterable[HloModule], without: str = "") -> Counter[str]:
    """The sums of all measures over modules."""
    found: Counter[str] = Counter()
    for module in modules:
        found.update(measure(optimized(module, without)[0]))
        gc.collect()
    return found


def change(found: Mapping[str, float], whole: Mapping[str, float]) -> dict[str, float]:
    """What changes, in percent."""
    return {name: 100 * (found[name] / max(whole[name], 1) - 1) for name in MEASURES}


def markdown(rows: list[dict[str, Any]], programs: list[str], largest: str) -> str:
    """Returns the table as a page of the documentation."""
    lines = [
        "# What each pass brings on the CPU",
        "",
        "Made by `python benchmarks/passes.py --markdown FILE`. Each row is the pipeline without one pass: how many",
        "more instructions, kernels, bytes moved and bytes of temporary memory there are then, in percent of the whole",
        f"pipeline's, over {len(programs)} programs of the corpus. A pass that a right result needs, or without which",
        "a program does not compile, has no numbers. *ms* is the time of all runs of the pass on the largest of them,",
        f"{largest}.",
        "",
        "| pass | ms | instructions | kernels | bytes | temporary memory |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row[name]:+.1f} %" if name in row else row.get("why", "") for name in MEASURES]
        lines.append(f"| `{row['name']}` | {row['ms']:.0f} | {' | '.join(cells)} |")
    lines += ["", "Programs: " + ", ".join(programs) + ".", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as a page")
    options = parse_arguments(parser)
    models = open_corpus(options.corpus)
    entries = choose(models, options.names or DEFAULT_NAMES, runnable=False)
    modules = [parse_hlo(models.load_text(entry)) for entry in entries]
    largest = max(range(len(modules)), key=lambda n: modules[n].instruction_count)
    start = time.perf_counter()
    log = optimized(modules[largest])[1].log.records
    seconds: Counter[str] = Counter()
    for record in log:
        seconds[record.name] += record.seconds
    whole = totals(modules)
    report = Report(COLUMNS)
    report.add("(all)", ms=1e3 * (time.perf_counter() - start), **whole)
    for name in dict.fromkeys(item.name for item in leaf_passes(cpu_pipeline())):
        needed = next(i.is_required for i in leaf_passes(cpu_pipeline()) if i.name == name)
        row: dict[str, Any] = {"ms": 1e3 * seconds[name], "why": "needed"}
        if not needed:
            try:
                row = {"ms": row["ms"], **change(totals(modules, name), whole)}
            except Exception as error:  # what the pass is for: the next stage says what it cannot do
                row["why"] = f"needed ({type(error).__name__})"
        report.add(name, **row)
    if options.markdown is not None:
        text = markdown(report.rows[1:], [short_name(e) for e in entries], short_name(entries[largest]))
        options.markdown.write_text(text)
    report.finish(options.json)


if __name__ == "__main__":
    main()
