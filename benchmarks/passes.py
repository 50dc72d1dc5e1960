"""What does each pass bring on the CPU? Programs without it, one pass at a time; and each other pass by itself.

Programs are the corpus's models up to `--instructions`, a third of its StableHLO cases, and training steps of JAX. A
pass that changes no program brings nothing; for the others the programs that it changes are compiled without it.
Counted are instructions of the optimized modules, kernels that a run calls, bytes that they read and write, and
temporary memory: sums over the programs that the pass changes, in percent of the whole pipeline's. Nothing is emitted
or run. `ms` is the time of all runs of the pass on the largest model; a pass that is in no pipeline runs on it as it
was read.
`--json docs/pass_effects.json` is what docs/passes.md is made of (`python -m tests.support.passes_page`). With
`--only NAME...` other rows of that file stay as they are.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from corpus import add_arguments, choose, open_corpus, short_name
from reporting import Report, parse_arguments
from training_steps import training_steps

from xjit.hlo import HloError, HloModule, Trait
from xjit.passes import PASSES, HloPassFix, PassDriver, PassSwitches, cpu_pipeline
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.text.parser import parse_hlo

MEASURES = ("instructions", "kernels", "bytes", "temp")
COLUMNS = ("ms", "changes", *MEASURES)
_EVERY = 3  # of the StableHLO cases, which are families of much the same programs
_NO_KERNEL = frozenset({"parameter", "constant", "bitcast"})

Programs = dict[str, Callable[[], str]]


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


def corpus_programs(models: Any, corpus: Path, names: list[str], most: int) -> Programs:
    """Returns what makes the text of each program, by name."""
    entries = [e for e in choose(models, names or [""], runnable=False) if models.index()[e]["instructions"] <= most]
    programs: Programs = {short_name(entry): partial(models.load_text, entry) for entry in entries}
    if not names:
        cases = sorted((corpus / "stablehlo_cases").glob("*.hlo"))[::_EVERY]
        programs |= {path.stem: partial(path.read_text, "utf-8") for path in cases} | training_steps()
    return programs


class Effects:
    """By pass, of those that are asked for: the programs that it changes, and what they are with and without it."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self.changed: Counter[str] = Counter()
        self.whole: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.without: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.failed: dict[str, str] = {}

    def add(self, module: HloModule) -> None:
        """Compiles a program, and again without each pass that changed it."""
        result, driver = optimized(module)
        whole = measure(result)
        by_name = {item.name: item for item in leaf_passes(cpu_pipeline())}
        for name in dict.fromkeys(record.name for record in driver.log.records if record.changed):
            if name not in self.names:
                continue
            self.changed[name] += 1
            if by_name[name].is_required or name in self.failed:
                continue
            try:
                found = measure(optimized(module, name)[0])
            except HloError as error:  # what the pass is for: the next stage says what it cannot do
                self.failed[name] = type(error).__name__
            else:
                self.whole[name].update(whole)
                self.without[name].update(found)

    def of(self, name: str) -> dict[str, Any]:
        """The columns of a pass: what changes without it, in percent."""
        found, whole = self.without[name], self.whole[name]
        row: dict[str, Any] = {"changes": self.changed[name]}
        if name in self.failed:
            return row | {"fails": self.failed[name]}
        return row | {m: 100 * (found[m] / max(whole[m], 1) - 1) for m in MEASURES if whole}


def alone(passes: Mapping[str, HloModulePass], programs: Programs) -> Counter[str]:
    """How many programs, as they were read, each of these passes changes."""
    changes: Counter[str] = Counter()
    for text in programs.values():
        module = parse_hlo(text())
        for name, item in passes.items():
            try:
                changes[name] += PassDriver().run([item], module.clone(""))
            except HloError:  # not for modules that have been through nothing
                continue
    return changes


def seconds_on(module: HloModule, others: Mapping[str, HloModulePass]) -> dict[str, float]:
    """The time of all runs of each pass: in the pipeline, or alone."""
    found: defaultdict[str, float] = defaultdict(float)
    for record in optimized(module)[1].log.records:
        found[record.name] += record.seconds
    for name, item in others.items():
        copy, start = module.clone(""), time.perf_counter()
        try:
            PassDriver().run([item], copy)
        except HloError:
            continue
        found[name] = time.perf_counter() - start
    return found


def made_alone(names: Iterable[str]) -> dict[str, HloModulePass]:
    """Returns the passes that can be made without options."""
    made: dict[str, HloModulePass] = {}
    for name in names:
        try:
            made[name] = PASSES[name]()
        except TypeError:  # needs to be told something, as a limit or a device
            continue
    return made


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Returns the rows that an earlier run wrote."""
    rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["rows"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--instructions", type=int, default=2000, help="of the largest model that is counted")
    parser.add_argument(
        "--only", nargs="+", metavar="PASS", default=[], help="measure these, and keep FILE's other rows"
    )
    options = parse_arguments(parser)
    models = open_corpus(options.corpus)
    programs = corpus_programs(models, options.corpus, options.names, options.instructions)
    entries = choose(models, options.names or [""], runnable=False)
    largest = max(entries, key=lambda entry: models.index()[entry]["instructions"])
    steps = training_steps()
    pipeline = dict.fromkeys(item.name for item in leaf_passes(cpu_pipeline()))
    kept = [row for row in rows_of(options.json) if row["name"] not in options.only] if options.only else []
    wanted = [name for name in pipeline if name in options.only or not options.only]
    others = made_alone(
        cls.name for cls in dict.fromkeys(PASSES.values()) if cls.name not in pipeline and not options.only
    )
    seconds = seconds_on(parse_hlo(models.load_text(largest)), others)
    effects = Effects(wanted)
    for text in programs.values():
        effects.add(parse_hlo(text()))
    report = Report(COLUMNS, label_width=44)
    for name in wanted:
        report.add(name, ms=1e3 * seconds[name], **effects.of(name))
    few = {name: text for name, text in programs.items() if name in steps or "/" in name}
    changes = alone(others, few)
    for name in others:
        report.add(name, ms=1e3 * seconds[name], alone=changes[name])
    report.rows[:0] = kept
    counts = {"programs": len(programs), "programs alone": len(few)}
    report.finish(options.json, largest=short_name(largest), **counts)


if __name__ == "__main__":
    main()
