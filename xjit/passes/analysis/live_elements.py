"""Which elements of tuples anything reads, over the whole module: XLA's HloLivenessAnalysis.

An element is live if the entry's result, a side effect or a live value needs it. A loop's element may be read by the
body only to compute itself: it is dead then. Found as the least fixed point, from the uses to the definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.hlo.types.shape_index import ShapeIndex
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses


@dataclass(slots=True)
class LiveElements:
    """`indices[instruction]` are the shape indices, inner nodes and leaves, of what is live of its result."""

    indices: dict[HloInstruction, set[ShapeIndex]] = field(default_factory=dict)

    @classmethod
    def of(cls, module: HloModule) -> LiveElements:
        """Analyses all computations of a module."""
        return _Propagation(module).run()

    def is_live(self, instruction: HloInstruction, index: ShapeIndex = ()) -> bool:
        """Whether anything needs that element of the result."""
        return index in self.indices.get(instruction, ())


class _Propagation:
    """The worklist: what has become live of an instruction says, once, what it needs of the operands."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.found = LiveElements()
        self.fresh: dict[HloInstruction, list[ShapeIndex]] = {}  # live, but not asked yet what they need
        self.needs_all: set[HloInstruction] = set()

    def run(self) -> LiveElements:
        effects = analyses.get(SideEffects, self.module)
        self.mark_all(self.module.entry_computation.root_instruction)
        for computation in effects.computations:
            for instruction in computation.instructions:
                if effects.of_instruction(instruction):
                    self.mark_all(instruction)
        while self.fresh:
            instruction, indices = self.fresh.popitem()
            _RULES.get(instruction.opcode, _all_operands)(self, instruction, indices)
        return self.found

    def mark(self, instruction: HloInstruction, index: ShapeIndex) -> None:
        live = self.found.indices.setdefault(instruction, set())
        if index not in live:
            live.add(index)
            self.fresh.setdefault(instruction, []).append(index)

    def mark_all(self, instruction: HloInstruction) -> None:
        if not instruction.shape.is_tuple:
            self.mark(instruction, ())
            return
        for index, _ in instruction.shape.subshapes():
            self.mark(instruction, index)


Indices = Sequence[ShapeIndex]


def _all_operands(flow: _Propagation, instruction: HloInstruction, indices: Indices) -> None:
    """What computes something needs all of its operands, and all that its computations return."""
    del indices  # each needs the same
    if instruction in flow.needs_all:
        return
    flow.needs_all.add(instruction)
    live = flow.found.indices
    for operand in instruction.operands:
        if operand not in live or operand.shape.is_tuple:
            flow.mark_all(operand)
    for computation in instruction.called_computations:
        flow.mark_all(computation.root_instruction)


def _tuple(flow: _Propagation, instruction: HloInstruction, indices: Indices) -> None:
    for index in indices:
        if index:
            flow.mark(instruction.operand(index[0]), index[1:])


def _get_tuple_element(flow: _Propagation, instruction: HloInstruction, indices: Indices) -> None:
    element = instruction.attributes_as(at.GetTupleElementAttributes).index
    flow.mark(instruction.operand(0), ())
    for index in indices:
        flow.mark(instruction.operand(0), (element, *index))


def _call(flow: _Propagation, instruction: HloInstruction, indices: Indices) -> None:
    """A call, conditional or fusion returns what its computations return; parameters mark the operands."""
    for computation in instruction.called_computations:
        for index in indices:
            flow.mark(computation.root_instruction, index)
    if instruction.opcode == "conditional":
        flow.mark_all(instruction.operand(0))


def _while(flow: _Propagation, instruction: HloInstruction, indices: Indices) -> None:
    for index in indices:
        flow.mark(instruction.while_body.root_instruction, index)
        flow.mark(instruction.while_init, index)
    flow.mark_all(instruction.while_condition.root_instruction)


def _parameter(flow: _Propagation, parameter: HloInstruction, indices: Indices) -> None:
    """A live parameter is a live operand of every caller, and of a loop the result of the trip before."""
    computation = parameter.parent
    assert computation is not None
    number = parameter.attributes_as(at.ParameterAttributes).parameter_number
    for caller in computation.caller_instructions():
        reached = _argument(caller, computation, number)
        for source in (*reached, caller) if caller.opcode == "while" else reached:
            for index in indices:
                flow.mark(source, index)


def _argument(caller: HloInstruction, computation: HloComputation, number: int) -> list[HloInstruction]:
    """Returns the operands that are a computation's parameter; none where single elements are handed over."""
    if caller.opcode == "conditional":
        return [caller.operand(i + 1) for i, c in enumerate(caller.called_computations) if c is computation]
    return [caller.operand(number)] if caller.opcode in ("call", "fusion", "while") else []


_RULES: Mapping[str, Callable[[_Propagation, HloInstruction, Indices], None]] = {
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "call": _call,
    "conditional": _call,
    "fusion": _call,
    "while": _while,
    "parameter": _parameter,
}
