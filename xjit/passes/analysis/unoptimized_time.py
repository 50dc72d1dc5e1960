"""Whether a module runs so shortly that optimizing its code is not worth the time that this takes.

What counts is the time of plain code: without LLVM's optimizations, and perhaps without vectors. Of memory it is
estimated from above: operands count as a whole, whatever is read of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.passes.analysis.flop_counts import applications, elements_of, own_operations
from xjit.passes.loops.while_loop_trip_count_annotator import known_trip_count

NS_PER_ELEMENT = 0.5
"""Of an element, or a vector of them, that is read or written, with its address; and of an operation."""

NS_PER_TRANSCENDENTAL = 20.0
NS_PER_STEP = 2.0
"""Of a call, a branch, or a round of a loop, besides what is done in it."""

UNKNOWN_TRIPS = 100

_ONE_BY_ONE = frozenset({"sort", "scan", "scatter", "select-and-scatter"})
"""What these apply to elements is applied to one after the other."""


def takes_less(module: HloModule, limit_ns: float, lanes: int = 1) -> bool:
    """Whether one call of a scheduled module is estimated to take less than so many nanoseconds, unoptimized.

    Vectors have so many lanes. The count ends at the limit: a large module is not walked through.
    """
    total = 0.0
    for ns in _Estimate(lanes).times(module.entry_computation, 1.0):
        total += ns
        if total >= limit_ns:
            return False
    return total < limit_ns


@dataclass(frozen=True, slots=True)
class _Estimate:
    lanes: int

    def times(self, computation: HloComputation, runs: float) -> Iterator[float]:
        """Yields what each instruction of a computation takes, which runs so many times."""
        for instruction in computation.instructions:
            if instruction.op.has(Trait.CONTROL_FLOW):
                rounds = runs * _trips(instruction)
                yield rounds * NS_PER_STEP
                for callee in instruction.called_computations:
                    yield from self.times(callee, rounds)
            elif not instruction.op.has(Trait.PLUMBING):
                moved = [instruction.shape, *[operand.shape for operand in instruction.operands]]
                yield runs * (
                    sum(self._steps(elements_of(s)) for s in moved) * NS_PER_ELEMENT + self._work(instruction)
                )

    def _steps(self, count: float) -> float:
        return max(count / self.lanes, 1.0) if count else 0.0

    def _work(self, instruction: HloInstruction) -> float:
        """Returns the time of one execution, with what it applies: at least an operation for each element."""
        if instruction.op.has(Trait.PLUMBING):
            return 0.0
        operations, transcendentals = own_operations(instruction)
        work = self._steps(operations) * NS_PER_ELEMENT + self._steps(transcendentals) * NS_PER_TRANSCENDENTAL
        one_by_one = instruction.opcode in _ONE_BY_ONE or instruction.opcode == "fusion"
        for callee, count in zip(instruction.called_computations, applications(instruction), strict=False):
            work += (count if one_by_one else self._steps(count)) * sum(map(self._work, callee.instructions))
        elements = 0 if instruction.opcode == "fusion" else elements_of(instruction.shape)
        return max(work, self._steps(elements) * NS_PER_ELEMENT)


def _trips(instruction: HloInstruction) -> int:
    if instruction.opcode != "while":
        return 1
    trips = known_trip_count(instruction)
    return UNKNOWN_TRIPS if trips is None else trips
