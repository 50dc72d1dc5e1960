"""`xjit bisect-pass`: the first pass and the first rewrite that change values, with rules that are wrong on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import xjit
from tests.support import corpus
from xjit.hlo import HloInstruction, HloModule, Unsupported
from xjit.hlo.diagnostics import HloError
from xjit.hlo.edit.fusion_body import FusionBody
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes import PASSES, HloPassFix, PassDriver, cpu_pipeline
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.driver import StopAt
from xjit.passes.framework.expansion import Expansion
from xjit.passes.fusion import instruction_fusion
from xjit.passes.fusion.instruction_fusion import InstructionFusion
from xjit.passes.fusion.unit_merging import merge_units
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.tools import bisect_pass
from xjit.tools.bisect_pass import PassBisection
from xjit.tools.leaf_comparison import compare_leaf, leaves_of
from xjit.tools.main import BAD_INPUT, MISMATCH, main

TEXT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] abs(x)
  b = f32[4] abs(x)
  c = f32[4] add(a, b)
  d = f32[4] subtract(y, x)
  f = f32[4] subtract(y, y)
  g = f32[4] subtract(c, d)
  h = f32[4] add(f, g)
  ROOT r = f32[4] negate(h)
}
"""


class WrongSubtract(OpExpander):
    """Turns a - b into b - a unless a is b: wrong from the second such rewrite on, in the order of the text."""

    name = "wrong-subtract"
    opcodes = frozenset({"subtract"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns a sum with the negated wrong operand."""
        a, b = instruction.operands
        right = a is b
        return into.make("add", into.make("negate", a), b if not right else a)


class Breaks(HloModulePass):
    """Fails on every module."""

    name = "breaks"

    def run_impl(self, module: HloModule, execution_threads: object) -> bool:
        """Raises."""
        raise HloError("does not work")


class Renames(HloModulePass):
    """Changes values without replacing an instruction."""

    name = "changes-opcodes"

    def run_impl(self, module: HloModule, execution_threads: object) -> bool:
        """Makes the root another instruction."""
        entry = module.entry_computation
        entry.set_root_instruction(entry.add_instruction(build.unary("abs", entry.root_instruction)))
        return True


INPUTS = [np.array([1, 2, 3, 4], np.float32), np.array([5, 5, 7, 9], np.float32)]


def find(*passes: type[HloModulePass]) -> bisect_pass.Finding | None:
    return PassBisection(xjit.parse_hlo(TEXT), INPUTS, lambda: [p() for p in passes]).find()


def test_the_pass_and_the_rewrite_are_found() -> None:
    found = find(HloCSE, HloDCE, WrongSubtract, HloDCE)
    assert found is not None
    assert (found.number, found.count, found.name) == (3, 4, "wrong-subtract")
    assert found.rewrites == 3 and "subtract(%y, %x)" in found.old and "add(" in found.new
    assert found.wrong.startswith("output 0 is off by")


INSIDE = """HloModule m
fused { p = f32[4] parameter(0)  q = f32[4] parameter(1)
  same = f32[4] subtract(q, q)
  wrong = f32[4] subtract(p, q)
  ROOT s = f32[4] add(same, wrong) }
body { t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0  one = s32[] constant(1)  j = s32[] add(i, one)
  x = f32[4] get-tuple-element(t), index=1  y = f32[4] get-tuple-element(t), index=2
  n = f32[4] fusion(x, y), kind=kLoop, calls=fused
  ROOT u = (s32[], f32[4], f32[4]) tuple(j, n, y) }
condition { t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0  three = s32[] constant(3)
  ROOT less = pred[] compare(i, three), direction=LT }
ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  zero = s32[] constant(0)
  t = (s32[], f32[4], f32[4]) tuple(zero, x, y)
  ROOT w = (s32[], f32[4], f32[4]) while(t), condition=condition, body=body }"""


class WrongInside(HloModulePass):
    """The same as WrongSubtract in all computations, those of fusions included."""

    name = "wrong-inside"

    def run_impl(self, module: HloModule, execution_threads: object) -> bool:
        """Turns a - b into b - a."""
        differences = [i for c in module.computations() for i in c.instructions if i.opcode == "subtract"]
        for old in differences:
            assert old.parent is not None
            swapped = build.binary("subtract", old.operand(1), old.operand(0))
            replace(old, old.parent.add_instruction(swapped))
        return bool(differences)


class WrongMerge(HloModulePass):
    """Merges sums with what they read; afterwards, of the second merged, into negative ones."""

    name = "wrong-merge"

    def run_impl(self, module: HloModule, execution_threads: object) -> bool:
        """Merges two sums of the entry."""
        entry = module.entry_computation
        for number, name in enumerate(("c", "h")):
            (total,) = [i for i in entry.instructions if i.name == name]
            (read,) = [o for o in total.unique_operands() if o.name in ("a", "f")]
            if number:
                wrong = entry.add_instruction(build.unary("negate", read.operand(0)))
                read.replace_operand_with(0, wrong)
            merge_units(entry, [read, total], [total], total, "kLoop", "wrong")
        return True


def test_a_rewrite_inside_a_fusion_inside_a_loop_is_found() -> None:
    found = PassBisection(xjit.parse_hlo(INSIDE), INPUTS, lambda: [HloDCE(), WrongInside()]).find()
    assert found is not None and (found.number, found.rewrite, found.rewrites) == (2, 2, 2)
    assert "%wrong = " in found.old and "subtract(%q, %p)" in found.new


def test_a_merger_is_a_rewrite() -> None:
    found = find(HloDCE, WrongMerge)
    assert found is not None and (found.number, found.rewrite, found.rewrites) == (2, 2, 2)
    assert "%f = " in found.old and "%h = " in found.old and "fusion(" in found.new


THREE = """HloModule m
ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)
  a = f32[4] add(x, y)  l = f32[4] negate(a)
  wrong = f32[4] subtract(x, y)  m = f32[4] negate(wrong)
  c = f32[4] multiply(x, y)  n = f32[4] negate(c)
  ROOT t = (f32[4], f32[4], f32[4]) tuple(l, m, n) }"""


class WrongBody(FusionBody):
    """Takes one difference in with its operands swapped."""

    def take(self, unit: HloInstruction, stays: bool) -> HloInstruction:
        """Returns what stands for the unit."""
        value = super().take(unit, stays)
        if unit.name == "wrong":
            a, b = value.operands
            value.replace_operand_with(0, b)
            value.replace_operand_with(1, a)
        return value


def test_a_fusion_is_a_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> bisect_pass.Finding | None:
        return PassBisection(xjit.parse_hlo(THREE), INPUTS, lambda: [HloDCE(), InstructionFusion()]).find()

    assert found() is None
    monkeypatch.setattr(instruction_fusion, "FusionBody", WrongBody)
    wrong = found()
    assert wrong is not None and (wrong.name, wrong.rewrite, wrong.rewrites) == ("instruction-fusion", 2, 3)
    assert "%wrong = " in wrong.old and "%m = " in wrong.old and "fusion(" in wrong.new


@pytest.mark.parametrize("rewrites", [0, 1, 2, 3, None])
def test_fusions_that_are_made_one_by_one_are_the_same(rewrites: int | None) -> None:
    module, whole = xjit.parse_hlo(THREE), xjit.parse_hlo(THREE)
    PassDriver(stop=StopAt(1, rewrites)).run([InstructionFusion()], module)
    InstructionFusion().run(whole)
    fusions = [i for i in module.entry_computation.instructions if i.opcode == "fusion"]
    assert len(fusions) == (3 if rewrites is None else rewrites)
    assert (module.entry_computation == whole.entry_computation) == (len(fusions) == 3)
    for a, e in zip(leaves_of(xjit.evaluate(module, *INPUTS)), leaves_of(xjit.evaluate(THREE, *INPUTS)), strict=True):
        assert compare_leaf(a, e).ok


def test_right_passes_are_right() -> None:
    assert find(HloCSE, HloDCE) is None


@pytest.mark.parametrize(("wrong", "what"), [(Breaks, "does not work"), (Renames, "output 0")])
def test_a_pass_without_rewrites(wrong: type[HloModulePass], what: str) -> None:
    found = find(HloCSE, wrong, HloDCE)
    assert found is not None and (found.number, found.rewrite) == (2, 0) and what in found.wrong


@pytest.mark.parametrize(("rewrites", "left"), [(0, 3), (1, 2), (2, 1), (None, 0)])
def test_the_driver_stops_behind_a_rewrite(rewrites: int | None, left: int) -> None:
    module = xjit.parse_hlo(TEXT)
    stop = StopAt(2, rewrites)
    PassDriver(stop=stop).run([HloDCE(), WrongSubtract(), HloCSE()], module)
    opcodes = [i.opcode for i in module.entry_computation.instructions]
    assert opcodes.count("subtract") == left and opcodes.count("abs") == 2
    assert stop.ran == ["hlo-dce", "wrong-subtract"] and module.on_rewrite is None


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.hlo"
    file.write_text(TEXT)
    assert main(["bisect-pass", str(file)]) == 0
    assert "no pass changes" in capsys.readouterr().out
    monkeypatch.setattr(bisect_pass, "PASSES", {**PASSES, "wrong-subtract": WrongSubtract})
    assert main(["bisect-pass", str(file), "--passes", "cse,wrong-subtract,dce"]) == MISMATCH
    shown = capsys.readouterr().out
    assert "pass 2 of 3, wrong-subtract: output 0 is off by" in shown and "of 3:" in shown
    assert main(["bisect-pass", str(file), "--passes", "no-such-pass"]) == BAD_INPUT
    assert main(["bisect-pass", str(file), "--seed", "-1"]) == BAD_INPUT


def _leaf_passes(passes: Sequence[HloModulePass]) -> Iterator[HloModulePass]:
    for item in passes:
        yield from _leaf_passes(item.passes) if isinstance(item, HloPassFix) else [item]


NAMES = sorted({item.name for item in _leaf_passes(cpu_pipeline()) if not item.is_required})
PROGRAMS = corpus.stablehlo_case_names()[::40]


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_without_a_pass_results_are_the_same(name: str) -> None:
    """An opcode whose expander is left out may be unsupported; what compiles must compute the same."""
    compared = 0
    for program in PROGRAMS:
        case = corpus.load_stablehlo_case(program)
        try:
            executable = xjit.compile(case.hlo_text, options=xjit.CompileOptions(disabled_passes=(name,)))
        except Unsupported:
            continue
        compared += 1
        expected = leaves_of(xjit.compile(case.hlo_text)(*case.inputs))
        for a, b in zip(leaves_of(executable(*case.inputs)), expected, strict=True):
            assert compare_leaf(a, b).ok, f"{program} without {name}"
    assert compared > len(PROGRAMS) // 2
