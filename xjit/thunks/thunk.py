"""Thunks: the steps of a compiled module, in XLA's terms, as frozen data that can be pickled, printed and compared.

A thunk names the HLO instruction it comes from and the slices it reads and writes. Kernels are named by their symbol:
what code it is, and how it is called, is a matter of the consumer (the native entry, the interpreter). Computations
that thunks run are named, too, and kept in one table: a program can be nested as deeply as the module is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xjit.hlo.attributes import ConvolutionAttributes, DotAttributes, FftAttributes, SortAttributes
from xjit.thunks.buffer_slice import BufferSlice, ShapedSlice
from xjit.thunks.collective_spec import CollectiveSpec
from xjit.thunks.host_call import HostCall
from xjit.thunks.matmul_spec import MatmulSpec
from xjit.thunks.solver_spec import SolverSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Thunk:
    """One step. `instruction` is the name of the HLO instruction that it does."""

    instruction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelThunk(Thunk):
    """A call of a kernel, whole or as so many `tasks` for the thread pool.

    `number` counts the kernel calls of the program: profiles and failures name a call by it. The kernel does `units` of
    work, which take one thread about `cost_ns` nanoseconds. One that `can_fail` may leave a status in the execution
    context. It is left out if operand and result `skip_if_same` are one buffer. Its threads
    take `scratch_bytes` each.
    """

    number: int
    kernel: str
    kind: str
    operands: tuple[ShapedSlice, ...]
    results: tuple[ShapedSlice, ...]
    units: int
    tasks: int
    cost_ns: float
    bytes_accessed: int
    flops: int
    can_fail: bool
    skip_if_same: tuple[int, int] | None = None
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmThunk(KernelThunk):
    """A matrix multiplication by the GEMM of its types."""

    attributes: DotAttributes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionThunk(KernelThunk):
    """A convolution by the implicit GEMM of its types."""

    attributes: ConvolutionAttributes


@dataclass(frozen=True, slots=True, kw_only=True)
class SortThunk(KernelThunk):
    """A sort of lines."""

    attributes: SortAttributes


@dataclass(frozen=True, slots=True, kw_only=True)
class FftThunk(KernelThunk):
    """A Fourier transform."""

    attributes: FftAttributes


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCallThunk(KernelThunk):
    """A custom call; `target` is its name. The kernel calls a library, or a function that a user registered."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveThunk(KernelThunk):
    """A collective: waits for the other devices of its group, and data are moved between all of them."""

    spec: CollectiveSpec


RuntimeCall = MatmulSpec | SolverSpec | HostCall
"""What a GPU's program leaves to the runtime: a call to a library, or something that the host does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCallThunk(KernelThunk):
    """A step of a GPU's program that is no kernel of it: whoever runs the program does the `call`."""

    call: RuntimeCall


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineThunk(Thunk):
    """Numbers that are computed in the line of a loop's body: too little work for a call of a kernel."""

    operands: tuple[ShapedSlice, ...]
    results: tuple[ShapedSlice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyThunk(Thunk):
    """A copy of bytes between slices of one size that do not overlap; nothing if they `may_be_one` and are."""

    source: BufferSlice
    destination: BufferSlice
    may_be_one: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallThunk(Thunk):
    """Runs a sequence."""

    callee: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileThunk(Thunk):
    """Runs `condition`, and as long as it leaves true in `predicate`: `body`, and the condition again.

    `trip_count` is the number of runs of the body where that is known.
    """

    condition: str
    predicate: BufferSlice
    body: str
    trip_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalThunk(Thunk):
    """Runs one of `branches`: for a pred the first if it is true, else the second; for an s32 the one of that index.

    An index out of range takes the last branch.
    """

    selector: ShapedSlice
    branches: tuple[str, ...]


def sequences_by_role(thunk: Thunk) -> dict[str, str]:
    """Returns the names of the sequences that a thunk may run, by what they are for it."""
    match thunk:
        case CallThunk():
            return {"callee": thunk.callee}
        case WhileThunk():
            return {"condition": thunk.condition, "body": thunk.body}
        case ConditionalThunk():
            return {f"branch {number}": name for number, name in enumerate(thunk.branches)}
        case _:
            return {}


def called_sequences(thunk: Thunk) -> tuple[str, ...]:
    """Returns the names of the sequences that a thunk may run."""
    return tuple(sequences_by_role(thunk).values())


def step_symbol(thunk: KernelThunk | InlineThunk) -> str:
    """Returns the symbol of the function that does one thunk alone, where there is one (for the interpreter)."""
    return f"step.kernel.{thunk.kernel}" if isinstance(thunk, KernelThunk) else f"step.inline.{thunk.instruction}"


@dataclass(frozen=True, slots=True)
class ThunkSequence:
    """What one computation runs, in order."""

    name: str
    thunks: tuple[Thunk, ...]

    def __iter__(self) -> Iterator[Thunk]:
        return iter(self.thunks)

    def __len__(self) -> int:
        return len(self.thunks)

    @property
    def is_straight(self) -> bool:
        """Whether it runs no other sequence."""
        return not any(map(called_sequences, self.thunks))


@dataclass(frozen=True, slots=True)
class ThunkProgram:
    """All sequences of a module by name, callees first. It starts with the one named `entry`, which comes last."""

    name: str
    entry: str
    sequences: Mapping[str, ThunkSequence]

    @property
    def kernel_thunks(self) -> tuple[KernelThunk, ...]:
        """The kernel calls, by their numbers."""
        return tuple(t for sequence in self.sequences.values() for t in sequence if isinstance(t, KernelThunk))
