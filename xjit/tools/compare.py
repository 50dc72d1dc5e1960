"""Run an HLO file on several targets, and compare values and times."""

from __future__ import annotations

import argparse
import sys

from xjit.api import load_module
from xjit.comparison.comparison import DEFAULT_TARGETS, EVALUATOR, compare
from xjit.comparison.runners import MAKERS
from xjit.tools.inputs import make_inputs
from xjit.tools.options import add_inputs, add_seconds, write_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `xjit compare`."""
    parser.add_argument("file", metavar="FILE", help="HLO text, a serialized HloModuleProto (.pb), or -")
    parser.add_argument("--targets", default=",".join(DEFAULT_TARGETS), metavar="A,B", help=f"of {', '.join(MAKERS)}")
    parser.add_argument(
        "--reference", metavar="TARGET", help=f"whose values are right, or {EVALUATOR} (default: the first)"
    )
    add_inputs(parser)
    add_seconds(parser, 2.0, "for")
    parser.add_argument("--no-ceilings", action="store_true", help="do not measure what the machine can do")
    for form in ("html", "csv", "json"):
        parser.add_argument(f"--{form}", metavar="FILE", help=f"write {form.upper()} there")


def main(options: argparse.Namespace) -> int:
    """Prints the tables and writes what was asked for; returns 1 if values differ."""
    module = load_module(options.file)
    found = compare(
        module,
        [name.strip() for name in options.targets.split(",")],
        make_inputs(module, options.input, options.seed),
        reference=options.reference,
        seconds=options.seconds,
        ceilings=not options.no_ceilings,
    )
    sys.stdout.write(found.to_text())
    for path, text in ((options.html, found.to_html), (options.csv, found.to_csv), (options.json, found.to_json)):
        if path is not None:
            write_file(path, text())
    return 0 if found.ok else 1
