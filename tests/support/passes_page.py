"""Writes docs/passes.md: `python -m tests.support.passes_page`. A test holds the page against what this makes.

What was measured, and the programs it was measured on, is read from docs/pass_effects.json (`benchmarks/passes.py`).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.pass_cases import all_cases
from xjit.passes import PASSES
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.pass_text import option_types
from xjit.passes.framework.pipeline import HloPassFix
from xjit.passes.pipelines import NEEDED_FOR, cpu_pipeline, gpu_pipeline

_DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = _DOCS / "passes.md"
_EFFECTS = _DOCS / "pass_effects.json"
_MEASURES = {"instructions": "instructions", "kernels": "kernels", "bytes": "bytes", "temp": "temporary memory"}
HEAD = """# Passes

Every pass that `xjit opt --passes` and `xjit.run_passes` know, by the folder of `xjit/passes/` it is in. This page is made of the passes'
own docstrings and options: `python -m tests.support.passes_page`. Options are given as text: `hlo-cse{{is_layout_sensitive=true}}`.

*CPU* and *GPU* are the pass's places in the two pipelines (`xjit/passes/pipelines.py`), in the order of the flat list; a `*` marks those
that run to a fixed point with their neighbours. *Cases* counts the modules in `tests/passes/cases` that the pass changes, and those that
it must leave alone.

*ms* and *brings* are measured by `python benchmarks/passes.py --json docs/pass_effects.json`. *ms* is the time of all runs of the pass on
the corpus's largest module, {largest}, on a busy machine: a size, no benchmark. *Brings* is how
many of {programs} programs the pass changes in the CPU pipeline (small models of the corpus, StableHLO cases, training steps of JAX), and what
these have more without it: instructions, kernels, bytes moved and bytes of temporary memory, where that is 0.05 % or more. What is not in
the CPU pipeline was run by itself on {alone} models and training steps as they were read. A pass that brings nothing stays in a pipeline only
for the reason given, which stands in `NEEDED_FOR` beside the pipelines.

Fusion has more instructions, as those of fusions count, too. Without `while-loop-trip-count-annotator` the cost analysis counts the body of a
loop once; the code is the same.
"""


def page() -> str:
    """Returns the text of the page."""
    places = {"CPU": _places(cpu_pipeline()), "GPU": _places(gpu_pipeline())}
    cases, effects = _cases(), measured()
    rows, summary = {row["name"]: row for row in effects["rows"]}, effects["summary"]
    folders: dict[str, list[type[HloModulePass]]] = defaultdict(list)
    for cls in dict.fromkeys(PASSES.values()):
        folders[cls.__module__.split(".")[2]].append(cls)
    head = HEAD.format(largest=summary["largest"], programs=summary["programs"], alone=summary["programs alone"])
    parts = [head]
    for folder in sorted(folders):
        parts.append(f"\n## {folder.replace('_', ' ').capitalize()}\n\n")
        parts.append("| pass | what it does | options | CPU | GPU | cases | ms | brings |\n" + "|---" * 8 + "|\n")
        for cls in sorted(folders[folder], key=lambda c: c.name):
            row = [f"`{cls.name}`", _first_sentence(cls), _options(cls)]
            row += [places[name].get(cls.name, "") for name in ("CPU", "GPU")]
            row.append(f"{cases[cls.name, True]} + {cases[cls.name, False]}")
            effect = rows.get(cls.name, {})
            row += [f"{effect['ms']:.0f}" if "ms" in effect else "", _brings(cls, effect)]
            parts.append("| " + " | ".join(row) + " |\n")
    return "".join(parts)


def _places(pipeline: Iterable[HloModulePass]) -> dict[str, str]:
    """Returns by name the numbers of a pass in a pipeline."""
    found: dict[str, list[str]] = defaultdict(list)
    number = 0
    for item in pipeline:
        members = item.passes if isinstance(item, HloPassFix) else [item]
        for member in members:
            number += 1
            found[member.name].append(f"{number}{'*' if members != [item] else ''}")
    return {name: ", ".join(numbers) for name, numbers in found.items()}


def measured() -> dict[str, Any]:
    """Returns what `benchmarks/passes.py` found: rows by pass, and a summary."""
    return json.loads(_EFFECTS.read_text(encoding="utf-8"))


def brings_nothing(effect: dict[str, Any]) -> bool:
    """Whether a pass of the CPU pipeline made no difference to any program that was measured."""
    return "fails" not in effect and all(abs(effect.get(measure, 0)) < 0.05 for measure in _MEASURES)


def _brings(cls: type[HloModulePass], effect: dict[str, Any]) -> str:
    reason = NEEDED_FOR.get(cls.name, "")
    if "alone" in effect:
        return f"alone changes {effect['alone']}" if effect["alone"] else ""
    if cls.is_required and "changes" in effect:
        return f"{effect['changes']}: a right result"
    if "fails" in effect:
        return f"{effect['changes']}: do not compile without it"
    shown = ", ".join(
        f"{effect[m]:+.1f} % {word}" for m, word in _MEASURES.items() if m in effect and abs(effect[m]) >= 0.05
    )
    return f"{effect['changes']}: {shown or reason}" if "changes" in effect else reason


def _cases() -> Counter[tuple[str, bool]]:
    """Returns how many cases run a pass, by its name and whether it changes the module."""
    counts: Counter[tuple[str, bool]] = Counter()
    for case in all_cases():
        for item in case.passes():
            counts[item.name, case.after is not None] += 1
    return counts


def _first_sentence(cls: type[HloModulePass]) -> str:
    text = " ".join((cls.__doc__ or "").split())
    sentence = re.match(r".*?[.](?= |$)", text)
    return (sentence[0] if sentence else text).replace("|", "\\|")


def _options(cls: type[HloModulePass]) -> str:
    if not dataclasses.is_dataclass(cls):
        return ""
    types = option_types(cls)
    defaults = {f.name: f.default for f in dataclasses.fields(cls)}
    plain = [n for n, t in types.items() if t in (bool, int, float, str)]
    return ", ".join(f"`{n}={_text(defaults[n])}`" for n in plain)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
