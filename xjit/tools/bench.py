"""Time HLO files beside XLA:CPU, against what the machine can do."""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console

from xjit.api import load_module
from xjit.comparison.bench import bench
from xjit.comparison.bench_history import add_to_history, bench_record, read_history
from xjit.comparison.bench_report import bench_html, bench_text
from xjit.tools.options import add_seconds, add_seed, write_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `xjit bench`."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="in any format of xjit run")
    add_seconds(parser, 1.0, "each file for")
    add_seed(parser)
    parser.add_argument("--history", metavar="FILE", help="add this run to FILE; the page shows all of them")
    for form in ("html", "json"):
        parser.add_argument(f"--{form}", metavar="FILE", help=f"write {form.upper()} there")


def main(options: argparse.Namespace) -> int:
    """Prints the table and writes what was asked for; returns 1 if values differ."""
    history = read_history(options.history) if options.history else []
    modules = [load_module(file) for file in options.files]
    with Console(stderr=True).status("measuring") as status:  # silent unless standard error is a terminal
        run = bench(
            modules,
            seed=options.seed,
            seconds=options.seconds,
            progress=lambda name: status.update(f"measuring {name}"),
        )
    sys.stdout.write(bench_text(run))
    if options.html:
        write_file(options.html, bench_html(run, history))
    if options.json:
        write_file(options.json, json.dumps(bench_record(run), indent=1, allow_nan=False) + "\n")
    if options.history:
        add_to_history(options.history, run)
    return 0 if run.ok else 1
