"""Runs a file's RUN lines as lit does: `byteir-opt` is `xjit linalg`, and FileCheck is the one from PyPI."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from pathlib import Path

from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options

from xjit.tools.main import main

_TOOLS = ("byteir-opt", "mlir-opt", "xjit-linalg")


def run_lines(path: Path) -> list[str]:
    """Returns the commands behind `RUN:`."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("RUN:", 1)[1].strip() for line in lines if line.lstrip(" /").startswith("RUN:")]


def check_file(path: Path, folder: Path) -> None:
    """Runs every RUN line of a file; AssertionError with FileCheck's message if an expectation does not hold."""
    commands = run_lines(path)
    assert commands, f"{path} has no RUN line"
    for command in commands:
        _check(command, path, folder)


def _check(command: str, path: Path, folder: Path) -> None:
    steps = [shlex.split(step.replace("%s", str(path))) for step in command.split("|")]
    expects_failure = steps[0][0] == "not"
    tool, *arguments = steps[0][1:] if expects_failure else steps[0]
    assert tool in _TOOLS, tool
    merged = "2>&1" in arguments
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output if merged else errors):
        status = main(["linalg", *(a for a in arguments if a != "2>&1")])
    assert (status != 0) == expects_failure, errors.getvalue() or output.getvalue()
    for checker, *options in steps[1:]:
        assert checker == "FileCheck", checker
        result = folder / "output.mlir"
        result.write_text(output.getvalue(), encoding="utf-8")
        messages = io.StringIO()
        with contextlib.redirect_stdout(messages), contextlib.redirect_stderr(messages):
            status = Matcher.from_opts(parse_argv_options(["filecheck", *options, "--input-file", str(result)])).run()
        assert status == 0, f"{messages.getvalue()}\n{output.getvalue()}"
    sys.stdout.flush()
