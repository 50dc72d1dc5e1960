"""Schedulers: total orders of the instructions of every sequential computation.

All orders respect data and control edges, and prefer to run the readers of a value before the instruction that could
overwrite it in place: otherwise that would cost a copy of the whole value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.post_order import needs_of, post_order, reading_order
from xjit.hlo.ir.schedule import HloSchedule, verify_sequence
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.forwarding import forwards
from xjit.passes.analysis.in_place import updates_in_place
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.schedule_and_memory.growing_needs import GrowingNeeds
from xjit.passes.schedule_and_memory.list_order import ListOrder

SizeFunction = Callable[[HloInstruction], int]
Postprocessor = Callable[[HloComputation, list[HloInstruction]], list[HloInstruction]]
"""(computation, its order) -> the order to use instead."""

_MIN_LOOKS = 100_000
_LOOKS_PER_INSTRUCTION = 50
"""How many instructions between readers and overwriters are looked at before optional edges are given up."""


@dataclass
class HloTrivialScheduler(HloModulePass):
    """Schedules every non-fusion computation in depth-first post order from what nothing reads."""

    name = "hlo-trivial-scheduler"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Sets the schedule; True unless the module already had this one."""
        return _set_schedule(module, {c: reading_order(c) for c in selected_computations(module, execution_threads)})


@dataclass
class HloMemoryScheduler(HloModulePass):
    """Schedules for a small peak of live bytes: the best of three heuristics, by simulation, per computation.

    Computations that are applied inside kernels take no memory: theirs is the post order. With the `algorithm` "list",
    "dfs" or "post-order" only that heuristic counts. `size_function` says what an instruction brings to life, in
    bytes; what `postprocessor` returns is the order in the end.
    """

    name = "hlo-memory-scheduler"
    is_required = True
    size_function: SizeFunction | None = None
    algorithm: str = "default"
    postprocessor: Postprocessor | None = None

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Sets the schedule; True unless the module already had this one. InvalidArgument for an unknown algorithm."""
        if self.algorithm not in ALGORITHMS:
            raise InvalidArgument(f"algorithm of {self.name} is {' or '.join(ALGORITHMS)}, found '{self.algorithm}'")
        size = self.size_function or defined_bytes
        orders: dict[HloComputation, list[HloInstruction]] = {}
        peaks: dict[HloComputation, int] = {}
        sequential = set(analyses.get(CallGraph, module).sequential)
        for computation in module.make_nonfusion_computations():
            if computation not in sequential:
                orders[computation] = _stable_post_order(computation)
                continue
            graph = _Graph(computation, size, peaks)
            order, peaks[computation] = graph.best_order(ALGORITHMS[self.algorithm])
            orders[computation] = graph.instructions_of(order)
        chosen = selected_computations(module, execution_threads)
        return _set_schedule(module, {c: self._postprocessed(c, orders[c]) for c in chosen})

    def _postprocessed(self, computation: HloComputation, order: list[HloInstruction]) -> list[HloInstruction]:
        if self.postprocessor is None:
            return order
        order = self.postprocessor(computation, order)
        verify_sequence(computation, order)
        return order


def _set_schedule(module: HloModule, orders: dict[HloComputation, list[HloInstruction]]) -> bool:
    """Schedules computations; those of other threads keep what they have. True if an order is new."""
    if not orders:
        return False
    if module.has_schedule():
        old = module.schedule
        if all(old.is_scheduled(c) and old.sequence(c) == order for c, order in orders.items()):
            return False
        known = (c for c in module.make_nonfusion_computations() if old.is_scheduled(c))
        orders = {**{c: old.sequence(c) for c in known}, **orders}
    module.set_schedule(HloSchedule(orders))
    return True


def defined_bytes(instruction: HloInstruction) -> int:
    """Returns the bytes that an instruction brings to life: 0 for plumbing, constants and parameters."""
    if forwards(instruction) or instruction.opcode in ("parameter", "constant", "while"):
        return 0
    return sum(physical_byte_size(leaf) for _, leaf in instruction.shape.leaves())


class _Graph:
    """A computation as arrays: instruction i needs `needs[i]`; readers of `sources[i]` keep those alive."""

    def __init__(self, computation: HloComputation, size: SizeFunction, peaks: dict[HloComputation, int]) -> None:
        self.order = _stable_post_order(computation)
        number = {instruction: i for i, instruction in enumerate(self.order)}
        self.root = number[computation.root_instruction]
        self.size = [size(i) for i in self.order]
        self.inner_peak = [
            max((peaks.get(c, 0) for c in i.called_computations), default=0) if i.op.called else 0 for i in self.order
        ]
        self.needs: list[list[int]] = [
            list(dict.fromkeys(number[o] for o in (*i.operands, *i.control_predecessors))) for i in self.order
        ]
        self.sources = self._find_sources(number)
        self.readers = [0] * len(self.order)
        for sources in self.sources:
            for s in sources:
                self.readers[s] += 1
        self.readers[self.root] += 1
        self._before_overwriting(number)

    def _find_sources(self, number: dict[HloInstruction, int]) -> list[list[int]]:
        """Returns per instruction the defining instructions behind its operands, seen through plumbing."""
        behind: list[list[int]] = []
        sources: list[list[int]] = []
        for i, instruction in enumerate(self.order):
            operands = [s for o in instruction.unique_operands() for s in behind[number[o]]]
            if forwards(instruction):
                behind.append(list(dict.fromkeys(operands))[:64])
                sources.append([])
                if i == self.root:
                    sources[-1] = behind[-1]
            else:
                behind.append([i])
                sources.append(list(dict.fromkeys(operands)))
        return sources

    def _before_overwriting(self, number: dict[HloInstruction, int]) -> None:
        """Adds edges from the other readers of a value to the one instruction that could update it in place."""
        writers: dict[HloInstruction, HloInstruction] = {}
        for instruction in self.order:
            if updates_in_place(instruction):
                for operand in instruction.operands[: 1 if instruction.opcode != "fusion" else None]:
                    if physical_byte_size(operand.shape) == physical_byte_size(instruction.shape) > 0:
                        writers[_origin(operand)] = instruction
            elif instruction.opcode == "while" and instruction.operand(0).opcode == "tuple":
                for operand in instruction.operand(0).operands:
                    writers.setdefault(_origin(operand), instruction)
        self._overwritten_elements(writers)
        if not writers:
            return
        growing = GrowingNeeds(self.needs, max(_MIN_LOOKS, _LOOKS_PER_INSTRUCTION * len(self.order)))
        for source, writer in writers.items():
            for reader in _readers(source):
                if reader is not writer and reader is not source and reader in number:
                    growing.add(number[reader], number[writer])

    def _overwritten_elements(self, writers: dict[HloInstruction, HloInstruction]) -> None:
        """In a loop body: the next value of an element should come after the last read of the present one."""
        root = self.order[self.root]
        callers = root.parent.caller_instructions() if root.parent is not None else ()
        if root.opcode != "tuple" or not any(c.opcode == "while" for c in callers):
            return
        for instruction in self.order:
            if instruction.opcode != "get-tuple-element" or instruction.operand(0).opcode != "parameter":
                continue
            next_value = _origin(root.operand(instruction.attributes_as(at.GetTupleElementAttributes).index))
            if next_value is not instruction and next_value.opcode not in (
                "parameter",
                "constant",
                "get-tuple-element",
            ):
                writers.setdefault(instruction, next_value)

    def instructions_of(self, order: Sequence[int]) -> list[HloInstruction]:
        """Returns the instructions in that order."""
        return [self.order[i] for i in order]

    # -- orders

    def best_order(self, heuristics: Sequence[Heuristic]) -> tuple[list[int], int]:
        """Returns the order with the smallest peak of those that heuristics give, and that.

        No other is tried once no order can be better.
        """
        least = self._least_peak()
        best: list[int] = []
        cost = -1
        for heuristic in heuristics:
            order = heuristic(self)
            peak = self.peak(order)
            if cost < 0 or peak < cost:
                best, cost = order, peak
            if cost <= least:
                break
        return best, cost

    def _least_peak(self) -> int:
        """Returns what is live in any order while one instruction runs: what it reads, and what it defines."""
        size = self.size
        return max(
            size[i] + inner + sum([size[s] for s in sources if s != i])
            for i, (inner, sources) in enumerate(zip(self.inner_peak, self.sources, strict=True))
        )

    def post_order(self) -> list[int]:
        """Returns the plain post order (with the optional edges)."""
        return post_order(range(len(self.order)), lambda i: self.needs[i])

    def depth_first_order(self) -> list[int]:
        """Returns the post order that first computes the operand with the larger subtree of extra users and bytes."""
        weight: list[tuple[int, int]] = []
        for i, needed in enumerate(self.needs):
            users, total = self.order[i].user_count - 1, self.size[i]
            for n in needed:
                if n < i:
                    users += weight[n][0]
                    total += weight[n][1]
            weight.append((min(max(users, 0), 1 << 60), min(total, 1 << 60)))
        ends = [i for i, instruction in enumerate(self.order) if not instruction.user_count]
        starts = [*sorted(ends, key=lambda i: i == self.root), *range(len(self.order))]
        return post_order(starts, lambda i: sorted(self.needs[i], key=weight.__getitem__, reverse=True))

    def list_order(self) -> list[int]:
        """Returns the order that always takes the ready instruction which frees most bytes net of what it defines."""
        return ListOrder(self.needs, self.sources, self.readers, self.size).run()

    def peak(self, order: Sequence[int]) -> int:
        """Returns the largest number of live bytes when running in that order."""
        left = list(self.readers)
        live = peak = 0
        for i in order:
            live += self.size[i]
            if live + self.inner_peak[i] > peak:
                peak = live + self.inner_peak[i]
            for s in (*self.sources[i], i):
                if s != i:
                    left[s] -= 1
                if left[s] == 0:
                    live -= self.size[s]
                    left[s] = -1
        return peak


Heuristic = Callable[[_Graph], list[int]]

ALGORITHMS: Mapping[str, tuple[Heuristic, ...]] = {
    "default": (_Graph.post_order, _Graph.depth_first_order, _Graph.list_order),
    "list": (_Graph.list_order,),
    "dfs": (_Graph.depth_first_order,),
    "post-order": (_Graph.post_order,),
}
"""By the name of the algorithm, the heuristics of whose orders the best is taken."""


def _stable_post_order(computation: HloComputation) -> list[HloInstruction]:
    """Returns a post order that does not depend on the present order of the instructions: scheduling is idempotent."""
    return post_order(sorted(computation.make_instruction_post_order(), key=lambda i: i.unique_id), needs_of)


def _origin(instruction: HloInstruction) -> HloInstruction:
    """Returns what a chain of bitcasts starts from."""
    while instruction.opcode == "bitcast":
        instruction = instruction.operand(0)
    return instruction


def _readers(source: HloInstruction) -> list[HloInstruction]:
    """Returns the instructions that read a value, also through bitcasts (tuples are not followed)."""
    found: dict[HloInstruction, None] = {}
    stack = [source]
    while stack:
        for user in stack.pop().users:
            if user.opcode == "bitcast":
                stack.append(user)
            elif user.opcode != "tuple":
                found[user] = None
    return list(found)
