"""How many kernels do programs take beside XLA:CPU's, how many bytes do these move, and how much memory is planned?

Both optimized modules are measured by the same rules: an instruction that is neither plumbing nor control flow is a
kernel, bytes are those of `HloCostAnalysis`, loops of known trip counts included. Nothing is run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from corpus import add_arguments, choose, open_corpus, short_name
from passes import bytes_moved, kernel_count, measure, optimized
from reporting import Report, parse_arguments
from xla_cpu import XlaExecutable

from xjit.text.parser import parse_hlo

DEFAULT_NAMES = ["vit/inference/1gpu", "resnet50/inference/1gpu"]
COLUMNS = ("xjit kernels", "xla kernels", "xjit MB", "xla MB", "xjit temp MB", "xla temp MB")
MB = 1e6


def compare(text: str, module: Any) -> dict[str, float]:
    """The columns of a row."""
    ours = measure(optimized(module)[0])
    executable = XlaExecutable(text).executable
    theirs = parse_hlo(executable.hlo_modules()[0].to_string())
    found = {"xjit kernels": ours["kernels"], "xjit MB": ours["bytes"] / MB}
    found |= {"xla kernels": kernel_count(theirs), "xla MB": bytes_moved(theirs) / MB}
    found |= {"xjit temp MB": ours["temp"] / MB}
    return found | {"xla temp MB": executable.get_compiled_memory_stats().temp_size_in_bytes / MB}


def markdown(rows: list[dict[str, Any]]) -> str:
    """Returns the rows as a table."""
    lines = ["| program | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in rows:
        lines.append(f"| {row['name']} | " + " | ".join(f"{row[name]:,.0f}" for name in COLUMNS) + " |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    options = parse_arguments(parser)
    models = open_corpus(options.corpus)
    report = Report(COLUMNS)
    for entry in choose(models, options.names or DEFAULT_NAMES, runnable=False):
        text = models.load_text(entry)
        report.add(short_name(entry), **compare(text, parse_hlo(text)))
        if options.markdown is not None:
            options.markdown.write_text(markdown(report.rows))
    report.finish(options.json)


if __name__ == "__main__":
    main()
