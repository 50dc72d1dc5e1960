"""Analyses of a module, found out once per version of it: `get(CallGraph, module)`.

An analysis is a class with `of(module)`. Its result is kept on the module as long as the module's version stays; what
it says must not depend on anything that changes without another version (see `HloModule.version`). One that is only
about who calls what says so by `of_calls_only`, and is kept as long as that stays (`HloModule.call_version`).
"""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from xjit.hlo import HloModule


class Analysis(Protocol):
    """What can be asked for by `get`."""

    @classmethod
    def of(cls, module: HloModule) -> Self:
        """Analyses the module as it is now."""
        ...


A = TypeVar("A", bound=Analysis)


def get(kind: type[A], module: HloModule) -> A:
    """Returns an analysis of the module as it is now; it must not be changed, as others get it, too."""
    known = module.analyses.get(kind)
    version = module.call_version if getattr(kind, "of_calls_only", False) else module.version
    if known is not None and known[0] == version:
        return known[1]
    found = kind.of(module)
    module.analyses[kind] = (version, found)
    return found
