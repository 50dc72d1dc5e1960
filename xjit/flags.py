"""Flags of the environment variable XJIT_FLAGS, for looking into programs that one cannot change.

    XJIT_FLAGS="--xjit_dump_to=/tmp/dumps --xjit_dump_hlo_pass_re=fusion|cse" python train.py

One table: a flag is a field of `Flags`, `--xjit_<field>` is its name. An unknown flag is an error. Besides this, the
size of the thread pool (`xjit.runtime.thread_pool`) and the cache of object code
(`xjit.runtime.machine_code.object_cache`) come from the environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xjit.hlo.diagnostics import InvalidArgument

VARIABLE = "XJIT_FLAGS"
PREFIX = "--xjit_"


def _flag(default: Any, parse: Callable[[str], Any] = str) -> Any:
    return dataclasses.field(default=default, metadata={"parse": parse})


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def check_pattern(text: str) -> str:
    """The text, if it is a regular expression. Errors: InvalidArgument."""
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"'{text}' is not a regular expression: {error}") from None
    return text


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f"'{text}' is neither true nor false")
    return text.lower() == "true"


@dataclass(frozen=True, slots=True)
class Flags:
    """The values of all flags."""

    dump_to: str = _flag("")
    """Directory for dumps: HLO before and after optimization, buffers, LLVM IR, assembly."""
    dump_hlo_pass_re: str = _flag("", check_pattern)
    """Dumps HLO also after passes whose name matches and that changed it."""
    disable_hlo_passes: tuple[str, ...] = _flag((), _names)
    """Comma-separated names of passes to leave out."""
    verify_passes: bool = _flag(False, _bool)
    """Verifies the module after every pass, its buffers and schedules."""


def parse_flags(text: str) -> Flags:
    """Returns the flags of `--xjit_name=value ...`; InvalidArgument for an unknown flag or a malformed value."""
    fields = {PREFIX + field.name: field for field in dataclasses.fields(Flags)}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"{VARIABLE}: {error}") from None
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in fields:
            near = difflib.get_close_matches(name, list(fields), 1)
            hint = f"did you mean '{near[0]}'?" if near else f"the flags are {', '.join(fields)}"
            raise InvalidArgument(f"{VARIABLE}: unknown flag '{name}'", None, hint)
        if not equals:
            raise InvalidArgument(f"{VARIABLE}: {name} needs a value, as in {name}=...")
        values[fields[name].name] = fields[name].metadata["parse"](value)
    return Flags(**values)


def flags_from_environment(environment: Mapping[str, str] | None = None) -> Flags:
    """Returns the flags that XJIT_FLAGS sets; InvalidArgument if it is malformed."""
    text = (os.environ if environment is None else environment).get(VARIABLE, "")
    return parse_flags(text) if text else _NO_FLAGS


_NO_FLAGS = Flags()
