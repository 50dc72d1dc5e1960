"""`Schedule`: the loops of one kernel, what is computed where, and what is stored, before any code exists.

It holds no instruction, no buffer and no code, only names. Planners (xjit.emitters.planners) make schedules,
`xjit.emitters.schedule_emitter` emits them, and `parse_schedule` reads what `str` prints.
"""

from __future__ import annotations

from xjit.affine import Interval
from xjit.dataclass import dataclass
from xjit.emitters.schedule.printer import Printer
from xjit.emitters.schedule.statements import Let, Part

NS_PER_BYTE = 0.1
NS_PER_OPERATION = 0.06
MAX_REPEATED_SHARE = 16
"""A kernel runs in one task if more than one part in so many of its work were repeated by each."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What all units together take: operations, those that every task repeats, bytes read and written."""

    operations: int = 0
    repeated: int = 0
    byte_count: int = 0

    @property
    def ns(self) -> float:
        """An estimate for one thread."""
        return self.byte_count * NS_PER_BYTE + self.operations * NS_PER_OPERATION

    @property
    def repeats_work(self) -> bool:
        """Whether tasks would do too much of the same."""
        return self.repeated * MAX_REPEATED_SHARE > self.operations


@dataclass(frozen=True, slots=True)
class Schedule:
    """One kernel of the view of `instruction`; `suffix` tells several apart. Parts are done one after the other.

    On a GPU each block of `threads` does one unit, so different blocks do different parts.
    """

    instruction: str
    kind: str
    variables: tuple[Interval, ...]
    parts: tuple[Part, ...]
    lets: tuple[Let, ...] = ()
    suffix: str = ""
    cost: Cost = Cost()
    threads: int = 0

    def size(self, variable: int) -> int:
        """Returns how many values a variable has."""
        bounds = self.variables[variable]
        return bounds.upper - bounds.lower + 1

    def units_of(self, part: Part) -> int:
        """Returns into how many pieces the work of a part can be shared out: steps, or whole vectors of them."""
        loop = part.task_loop
        return 1 if loop is None else max(1, self.size(loop.variable) // max(1, loop.lanes))

    @property
    def units(self) -> int:
        """Into how many pieces the work can be shared out."""
        return sum(self.units_of(part) for part in self.parts)

    def __str__(self) -> str:
        """The text that `parse_schedule` reads."""
        suffix = f" {self.suffix}" if self.suffix else ""
        cost = f"operations={self.cost.operations}, repeated={self.cost.repeated}, bytes={self.cost.byte_count}"
        if self.threads:
            cost += f", threads={self.threads}"
        printer = Printer(self.variables)
        for let in self.lets:
            printer.let(let)
        for part in self.parts:
            printer.part(part, self.units_of(part))
        lines = "".join(f"{line}\n" for line in printer.lines)
        return f"schedule %{self.instruction}{suffix} {self.kind}, {cost} {{\n{lines}}}\n"
