"""What a module costs: operations, and bytes that move through memory, per instruction, computation and fusion.

The bytes come from indexing maps: of an operand counts what is read of it, each element once per instruction. What is
updated in place counts as much as is written there. Values that need no kernel of their own move nothing, nor do those
inside of a fusion.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable
from dataclasses import astuple, dataclass, replace
from functools import reduce as fold

from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.types.physical import physical_byte_size
from xjit.indexing.composition import Composer
from xjit.indexing.utilization import BytesMoved, bytes_moved
from xjit.passes.analysis.flop_counts import AS_IN_XLA, applications, own_operations
from xjit.passes.analysis.while_loop_analysis import counted_loop
from xjit.passes.loops.while_loop_trip_count_annotator import known_trip_count


@dataclass(frozen=True, slots=True)
class HloCost:
    """Costs of one execution. `flops` are operations of any type but the transcendental ones."""

    flops: float = 0
    transcendentals: float = 0
    bytes_accessed: float = 0

    def __add__(self, other: HloCost) -> HloCost:
        return HloCost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes_accessed + other.bytes_accessed,
        )

    def times(self, count: float) -> HloCost:
        """Returns the cost of several executions."""
        return HloCost(self.flops * count, self.transcendentals * count, self.bytes_accessed * count)


class HloCostAnalysis:
    """Costs of what runs in a module, found out as they are asked for.

    A loop counts as often as it is known to run, else once; a conditional as the dearest of its branches. With
    `as_in_xla` all loops count once, of branches the most of each cost, and some opcodes as XLA does it.
    """

    def __init__(self, *, as_in_xla: bool = False) -> None:
        self._as_in_xla = as_in_xla
        self._costs: dict[HloInstruction, HloCost] = {}
        self._computations: dict[HloComputation, HloCost] = {}
        self._composer = Composer()
        self._elementwise: dict[Hashable, HloCost] = {}  # by all that their cost depends on

    @classmethod
    def of(cls, module: HloModule) -> HloCostAnalysis:
        """Returns the analysis of a module as it is now."""
        del module
        return cls()

    def instruction(self, instruction: HloInstruction) -> HloCost:
        """Returns the cost of one execution of an instruction, with all that it calls."""
        known = self._costs.get(instruction)
        if known is None:
            self._find_callees(instruction.called_computations)
            known = self._costs[instruction] = self._cost(instruction)
        return known

    def computation(self, computation: HloComputation) -> HloCost:
        """Returns the cost of one execution of a computation whose instructions are kernels of their own."""
        self._find_callees([computation])
        return self._computations[computation]

    def bytes_moved(self, instruction: HloInstruction) -> BytesMoved:
        """Returns what one execution reads of each operand and writes, in bytes; 0 where nothing runs."""
        moves_nothing = instruction.opcode == "transpose" and instruction.is_effective_bitcast()
        if moves_nothing or instruction.op.has(Trait.PLUMBING):
            return BytesMoved((0,) * instruction.operand_count, 0, True)
        moved = bytes_moved(instruction, self._composer)
        return _in_place(instruction, moved)

    def _find_callees(self, computations: Iterable[HloComputation]) -> None:
        """Finds the costs of computations and of what they call, callees first, without recursion."""
        stack = [(c, False) for c in computations]
        while stack:
            computation, ready = stack.pop()
            if computation in self._computations:
                continue
            if ready:
                costs = [self.instruction(i) for i in computation.instructions]
                self._computations[computation] = fold(operator.add, costs, HloCost())
                continue
            stack.append((computation, True))
            stack.extend((callee, False) for callee in computation.callees())

    def _cost(self, instruction: HloInstruction) -> HloCost:
        if instruction.op.has(Trait.CONTROL_FLOW):
            return self._control_flow(instruction)
        if not instruction.op.has(Trait.ELEMENTWISE):
            return self._kernel(instruction)
        key = (instruction.opcode, instruction.attributes, instruction.shape, *[o.shape for o in instruction.operands])
        known = self._elementwise.get(key)
        if known is None:
            known = self._elementwise[key] = self._kernel(instruction)
        return known

    def _kernel(self, instruction: HloInstruction) -> HloCost:
        as_in_xla = AS_IN_XLA.get(instruction.opcode) if self._as_in_xla else None
        if as_in_xla is not None:
            return HloCost(as_in_xla(instruction), 0, self.bytes_moved(instruction).total)
        flops, transcendentals = own_operations(instruction)
        cost = HloCost(flops, transcendentals, self.bytes_moved(instruction).total)
        counts = applications(instruction)
        for callee, count in zip(instruction.called_computations, counts, strict=False):
            inner = self._computations[callee].times(count)
            cost += replace(inner, bytes_accessed=0)  # inside of a kernel values are in registers
        return cost

    def _control_flow(self, instruction: HloInstruction) -> HloCost:
        costs = [self._computations[c] for c in instruction.called_computations]
        if instruction.opcode == "while":
            return fold(operator.add, costs, HloCost()).times(1 if self._as_in_xla else trip_count(instruction))
        if instruction.opcode == "conditional" and self._as_in_xla:
            return HloCost(*map(max, zip(*map(astuple, costs), strict=True)))
        if instruction.opcode == "conditional":
            return max(costs, key=lambda c: (c.flops + c.transcendentals, c.bytes_accessed))
        return fold(operator.add, costs, HloCost())


def trip_count(loop: HloInstruction) -> int:
    """Returns how often a loop runs, as far as is known; else 1."""
    written = known_trip_count(loop)
    if written is not None:
        return written
    found = counted_loop(loop)
    return found.trip_count if found is not None else 1


def _in_place(instruction: HloInstruction, moved: BytesMoved) -> BytesMoved:
    """Returns the traffic of what writes only a part of its result if that lies where its operand did."""
    update = instruction.fused_expression_root if instruction.opcode == "fusion" else instruction
    if update.opcode == "dynamic-update-slice":
        target = update.operand(0)
        written = physical_byte_size(update.operand(1).shape)
        places = [instruction.operands.index(target)] if update is instruction else _numbers_of(target)
        return BytesMoved(tuple(0 if i in places else n for i, n in enumerate(moved.read)), written, moved.exact)
    if instruction.opcode == "scatter":
        count = instruction.operand_count // 2
        sizes = [physical_byte_size(update.shape) for update in instruction.operands[count + 1 :]]
        return BytesMoved((*sizes, *moved.read[count:]), sum(sizes), moved.exact)
    return moved


def _numbers_of(target: HloInstruction) -> list[int]:
    """Returns the number of the fusion's operand that is updated, if it is one."""
    while target.opcode == "bitcast":
        target = target.operand(0)
    assert target.parent is not None
    return [i for i, p in enumerate(target.parent.parameter_instructions) if p is target]
