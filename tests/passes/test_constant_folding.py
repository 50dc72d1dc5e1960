"""Constant folding stays within its budget; its pairs and refusals are cases/simplify/constant_folding.hlo."""

from __future__ import annotations

import time

import numpy as np
import pytest

from xjit.hlo import HloModule
from xjit.ops.evaluation import evaluate
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.evaluation.table import EVALUATORS
from xjit.passes.framework.base import PassWarning
from xjit.passes.framework.pipeline import HloPassFix
from xjit.passes.simplify import hlo_constant_folding
from xjit.passes.simplify.folding_cost import folding_cost
from xjit.passes.simplify.hlo_constant_folding import HloConstantFolding
from xjit.text.parser import parse_hlo


def test_constant_folding_respects_its_budget() -> None:
    body = "a = f32[64] constant({...}) ROOT r = f32[64] add(a, a)"
    module = parse_hlo(f"HloModule m ENTRY e {{ {body} }}", allow_elided_constants=True)
    assert not HloConstantFolding(max_work=10).run(module)
    assert HloConstantFolding().run(module)


def test_a_fixed_point_goes_on_where_a_run_had_no_work_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run may do one of the four additions. They are in computations that nothing else changes."""
    monkeypatch.setattr(hlo_constant_folding, "_EVALUATIONS", 1)
    callees = "".join(
        f"f{i} {{ p = s32[4] parameter(0) a = s32[4] constant({{{i}, 1, 2, 3}}) s = s32[4] add(a, a) "
        "ROOT r = s32[4] multiply(s, p) }\n"
        for i in range(4)
    )
    calls = " ".join(f"x{i + 1} = s32[4] call(x{i}), to_apply=f{i}" for i in range(4))
    module = parse_hlo(f"HloModule m {callees} ENTRY e {{ x0 = s32[4] parameter(0) {calls} ROOT r = s32[4] copy(x4) }}")
    HloPassFix([HloConstantFolding(max_work=4)]).run(module)
    assert not [i for c in module.computations() for i in c.instructions if i.opcode == "add"]


def _sort(length: int, direction: str) -> HloModule:
    values = ", ".join(str(i * 7919 % length) for i in range(length))
    return parse_hlo(f"""HloModule m
f {{ a = s32[] parameter(0)  b = s32[] parameter(1)  c = s32[] negate(a)  d = s32[] negate(b)
  ROOT r = pred[] compare(c, d), direction={direction} }}
ENTRY e {{ x = s32[{length}] constant({{{values}}})  ROOT s = s32[{length}] sort(x), dimensions={{0}}, to_apply=f }}""")


def test_sorts_fold_by_an_order_and_not_by_what_may_contradict_itself() -> None:
    module = _sort(2000, "LT")
    expected = evaluate(module)
    assert HloConstantFolding().run(module)
    assert np.array_equal(evaluate(module), expected)
    assert not HloConstantFolding().run(_sort(2000, "LE"))  # merges by one element at a time: seconds
    assert HloConstantFolding().run(_sort(16, "LE"))


def test_costs_are_bounds_for_all_that_is_folded() -> None:
    """An operation of the estimate takes no more than some 20 ns; here 5 times as much, on any machine."""
    module = _sort(2000, "LT")
    sort, interpreter = module.entry_computation.root_instruction, Interpreter()
    cost = folding_cost(sort, interpreter)
    assert cost is not None
    values = [evaluate(module)]
    begin = time.thread_time()
    EVALUATORS["sort"](interpreter, sort, values)
    assert time.thread_time() - begin < 100e-9 * cost


def test_slow_evaluations_are_told_of_and_the_alarm_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0, 1.5, 2, 3.8, 4, 6.5])  # 1.5 s, 1.8 s and 2.5 s: the second one is below the doubled alarm
    monkeypatch.setattr(hlo_constant_folding.time, "perf_counter", lambda: next(clock))
    module = parse_hlo("""HloModule m ENTRY e { a = f32[] constant(1)
  x = f32[] negate(a)  y = f32[] add(x, a)  z = f32[] add(y, x)  ROOT t = (f32[], f32[]) tuple(z, x) }""")
    with pytest.warns(PassWarning) as told:
        assert HloConstantFolding().run(module)
    assert [str(w.message) for w in told] == [
        "constant folding of x took 1.5 s",
        "constant folding of z took 2.5 s",
    ]
