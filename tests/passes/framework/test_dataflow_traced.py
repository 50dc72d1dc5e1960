"""The dataflow against execution: every array that stands at a place was made by an instruction that it names there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.pass_cases import PassCase, all_cases
from tests.support.passes import random_arguments
from xjit.hlo import HloInstruction, HloModule, Trait
from xjit.hlo.types.shape_index import ShapeIndex
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.analysis.forwarding import forwards
from xjit.passes.framework import analyses
from xjit.text.parser import parse_hlo


class _Tracer(Interpreter):
    """Evaluates a module and notes which instruction made each array; checks that the dataflow knows it."""

    def __init__(self, module: HloModule) -> None:
        super().__init__()
        self.flow = HloDataflowAnalysis(module)
        self.running = set(analyses.get(CallGraph, module).sequential)
        self.makers: dict[int, tuple[HloInstruction, ShapeIndex, Any]] = {}  # by identity; keeps the arrays alive
        self.checked = 0

    def _evaluate(self, instruction: HloInstruction, operands: Any) -> Any:
        value = super()._evaluate(instruction, operands)
        computation = instruction.parent
        if computation is None or computation not in self.running:
            return value
        is_given = instruction.opcode == "parameter" and not computation.is_entry_computation()
        if not (forwards(instruction) or is_given or instruction.op.has(Trait.CONTROL_FLOW)):
            value = self._made(instruction, (), value)
        self._check(instruction, (), value)
        return value

    def _made(self, instruction: HloInstruction, index: ShapeIndex, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._made(instruction, (*index, n), v) for n, v in enumerate(value))
        if isinstance(value, np.ndarray):
            value = value.copy()
            self.makers[id(value)] = (instruction, index, value)
        return value

    def _check(self, instruction: HloInstruction, index: ShapeIndex, value: Any) -> None:
        if isinstance(value, tuple):
            for n, v in enumerate(value):
                self._check(instruction, (*index, n), v)
        elif id(value) in self.makers:
            maker, place, _ = self.makers[id(value)]
            known = self.flow.value_set(instruction, index)
            assert (maker, place) in {(v.instruction, v.index) for v in known}, (instruction, index, maker, str(known))
            self.checked += 1


THEMES = ("loops/", "calls/", "memory/")
TRACED = [case for case in all_cases() if case.id.startswith(THEMES) and "none" not in case.values]


@pytest.mark.parametrize("case", TRACED, ids=lambda case: case.id)
def test_values_are_where_the_dataflow_says(case: PassCase) -> None:
    for text in (case.before, case.after or case.before):
        module = parse_hlo(text)
        tracer = _Tracer(module)
        arguments = random_arguments(module)
        with np.errstate(all="ignore"):
            try:
                tracer.call(module.entry_computation, *arguments)
            except xjit.Unsupported:
                continue
        assert tracer.checked
