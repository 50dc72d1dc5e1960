"""What a pass is: a named, configurable function from a module to itself, and how one is written.

A pass is a dataclass whose fields are its options. `run_impl` returns True exactly if the module changed. Passes walk
snapshots, iterate in instruction order only (never over sets), and keep users, control edges and metadata through the
methods of HloComputation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence, Set
from contextlib import AbstractContextManager, nullcontext

from xjit.hlo import HloComputation, HloInstruction, HloModule

NO_THREADS: frozenset[str] = frozenset()


class PassWarning(UserWarning):
    """A fault of a pass that does not make the result wrong."""


class HloModulePass(ABC):
    """Base of all passes. `name` is the dashed name; `aliases` are further spellings accepted on input.

    A pass that `is_required` cannot be disabled: what runs after it is wrong without it.
    """

    name: str = ""
    aliases: tuple[str, ...] = ()
    is_required: bool = False
    is_local: bool = False
    """Whether what it does to a computation depends on that, and on what that calls, alone."""
    opcodes: Set[str] = frozenset()
    """What the pass looks for: where no instruction has one of these opcodes, it does nothing, and is not run. If it
    names none, it looks at every module.
    """
    settled: Collection[HloComputation] = frozenset()
    """Computations that need no look, as the pass left them as they are: see `settled.py`."""
    unfinished: Collection[HloComputation] = frozenset()
    """Computations that a limit on the last run as a whole kept from being done: another run may go on with them."""

    def run(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        """Transforms the module in place; True exactly if it changed.

        The schedule, if there is one, is adapted. What analyses found before counts no longer.
        """
        if self.opcodes and self.opcodes.isdisjoint(module.opcodes):
            return False
        version = module.version
        changed = self.run_impl(module, execution_threads)
        if changed and module.version == version:
            module.note_change()  # of annotations only, in place
        if changed and module.has_schedule():
            module.schedule.update(module)
        return changed

    @abstractmethod
    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """What the pass does; True exactly if the module changed. An empty `execution_threads` means all of them."""

    def in_fixed_point(self) -> AbstractContextManager[object]:
        """Returns the context in which a fixed point runs the pass, perhaps often: limits may be on all these runs."""
        return nullcontext()

    def unsettled(self, computations: Sequence[HloComputation]) -> Sequence[HloComputation]:
        """Returns those of some computations that are not settled."""
        return [c for c in computations if c not in self.settled] if self.settled else computations


def has_control_dependencies(instruction: HloInstruction) -> bool:
    """Whether control edges touch the instruction."""
    return bool(instruction.control_predecessors or instruction.control_successors)


def has_opcodes(computation: HloComputation, opcodes: Set[str]) -> bool:
    """Whether an instruction of the computation has one of these opcodes."""
    return not opcodes.isdisjoint(computation.opcodes)


def calls_any(instruction: HloInstruction, opcodes: Set[str]) -> bool:
    """Whether an instruction of these opcodes is in what an instruction calls, or in what is called there."""
    stack, seen = list(instruction.called_computations), set[HloComputation]()
    while stack:
        computation = stack.pop()
        if has_opcodes(computation, opcodes):
            return True
        if computation not in seen:
            seen.add(computation)
            stack += [c for i in computation.calling_instructions() for c in i.called_computations]
    return False


def selected_computations(module: HloModule, execution_threads: Collection[str]) -> list[HloComputation]:
    """Returns the non-fusion computations, callees first, of the given execution threads (all if none is given)."""
    chosen = module.make_nonfusion_computations()
    return [c for c in chosen if not execution_threads or c.execution_thread in execution_threads]
