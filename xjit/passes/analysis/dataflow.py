"""Dataflow: which value stands at every leaf of every instruction.

A value is defined once: by an ordinary instruction, an entry parameter, a constant, a while (the loop-carried element,
a phi) or a conditional. Tuples, get-tuple-elements, bitcasts, barriers and parameters of called computations define
nothing: they forward values. A loop-carried element that the body passes through unchanged is the value it came in as.
Tokens and opaques are no values (None).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xjit.hlo import HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import opcodes_with
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.analysis.linear_order import Event, EventKind


@dataclass(eq=False, slots=True)
class HloValue:
    """One value: where it is defined, and what it is. `phi` marks loop-carried elements that the body changes."""

    id: int
    instruction: HloInstruction
    index: ShapeIndex
    shape: Shape
    byte_size: int
    time: int
    phi: bool = False
    forward: HloValue | None = None  # a loop-carried element that never changes

    @property
    def is_read_only(self) -> bool:
        """Whether its memory belongs to the caller or is shared by all calls."""
        return self.instruction.opcode in ("parameter", "constant")

    def __repr__(self) -> str:
        return f"%{self.instruction.name}{{{','.join(map(str, self.index))}}}"


Leaves = tuple["HloValue | None", ...]
"""The values of an instruction, one per leaf of its shape, in order."""


def leaf_count(shape: Shape) -> int:
    """Returns the number of leaves (arrays, tokens, opaques) of a shape."""
    return sum(1 for _ in shape.leaves())


class HloDataflow:
    """The values of a linear program (see linear_order). `values(i)` are those of an instruction's leaves."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.all_values: list[HloValue] = []
        self._leaves: dict[HloInstruction, Leaves] = {}
        self._counts: dict[int, tuple[Shape, int]] = {}
        for time, event in enumerate(events):
            self._step(time, event)

    def values(self, instruction: HloInstruction) -> Leaves:
        """Returns the value at each leaf of an instruction of a sequential computation."""
        return tuple(None if v is None else self.resolve(v) for v in self._leaves[instruction])

    def has(self, instruction: HloInstruction) -> bool:
        """Whether the instruction is part of the program."""
        return instruction in self._leaves

    @staticmethod
    def resolve(value: HloValue) -> HloValue:
        """Follows unchanged loop-carried elements to what they are."""
        while value.forward is not None:
            if value.forward.forward is not None:
                value.forward = value.forward.forward
            value = value.forward
        return value

    # -- construction

    def _count(self, shape: Shape) -> int:
        if not shape.is_tuple:
            return 1
        known = self._counts.get(id(shape))
        if known is None or known[0] is not shape:
            known = self._counts[id(shape)] = (shape, leaf_count(shape))
        return known[1]

    def _define(self, instruction: HloInstruction, time: int, phi: bool = False, shape: Shape | None = None) -> Leaves:
        leaves: list[HloValue | None] = []
        for index, leaf in (shape or instruction.shape).leaves():
            if not leaf.is_array:
                leaves.append(None)
                continue
            value = HloValue(len(self.all_values), instruction, index, leaf, physical_byte_size(leaf), time, phi)
            self.all_values.append(value)
            leaves.append(value)
        return tuple(leaves)

    def _step(self, time: int, event: Event) -> None:
        instruction = event.instruction
        if event.kind is EventKind.RUN:
            if instruction in self._leaves:
                return  # the parameter of a called computation, bound at its call
            rule = _FORWARDS.get(instruction.opcode)
            leaves = rule(self, instruction, time) if rule is not None else self._define(instruction, time)
            self._leaves[instruction] = leaves
            _check_forwarded_layouts(instruction)
        elif event.kind is EventKind.WHILE_BEGIN:
            phis = self._leaves[instruction] = self._define(instruction, time, phi=True)
            _check_layouts(instruction, instruction.shape, instruction.operand(0).shape)
            for computation in instruction.called_computations:
                self._bind(computation.parameter_instruction(0), instruction.shape, phis)
        elif event.kind is EventKind.WHILE_END:
            self._close_loop(instruction)
        elif event.kind is EventKind.BRANCH_BEGIN:
            self._bind_parameters(instruction, event.branch)
        elif event.kind is EventKind.CALL_END:
            self._end_call(instruction, time)

    def _bind(self, parameter: HloInstruction, shape: Shape, leaves: Leaves) -> None:
        _check_layouts(parameter, parameter.shape, shape)
        self._leaves[parameter] = leaves

    def _close_loop(self, loop: HloInstruction) -> None:
        body_root = self._leaves[loop.while_body.root_instruction]
        _check_layouts(loop, loop.shape, loop.while_body.root_instruction.shape)
        initial = self._leaves[loop.operand(0)]
        for phi, end, start in zip(self._leaves[loop], body_root, initial, strict=True):
            if phi is not None and start is not None and end is not None and self.resolve(end) is phi:
                phi.forward = self.resolve(start)

    def _bind_parameters(self, caller: HloInstruction, branch: int) -> None:
        computation = caller.called_computations[branch]
        operands = (caller.operand(branch + 1),) if caller.opcode == "conditional" else caller.operands
        for parameter, operand in zip(computation.parameter_instructions, operands, strict=True):
            self._bind(parameter, operand.shape, self._leaves[operand])

    def _end_call(self, caller: HloInstruction, time: int) -> None:
        if caller.opcode != "async-start":
            for computation in caller.called_computations:
                _check_layouts(caller, caller.shape, computation.root_instruction.shape)
            self._leaves[caller] = self._define(caller, time)
            return
        operands = tuple(v for o in caller.operands for v in self._leaves[o])
        result = self._define(caller, time, shape=caller.to_apply.root_instruction.shape)
        rest = self._count(caller.shape) - len(operands) - len(result)
        self._leaves[caller] = (*operands, *result, *((None,) * rest))

    def element(self, instruction: HloInstruction, index: int) -> Leaves:
        """Returns the values of element `index` of a tuple-shaped instruction."""
        shapes = instruction.shape.tuple_shapes
        begin = sum(self._count(s) for s in shapes[:index])
        return self._leaves[instruction][begin : begin + self._count(shapes[index])]

    def operand_leaves(self, instruction: HloInstruction, operand: int = 0) -> Leaves:
        """Returns the unresolved values of an operand (for the forwarding rules)."""
        return self._leaves[instruction.operand(operand)]

    def define(self, instruction: HloInstruction, time: int) -> Leaves:
        """Defines a new value at every leaf (for the forwarding rules)."""
        return self._define(instruction, time)


def _check_forwarded_layouts(instruction: HloInstruction) -> None:
    if instruction.opcode == "tuple":
        for shape, operand in zip(instruction.shape.tuple_shapes, instruction.operands, strict=True):
            _check_layouts(instruction, shape, operand.shape)
    elif instruction.opcode == "get-tuple-element":
        _check_layouts(
            instruction,
            instruction.shape,
            instruction.operand(0).shape.tuple_shapes[instruction.attributes_as(at.GetTupleElementAttributes).index],
        )
    elif instruction.op.has(Trait.FORWARDS):
        _check_layouts(instruction, instruction.shape, instruction.operand(0).shape)


def _check_layouts(instruction: HloInstruction, shape: Shape, source: Shape) -> None:
    """A forwarded value is read through the layout of where it stands: that must be the one it was written in."""
    if shape is source or shape == source:
        return
    for (index, here), (_, there) in zip(shape.leaves(), source.leaves(), strict=True):
        if here.layout != there.layout:
            raise FailedPrecondition(
                f"{instruction.name}{list(index)} has layout {here.layout}, but what it forwards has {there.layout}: "
                "run layout-assignment first",
                instruction.span,
            )


ForwardRule = Callable[[HloDataflow, HloInstruction, int], Leaves]


def _same(flow: HloDataflow, i: HloInstruction, time: int) -> Leaves:
    del time
    return flow.operand_leaves(i)


def _tuple(flow: HloDataflow, i: HloInstruction, time: int) -> Leaves:
    del time
    return tuple(v for n in range(i.operand_count) for v in flow.operand_leaves(i, n))


def _get_tuple_element(flow: HloDataflow, i: HloInstruction, time: int) -> Leaves:
    del time
    return flow.element(i.operand(0), i.attributes_as(at.GetTupleElementAttributes).index)


def _element(index: int) -> ForwardRule:
    return lambda flow, i, time: flow.element(i.operand(0), index)


def _bitcast(flow: HloDataflow, i: HloInstruction, time: int) -> Leaves:
    del time
    (value,) = flow.operand_leaves(i)
    if value is not None and value.byte_size != physical_byte_size(i.shape):
        raise FailedPrecondition(
            f"bitcast {i.name}: {i.shape} takes {physical_byte_size(i.shape)} bytes, its operand {value.byte_size}",
            i.span,
        )
    return (value,)


def _collective_start(flow: HloDataflow, i: HloInstruction, time: int) -> Leaves:
    """(operands, results, ...): the operands are forwarded, the rest is new."""
    operands = tuple(v for n in range(i.operand_count) for v in flow.operand_leaves(i, n))
    return (*operands, *flow.define(i, time)[len(operands) :])


def _async_done(flow: HloDataflow, i: HloInstruction, time: int) -> Leaves:
    del time
    return flow.element(i.operand(0), 1)


_FORWARDS: Mapping[str, ForwardRule] = {
    **dict.fromkeys(opcodes_with(Trait.FORWARDS), _same),
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "bitcast": _bitcast,
    "async-done": _async_done,
    "all-gather-start": _collective_start,
    "all-gather-done": _element(1),
    "collective-permute-start": _collective_start,
    "collective-permute-done": _element(1),
    "copy-done": _element(0),
}


def forwards(instruction: HloInstruction) -> bool:
    """Whether the instruction runs nothing: its leaves are those of its operands."""
    return instruction.opcode in _FORWARDS and not instruction.opcode.endswith("-start")
