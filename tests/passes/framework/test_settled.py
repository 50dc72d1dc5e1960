"""Fixed points: what a pass has left as it was is looked at again only once it has changed; budgets are shared."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import pytest

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.pipeline import HloPassFix, HloPassPipeline
from xjit.passes.loops.while_loop_unroller import WhileLoopUnroller
from xjit.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.passes.simplify.tuple_simplifier import TupleSimplifier
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
inner { p = f32[4] parameter(0)  ROOT r = f32[4] sine(p) }
outer { p = f32[4] parameter(0)  ROOT r = f32[4] call(p), to_apply=inner }
other { p = f32[4] parameter(0)  ROOT r = f32[4] cosine(p) }
ENTRY e { x = f32[4] parameter(0)  a = f32[4] call(x), to_apply=outer  ROOT b = f32[4] call(a), to_apply=other }
"""


@dataclass
class Looks(HloModulePass):
    """Notes which computations it is given, run by run."""

    name = "looks"
    is_local = True
    runs: list[list[str]] = field(default_factory=list["list[str]"])

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        self.runs.append([c.name for c in self.unsettled(selected_computations(module, execution_threads))])
        return False


@dataclass
class Changes(HloModulePass):
    """Changes one computation in its first run."""

    name = "changes"
    computation: str = ""
    in_place: bool = False
    runs: int = 0

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        self.runs += 1
        if self.runs > 1 or not self.computation:
            return False
        computation = module.get_computation_with_name(self.computation)
        assert computation is not None
        root = computation.root_instruction
        if self.in_place:
            root.metadata = root.metadata
        else:
            new = HloInstruction.create("negate", root.shape, [root])
            computation.set_root_instruction(computation.add_instruction(new))
        return True


@pytest.mark.parametrize(
    ("computation", "in_place", "again"),
    [
        ("inner", False, ["inner", "outer", "e"]),  # and all that call it
        ("outer", False, ["outer", "e"]),
        ("other", False, ["other", "e"]),
        ("e", False, ["e"]),
        ("e", True, ["inner", "outer", "other", "e"]),  # nobody knows what a change in place was made to
    ],
)
def test_only_what_has_changed_is_looked_at_again(computation: str, in_place: bool, again: list[str]) -> None:
    looks = Looks()
    HloPassFix([looks, Changes(computation, in_place)]).run(parse_hlo(TEXT))
    assert looks.runs == [["inner", "outer", "other", "e"], again]
    assert not looks.settled


@pytest.mark.parametrize("by_shape", [False, True])
def test_other_attributes_count_beside_changes_elsewhere(by_shape: bool) -> None:
    @dataclass
    class Both(Changes):
        name = "both"

        def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
            changed, inner = super().run_impl(module, execution_threads), module.get_computation_with_name("inner")
            if changed and inner is not None and by_shape:
                inner.root_instruction.mutable_shape = inner.root_instruction.shape
            elif changed and inner is not None:
                inner.parameter_instructions[0].update_attributes(parameter_number=0)
            return changed

    looks = Looks()
    HloPassFix([looks, Both("e")]).run(parse_hlo(TEXT))
    assert looks.runs[1] == ["inner", "outer", "e"]


def test_a_pass_that_changes_something_looks_again_at_that() -> None:
    @dataclass
    class Both(Changes):
        name = "both"
        is_local = True
        seen: list[list[str]] = field(default_factory=list["list[str]"])

        def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
            self.seen.append([c.name for c in self.unsettled(selected_computations(module, execution_threads))])
            return super().run_impl(module, execution_threads)

    both = Both("other")
    assert HloPassFix([both]).run(parse_hlo(TEXT))
    assert both.seen == [["inner", "outer", "other", "e"], ["other", "e"]]


def test_what_a_limit_kept_from_being_done_is_looked_at_again() -> None:
    @dataclass
    class Limited(Looks):
        name = "limited"

        def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
            changed = super().run_impl(module, execution_threads)
            self.unfinished = {c for c in module.computations() if c.name == "inner" and len(self.runs) == 1}
            return changed

    limited = Limited()
    HloPassFix([limited, Changes("other"), Changes(), Changes("e")]).run(parse_hlo(TEXT))
    assert limited.runs[1] == ["inner", "other", "e"]


def test_a_pass_that_fails_is_left_without_settled_computations() -> None:
    @dataclass
    class Fails(Looks):
        name = "fails"

        def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
            if self.settled:
                raise InvalidArgument("no second run")
            return super().run_impl(module, execution_threads)

    fails = Fails()
    with pytest.raises(InvalidArgument, match="no second run"):
        HloPassFix([fails, Changes("e")]).run(parse_hlo(TEXT))
    assert not fails.settled


def test_another_run_of_the_fixed_point_looks_at_everything() -> None:
    looks, module = Looks(), parse_hlo(TEXT)
    fix = HloPassFix([looks])
    fix.run(module)
    fix.run(module)
    assert looks.runs == [["inner", "outer", "other", "e"]] * 2


def loops(count: int) -> HloModule:
    """Loops of four trips, one after the other."""
    state = "(s32[], f32[8])"
    text = "HloModule m\n" + "".join(
        f"""b{i} {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0
          x = f32[8] get-tuple-element(p), index=1  o = s32[] constant(1)  j = s32[] add(i, o)  y = f32[8] tanh(x)
          ROOT t = {state} tuple(j, y) }}
        c{i} {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  k = s32[] constant(4)
          ROOT r = pred[] compare(i, k), direction=LT }}
        """
        for i in range(count)
    )
    lines = [
        f"t{i} = {state} tuple(z, v{i})  w{i} = {state} while(t{i}), condition=c{i}, body=b{i} "
        f"v{i + 1} = f32[8] get-tuple-element(w{i}), index=1"
        for i in range(count)
    ]
    start = "ENTRY e { v0 = f32[8] parameter(0)  z = s32[] constant(0)"
    return parse_hlo("\n".join([text, start, *lines, f"ROOT r = f32[8] copy(v{count}) }}"]))


@pytest.mark.parametrize("nested", [lambda p: p, lambda p: HloPassPipeline("loops", [p]), lambda p: HloPassFix([p])])
def test_loops_are_unrolled_up_to_a_total(nested: Callable[[HloModulePass], HloModulePass]) -> None:
    module = loops(20)  # each grows by 4 * 7 instructions
    unroller = WhileLoopUnroller(max_growth=150)
    simplifiers = [TupleSimplifier(), AlgebraicSimplifier(), HloCSE(), HloDCE()]
    fix = HloPassFix([*simplifiers, nested(unroller)])
    for total in (20 - 150 // 28, 20 - 2 * (150 // 28)):
        fix.run(module)
        assert sum(i.opcode == "while" for i in module.entry_computation.instructions) == total
    assert unroller.run(module)  # each run has a limit of its own again
