"""Visitors: post order, given orders, dispatch."""

from __future__ import annotations

import pytest

from xjit.hlo import HloInstruction, InvalidArgument
from xjit.hlo.ir.visitors import DfsHloVisitor
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  n = f32[2] negate(x)
  d = f32[2] round-nearest-even(x)
  ROOT a = f32[2] add(n, x), control-predecessors={d}
}"""


class Recorder(DfsHloVisitor):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def preprocess(self, instruction: HloInstruction) -> None:
        self.seen.append("<")

    def postprocess(self, instruction: HloInstruction) -> None:
        self.seen.append(">")

    def default_action(self, instruction: HloInstruction) -> None:
        self.seen.append(instruction.name)

    def handle_round_nearest_even(self, instruction: HloInstruction) -> None:
        self.seen.append(f"rounding {instruction.name}")

    def finish_visit(self, root: HloInstruction) -> None:
        self.seen.append(f"end {root.name}")


def visited(start, *arguments) -> list[str]:
    recorder = Recorder()
    method = start.accept_ordered if arguments else start.accept
    method(recorder, *arguments)
    return [item for item in recorder.seen if item not in "<>"]


def test_computation_and_hooks() -> None:
    recorder = Recorder()
    parse_hlo(TEXT).entry_computation.accept(recorder)
    assert " ".join(recorder.seen) == "< x > < n > < rounding d > < a > end a"


def test_instruction_visits_what_it_needs() -> None:
    entry = parse_hlo(TEXT).entry_computation
    assert visited(entry.instructions[1]) == ["x", "n", "end n"]
    assert visited(entry.root_instruction) == ["x", "n", "rounding d", "a", "end a"]


def test_deep_chains_do_not_recurse() -> None:
    entry = parse_hlo(TEXT).entry_computation
    last = entry.root_instruction
    for _ in range(5000):
        last = entry.add_instruction(HloInstruction.create("negate", last.shape, [last]))
    assert len(visited(last)) == 5005


def test_ordered() -> None:
    entry = parse_hlo(TEXT).entry_computation
    x, n, d, a = entry.instructions
    assert visited(entry, [x, d, n, a]) == ["x", "rounding d", "n", "a", "end a"]
    for order, message in [
        ([x, n, a, d], "a before d, which it needs"),
        ([x, x, n, d, a], "x twice"),
        ([x, n], "lacks a, the root"),
        ([parse_hlo(TEXT).entry_computation.root_instruction], "is not in computation"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            visited(entry, order)
