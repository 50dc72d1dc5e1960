"""Run passes on MLIR text, in the order given: tile, fuse and lower structured operations."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xjit.hlo.diagnostics import HloError, InvalidArgument, did_you_mean

_FLAGS = {
    "split-input-file": "treat parts between lines '// -----' as files of their own",
    "allow-unregistered-dialect": "let operations without a definition pass, in generic form",
    "verify-diagnostics": "compare errors with 'expected-error' comments",
    "mlir-print-op-generic": "print the generic form",
    "mlir-disable-threading": "nothing: passes run in one thread",
}
_PIPELINE = "pass-pipeline"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options. Passes are flags with one or two dashes: `--cse`, `-canonicalize`."""
    parser.prefix_chars = "\0"  # argparse would not keep the order of flags, which is that of the passes
    parser.add_argument("arguments", nargs="*", metavar="FILE|--PASS[=OPTIONS]|--FLAG")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(parser=parser)


def _help() -> str:
    """Returns the list of passes and flags."""
    from xjit.linalg_ext.passes import PASSES

    passes = "\n".join(f"  --{name:30} {row.summary}" for name, row in PASSES.items())
    passes += (
        f"\n  --{_PIPELINE + '=TEXT':30} passes as MLIR lists them: builtin.module(cse,func.func(NAME{{OPTIONS}}))"
    )
    flags = "\n".join(f"  --{name:30} {text}" for name, text in _FLAGS.items())
    return f"passes:\n{passes}\n\nflags:\n{flags}\n\nFILE may be - for the standard input."


def _read_arguments(arguments: list[str]) -> tuple[str, list[str], set[str]]:
    """Returns the file, the passes with options, and the flags."""
    from xjit.linalg_ext.passes import PASSES, parse_pipeline

    files: list[str] = []
    passes: list[str] = []
    flags: set[str] = set()
    for argument in arguments:
        if argument == "-" or not argument.startswith("-"):
            files.append(argument)
            continue
        name, _, value = argument.lstrip("-").partition("=")
        value = value.strip("\"'")
        if name in PASSES:
            passes.append(f"{name}={value}" if value else name)
        elif name == _PIPELINE:
            passes += parse_pipeline(value)
        elif name in _FLAGS:
            flags.update([] if value == "false" else [name])
        else:
            raise InvalidArgument(
                f"unknown pass or flag '{argument}'{did_you_mean(name, [*PASSES, _PIPELINE, *_FLAGS])}"
            )
    if len(files) != 1:
        raise InvalidArgument(f"expected one file, found {len(files)}")
    return files[0], passes, flags


def main(options: argparse.Namespace) -> int:
    """Prints the module after the passes; returns the exit status."""
    if set(options.arguments) & {"-h", "--help"}:
        options.parser.epilog = _help()
        options.parser.print_help()
        return 0
    file, passes, flags = _read_arguments(options.arguments)
    from xjit.linalg_ext.diagnostics import SPLIT

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {file}: {error}") from error
    parts = SPLIT.split(text) if "split-input-file" in flags else [text]
    status, first_line = 0, 1
    for number, part in enumerate(parts):
        if number:
            print("// -----")
        status = max(status, _run(part, file, first_line, passes, flags))
        first_line += part.count("\n") + 1
    return status


def _run(text: str, file: str, first_line: int, passes: list[str], flags: set[str]) -> int:
    """Runs the passes on one part; errors are compared with what the text expects, if that is asked for."""
    from xjit.linalg_ext.diagnostics import check_expectations
    from xjit.linalg_ext.passes import run_passes
    from xjit.linalg_ext.text.parser import parse_module
    from xjit.linalg_ext.text.printer import print_module

    errors: list[HloError] = []
    try:
        module = parse_module(text, file, first_line, "allow-unregistered-dialect" in flags)
        run_passes(module, passes)
        print(print_module(module, "mlir-print-op-generic" in flags), end="")
    except HloError as error:
        if "verify-diagnostics" not in flags:
            raise
        errors.append(error)
    return check_expectations(text, first_line, errors) if "verify-diagnostics" in flags else 0
