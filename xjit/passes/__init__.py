"""Passes over HLO modules, pipelines of them, and the analyses up to buffer assignment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from xjit.hlo import HloModule
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.framework.base import HloModulePass, PassWarning
from xjit.passes.framework.driver import PassDriver, PassLog, PassSwitches
from xjit.passes.framework.hlo_verifier import HloVerifier
from xjit.passes.framework.pass_text import find_pass, make_pass
from xjit.passes.framework.pipeline import HloPassFix, HloPassPipeline
from xjit.passes.pipelines import PipelineOptions, cpu_pipeline


class _Passes(Mapping[str, type[HloModulePass]]):
    """The catalogue, which is imported when somebody looks: compilations need no names, and not all of the passes."""

    def __getitem__(self, name: str) -> type[HloModulePass]:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"PASSES({', '.join(self)})"

    @property
    def _by_name(self) -> Mapping[str, type[HloModulePass]]:
        from xjit.passes.catalogue import BY_NAME

        return BY_NAME


PASSES: Final[Mapping[str, type[HloModulePass]]] = _Passes()
"""Every pass by its dashed name and its aliases; `find_pass` also takes the underscored spelling."""


def run_passes(module: HloModule, names: Iterable[str]) -> bool:
    """Runs passes by name, in order, verifying before and after each; True if the module changed.

    Options are written behind the name: `call-inliner{single_call_site=true}`. InvalidArgument for an unknown name or
    option, before anything has run.
    """
    if isinstance(names, str):
        raise InvalidArgument(f"expected a list of pass names, found the string '{names}'")
    passes = [make_pass(PASSES, name) for name in names]
    return PassDriver(invariant_checkers=[HloVerifier()]).run(passes, module)


__all__ = [
    "PASSES",
    "HloModulePass",
    "HloPassFix",
    "HloPassPipeline",
    "PassDriver",
    "PassLog",
    "PassSwitches",
    "PassWarning",
    "PipelineOptions",
    "cpu_pipeline",
    "find_pass",
    "make_pass",
    "run_passes",
]
