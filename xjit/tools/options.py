"""Options that several commands have, what values are right for them, and files that they name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from xjit.hlo.diagnostics import InvalidArgument

Number = TypeVar("Number", int, float)


def at_least(least: Number) -> Callable[[str], Number]:
    """Returns what reads an option's number, of the type of `least`. Errors: argparse's for smaller ones."""

    def number(text: str) -> Number:
        value = type(least)(text)
        if not value >= least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
        return value

    number.__name__ = "number"  # argparse's errors say so
    return number


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Declares `--input` and `--seed`: see `make_inputs`."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SHAPExTYPE=VALUE",
        help="in parameter order; @x.npy reads a file",
    )
    add_seed(parser, "of the inputs that are not given")


def add_seed(parser: argparse.ArgumentParser, what: str = "of the inputs") -> None:
    """Declares `--seed`."""
    parser.add_argument("--seed", type=at_least(0), default=0, help=f"seed {what}")


def add_seconds(parser: argparse.ArgumentParser, default: float, what: str) -> None:
    """Declares `--seconds`, how long to measure."""
    help_text = f"to measure {what}, about"
    parser.add_argument("--seconds", type=at_least(1e-3), default=default, metavar="S", help=help_text)


def add_tolerance(parser: argparse.ArgumentParser) -> None:
    """Declares `--tolerance`."""
    parser.add_argument(
        "--tolerance",
        type=at_least(0.0),
        metavar="E",
        help="largest relative L2 error of an output (default: by its type)",
    )


def write_file(path: str, text: str) -> None:
    """Writes a file that an option names. Errors: InvalidArgument."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot write '{path}': {error}") from error
