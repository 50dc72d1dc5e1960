"""What planners start from and what they return.

The plan of a kernel is a `Schedule`, or says that its loops are code (`HandWritten`), and of what kind. Emitters follow
it: whether a multiplication is a call of the GEMM or loops, say, is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from xjit.dataclass import dataclass
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import Part
from xjit.llvm.target import Target


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What planners know besides the view: facts about the target, and the maps of instructions.

    On GPUs, blocks have so many `block_threads`, and `parts_of` makes parts of a space without needless loops and
    divisions: of a `LoopPlanning` and an `IterationSpace`. Without it, loops are a CPU's. With `deterministic`, no
    kernel may take elements in the order in which threads come.
    """

    target: Target
    maps: MapCache
    block_threads: int = 0
    parts_of: Callable[..., list[Part]] | None = None
    deterministic: bool = False


class Work(Protocol):
    """What a hand-written kernel is to do, where its planner had to find that out."""

    def facts(self, context: PlanContext) -> Mapping[str, object]:
        """What is worth reading about it, by name."""
        ...


@dataclass(frozen=True, slots=True)
class HandWritten:
    """A kernel (or several) of the view of `instruction` whose loops are code; `reason` says why they are.

    `kind` names its emitter.
    """

    instruction: str
    kind: str
    reason: str
    work: Work | None = None

    def to_text(self, context: PlanContext) -> str:
        """Remarks in a text of schedules."""
        facts = {} if self.work is None else self.work.facts(context)
        lines = [f"{self.kind} %{self.instruction}: written by hand, {self.reason}"]
        lines += [f"  {name}: {value}" for name, value in facts.items()]
        return "".join(f"// {line}\n" for line in lines)


KernelPlan = Schedule | HandWritten
