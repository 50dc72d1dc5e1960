"""The compiled program: the one data structure in which compile time and run time meet.

Role: a `CpuProgram` is plain, immutable and picklable. The emitters fill it, `xjit.runtime.executable.CpuExecutable`
runs it.

The native contract of the object code:

* The entry symbol is ``i32 @entry(ptr context, ptr parameters, ptr results, ptr arena, ptr constants)``. `context` is
  this call's `EXECUTION_CONTEXT` (`xjit.llvm.execution_context`). `parameters`, `results` and `constants` point to
  arrays of pointers, one per *leaf* array in flattened tuple order; `arena` is one block of `arena_size` bytes that
  belongs to this call alone (null when the size is 0). Its contents are undefined on entry.
* The return value is a `RuntimeStatus`; anything but 0 becomes an exception and the results are dropped.
* Alignments that emitted code may rely on: see `PARAMETER_ALIGNMENT` and the constants beside it.
* Parameters and constants are read-only. A result is no parameter, constant or other result - the entry copies what is
  passed through - but may be the parameter that `CpuProgram.aliases` gives it, which it then overwrites. A buffer of
  zero bytes has a valid, but useless, pointer.
* The entry runs with subnormals flushed (FTZ and DAZ on x86), may be called from several threads at once, and calls
  nothing but `external_symbols`, all of which must be in `xjit.runtime.machine_code.symbol_table`.
* Leaves that have no data (tokens) are not leaves: they are ``()`` in the trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from xjit.thunks.result_alias import ResultAlias

PARAMETER_ALIGNMENT = 16
"""Bytes. Parameter and result buffers are at least this aligned (NumPy's own are); others are copied first."""

ARENA_ALIGNMENT = 64
"""Bytes. Alignment of the arena, and of blocks from `xjit_scratch_alloc`."""

CONSTANT_ALIGNMENT = 64
"""Bytes. Alignment of constants."""

LeafTree = int | tuple["LeafTree", ...]
"""A tuple shape: an int is the index of a leaf array, a tuple is a tuple. ``((0, 1), 2)`` is ``((a, b), c)``."""


@dataclass(frozen=True, slots=True)
class ArraySignature:
    """One leaf array of the parameters or results.

    `shape` is logical. `minor_to_major` is XLA's layout, None for row-major. `tiles` are XLA's layout tiles, outermost
    last as in `{1,0:T(8,128)(2,1)}`. `byte_size` is that of the physical, padded buffer.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    minor_to_major: tuple[int, ...] | None
    byte_size: int
    name: str = ""
    tiles: tuple[tuple[int, ...], ...] = ()

    @property
    def is_row_major(self) -> bool:
        """True if the physical buffer is the logical array in C order, without padding."""
        rank = len(self.shape)
        return not self.tiles and (self.minor_to_major is None or self.minor_to_major == tuple(range(rank - 1, -1, -1)))

    def describe(self) -> str:
        """`f32[8,4]`, with the layout where it is not row-major: the wording of HLO."""
        text = f"{hlo_type_name(self.dtype)}[{','.join(map(str, self.shape))}]"
        if self.is_row_major:
            return text
        tiles = "".join(f"({','.join(map(str, tile))})" for tile in self.tiles)
        order = self.minor_to_major if self.minor_to_major is not None else range(len(self.shape) - 1, -1, -1)
        return f"{text}{{{','.join(map(str, order))}{':T' + tiles if tiles else ''}}}"


class ProgramInterface(Protocol):
    """What a call must know of a program, for any target."""

    @property
    def name(self) -> str:
        """That of its module."""
        ...

    @property
    def parameters(self) -> tuple[ArraySignature, ...]:
        """The leaves of the parameters."""
        ...

    @property
    def parameter_tree(self) -> tuple[LeafTree, ...]:
        """One tree per parameter."""
        ...

    @property
    def results(self) -> tuple[ArraySignature, ...]:
        """The leaves of the results."""
        ...

    @property
    def result_tree(self) -> LeafTree:
        """The shape of the root."""
        ...

    @property
    def aliases(self) -> tuple[ResultAlias, ...]:
        """Which results may be where which parameters are."""
        ...


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """One kernel or library call of the entry, for tables and profiles. `bytes_accessed` and `flops` are estimates;
    `scratch_bytes` is memory that each thread takes while it runs.
    """

    name: str
    kind: str
    instruction: str
    bytes_accessed: int = 0
    flops: int = 0
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CpuProgram:
    """A compiled HLO module for the CPU. See the module docstring for what the object code must do.

    Args:
        object_code: ELF objects that are linked together.
        entry: the entry symbol.
        parameters, results: the leaves, in flattened order.
        parameter_tree: one `LeafTree` per HLO parameter. Leaves are numbered 0, 1, 2, ... from left to right.
        result_tree: the shape of the root: 0 for an array.
        arena_size: bytes of temporary memory for one call.
        constants: contents of the leaves of `constants` in memory order, at least as long as what the code reads.
        external_symbols: every symbol that the object code does not define.
        estimated_us: estimated time of one call; the GIL is released when it exceeds `GIL_RELEASE_US`.
        always_releases_gil: whatever the estimate: the code may call Python (a custom call), or never end (a loop).
        instructions: names by the number that the code reports as `failed_instruction`.
        profile_counters: number of i64 cycle counts, one per kernel call, that code compiled for profiling adds to.
        aliases: which results may be where which parameters are; the code is right for either.
        num_replicas, num_partitions: a call runs on all of these devices, which meet at collectives.
        cpu, features: what the code was generated for, in LLVM's spelling ("+avx2,-avx512f"); "" means any x86-64.
    """

    name: str
    object_code: tuple[bytes, ...]
    entry: str
    parameters: tuple[ArraySignature, ...]
    parameter_tree: tuple[LeafTree, ...]
    results: tuple[ArraySignature, ...]
    result_tree: LeafTree
    arena_size: int = 0
    constants: tuple[np.ndarray, ...] = ()
    external_symbols: tuple[str, ...] = ()
    estimated_us: float = 0.0
    always_releases_gil: bool = False
    kernels: tuple[KernelInfo, ...] = ()
    instructions: tuple[str, ...] = ()
    profile_counters: int = 0
    aliases: tuple[ResultAlias, ...] = ()
    cpu: str = ""
    features: str = ""
    num_replicas: int = 1
    num_partitions: int = 1

    @property
    def num_devices(self) -> int:
        """On how many devices it runs together."""
        return self.num_replicas * self.num_partitions

    def __post_init__(self) -> None:
        _check_tree("parameter_tree", self.parameter_tree, len(self.parameters))
        _check_tree("result_tree", self.result_tree, len(self.results))
        if self.arena_size < 0:
            raise ValueError(f"arena_size must not be negative, got {self.arena_size}")


GIL_RELEASE_US = 20.0
"""Microseconds of estimated work above which a call releases the GIL (releasing costs about 0.07 us)."""


def flatten_tree(tree: LeafTree) -> Iterator[int]:
    """Yields the leaf indices of `tree` from left to right. Iterative: trees may be deep."""
    stack: list[LeafTree] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, int):
            yield node
        else:
            stack.extend(reversed(node))


def unflatten_tree(tree: LeafTree, leaves: Sequence[Any]) -> Any:
    """The nested tuples of `tree` with each leaf index replaced by that element of `leaves`. Iterative."""
    if isinstance(tree, int):
        return leaves[tree]
    stack: list[tuple[Iterator[LeafTree], list[Any]]] = [(iter(tree), [])]
    while True:
        nodes, built = stack[-1]
        for node in nodes:
            if isinstance(node, int):
                built.append(leaves[node])
            else:
                stack.append((iter(node), []))
                break
        else:
            stack.pop()
            if not stack:
                return tuple(built)
            stack[-1][1].append(tuple(built))


def is_flat(tree: LeafTree) -> bool:
    """True for an array and for a tuple of arrays."""
    return isinstance(tree, int) or all(isinstance(node, int) for node in tree)


_HLO_NAMES = {"bool": "pred", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128"}


def hlo_type_name(dtype: np.dtype[np.generic]) -> str:
    """HLO's name of a NumPy dtype: `f32`, `s8`, `u4`, `bf16`, `f8e4m3fn`."""
    name = dtype.name
    if name in _HLO_NAMES:
        return _HLO_NAMES[name]
    for prefix, short in (
        ("float8_", "f8"),
        ("float4_", "f4"),
        ("float6_", "f6"),
        ("float", "f"),
        ("uint", "u"),
        ("int", "s"),
    ):
        if name.startswith(prefix):
            return short + name[len(prefix) :]
    return name


def _check_tree(field: str, tree: LeafTree, num_leaves: int) -> None:
    leaves = list(flatten_tree(tree))
    if leaves != list(range(num_leaves)):
        raise ValueError(f"{field} must number its leaves 0..{num_leaves - 1} from left to right, got {leaves}")
