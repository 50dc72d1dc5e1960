"""Names, pipelines, fixed points and the checks around passes."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass

import pytest

from xjit.hlo import HloInstruction, HloModule, HloVerifyError
from xjit.hlo.diagnostics import InvalidArgument, PassError
from xjit.passes import PASSES, HloPassFix, HloPassPipeline, PassDriver, PassLog, PassSwitches, PassWarning, find_pass
from xjit.passes import run_passes as run
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.hlo_verifier import HloVerifier
from xjit.passes.schedule_and_memory.hlo_schedulers import HloTrivialScheduler
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.text.parser import parse_hlo

TEXT = "ENTRY e { x = f32[4] parameter(0) d = f32[4] negate(x) ROOT r = f32[4] abs(x) }"


@dataclass
class Renames(HloModulePass):
    """Renames the root for ever."""

    name = "renames"
    truthful: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        module.entry_computation.root_instruction.name += "x"
        return self.truthful


@dataclass
class Breaks(HloModulePass):
    """Gives the root a wrong shape."""

    name = "breaks"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        root = module.entry_computation.root_instruction
        root.shape = root.shape.with_dimensions((7,))
        return True


def test_names_and_aliases() -> None:
    assert PASSES["dce"] is PASSES["hlo-dce"] is find_pass(PASSES, "hlo_dce")
    assert all(name == name.lower() and "_" not in name for name in PASSES)
    module = parse_hlo(TEXT)
    assert run(module, ["cse", "dce"])
    assert not run(module, ["hlo_cse", "hlo-dce"])


def test_unknown_name_runs_nothing_and_suggests() -> None:
    module = parse_hlo(TEXT)
    with pytest.raises(InvalidArgument, match=r"(?s)unknown pass 'hlo_dc'.*did you mean 'hlo-dce'"):
        run(module, ["dce", "hlo_dc"])
    assert module.instruction_count == 3


def test_fixed_point_that_is_not_reached_warns_and_names_the_passes_that_still_change() -> None:
    module = parse_hlo(TEXT)
    with pytest.warns(PassWarning, match="no fixed point after 3 rounds; still changing: renames"):
        assert HloPassFix(passes=[Renames(), HloDCE()], iteration_limit=3).run(module)
    assert module.entry_computation.root_instruction.name == "rxxx" and module.instruction_count == 2


@dataclass
class Swaps(HloModulePass):
    """Replaces a root of one opcode by one of another."""

    name = "swaps"
    old: str = "abs"
    new: str = "negate"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        root = module.entry_computation.root_instruction
        if root.opcode != self.old:
            return False
        new = HloInstruction.create(self.new, root.shape, root.operands)
        module.entry_computation.replace_with_new_instruction(root, new)
        return True


@dataclass
class SwapsBack(Swaps):
    """Undoes it."""

    name = "swaps-back"
    old: str = "negate"
    new: str = "abs"


def test_passes_that_undo_each_other_are_stopped_and_named() -> None:
    module = parse_hlo(TEXT)
    log = PassLog()
    with pytest.warns(PassWarning) as warned:
        group = HloPassFix(passes=[HloDCE(), Swaps(), HloCSE(), SwapsBack()])
        assert HloPassPipeline("p", [group], PassDriver(log=log)).run(module)
    (warning,) = warned
    assert str(warning.message) == "passes undo each other's work, round 5 left the graph of round 4: swaps, swaps-back"
    assert sum(record.name == "swaps" for record in log.records) == 5


def test_oscillation_over_several_rounds_is_found() -> None:
    opcodes = ["abs", "negate", "cosine", "sine"]
    passes = [type(f"From{a}", (Swaps,), {"name": f"from-{a}"})(a, b) for a, b in zip(opcodes, [*opcodes[1:], "abs"])]
    with pytest.warns(
        PassWarning, match="round 7 left the graph of round 4: from-negate, from-cosine, from-sine, from-abs"
    ):
        HloPassFix(passes=passes[::-1]).run(parse_hlo(TEXT))


def test_slow_progress_is_no_oscillation(recwarn: pytest.WarningsRecorder) -> None:
    opcodes = ["abs", "negate", "cosine", "sine", "floor", "ceil", "sign", "tan", "tanh", "cbrt"]
    passes = [type(f"From{a}", (Swaps,), {"name": f"from-{a}"})(a, b) for a, b in itertools.pairwise(opcodes)]
    module = parse_hlo(TEXT)
    assert HloPassFix(passes=passes[::-1]).run(module) and not recwarn.list
    assert module.entry_computation.root_instruction.opcode == "cbrt"


def test_changed_bit_is_checked() -> None:
    with pytest.raises(PassError, match="renames returned False, but the module changed"):
        PassDriver(check_changed_bit=True).run([Renames(truthful=False)], parse_hlo(TEXT))


def test_invariant_checker_names_the_guilty_pass() -> None:
    with pytest.raises(HloVerifyError, match="after pass breaks"):
        PassDriver(invariant_checkers=[HloVerifier()]).run([Breaks()], parse_hlo(TEXT))


def test_switches_log_and_dump() -> None:
    seen: list[tuple[str, str]] = []
    passes = [HloCSE(), HloPassFix(passes=[HloDCE()])]
    driver = PassDriver(PassSwitches.of(["hlo_cse"]), dump=lambda name, when, _: seen.append((name, when)))
    assert driver.run(passes, parse_hlo(TEXT))
    records = driver.log.records
    assert [(r.name, r.changed) for r in records] == [("hlo-dce", True), ("hlo-dce", False)]  # the last finds rest
    assert seen[:2] == [("hlo-dce", "before"), ("hlo-dce", "after")]
    assert "hlo-dce" in driver.log.to_text()
    assert not PassDriver(PassSwitches.of(enabled_only=["cse"])).run(passes, parse_hlo(TEXT))


def test_switches_checks_and_dumps_reach_inner_pipelines() -> None:
    inner = HloPassPipeline("inner")
    assert isinstance(inner.add_pass(HloDCE), HloDCE)
    renames = inner.add_pass(Renames(truthful=False))
    outer = [HloPassPipeline("outer", [inner])]
    seen: list[str] = []
    off = PassDriver(PassSwitches.of(["dce", "renames"]), dump=lambda name, when, _: seen.append(name))
    module = parse_hlo(TEXT)
    assert not off.run(outer, module) and not seen and module.instruction_count == 3
    assert not PassDriver(PassSwitches.of(["inner"])).run(outer, module)
    with pytest.raises(PassError, match="renames returned False"):
        PassDriver(check_changed_bit=True, dump=lambda name, when, _: seen.append(name)).run(outer, module)
    assert seen == ["hlo-dce", "hlo-dce", "renames"]
    renames.truthful = True
    inner.add_pass(Breaks())
    with pytest.raises(HloVerifyError, match="found by hlo-verifier after pass breaks"):
        PassDriver(invariant_checkers=[HloVerifier()]).run(outer, parse_hlo(TEXT))


def test_a_pipeline_brings_its_own_checkers() -> None:
    pipeline = HloPassPipeline("mine")
    pipeline.add_invariant_checker(HloVerifier)
    pipeline.add_pass(Breaks)
    with pytest.raises(HloVerifyError, match="found by hlo-verifier after pass breaks"):
        pipeline.run(parse_hlo(TEXT))
    broken = parse_hlo(TEXT)
    Breaks().run(broken)
    with pytest.raises(HloVerifyError, match="before the first pass of mine"):
        pipeline.run(broken)


def test_required_passes_cannot_be_disabled() -> None:
    driver = PassDriver(PassSwitches.of(["copy-insertion"]))
    with pytest.raises(InvalidArgument, match="'copy-insertion' cannot be disabled"):
        driver.run([find_pass(PASSES, "copy-insertion")()], parse_hlo(TEXT))


def test_the_schedule_follows_every_pass() -> None:
    module = parse_hlo(TEXT)
    assert HloTrivialScheduler().run(module)
    assert HloDCE().run(module)
    module.schedule.verify(module)
    assert [i.name for i in module.schedule.sequence(module.entry_computation)] == ["x", "r"]


def test_every_change_is_another_version() -> None:
    module = parse_hlo(TEXT)
    version = module.version
    assert not HloCSE().run(module) and module.version == version
    assert Renames().run(module) and module.version > version  # not by the graph: the base class notes it
    version = module.version
    x, d, _ = module.entry_computation.instructions
    module.entry_computation.set_root_instruction(d)
    assert module.version > version
    version = module.version
    module.entry_computation.root_instruction.add_control_dependency_to(module.entry_computation.instructions[2])
    assert module.version > version and x.users
