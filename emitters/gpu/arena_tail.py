"""What kernels of a GPU need besides operands and results: arrays behind all else in the arena."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xjit.emitters.kernels.kernel import Kernel
from xjit.hlo.types.shape import Shape
from xjit.thunks import BufferSlice, KernelThunk, ShapedSlice, ThunkProgram, ThunkSequence

ALIGNMENT = 64


def behind(arena_size: int, shapes: Iterable[Shape]) -> tuple[ShapedSlice, ...]:
    """Returns where arrays lie behind so many bytes of the arena, one after the other."""
    slices: list[ShapedSlice] = []
    for shape in shapes:
        offset = -(-arena_size // ALIGNMENT) * ALIGNMENT
        slices.append(ShapedSlice(shape, BufferSlice("arena", 0, offset, shape.byte_size)))
        arena_size = offset + shape.byte_size
    return tuple(slices)


def end_of(arena_size: int, slices: Iterable[ShapedSlice]) -> int:
    """Returns the size of an arena that has these slices, too."""
    return max([arena_size, *(each.slice.offset + each.slice.size for each in slices)])


def with_scratch(program: ThunkProgram, kernels: Sequence[Kernel], arena_size: int) -> tuple[ThunkProgram, int]:
    """Gives kernels their scratch arrays; returns the size of the arena with them, too.

    Kernels run one after the other, and only those of one view leave each other something: all share the memory.
    """
    slices = {kernel.function.name: behind(arena_size, kernel.scratch) for kernel in kernels if kernel.scratch}
    used = [each for some in slices.values() for each in some]
    return with_more_results(program, slices), end_of(arena_size, used)


def with_more_results(program: ThunkProgram, more: Mapping[str, tuple[ShapedSlice, ...]]) -> ThunkProgram:
    """Returns a program in which the calls of some kernels, by name, have more results."""
    sequences = {
        name: ThunkSequence(name, tuple(
            replace(t, results=(*t.results, *more.get(t.kernel, ()))) if isinstance(t, KernelThunk) else t
            for t in sequence
        ))
        for name, sequence in program.sequences.items()
    }  # fmt: skip
    return replace(program, sequences=sequences)
