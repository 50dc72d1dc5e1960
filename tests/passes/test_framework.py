"""Names, pipelines, fixed points and the checks around passes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import pytest

from xjit.hlo import HloModule, HloVerifyError
from xjit.hlo.diagnostics import InvalidArgument, PassError
from xjit.passes import PASSES, HloPassFix, HloPassPipeline, find_pass, run_passes
from xjit.passes.framework.base import NO_THREADS, HloModulePass
from xjit.passes.framework.hlo_verifier import HloVerifier
from xjit.text.parser import parse_hlo

TEXT = "ENTRY e { x = f32[4] parameter(0) d = f32[4] negate(x) ROOT r = f32[4] abs(x) }"


@dataclass
class Renames(HloModulePass):
    """Renames the root for ever."""

    name: ClassVar[str] = "renames"
    truthful: bool = True

    def run(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        module.entry_computation.root_instruction.name += "x"
        return self.truthful


@dataclass
class Breaks(HloModulePass):
    """Gives the root a wrong shape."""

    name: ClassVar[str] = "breaks"

    def run(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        root = module.entry_computation.root_instruction
        root.shape = root.shape.with_dimensions((7,))
        return True


def test_names_and_aliases() -> None:
    assert PASSES["dce"] is PASSES["hlo-dce"] is find_pass(PASSES, "hlo_dce")
    assert all(name == name.lower() and "_" not in name for name in PASSES)
    module = parse_hlo(TEXT)
    assert run_passes(module, ["cse", "dce"])
    assert not run_passes(module, ["hlo_cse", "hlo-dce"])


def test_unknown_name_runs_nothing_and_suggests() -> None:
    module = parse_hlo(TEXT)
    with pytest.raises(InvalidArgument, match=r"(?s)unknown pass 'hlo_dc'.*did you mean 'hlo-dce'"):
        run_passes(module, ["dce", "hlo_dc"])
    assert module.instruction_count == 3


def test_fixed_point_names_the_passes_that_still_change() -> None:
    with pytest.raises(PassError, match="no fixed point after 3 iterations; still changing: renames"):
        HloPassFix(passes=[Renames(), find_pass(PASSES, "dce")()], iteration_limit=3).run(parse_hlo(TEXT))


def test_changed_bit_is_checked() -> None:
    with pytest.raises(PassError, match="renames returned False, but the module changed"):
        HloPassPipeline(passes=[Renames(truthful=False)], check_changed_bit=True).run(parse_hlo(TEXT))


def test_invariant_checker_names_the_guilty_pass() -> None:
    with pytest.raises(HloVerifyError, match="after pass breaks"):
        HloPassPipeline(passes=[Breaks()], invariant_checkers=[HloVerifier()]).run(parse_hlo(TEXT))


def test_switches_records_and_dump() -> None:
    seen: list[tuple[str, str]] = []
    passes = [find_pass(PASSES, "cse")(), HloPassFix(passes=[find_pass(PASSES, "dce")()])]
    pipeline = HloPassPipeline(
        passes=passes, disabled=["hlo_cse"], dump=lambda name, when, _: seen.append((name, when))
    )
    assert pipeline.run(parse_hlo(TEXT))
    assert [r.name for r in pipeline.records] == ["hlo-dce", "hlo-dce"]  # the second run finds the fixed point
    assert [r.changed for r in pipeline.records] == [True, False]
    assert seen[:2] == [("hlo-dce", "before"), ("hlo-dce", "after")]
    assert "hlo-dce" in pipeline.profile()
    assert not HloPassPipeline(passes=passes, enabled_only=["cse"]).run(parse_hlo(TEXT))
