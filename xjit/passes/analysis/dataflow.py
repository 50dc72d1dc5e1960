"""Dataflow: which value stands at every leaf of every instruction. XLA's HloDataflowAnalysis.

A value is defined by the instruction that computes it, by a parameter or by a constant. Tuples, get-tuple-elements,
bitcasts, barriers and calls define nothing: they hand values on. Where control flow joins values, a phi stands: one per
leaf of a while (its parameters and its result are the same phi), of a conditional, and of the parameters of a
computation that is called from several places. A phi of one value only, as of an element that a loop passes through, is
that value. Tokens and opaques are no values.

The module may be in any order, with or without a schedule; calls need not be flattened. Then what a computation is
given, and what it returns, are joined over all of its calls. Computations that kernels apply (fusions, reducers) have
values of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.analysis.forwarding import forwarded_leaves, forwards
from xjit.passes.analysis.hlo_value import HloPosition, HloUse, HloValue, HloValueSet
from xjit.passes.analysis.linear_order import (
    BRANCH_BEGIN,
    CALL_END,
    RUN,
    WHILE_BEGIN,
    WHILE_END,
    Event,
    linear_order,
    sequence_of,
)

Leaves = tuple["HloValue | None", ...]
"""The values of an instruction, one per leaf of its shape, in order; None for tokens and opaques."""

_HANDS_ON = {"all-gather-start": 0, "collective-permute-start": 0, "copy-start": 1, "send": 0}
"""Which element of the result begins with the values of the operands that are no tokens; the rest is new."""

_NOTHING: Mapping[int, HloValue] = {}

_READS_NO_ELEMENT = frozenset({"tuple", "get-tuple-element"})
"""What only takes tuples apart or together is no use of what they hold."""


@dataclass(slots=True)
class _Places:
    positions: dict[HloValue, list[HloPosition]] = field(default_factory=dict[HloValue, list[HloPosition]])
    uses: dict[HloValue, list[HloUse]] = field(default_factory=dict[HloValue, list[HloUse]])


class HloDataflowAnalysis:
    """The values of a module.

    `all_values` are those of what runs in sequence, by id, which is the order of their definitions; `events` is that
    order. Computations that do not run by themselves are analysed when something asks for them, with greater ids.
    `bitcast_defines_value` takes the result of a bitcast for a value of its own.
    """

    @classmethod
    def of(cls, module: HloModule) -> HloDataflowAnalysis:
        """Analyses a module."""
        return cls(module)

    def __init__(self, module: HloModule, *, bitcast_defines_value: bool = False) -> None:
        self.module = module
        self._own = frozenset({"bitcast"} if bitcast_defines_value else ())
        self._leaves: dict[HloInstruction, Leaves] = {}
        self._inputs: dict[HloValue, list[HloValue | None]] = {}  # of phis
        self._places: _Places | None = None
        self._defined: list[HloValue] = []
        self.events = self._analyze(module.entry_computation)
        self.all_values: Sequence[HloValue] = tuple(self._defined)

    # -- questions

    def values(self, instruction: HloInstruction) -> Leaves:
        """Returns the value at each leaf of an instruction."""
        leaves = self._leaves.get(instruction)
        if leaves is None:
            assert instruction.parent is not None
            self._analyze(instruction.parent)
            leaves = self._leaves[instruction]
        for value in leaves:
            if value is not None and value.forward is not None:
                return tuple(v.resolved() if v is not None else None for v in leaves)
        return leaves

    def unique_value_at(self, instruction: HloInstruction, index: ShapeIndex = ()) -> HloValue:
        """Returns the value at a leaf, which may be a phi. KeyError where there is none."""
        for (place, _), value in zip(instruction.shape.leaves(), self.values(instruction), strict=True):
            if place == index and value is not None:
                return value
        raise KeyError(f"no value at {HloPosition(instruction, index)}")

    def value_set(self, instruction: HloInstruction, index: ShapeIndex = ()) -> HloValueSet:
        """Returns the values, none of them a phi, that may stand at a leaf."""
        found: dict[HloValue, None] = {}
        seen: set[HloValue] = set()
        stack = [self.unique_value_at(instruction, index)]
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.phi:
                stack.extend(self.inputs(value))
            else:
                found[value] = None
        return HloValueSet(tuple(sorted(found, key=lambda v: v.id)))

    def inputs(self, phi: HloValue) -> tuple[HloValue, ...]:
        """Returns the values that a phi joins, the phi itself left out; none for other values."""
        joined = (v.resolved() for v in self._inputs.get(phi, ()) if v is not None)
        return tuple(dict.fromkeys(v for v in joined if v is not phi))

    def values_of_module(self) -> list[HloValue]:
        """Returns the values of all computations, but for phis that turned out to be other values."""
        for computation in reversed(self.module.make_computation_post_order()):
            if computation.root_instruction not in self._leaves:
                self._analyze(computation)
        return [v for v in self._defined if v.forward is None]

    def positions(self, value: HloValue) -> Sequence[HloPosition]:
        """Returns all leaves at which a value stands, the defining one among them, in order of execution."""
        return self._all_places().positions.get(value, ())

    def uses(self, value: HloValue) -> Sequence[HloUse]:
        """Returns what reads a value or hands it to what it calls; tuples and get-tuple-elements do neither."""
        return self._all_places().uses.get(value, ())

    def is_live_out(self, value: HloValue) -> bool:
        """Whether the module returns the value."""
        return value in self.values(self.module.entry_computation.root_instruction)

    def to_text(self) -> str:
        """Returns a readable dump: each value with where it stands and what reads it."""
        values = self.values_of_module()
        lines = [f"HloDataflowAnalysis of {self.module.name}: {len(values)} values"]
        for value in values:
            lines.append(f"{value}{' live-out' if self.is_live_out(value) else ''}")
            lines += [f"  joins {joined}" for joined in self.inputs(value)]
            lines += [f"  stands at {position}" for position in self.positions(value)]
            lines += [f"  read by {use}" for use in self.uses(value)]
        return "\n".join(lines) + "\n"

    # -- construction

    def _analyze(self, start: HloComputation) -> list[Event]:
        """Analyses a computation and what it runs; returns the order in which that was done."""
        events = linear_order(start, self._sequence)
        known = self._leaves
        for time, event in enumerate(events):
            if event.kind is not RUN:
                self._step(time, event)
            elif event.instruction not in known:  # else the parameter of a called computation, bound at its call
                known[event.instruction] = self._run(event.instruction, time)
        self._simplify_phis()
        return events

    def _sequence(self, computation: HloComputation) -> Sequence[HloInstruction]:
        """Returns what is to be analysed of a computation: nothing, if another call of it was analysed before."""
        return () if computation.root_instruction in self._leaves else sequence_of(self.module, computation)

    def _define(
        self, instruction: HloInstruction, time: int, phi: bool = False, handed_on: Mapping[int, HloValue] = _NOTHING
    ) -> Leaves:
        """Returns new values for the leaves of an instruction, but for those that are `handed_on`, by number."""
        shape, defined = instruction.shape, self._defined
        if shape.is_array and not handed_on:
            value = HloValue(len(defined), instruction, (), shape, physical_byte_size(shape), time, phi)
            defined.append(value)
            return (value,)
        leaves: list[HloValue | None] = []
        for index, leaf in shape.leaves():
            value = handed_on.get(len(leaves))
            if value is None and leaf.is_array:
                value = HloValue(len(defined), instruction, index, leaf, physical_byte_size(leaf), time, phi)
                defined.append(value)
            leaves.append(value)
        return tuple(leaves)

    def _step(self, time: int, event: Event) -> None:
        instruction = event.instruction
        if event.kind is WHILE_BEGIN:
            self._begin_loop(instruction, time)
        elif event.kind is WHILE_END:
            self._end_loop(instruction)
        elif event.kind is BRANCH_BEGIN:
            computation = instruction.called_computations[event.branch]
            is_branch = instruction.opcode == "conditional"
            operands = (instruction.operand(event.branch + 1),) if is_branch else instruction.operands
            for parameter, operand in zip(computation.parameter_instructions, operands, strict=True):
                self._bind(parameter, self._leaves[operand], time)
        elif event.kind is CALL_END:
            self._leaves[instruction] = self._end_call(instruction, time)

    def _run(self, instruction: HloInstruction, time: int) -> Leaves:
        opcode = instruction.opcode
        if forwards(instruction) and opcode not in self._own:
            return forwarded_leaves(instruction, self._leaves.__getitem__)
        if opcode in _HANDS_ON:
            first = instruction.shape.leaf_offsets[_HANDS_ON[opcode]]
            read = (v for o in instruction.operands for v in self._leaves[o] if v is not None)
            return self._define(instruction, time, handed_on=dict(enumerate(read, first)))
        return self._define(instruction, time)

    def _bind(self, parameter: HloInstruction, leaves: Leaves, time: int) -> None:
        """Gives a parameter what one call hands over; where there are several calls, phis join them."""
        assert parameter.parent is not None
        if not _is_called_twice(parameter.parent):
            self._leaves[parameter] = leaves
            return
        if parameter not in self._leaves:
            self._leaves[parameter] = self._define(parameter, time, phi=True)
        self._join(parameter, self._leaves[parameter], leaves)

    def _join(self, owner: HloInstruction, phis: Leaves, leaves: Leaves) -> None:
        for phi, value in zip(phis, leaves, strict=True):
            if phi is not None and phi.phi and phi.instruction is owner:
                self._inputs.setdefault(phi, []).append(value)

    def _begin_loop(self, loop: HloInstruction, time: int) -> None:
        phis = self._leaves[loop] = self._define(loop, time, phi=True)
        self._join(loop, phis, self._leaves[loop.operand(0)])
        for computation in loop.called_computations:
            self._bind(computation.parameter_instruction(0), phis, time)

    def _end_loop(self, loop: HloInstruction) -> None:
        phis = self._leaves[loop]
        self._join(loop, phis, self._leaves[loop.while_body.root_instruction])
        for phi in phis:
            if phi is not None:
                self._simplify(phi)

    def _end_call(self, caller: HloInstruction, time: int) -> Leaves:
        roots = [self._leaves[c.root_instruction] for c in caller.called_computations]
        if caller.opcode == "conditional":
            phis = self._define(caller, time, phi=True)
            for root in roots:
                self._join(caller, phis, root)
            for phi in phis:
                if phi is not None:
                    self._simplify(phi)
            return phis
        if caller.opcode == "async-start":
            operands = _tuple_of(self._leaves[o] for o in caller.operands)
            handed = (*operands, *roots[0])
            return (*handed, *((None,) * (caller.shape.leaf_count - len(handed))))
        return roots[0]

    def _simplify(self, phi: HloValue) -> bool:
        """Lets a phi stand for the only value that it joins; True if it does now, and did not before."""
        if phi.forward is not None or not phi.phi:
            return False
        only: HloValue | None = None
        for joined in self._inputs.get(phi, ()):
            value = joined.resolved() if joined is not None else None
            if value is phi:
                continue
            if value is None or (only is not None and value is not only):
                return False
            only = value
        phi.forward = only
        return only is not None

    def _simplify_phis(self) -> None:
        """Simplifies what later calls, or inner joins, have made simple."""
        readers: dict[HloValue, list[HloValue]] = {}
        for phi, joined in self._inputs.items():
            for value in joined:
                if value is not None and value.phi:
                    readers.setdefault(value, []).append(phi)
        waiting = [phi for phi in self._inputs if phi.forward is None]
        while waiting:
            phi = waiting.pop()
            if self._simplify(phi):
                waiting.extend(readers.get(phi, ()))
                assert phi.forward is not None
                readers.setdefault(phi.forward, []).extend(readers.get(phi, ()))

    def _all_places(self) -> _Places:
        """Returns where values stand and what reads them, found when it is first asked for."""
        if self._places is not None:
            return self._places
        self.values_of_module()
        places = self._places = _Places()
        for instruction in self._leaves:
            leaves = list(zip(instruction.shape.leaves(), self.values(instruction), strict=True))
            here = [(index, value) for (index, _), value in leaves if value is not None]
            for index, value in here:
                places.positions.setdefault(value, []).append(HloPosition(instruction, index))
            for user in instruction.users if here else ():
                if user.opcode in _READS_NO_ELEMENT:
                    continue
                for number in (n for n, operand in enumerate(user.operands) if operand is instruction):
                    for index, value in here:
                        places.uses.setdefault(value, []).append(HloUse(user, number, index))
        return places


def _tuple_of(parts: Iterable[Leaves]) -> Leaves:
    return tuple(value for part in parts for value in part)


def _is_called_twice(computation: HloComputation) -> bool:
    callers = [c for c in computation.caller_instructions() if c.op.has(Trait.CONTROL_FLOW)]
    return sum(called is computation for c in callers for called in c.called_computations) > 1
