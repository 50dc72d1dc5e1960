"""Writes docs/passes.md: `python -m tests.support.passes_page`. A test holds the page against what this makes."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.support.pass_cases import all_cases
from xjit.passes import PASSES
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.pass_text import option_types
from xjit.passes.framework.pipeline import HloPassFix
from xjit.passes.pipelines import cpu_pipeline, gpu_pipeline

PAGE = Path(__file__).resolve().parents[2] / "docs" / "passes.md"
HEAD = """# Passes

Every pass that `xjit opt --passes` and `xjit.run_passes` know, by the folder of `xjit/passes/` it is in. This page is made of the passes'
own docstrings and options: `python -m tests.support.passes_page`. Options are given as text: `hlo-cse{is_layout_sensitive=true}`.

*CPU* and *GPU* are the pass's places in the two pipelines (`xjit/passes/pipelines.py`), in the order of the flat list; a `*` marks those
that run to a fixed point with their neighbours. *Cases* counts the modules in `tests/passes/cases` that the pass changes, and those that
it must leave alone.
"""


def page() -> str:
    """Returns the text of the page."""
    places = {"CPU": _places(cpu_pipeline()), "GPU": _places(gpu_pipeline())}
    cases = _cases()
    folders: dict[str, list[type[HloModulePass]]] = defaultdict(list)
    for cls in dict.fromkeys(PASSES.values()):
        folders[cls.__module__.split(".")[2]].append(cls)
    parts = [HEAD]
    for folder in sorted(folders):
        parts.append(f"\n## {folder.replace('_', ' ').capitalize()}\n\n")
        parts.append("| pass | what it does | options | CPU | GPU | cases |\n|---|---|---|---|---|---|\n")
        for cls in sorted(folders[folder], key=lambda c: c.name):
            row = [f"`{cls.name}`", _first_sentence(cls), _options(cls)]
            row += [places[name].get(cls.name, "") for name in ("CPU", "GPU")]
            row.append(f"{cases[cls.name, True]} + {cases[cls.name, False]}")
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
