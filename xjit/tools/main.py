"""Entry point of the `xjit` command: argument parsing, and errors without tracebacks.

Exit status: 0 ok, 1 mismatch, 2 compile error, 3 bad input.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from xjit.hlo.diagnostics import CompileError, HloError, PassError, Unsupported
from xjit.tools import bench, bisect_pass, cache, compare, indexing, linalg, opt, run
from xjit.version import __version__

MISMATCH, COMPILE_ERROR, BAD_INPUT = 1, 2, 3
_COMPILE_ERRORS = (Unsupported, CompileError, PassError)
_COMMANDS = {
    "run": run,
    "compare": compare,
    "bench": bench,
    "opt": opt,
    "indexing": indexing,
    "bisect-pass": bisect_pass,
    "cache": cache,
    "linalg": linalg,
}


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of all subcommands."""
    parser = argparse.ArgumentParser(prog="xjit", description="Compile, run and inspect HLO modules.")
    parser.add_argument("--version", action="version", version=f"xjit {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, module in _COMMANDS.items():
        summary = (module.__doc__ or "").splitlines()[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; returns the exit status."""
    parser = build_parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return 0 if stop.code in (0, None) else BAD_INPUT
    if options.command is None:
        parser.print_help()
        return 0
    try:
        return _COMMANDS[options.command].main(options)
    except HloError as error:
        print(error if error.span is not None else f"xjit: error: {error}", file=sys.stderr)
        return COMPILE_ERROR if isinstance(error, _COMPILE_ERRORS) else BAD_INPUT
    except BrokenPipeError:  # the reader has seen enough; nothing is left to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
