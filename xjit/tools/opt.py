"""Run passes on an HLO file, or print it at a stage of compilation."""

from __future__ import annotations

import argparse
import sys

from xjit.api import load, run_passes
from xjit.compile_options import CompileOptions
from xjit.compiler import stage_text
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes import PASSES
from xjit.passes.framework.pass_text import split_pass_list
from xjit.tools.options import write_file

GPU_STAGES = ("ptx", "sass", "report")
STAGES = ("hlo", "optimized-hlo", "buffer-assignment", "thunks", "schedule", "llvm", "llvm-opt", "asm", *GPU_STAGES)
STRUCTURED = "linalg"
"""A form that no compilation goes through: no stage of an executable."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `xjit opt`."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="in any format of xjit run")
    parser.add_argument("--passes", metavar="A,B", help="passes to run, in order; with options: a,b{option=value}")
    parser.add_argument(
        "--stage",
        choices=(*STAGES, STRUCTURED),
        help="what to print (default: optimized-hlo, or the result of --passes)",
    )
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--list-passes", action="store_true")
    parser.add_argument("--list-stages", action="store_true")
    parser.add_argument("-o", "--output", metavar="OUT", help="write to a file instead of standard output")


def main(options: argparse.Namespace) -> int:
    """Prints what was asked for."""
    if options.list_passes or options.list_stages:
        print("\n".join(sorted(PASSES) if options.list_passes else (*STAGES, STRUCTURED)))
        return 0
    if options.file is None:
        raise InvalidArgument("xjit opt needs a FILE (or --list-passes, --list-stages)")
    module = load(options.file)
    if options.passes:
        run_passes(module, split_pass_list(options.passes))
    if options.passes and options.stage in (None, "hlo"):
        text = str(module)
    elif options.stage == STRUCTURED:
        from xjit.tools.structured_form import structured_form

        text = structured_form(module, options.target)
    else:
        text = stage_text(module, options.target, CompileOptions(), options.stage or "optimized-hlo")
    if options.output:
        write_file(options.output, text)
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0
