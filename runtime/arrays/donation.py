"""Donated arguments: results that are written where parameters lie.

A program knows which results may, or must, take the buffer of which parameter (`CpuProgram.aliases`). A caller donates
a parameter with `executable(*arguments, donate=[number])`: its arrays are overwritten, and are the results. Without
that, results have memory of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.runtime.arrays.physical_layout import Array
from xjit.runtime.program import PARAMETER_ALIGNMENT, ProgramInterface, flatten_tree


@dataclass(frozen=True, slots=True)
class Donations:
    """Which leaf arrays of a call's arguments become which results: {result leaf: parameter leaf}."""

    parameter_of: dict[int, int]

    @staticmethod
    def of(program: ProgramInterface, donate: int | Iterable[int]) -> Donations:
        """Returns what the donated parameters, by number, are used for.

        Errors: InvalidArgument for a number that is none, or a parameter that no result can take; FailedPrecondition if
        a parameter must be donated and is not.
        """
        numbers = {donate} if isinstance(donate, int) else set(donate)
        leaves: set[int] = set()
        for number in sorted(numbers):
            if not 0 <= number < len(program.parameter_tree):
                raise InvalidArgument(f"donate={number}: the program has {len(program.parameter_tree)} parameters")
            own = set(flatten_tree(program.parameter_tree[number]))
            if not any(a.parameter in own for a in program.aliases):
                raise InvalidArgument(
                    f"parameter {number} cannot be donated: no result of {program.name!r} can take its buffer "
                    "(input_output_alias and buffer_donor of the module say what may)"
                )
            leaves |= own
        missing = [a.parameter for a in program.aliases if a.must and a.parameter not in leaves]
        if missing:
            number = next(n for n, tree in enumerate(program.parameter_tree) if missing[0] in flatten_tree(tree))
            raise FailedPrecondition(f"parameter {number} must be donated: call with donate=[{number}]")
        return Donations({a.result: a.parameter for a in program.aliases if a.parameter in leaves})

    def check(self, program: ProgramInterface, leaves: Sequence[Any]) -> None:
        """Raises InvalidArgument unless every donated leaf can be overwritten in place, and nobody else reads it."""
        for parameter in self.parameter_of.values():
            signature, array = program.parameters[parameter], leaves[parameter]
            name = f"donated parameter {signature.name!r}"
            if obstacle := _obstacle(array, signature.dtype, signature.shape, signature.is_row_major):
                raise InvalidArgument(f"{name}: expected {signature.describe()} to write to, {obstacle}")
            for other, leaf in enumerate(leaves):
                if other != parameter and isinstance(leaf, np.ndarray) and np.may_share_memory(array, leaf):
                    raise InvalidArgument(f"{name} shares its memory with {program.parameters[other].name!r}")


def _obstacle(array: Any, dtype: np.dtype[Any], shape: tuple[int, ...], is_row_major: bool) -> str:
    """Why a value cannot be overwritten in place; "" if it can."""
    if type(array) is not np.ndarray:
        return f"got {type(array).__name__}, which is no NumPy array"
    if array.dtype != dtype or array.shape != shape:
        return f"got {array.dtype} {array.shape}"
    if not is_row_major:
        return "but only row-major parameters can be donated"
    if not array.flags.c_contiguous or array.ctypes.data % PARAMETER_ALIGNMENT:
        return f"got an array that is not contiguous and aligned to {PARAMETER_ALIGNMENT} bytes"
    return "" if array.flags.writeable else "got an array that is read-only"


def result_buffers(program: ProgramInterface, donations: Donations, buffers: Sequence[Array]) -> list[Array]:
    """Returns the physical buffers of the results: those of donated parameters, and fresh ones."""
    return [
        buffers[donations.parameter_of[n]]
        if n in donations.parameter_of
        else np.empty(signature.byte_size // signature.dtype.itemsize, signature.dtype)
        for n, signature in enumerate(program.results)
    ]


def required_donations(program: ProgramInterface) -> tuple[int, ...]:
    """Returns the parameters that every call must donate, by number."""
    leaves = {alias.parameter for alias in program.aliases if alias.must}
    return tuple(n for n, tree in enumerate(program.parameter_tree) if leaves.intersection(flatten_tree(tree)))
