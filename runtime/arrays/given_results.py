"""`executable(*arguments, out=...)`: results that are written to arrays of the caller.

An array that has the layout of the program, is aligned and shares no memory with an argument is written by the program
itself; any other gets a copy of the result. An array that fits nothing is an error before the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.arrays.physical_layout import Array, from_physical, to_physical
from xjit.runtime.program import PARAMETER_ALIGNMENT, ArraySignature, LeafTree, ProgramInterface


@dataclass(frozen=True, slots=True)
class GivenResults:
    """The caller's arrays, one per leaf of the results, and the physical buffers that the program writes."""

    arrays: tuple[Array, ...]
    buffers: tuple[Array, ...]
    signatures: tuple[ArraySignature, ...]

    @staticmethod
    def of(program: ProgramInterface, out: Any, arguments: Sequence[Array]) -> GivenResults:
        """Takes what a call gave as `out`: an array, or a tuple nested as the results are.

        Errors: InvalidArgument, naming the result, for another structure, type or shape, for an array that is read-only
        or shares memory with another one of them.
        """
        arrays = _result_leaves(program.result_tree, len(program.results), out)
        for number, (array, signature) in enumerate(zip(arrays, program.results, strict=True)):
            _check(array, signature, number)
            for other in range(number):
                if _share_memory(array, arrays[other]):
                    raise InvalidArgument(f"out: the arrays for results {other} and {number} share memory")
        buffers = tuple(_direct_buffer(a, s, arguments) for a, s in zip(arrays, program.results, strict=True))
        return GivenResults(tuple(arrays), buffers, program.results)

    def finish(self) -> None:
        """Copies to the caller's arrays what the program has written elsewhere."""
        for array, buffer, signature in zip(self.arrays, self.buffers, self.signatures, strict=True):
            if not _is_at(buffer, array):
                array[...] = from_physical(buffer, signature)


def _result_leaves(tree: LeafTree, count: int, out: Any) -> list[Any]:
    leaves: list[Any] = [None] * count
    stack: list[tuple[LeafTree, Any]] = [(tree, out)]
    while stack:
        node, value = stack.pop()
        if isinstance(node, int):
            leaves[node] = value
        elif not isinstance(value, tuple | list) or len(value) != len(node):
            found = f"{len(value)}" if isinstance(value, tuple | list) else f"a {type(value).__name__}"
            raise InvalidArgument(
                f"out: expected a tuple of {len(node)} arrays, nested as the results are, got {found}"
            )
        else:
            stack.extend(zip(node, value, strict=True))
    return leaves


def _check(array: Any, signature: ArraySignature, number: int) -> None:
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(f"out: result {number} is written to a NumPy array, got {type(array).__name__}")
    if array.shape != signature.shape or array.dtype != signature.dtype:
        raise InvalidArgument(f"out: result {number} is {signature.describe()}, got {array.dtype} {array.shape}")
    if not array.flags.writeable:
        raise InvalidArgument(f"out: the array for result {number} is read-only")


def _direct_buffer(array: Array, signature: ArraySignature, arguments: Sequence[Array]) -> Array:
    """The memory of `array` as the program's buffer, or a fresh one if it cannot be."""
    if array.size and not any(np.may_share_memory(array, argument) for argument in arguments):
        buffer = to_physical(array, signature)
        fits = _is_at(buffer, array) and buffer.nbytes == signature.byte_size and buffer.flags.c_contiguous
        if fits and buffer.ctypes.data % PARAMETER_ALIGNMENT == 0:
            return buffer
    return np.empty(signature.byte_size // signature.dtype.itemsize, signature.dtype)


def _is_at(buffer: Array, array: Array) -> bool:
    return bool(array.size) and np.may_share_memory(buffer, array)


def _share_memory(a: Array, b: Array) -> bool:
    try:
        return np.shares_memory(a, b, max_work=1000)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True
