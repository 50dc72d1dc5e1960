"""Run an HLO file on several targets, and compare values and times."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xjit.api import load_module
from xjit.comparison.comparison import DEFAULT_TARGETS, EVALUATOR, compare
from xjit.comparison.runners import MAKERS
from xjit.hlo.diagnostics import InvalidArgument
from xjit.tools.inputs import make_inputs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `xjit compare`."""
    parser.add_argument("file", metavar="FILE", help="HLO text, a serialized HloModuleProto (.pb), or -")
    parser.add_argument("--targets", default=",".join(DEFAULT_TARGETS), metavar="A,B", help=f"of {', '.join(MAKERS)}")
    parser.add_argument(
        "--reference", metavar="TARGET", help=f"whose values are right, or {EVALUATOR} (default: the first)"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SHAPExTYPE=VALUE",
        help="in parameter order; @x.npy reads a file",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs that are not given")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S", help="to measure for, about")
    parser.add_argument("--no-ceilings", action="store_true", help="do not measure what the machine can do")
    for form in ("html", "csv", "json"):
        parser.add_argument(f"--{form}", metavar="FILE", help=f"write {form.upper()} there")


def main(options: argparse.Namespace) -> int:
    """Prints the tables and writes what was asked for; returns 1 if values differ."""
    if options.seed < 0:
        raise InvalidArgument("--seed must not be negative")
    if not options.seconds > 0:
        raise InvalidArgument("--seconds must be more than 0")
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
            try:
                Path(path).write_text(text(), encoding="utf-8")
            except OSError as error:
                raise InvalidArgument(f"cannot write '{path}': {error}") from error
    return 0 if found.ok else 1
