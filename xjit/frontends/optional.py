"""Packages that xjit can use but does not need: imported when they are used, or one error that says what to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from xjit.hlo.diagnostics import FailedPrecondition


def import_optional(name: str, extra: str, purpose: str) -> ModuleType:
    """Returns a module of the packages of an extra. Errors: FailedPrecondition names the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FailedPrecondition(f"{purpose}, install the extra: pip install 'xjit[{extra}]' ({error})") from error
