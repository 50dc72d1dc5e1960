"""What the simulator finds wrong, and how it says so."""

from __future__ import annotations

import enum

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import ExecutionError
from xjit.thunks.gpu_kernel import Extent, GpuKernel


class FindingKind(enum.IntEnum):
    """What is wrong. Those from DIVERGENT_BARRIER on are found without the sanitizer, too."""

    OUT_OF_BOUNDS = 0
    MISALIGNED = 1
    UNINITIALIZED = 2
    RACE = 3
    RACE_OF_BLOCKS = 4
    READ_ONLY = 5
    DIVERGENT_BARRIER = 6
    ABSENT_LANE = 7
    NOT_IN_MASK = 8


class Access(enum.IntFlag):
    """What an access does, and what it orders."""

    READ = 1
    WRITE = 2
    ATOMIC = 4
    ACQUIRE = 8
    RELEASE = 16


@dataclass(frozen=True, slots=True)
class Place:
    """A thread and its block, by x, y, z."""

    thread: Extent
    block: Extent

    def __str__(self) -> str:
        return f"thread {_text(self.thread)} of block {_text(self.block)}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at one instruction of a kernel, as first seen.

    Args:
        kind: what.
        code: the LLVM instruction, as the kernel has it.
        where: who did it.
        target: what was accessed, in words ("argument 2 (4096 bytes)"), or "".
        offset: bytes from the begin of `target`; of a shuffle the lane that was read; -1 for neither.
        size: bytes of the access.
        other: who did the access that this one races with, and what that was.
    """

    kind: FindingKind
    code: str
    where: Place
    target: str = ""
    offset: int = -1
    size: int = 0
    other: Place | None = None
    other_access: str = ""

    def __str__(self) -> str:
        return f"{_SENTENCES[self.kind].format(self=self)} by {self.where}{self._after()}: {self.code}"

    @property
    def lane_text(self) -> str:
        """Which lane a shuffle wanted, if it was one."""
        return f" (lane {self.offset})" if self.offset >= 0 else ""

    def _after(self) -> str:
        if self.other is None:
            return f" after {self.other_access}" if self.other_access else ""
        return f" after {self.other_access} by {self.other}"


_SENTENCES = {
    FindingKind.OUT_OF_BOUNDS: "access of {self.size} bytes at byte {self.offset} of {self.target}, out of bounds,",
    FindingKind.MISALIGNED: "misaligned access of {self.size} bytes at byte {self.offset} of {self.target}",
    FindingKind.UNINITIALIZED: "read of byte {self.offset} of {self.target}, which its block has not written,",
    FindingKind.RACE: "race on byte {self.offset} of {self.target}: access",
    FindingKind.RACE_OF_BLOCKS: "race of blocks on byte {self.offset} of {self.target}: access",
    FindingKind.READ_ONLY: "write to byte {self.offset} of {self.target}, which is constant,",
    FindingKind.DIVERGENT_BARRIER: "barrier that not all threads of the block reach, waited for",
    FindingKind.ABSENT_LANE: "exchange with a lane that takes no part{self.lane_text}, waited for or read",
    FindingKind.NOT_IN_MASK: "exchange whose mask leaves out the lane itself,",
}


class SimulationError(ExecutionError):
    """A kernel did something that a GPU does not define. `findings` are the first ones of each instruction."""

    def __init__(self, kernel: GpuKernel, findings: tuple[Finding, ...]) -> None:
        self.kernel = kernel
        self.findings = findings
        first, *others = map(str, findings)
        super().__init__(f"kernel '{kernel.name}' of instruction '{kernel.instruction}': {first}", None, *others)


def _text(extent: Extent) -> str:
    return f"({', '.join(map(str, extent))})"
