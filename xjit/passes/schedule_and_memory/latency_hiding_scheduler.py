"""Work between the two ends of what is asynchronous."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import OPCODES, HloComputation, HloInstruction, HloModule
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.framework.base import HloModulePass, selected_computations

STARTS = frozenset(name for name in OPCODES if name.endswith("-start")) | {"send", "recv"}
DONES = frozenset(name for name in OPCODES if name.endswith("-done"))


@dataclass
class LatencyHidingScheduler(HloModulePass):
    """Begins asynchronous instructions as early as it can, and ends them when they are estimated to be through.

    Up to `max_in_flight` are under way at a time. What such a start still needs comes first, all else in the order of
    the schedule. Rates are per second: of bytes that devices exchange, of bytes of memory, and of operations.
    InvalidArgument for a module without a schedule.
    """

    name = "latency-hiding-scheduler"
    opcodes = STARTS
    max_in_flight: int = 1
    exchange_rate: float = 1e10
    memory_rate: float = 1e11
    flop_rate: float = 1e12

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Sets the new orders; True if one differs from the old."""
        if not module.has_schedule():
            raise InvalidArgument(f"{self.name}: module {module.name} has no schedule")
        costs, changed = HloCostAnalysis.of(module), False
        for computation in selected_computations(module, execution_threads):
            old = list(module.schedule.sequence(computation))
            if any(i.opcode in STARTS for i in old):
                new = _Simulation(computation, old, self, costs).run()
                if new != old:
                    module.schedule.set_sequence(computation, new)
                    changed = True
        return changed

    def seconds(self, instruction: HloInstruction, costs: HloCostAnalysis) -> float:
        """Returns how long an instruction takes: of a start, until its end may run."""
        if instruction.opcode in STARTS:
            moved = (leaf.byte_size for o in instruction.operands for _, leaf in o.shape.leaves() if leaf.is_array)
            return sum(moved) / self.exchange_rate
        if instruction.opcode in DONES:
            return 0.0
        cost = costs.instruction(instruction)
        return max(cost.bytes_accessed / self.memory_rate, cost.flops / self.flop_rate)


class _Simulation:
    """Time as it passes while instructions are put in order."""

    def __init__(
        self,
        computation: HloComputation,
        order: list[HloInstruction],
        options: LatencyHidingScheduler,
        costs: HloCostAnalysis,
    ) -> None:
        self.options, self.costs = options, costs
        self.place = {instruction: n for n, instruction in enumerate(order)}
        self.missing = {i: len({*i.operands, *i.control_predecessors}) for i in order}
        self.urgent = _needed_by_starts(order)
        self.clock, self.in_flight = 0.0, 0
        self.through: dict[HloInstruction, float] = {}  # when what was started is
        self.starts: list[tuple[int, HloInstruction]] = []
        self.ends: list[tuple[float, int, HloInstruction]] = []
        self.others: list[tuple[bool, int, HloInstruction]] = []
        self.order: list[HloInstruction] = []
        for instruction in order:
            if not self.missing[instruction]:
                self._ready(instruction)

    def run(self) -> list[HloInstruction]:
        """Returns the new order."""
        while (instruction := self._next()) is not None:
            self.order.append(instruction)
            self._execute(instruction)
            for user in {*instruction.users, *instruction.control_successors}:
                self.missing[user] -= 1
                if not self.missing[user]:
                    self._ready(user)
        assert len(self.order) == len(self.place)
        return self.order

    def _ready(self, instruction: HloInstruction) -> None:
        place = self.place[instruction]
        if instruction.opcode in STARTS:
            heapq.heappush(self.starts, (place, instruction))
        elif instruction.opcode in DONES:
            heapq.heappush(self.ends, (self._end_of(instruction), place, instruction))
        else:
            heapq.heappush(self.others, (instruction not in self.urgent, place, instruction))

    def _end_of(self, done: HloInstruction) -> float:
        return max((self.through.get(o, 0.0) for o in done.operands), default=0.0)

    def _next(self) -> HloInstruction | None:
        if self.starts and self.in_flight < self.options.max_in_flight:
            return heapq.heappop(self.starts)[-1]
        if self.ends and (self.ends[0][0] <= self.clock or not self.others):
            return heapq.heappop(self.ends)[-1]
        if self.others:
            return heapq.heappop(self.others)[-1]
        return heapq.heappop(self.starts)[-1] if self.starts else None

    def _execute(self, instruction: HloInstruction) -> None:
        seconds = self.options.seconds(instruction, self.costs)
        if instruction.opcode in STARTS:
            self.in_flight += 1
            self.through[instruction] = self.clock + seconds
        elif instruction.opcode in DONES:
            self.in_flight -= 1
            self.clock = max(self.clock, self._end_of(instruction))
        else:
            self.clock += seconds
            if instruction.opcode == "async-update":
                self.through[instruction] = self._end_of(instruction)


def _needed_by_starts(order: list[HloInstruction]) -> set[HloInstruction]:
    needed: set[HloInstruction] = set()
    for instruction in reversed(order):
        if instruction.opcode in STARTS or instruction in needed:
            needed.update(instruction.operands, instruction.control_predecessors)
    return needed
