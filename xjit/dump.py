"""Dumps of one compilation, as files that can be read, compared and compiled again.

`module_0003.main.0002.after_cse.txt` is the third module that this process compiled, after the second dumped pass;
`.before_optimizations.txt`, `.after_optimizations.txt`, `.buffer-assignment.txt`, `.thunks.txt`, `.schedule.txt`, `.ll`
and `.s` are its stages.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.name_uniquer import NameUniquer

_numbers = itertools.count()


class CompilationDump:
    """Writes the files of one compilation to a directory, which it makes. Errors: InvalidArgument.

    Args:
        directory: where to.
        module: what is compiled; its name becomes part of the files' names.
        pass_pattern: regular expression; empty for no dumps between passes.
    """

    def __init__(self, directory: str, module: HloModule, pass_pattern: str = "") -> None:
        self._directory = Path(directory)
        self._prefix = f"module_{next(_numbers):04d}.{NameUniquer.sanitize(module.name)[:100]}"
        self._pattern = re.compile(pass_pattern) if pass_pattern else None
        self._passes = 0
        self._last = ""

    def write(self, suffix: str, text: str) -> None:
        """Writes one file."""
        path = self._directory / f"{self._prefix}.{suffix}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise InvalidArgument(f"cannot write the dump '{path}': {error}") from error

    def on_pass(self, name: str, moment: str, module: HloModule) -> None:
        """The pipeline's hook: writes the module after each pass that matches and changed it."""
        if self._pattern is None or not self._pattern.search(name):
            return
        text = str(module)
        if moment == "after" and text != self._last:
            self._passes += 1
            self.write(f"{self._passes:04d}.after_{name}.txt", text)
        self._last = text
